# SPDX-License-Identifier: Apache-2.0
"""What vLLM 0.33's Scheduler and connectors need of modules that need torch, or a configuration."""

import contextlib
import dataclasses
import enum
import importlib
import logging
import os
import sys
import types

from kvproof import without_torch
from kvproof.nothing import Nothing

KV = "vllm.distributed.kv_transfer.kv_connector"
REAL = ("vllm.v1.outputs", "vllm.v1.metrics.stats", "vllm.v1.metrics.cache_hit_source",
        f"{KV}.v1.base", f"{KV}.v1.simple_cpu_offload_connector", f"{KV}.v1.multi_connector",
        "vllm.v1.simple_kv_offload.", "vllm.v1.kv_offload.", "vllm.v1.kv_hints",
        f"{KV}.v1.offloading")
UNREAL = tuple(f"vllm.v1.simple_kv_offload.{name}" for name in (
    "worker", "copy_backend", "cuda_mem_ops", "disk_backend")) + tuple(
        f"vllm.v1.kv_offload.cpu.{name}" for name in ("gpu_worker", "shared_offload_region")) + (
            f"{KV}.v1.offloading.worker", f"{KV}.v1.offloading.canonical_mapping")


class Said:
    """A record of whatever is said of it."""

    scheduler_stats = None

    def __init__(self, **named):
        vars(self).update(named)


class View:
    """A list that follows what is appended to the one it is a view of."""

    def __init__(self, viewed):
        self.viewed = viewed

    def __getitem__(self, index):
        return self.viewed[index]

    def __len__(self):
        return len(self.viewed)

    def copy(self):
        return self.viewed.copy()


class Factory:
    """Makes connectors by name, as KVConnectorFactory."""

    known = {}

    @classmethod
    def get_connector_class(cls, config):
        return cls.known[config.kv_connector]

    @classmethod
    def create_connector(cls, config, role, kv_cache_config):
        return cls.known[config.kv_transfer_config.kv_connector](config, role, kv_cache_config)

    @staticmethod
    def supports_hma_config(_):
        return True


def yield_req_data(out):
    """As that module has it, which needs torch."""
    for new in out.scheduled_new_reqs:
        yield new.req_id, new.block_ids, True
    cached = out.scheduled_cached_reqs
    for req, blocks in zip(cached.req_ids, cached.new_block_ids):
        yield req, blocks, req in cached.resumed_req_ids


@dataclasses.dataclass
class Stats:
    data: dict = dataclasses.field(default_factory=dict)

    def is_empty(self):
        return True

    def aggregate(self, _):
        return self


class Logger(logging.LoggerAdapter):
    def warning_once(self, *_, **__):
        pass

    info_once = debug_once = warning_once


class Platform(Nothing):
    def is_xpu(self):
        return False

    is_cuda = is_rocm = is_cpu = is_tpu = is_cuda_alike = is_xpu


class Float(types.SimpleNamespace):
    __hash__ = object.__hash__


class Region:
    """The host's memory, of which nothing is read."""

    BLOCK_SIZE_ALIGNMENT = 1

    def __init__(self, **_):
        pass

    def create_kv_memoryview(self):
        return types.SimpleNamespace(strides=(1, 1))


def connectors():
    base = importlib.import_module(f"{KV}.v1.base")
    return {name: getattr(base, name)
            for name in ("KVConnectorBase_V1", "KVConnectorRole", "SupportsHMA")}


HOLDS = {
    "torch": {"float32": Float(itemsize=4, is_floating_point=True)},
    "prometheus_client": {}, "transformers": {}, "cachetools": {}, "PIL": {},
    "vllm.config": {"KVTransferConfig": Said},
    "vllm.config.kv_transfer": {"KVTransferConfig": Said},
    "vllm.v1.utils": {"ConstantList": View,
                      "record_function_or_nullcontext": lambda _: contextlib.nullcontext()},
    "vllm.v1.engine": {
        "EngineCoreOutput": Said, "EngineCoreOutputs": Said,
        "FinishReason": enum.IntEnum("FinishReason", "STOP LENGTH ABORT ERROR REPETITION", start=0),
        "EngineCoreEventType": enum.IntEnum("EngineCoreEventType", "QUEUED SCHEDULED PREEMPTED")},
    f"{KV}.factory": {"KVConnectorFactory": Factory},
    f"{KV}.v1": connectors,
    f"{KV}.utils": {"yield_req_data": yield_req_data},
    f"{KV}.v1.metrics": {"KVConnectorStats": Stats},
    "vllm.v1.kv_offload.cpu.shared_offload_region": {"SharedOffloadRegion": Region},
    "vllm.multimodal.utils": {"strip_covered_mm_data": lambda features, *_, **__: features,
                              "get_mm_features_in_window": lambda *_, **__: []},
    "vllm.utils.func_utils": {"supports_kw": lambda *_: True},
    "vllm.logger": {"init_logger": lambda name: Logger(logging.getLogger(name), {})},
    "vllm.v1.structured_output.request": {
        "StructuredOutputRequest": Said(from_sampling_params=lambda _: None)},
    "vllm.utils.torch_utils": {"get_dtype_size": lambda _: 4},
    "vllm.platforms": {"current_platform": Platform()},
}


def install():
    """Must come first: it begins anew where sets of names have another order in each process."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, sys.orig_argv, os.environ | {"PYTHONHASHSEED": "0"})
    logging.disable(logging.CRITICAL)
    without_torch.install(always=True, real=REAL, unreal=UNREAL, holds=HOLDS)
