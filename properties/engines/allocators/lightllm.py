#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""LightLLM's RadixCache of tokens over its MemoryManager, driven through its InferenceContext:
requests are added, paused and filtered there, and room is made as before a prefill or a decode."""

import os
from types import SimpleNamespace

import numpy
import torch
from kvproof import RadixAdapter
from kvproof.nothing import kind
from stand_in import engine, torch_without_device

NAME = f"kvproof-{os.getpid()}"
engine("lightllm", folder="", bare=(), custom_cat=torch.cat, get_unique_server_name=lambda: NAME)
torch_without_device()
from lightllm.common import req_manager  # noqa: E402
from lightllm.common.mem_manager import MemoryManager  # noqa: E402
from lightllm.server.router.dynamic_prompt.radix_cache import RadixCache  # noqa: E402
from lightllm.server.router.model_infer import infer_batch  # noqa: E402

req_manager.ReqSamplingParamsManager = infer_batch.InferSamplingParams = kind("Sampling")


class LightLlm(RadixAdapter):
    traits = {"granularity": "token", "lookup": "within_allocate", "free_list": "set"}
    abilities = {"block_sizes": [1], "caching": [True]}
    capacity = {"requests": 64}
    one_by_one = whole_steps = True

    def build(self):
        self.memory = MemoryManager(self.usable, torch.float32, 1, 1, 1)
        self.tree = RadixCache(NAME, self.usable, 0, self.memory)
        manager = req_manager.ReqManager(64, self.config["max_model_len"] + 1, self.memory)
        self.rows, self.shared = manager.req_to_token_indexs, []
        shared = SimpleNamespace(get_req_obj_by_index=lambda index: self.shared[index],
                                 put_back_req_obj=lambda shared: None)
        self.context = infer_batch.g_infer_context
        self.context.register(manager, self.tree, shared, 1)

    def arrive_there(self, r):
        """As the router hands a request over; @return its number"""
        self.shared.append(SimpleNamespace(
            input_len=len(r.tokens), request_id=len(self.shared) * 8,
            prefix_token_ids=numpy.zeros(0),
            shm_prompt_ids=SimpleNamespace(arr=numpy.zeros(self.config["max_model_len"] + 1, int)),
            link_prompt_ids_shm_array=lambda: None, link_logprobs_shm_array=lambda: None))
        return len(self.shared) - 1

    def hold(self, r, hit):
        r.index = self.arrive_there(r) if r.own is None else r.index
        shared = self.shared[r.index]
        shared.shm_prompt_ids.arr[:len(r.tokens)] = r.tokens
        if r.own:  # it was paused
            r.own.cur_output_len = len(r.tokens) - shared.input_len
        self.context.add_reqs([(r.index, r.index, kind("Multimodal"), 0)])
        r.own = self.context.requests_mapping[r.index]
        return r.own.cur_kv_len

    def append(self, r, tokens):
        self.shared[r.index].shm_prompt_ids.arr[r.own.get_cur_total_len()] = tokens[0]
        r.own.cur_output_len += 1

    def grow(self, r, end):
        held = max(r.granted, r.own.cur_kv_len)
        if end - held > self.num_free():
            return False
        self.tree.free_radix_cache_to_get_enough_token(end - held)
        self.rows[r.own.req_idx, held:end] = self.memory.alloc(end - held)
        return True

    def advance(self, r):
        r.own.cur_kv_len = r.computed

    def release(self, r):
        if not r.finished:
            self.context.pause_reqs([r.index])

    def finish(self, r):
        if r.own:
            self.context.filter([r.index])

    def table(self, r):
        return self.rows[r.own.req_idx, :r.granted].tolist()

    def shown(self, node):
        return node.token_id_key, node.token_mem_index_value.tolist(), node.ref_counter

    def progress(self, r):
        node = r.own.shared_kv_node
        return int(node.node_prefix_total_len) if node else 0

    def unused(self):
        return self.memory.mem_state[self.memory.mark_start:self.memory.mark_end].tolist()

    def num_free(self):
        return (self.memory.can_use_mem_size + self.tree.get_tree_total_tokens_num()
                - self.tree.get_refed_tokens_num())


if __name__ == "__main__":
    LightLlm().serve()
