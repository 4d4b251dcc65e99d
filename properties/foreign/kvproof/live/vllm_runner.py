# SPDX-License-Identifier: Apache-2.0
"""What vLLM's model runner uses for a step, where it differs from what it was given."""

import copy

import numpy as np

from kvproof.live.hooks import around


def on_host(buffer):
    """@return an array that is on the host, as numpy sees it; None for one that is on a device"""
    buffer = getattr(buffer, "gpu", buffer)  # of a pair, what the kernels read
    if hasattr(buffer, "device"):
        return buffer.numpy() if buffer.device.type == "cpu" else None
    return buffer


def table_of(table):
    """@return the ids of a block table, which the runner writes on the host"""
    pair = table.block_table
    return pair.np if hasattr(pair, "np") else table.block_table_np


class Given:
    """The tables of one group as the orders say that they are."""

    def __init__(self, table, block_size):
        self.table, self.block_size = table, block_size
        self.parts = max(block_size // table.block_size, 1)  # blocks of the runner in one of ours
        self.ids = {}  # request -> ids, in an array with room

    def take(self, name, ids, more):
        before, count = self.ids.get(name, (None, 0)) if more else (None, 0)
        if before is None or count + len(ids) > len(before):
            wider = np.zeros(2 * (count + len(ids)) + 8, np.int32)
            wider[:count] = before[:count] if count else 0
            before = wider
        before[count:count + len(ids)] = ids
        self.ids[name] = before, count + len(ids)

    def used(self, row, name):
        """@return the ids that the runner has, if they are others"""
        ids, count = self.ids[name]
        actual = table_of(self.table)[row, :count * self.parts]
        if self.parts > 1:
            actual = actual[::self.parts] // self.parts
        return None if np.array_equal(actual, ids[:count]) else actual.tolist()


class Runner:
    """A model runner, and what it was given."""

    def __init__(self, runner):
        self.runner, self.groups, self.seen = runner, None, None

    def begin(self):
        tables = self.runner.input_batch.block_table.block_tables
        layout = self.runner.kv_cache_config.kv_cache_groups
        self.groups = [Given(table, group.kv_cache_spec.block_size)
                       for table, group in zip(tables, layout)]

    def given(self, out):
        """Takes the orders of a step."""
        from kvproof.live.vllm import is_resumed
        if self.groups is None:
            self.begin()
        for name in out.finished_req_ids:
            for group in self.groups:
                group.ids.pop(name, None)
        for new in out.scheduled_new_reqs:
            self.take(new.req_id, new.block_ids, False)
        cached = out.scheduled_cached_reqs
        for i, name in enumerate(cached.req_ids):
            if cached.new_block_ids[i]:
                self.take(name, cached.new_block_ids[i], not is_resumed(cached, i))
        self.seen = {"tables": {}, "slots": {}, "inputs": {}, "copies": []}

    def take(self, name, blocks, more):
        for group, ids in zip(self.groups, blocks):
            group.take(name, ids, more)

    def prepared(self, out):
        """Looks at the tables, the slots and the tokens of a step that is about to run."""
        batch, counts = self.runner.input_batch, out.num_scheduled_tokens
        names = batch.req_ids[:batch.num_reqs]
        starts = batch.num_computed_tokens_cpu
        tokens = on_host(getattr(self.runner, "input_ids", None))
        at = 0
        for row, name in enumerate(names):
            used = [group.used(row, name) for group in self.groups]
            if any(each is not None for each in used):
                self.seen["tables"][name] = [
                    group.ids[name][0][:group.ids[name][1]].tolist() if ids is None else ids
                    for group, ids in zip(self.groups, used)]
            end = at + counts[name]
            if tokens is not None and starts[row] + counts[name] > batch.num_prompt_tokens[row]:
                self.seen["inputs"][name] = tokens[at:end].tolist()
            at = end
        self.look_at_slots(names, [counts[name] for name in names], starts)

    def look_at_slots(self, names, counts, starts):
        rows = np.repeat(np.arange(len(names)), counts)
        before = np.repeat(np.cumsum([0, *counts[:-1]]), counts)
        positions = starts[:len(names)][rows] + np.arange(len(rows)) - before
        for number, group in enumerate(self.groups):
            slots = on_host(group.table.slot_mapping)
            mode = getattr(getattr(group.table, "slot_mapping_mode", None), "name", "")
            if slots is None or mode == "NONE" or is_state(self.runner, number):
                continue
            size = group.table.block_size
            ids = table_of(group.table)[rows, positions // size].astype(np.int64)
            for i in np.flatnonzero(slots[:len(rows)] != ids * size + positions % size):
                slot, name = int(slots[i]), names[rows[i]]
                self.seen["slots"].setdefault(name, []).append(
                    [number, int(positions[i]), slot // group.block_size, slot % group.block_size])


def is_state(runner, number):
    spec = runner.kv_cache_config.kv_cache_groups[number].kv_cache_spec
    return type(spec).__name__ == "MambaSpec"


def speaking(result, out, seen, orders):
    """Tells what was seen of a step, here or with the answer.

    @return the answer
    """
    if orders is not None:
        orders.ran(out, seen)
    elif result is not None and hasattr(result, "get_output"):  # it is still being copied
        get = result.get_output
        result.get_output = lambda: speaking(get(), out, seen, None)
    elif hasattr(result, "req_id_to_index"):
        result = copy.copy(result)  # there is one for all steps without rows
        result.kvproof = seen
    return result


def wrap(every):
    """@param every the orders of the schedulers in this process"""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    def runner_of(self):
        if not hasattr(self, "kvproof"):
            self.kvproof = Runner(self)
        return self.kvproof

    def prepares(original, self, out, *values, **named):
        result = original(self, out, *values, **named)
        runner_of(self).prepared(out)
        return result

    def executes(original, self, out, *values, **named):
        runner = runner_of(self)
        runner.given(out)
        result = original(self, out, *values, **named)
        orders = next((o for o in every if o.config is self.vllm_config), None)
        if result is not None or orders is not None:
            return speaking(result, out, runner.seen, orders)
        self.kvproof_waits = out, runner.seen  # the answer comes when it samples
        return None

    def samples(original, self, *values, **named):
        result = original(self, *values, **named)
        waits, self.kvproof_waits = getattr(self, "kvproof_waits", None), None
        return result if waits is None else speaking(result, *waits, None)

    around(GPUModelRunner, "_prepare_inputs", prepares)
    around(GPUModelRunner, "execute_model", executes)
    around(GPUModelRunner, "sample_tokens", samples)
