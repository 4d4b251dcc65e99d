# SPDX-License-Identifier: Apache-2.0
"""What vLLM's model runner uses for a step, where it differs from what it was given."""

import copy

import numpy as np

from kvproof.live.hooks import around, guarded


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


def resumed_of(cached):
    """@return the requests whose blocks are all of their table, and not more of it"""
    if hasattr(cached, "resumed_req_ids"):
        return cached.resumed_req_ids
    return {name for name, again in zip(cached.req_ids, cached.resumed_from_preemption) if again}


class Given:
    """The tables of one group as the orders say that they are: a row of ids for each request."""

    def __init__(self, table, block_size):
        self.table, self.block_size = table, block_size
        self.size = getattr(table, "block_size", block_size)  # of a block as the runner has it
        self.parts = block_size // self.size  # of these in one of ours
        self.ids = np.zeros((16, 16), np.int32)
        self.counts = np.zeros(16, np.int32)

    def take(self, row, ids, more):
        count = self.counts[row] if more else 0
        end = count + len(ids)
        if end > self.ids.shape[1]:
            self.ids = np.pad(self.ids, ((0, 0), (0, end)))
        self.ids[row, count:end] = ids
        self.counts[row] = end

    def add_rows(self):
        self.ids = np.pad(self.ids, ((0, len(self.ids)), (0, 0)))
        self.counts = np.pad(self.counts, (0, len(self.counts)))

    def expect(self, rows):
        """These rows stand first in the runner's table from now on."""
        self.ends = self.counts[rows]
        self.beyond = np.arange(self.ends.max()) >= self.ends[:, None]
        self.expected = self.ids[rows, :self.beyond.shape[1]]

    def others(self):
        """@return for which rows the runner has other ids than it was given, and which"""
        count, most = self.beyond.shape
        actual = table_of(self.table)[:count, :most * self.parts:self.parts]
        if self.parts > 1:
            actual = actual // self.parts
        differs = (actual != self.expected) & ~self.beyond
        if not differs.any():
            return {}
        return {int(i): actual[i, :self.ends[i]].tolist() for i in np.flatnonzero(differs.any(1))}


class Runner:
    """A model runner, and what it was given."""

    def __init__(self, runner):
        self.runner, self.groups, self.seen = runner, None, None
        self.rows, self.unused = {}, list(range(16))  # of requests, in Given
        self.names = None  # of the batch, if no table has changed since
        self.lost = None

    def begin(self):
        tables = self.runner.input_batch.block_table.block_tables
        layout = self.runner.kv_cache_config.kv_cache_groups
        self.groups = [Given(table, group.kv_cache_spec.block_size)
                       for table, group in zip(tables, layout)]

    def lose(self, what):
        """From here on it is not looked at."""
        self.lost = {"lost": what}

    @guarded
    def given(self, out):
        """Takes the orders of a step."""
        if self.groups is None:
            self.begin()
        for name in out.finished_req_ids:
            if name in self.rows:
                self.unused.append(self.rows.pop(name))
        for new in out.scheduled_new_reqs:
            self.take(new.req_id, new.block_ids, False)
        cached, resumed = out.scheduled_cached_reqs, resumed_of(out.scheduled_cached_reqs)
        for name, blocks in zip(cached.req_ids, cached.new_block_ids):
            if blocks:
                self.take(name, blocks, name not in resumed)
        self.seen = {"copies": [], "tables": {}, "slots": {}}

    def take(self, name, blocks, more):
        self.names = None
        if name not in self.rows:
            if not self.unused:
                self.unused = list(range(len(self.rows), 2 * len(self.rows)))
                for group in self.groups:
                    group.add_rows()
            self.rows[name] = self.unused.pop()
        for group, ids in zip(self.groups, blocks):
            group.take(self.rows[name], ids, more)

    @guarded
    def prepared(self, out):
        """Looks at the tables, the slots and the tokens of a step that is about to run."""
        batch = self.runner.input_batch
        names = batch.req_ids[:batch.num_reqs]
        counts = np.fromiter(map(out.num_scheduled_tokens.get, names), np.int64, len(names))
        starts = batch.num_computed_tokens_cpu[:len(names)]
        if names != self.names:
            self.names = list(names)
            for group in self.groups:
                group.expect([self.rows[name] for name in names])
        self.look_at_tables()
        self.look_at_slots(names, counts, starts)
        tokens = on_host(getattr(self.runner, "input_ids", None))
        if tokens is None:
            return
        beyond = starts + counts > batch.num_prompt_tokens[:len(names)]
        self.seen["fed"] = (names, counts.tolist(), beyond.tolist(),
                            tokens[:int(counts.sum())].tolist())

    def look_at_tables(self):
        others = [group.others() for group in self.groups]
        for i in set().union(*others):
            self.seen["tables"][self.names[i]] = [
                other.get(i, group.expected[i, :group.ends[i]].tolist())
                for group, other in zip(self.groups, others)]

    def look_at_slots(self, names, counts, starts):
        rows, positions = np.arange(len(names)), starts
        if counts.max() > 1:
            rows = np.repeat(rows, counts)
            positions = np.arange(len(rows)) + np.repeat(
                starts + counts - np.cumsum(counts), counts)
        for number, group in enumerate(self.groups):
            slots = on_host(group.table.slot_mapping)
            if slots is None or is_state(self.runner, number):
                continue
            entries = positions // group.size
            blocks = table_of(group.table)[rows, entries].astype(np.int64) - entries
            for i in np.flatnonzero(slots[:len(rows)] != blocks * group.size + positions).tolist():
                at = divmod(max(int(slots[i]), 0), group.block_size)  # -1 = it is not written
                self.seen["slots"].setdefault(names[rows[i]], []).append(
                    [number, int(positions[i]), *at])


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
        copied.clear()
        result = original(self, out, *values, **named)
        seen = runner.lost or runner.seen | {"copies": list(copied)}
        orders = next((o for o in every if o.config is self.vllm_config), None)
        if result is not None or orders is not None:
            return speaking(result, out, seen, orders)
        self.kvproof_waits = out, seen  # the answer comes when it samples
        return None

    def samples(original, self, *values, **named):
        result = original(self, *values, **named)
        waits, self.kvproof_waits = getattr(self, "kvproof_waits", None), None
        return result if waits is None else speaking(result, *waits, None)

    def collects(original, bufs, layout, functions, groups, source, to, bias, state, layers):
        if not bufs.offset:
            planned.clear()
        result = original(bufs, layout, functions, groups, source, to, bias, state, layers)
        planned.append((bufs.offset, [
            [group, state.block_ids[group][source], state.block_ids[group][to]]
            for group in groups]))
        return result

    def copies(original, sources, *values, **named):
        for end, moves in planned:
            if end <= len(sources):
                copied.extend(moves)
        planned.clear()
        return original(sources, *values, **named)

    planned, copied = [], []  # moves of states in this step, which the runner decides
    try:
        from vllm.v1.worker import mamba_utils
        around(mamba_utils, "collect_mamba_copy_meta", collects)
        around(mamba_utils, "batch_memcpy", copies)
    except ImportError:
        pass  # no states under a prefix cache
    around(GPUModelRunner, "_prepare_inputs", prepares)
    around(GPUModelRunner, "execute_model", executes)
    around(GPUModelRunner, "sample_tokens", samples)
