# SPDX-License-Identifier: Apache-2.0
"""Transfers beside the steps: a connector of our own through vLLM's public interface, which loads
and keeps what it likes, and the workers of it and of vLLM's connectors."""

import math
from types import SimpleNamespace

import offloading
import vllm_modules
from transfers import Worker

from vllm.distributed.kv_transfer.kv_connector.v1 import base, multi_connector
from vllm.distributed.kv_transfer.kv_connector.v1 import offloading_connector
from vllm.distributed.kv_transfer.kv_connector.v1 import simple_cpu_offload_connector as simple
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus
from vllm.v1.simple_kv_offload.metadata import SimpleCPUOffloadWorkerMetadata

LAST = (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)


class Generic(base.KVConnectorBase_V1, base.SupportsHMA):
    """Says of any request that it has some blocks behind those that are cached, and asks for those
    of some that end."""

    run = None  # whose options and draws it takes

    def __init__(self, *args):
        super().__init__(*args)
        self.found, self.loads, self.sends = {}, [], []

    def get_num_new_matched_tokens(self, request, computed):
        o, draw, size = self.run.options, self.run.draw, self.run.options.block_size
        self.found[request.request_id] = computed, False
        most = (request.num_tokens - 1) // size - computed // size
        if most <= 0 or self.run.quiet or draw.random() < 0.5:
            return 0, False
        if draw.random() < 0.1:
            return None, False
        late = draw.choice(o.loads.split()) == "async"
        self.found[request.request_id] = computed, late
        return draw.randint(1, most) * size, late

    def update_state_after_alloc(self, request, blocks, external):
        if external:
            computed, late = self.found[request.request_id]
            self.loads.append(SimpleNamespace(
                req=request.request_id, late=late, first=computed, tokens=external,
                tables=blocks.get_block_ids()))

    def build_connector_meta(self, _):
        meta = SimpleNamespace(loads=self.loads, sends=self.sends)
        self.loads, self.sends = [], []
        return meta

    def request_finished_all_groups(self, request, block_ids):
        size = self.run.options.block_size
        known = (request.num_tokens - 1) // size
        held = [(group, block) for group, ids in enumerate(block_ids)
                for block in ids[:known] if block]
        keeps = request.status in LAST and self.run.draw.random() < self.run.options.keeps
        if not held or not keeps:
            return False, None
        self.sends.append((request.request_id, held))
        return True, None

    def request_finished(self, request, block_ids):
        return self.request_finished_all_groups(request, (block_ids,))

    def start_load_kv(self, *_, **__):
        pass

    wait_for_layer_load = save_kv_layer = wait_for_save = start_load_kv


class GenericWorker(Worker):
    def before(self, step, meta):
        """@return by request the load that its first rows need"""
        size, needed = self.run.options.block_size, {}
        for load in meta.loads:
            first, end = load.first // size, (load.first + load.tokens) // size
            lost = load.late and self.run.draw.random() < 0.02
            for group, ids in enumerate(load.tables):
                held = [(i, ids[i]) for i in range(first, end) if ids[i]]
                if not held:
                    continue
                transfer = self.start(
                    ("receive", load.req, load.late), step, held, req=load.req, group=group,
                    blocks=[[0, block] for _, block in held], carries=[load.req, held[0][0] * size])
                transfer.late = math.inf if lost else 0
                if not load.late:
                    needed[load.req] = transfer.name
        return needed

    def behind(self, step, meta):
        for req, held in meta.sends:
            for group in sorted({group for group, _ in held}):
                items = [item for item in held if item[0] == group]
                self.start(("send", req, True), step, items, req=req, group=group,
                           blocks=[[0, block] for _, block in items], after=step)

    def launched(self, step, _):
        self.end([each for each in self.loose if each.step is step and not each.job[2]])
        report = KVConnectorOutput(finished_sending=set(), finished_recving=set())
        several = len(self.run.options.windows) > 1
        for (kind, req, late), done, failed in self.settled(step):
            if done and kind == "send":
                report.finished_sending.add(req)
            elif done and late:
                report.finished_recving.add(req)
            if failed and several:
                report.failed_recving.add(req)
            elif failed:
                report.invalid_block_ids.update(failed)
        return report


class SimpleWorker(Worker):
    """The worker of SimpleCPUOffload: loads and stores go in order of their events, each queue by
    itself; a store waits for the step that it was launched with."""

    def __init__(self, run):
        super().__init__(run)
        self.queues = {"load": [], "store": []}

    def before(self, step, meta):
        self.begin(("load", meta.load_event), step, [
            (1, c, 0, g) for c, g in zip(meta.load_cpu_blocks, meta.load_gpu_blocks)])
        return {}

    def behind(self, step, meta):
        self.begin(("store", meta.store_event), step, [
            (0, g, 1, c) for g, c in zip(meta.store_gpu_blocks, meta.store_cpu_blocks)],
            after=step)

    def begin(self, job, step, pairs, **said):
        groups = {}
        for pair in pairs:
            groups.setdefault(self.run.group_of(pair), []).append(pair)
        for group, of_group in sorted(groups.items()):
            self.start(job, step, of_group, pairs=[*map(list, of_group)], group=group, **said)

    def flush(self, step, meta):
        if meta.need_flush:
            self.end([each for queue in self.queues.values() for each in queue
                      if each.step.launched and each.step is not step])

    def launched(self, step, meta):
        report, stored = KVConnectorOutput(finished_recving=set()), {}
        for (kind, event), done, failed in self.settled(step):
            report.invalid_block_ids.update(failed)
            if done and kind == "load":
                report.finished_recving.update(meta.load_event_to_reqs.get(event, ()))
            elif done:
                stored[event] = 1
        if stored:
            report.kv_connector_worker_meta = SimpleCPUOffloadWorkerMetadata(stored)
        return report


class MultiWorker:
    """The workers of MultiConnector's children, whose reports it joins."""

    def __init__(self, workers):
        self.workers, self.more_saves = workers, {}

    def before(self, step, meta):
        needed = {}
        for worker, part in zip(self.workers, meta.metadata):
            needed |= worker.before(step, part)
        return needed

    def behind(self, step, meta):
        for worker, part in zip(self.workers, meta.metadata):
            worker.behind(step, part)

    def flush(self, step, meta):
        for worker, part in zip(self.workers, meta.metadata):
            worker.flush(step, part)

    def launched(self, step, meta):
        self.more_saves.update(meta.extra_async_saves or {})
        whole = KVConnectorOutput(finished_sending=set(), finished_recving=set())
        metas = []
        for worker, part in zip(self.workers, meta.metadata):
            report = worker.launched(step, part)
            whole.finished_recving |= report.finished_recving
            whole.failed_recving |= report.failed_recving
            whole.invalid_block_ids |= report.invalid_block_ids
            metas.append(report.kv_connector_worker_meta)
            for req in report.finished_sending or ():
                if self.more_saves.get(req, 0) > 0:
                    self.more_saves[req] -= 1
                else:
                    whole.finished_sending.add(req)
        if any(metas):
            whole.kv_connector_worker_meta = multi_connector.MultiKVConnectorWorkerMetadata(
                metadata=tuple(metas))
        return whole

    def tick(self):
        self.workers[0].run.draw.choice(self.workers).tick()


WORKERS = {"generic": GenericWorker, "simple": SimpleWorker}


def workers(run):
    """@return what moves the transfers of a run; None without a connector"""
    Generic.run = run
    vllm_modules.Factory.known = {
        "generic": Generic, "simple": simple.SimpleCPUOffloadConnector,
        "offload": offloading_connector.OffloadingConnector,
        "multi": multi_connector.MultiConnector}
    kinds = WORKERS | {"offload": offloading.OffloadWorker}
    offloading.Storage.run = run
    made = [kinds[name](run) for name in run.options.connector.split()]
    for i, each in enumerate(made[1:], 1):  # names of transfers are of one run
        each.name = made[0].name
    return made[0] if len(made) == 1 else MultiWorker(made) if made else None


def pools(connector, mover):
    """@return those of the tiers behind the device"""
    children, movers = getattr(connector, "_connectors", [connector]), [mover]
    for each, of in zip(children, getattr(mover, "workers", movers)):
        if hasattr(each, "scheduler_manager"):
            return [each.scheduler_manager.cpu_block_pool]
        if hasattr(each, "connector_scheduler"):
            return of.pools(each.connector_scheduler.manager)
    return []
