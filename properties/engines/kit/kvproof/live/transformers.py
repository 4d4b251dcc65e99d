# SPDX-License-Identifier: Apache-2.0
"""Writes what the continuous batching of Hugging Face transformers does as a run: `attach(WHERE)`.

Its cache gives out sectors, and an attention type cuts a sector into blocks of its own size. Here a
block is a part of a sector (Layout), so that sectors which two types hold at once are seen. A
sliding window is a ring of slots: its group has blocks of one token, and what one forward computes
beyond the window is told token by token (Watch.parts), because the ring holds in between just what
each token reads. Known of 5.24, on a CPU.
"""

import itertools
import math
import os

from kvproof.live.hooks import around
from kvproof.live.recorder import Masked, Recorder

PATIENCE = 50  # steps
ATTACHED = []  # the last one is meant


class Layout:
    """Where the blocks and the indices of a cache lie in the run. Block 0 is padding, and none."""

    def __init__(self, cache):
        self.allocators = list(cache.cache_allocators.values())
        self.windows = [getattr(each, "sliding_window", 0) for each in self.allocators]
        self.sizes = [1 if window else each.tokens_per_page
                      for each, window in zip(self.allocators, self.windows)]
        parts = [each.blocks_per_sector * each.tokens_per_page // size
                 for each, size in zip(self.allocators, self.sizes)]
        self.units = math.lcm(*parts)  # blocks of the run in a sector
        self.blocks = (cache.num_sectors + 2) * self.units  # two sectors are for padding
        self.widths = [self.units // each for each in parts]

    def ids(self, group, block):
        """@return the blocks of the run that a block of an allocator is"""
        parts = self.allocators[group].tokens_per_page // self.sizes[group]
        return [(block * parts + i) * self.widths[group] for i in range(parts)]

    def table(self, group, request_id, stop):
        """@return the table of a request for its positions before stop"""
        own = self.allocators[group].block_table[request_id]
        ids = [each for block in own for each in self.ids(group, block)]
        window = self.windows[group]
        return [ids[position % window] for position in range(stop)] if window else ids

    def place(self, group, index):
        """@return the block and the offset that an index of the engine means"""
        each = self.allocators[group]
        block, offset = divmod(index, each.block_physical_stride)
        part, offset = divmod(offset % each.tokens_per_page, self.sizes[group])
        return self.ids(group, block)[part], offset

    def free(self, cache):
        """@return how many blocks nobody holds"""
        missing = cache.num_sectors * cache.bytes_per_sector - cache.compute_free_capacity(False)
        for each in self.allocators:
            missing -= len(each.ledger.cached_blocks) * each.bytes_per_block
        return self.blocks - 1 - math.ceil(missing * self.units / cache.bytes_per_sector)


class Row:
    """A request in a batch: its positions, its tables, and the indices that the forward uses."""

    def __init__(self, layout, request, future, indices):
        self.state, self.n, self.answers = future.state, future.query_length, future.has_new_token
        self.request, self.start = request, future.state.position_offset - future.query_length
        self.stop, self.layout = self.start + self.n, layout
        groups = range(len(layout.sizes))
        self.tables = [layout.table(g, self.state.request_id, self.stop) for g in groups]
        self.writes = [list(itertools.islice(writes, self.n)) for writes, _ in indices]
        reads = [list(itertools.islice(reads, self.length(g)))
                 for g, (_, reads) in enumerate(indices)]
        self.read = [list(table) for table in self.tables]
        self.misread = None
        for group in groups:
            self.follow(group, reads[group])
        self.slots = [slot for group in groups for slot in self.strayed(group)]

    def length(self, group):
        """@return how many indices it reads: behind the past of a ring, one for each new token"""
        window = self.layout.windows[group]
        return self.n + (min(self.start, window - 1) if window else self.start)

    def follow(self, group, reads):
        """Takes over into `read` which blocks are read."""
        size, window = self.layout.sizes[group], self.layout.windows[group]
        if window:
            reads = reads[:len(reads) - self.n]
        first = self.start - len(reads) if window else 0
        for position, index in enumerate(reads, first):
            block, offset = self.layout.place(group, index)
            if block != self.tables[group][position // size]:  # a table has whole blocks
                self.read[group][position // size] = block
            if offset != position % size:
                self.misread = f"{self.request} reads position {position} at offset {offset}"

    def strayed(self, group):
        """@return the writes that go elsewhere than the table says"""
        size, window = self.layout.sizes[group], self.layout.windows[group]
        waste = self.layout.allocators[group].write_trash_index
        for position, index in enumerate(self.writes[group], self.start):
            block, offset = self.layout.place(group, index)
            kept = not window or position >= self.stop - window
            if kept and (block, offset) != (self.read[group][position // size], position % size):
                yield [group, position, block, offset]
            elif not kept and index != waste:
                yield [group, position, block, offset]


class Watch:
    """What one processor of batches does."""

    def __init__(self, processor, where, number):
        self.processor, self.cache = processor, processor.cache
        self.recorder = Recorder(where, f"transformers{number}", last=self.last)
        self.layout, self.tokens = Layout(self.cache), Masked()
        self.steps, self.names, self.arrived = itertools.count(), {}, itertools.count()
        self.alive, self.told, self.keys = set(), {}, {}
        self.step, self.way, self.held, self.silent = None, "abort", None, False
        self.emit({"kvproof_run": 1, "engine": f"transformers {version()}", "null_block": True,
                   "seed": "-", "tiers": [{"name": "device", "blocks": self.layout.blocks}],
                   "groups": [{"block_size": size, "window": window, "state": False}
                               for size, window in zip(self.layout.sizes, self.layout.windows)],
                   "patience": PATIENCE})
        if processor.model_device.type != "cpu":
            self.lose("what runs on an accelerator is not recorded yet")
        self.listen()

    def listen(self):
        scheduler, cache, processor = self.processor.scheduler, self.cache, self.processor
        self.hear(scheduler, "add_waiting_request", self.arrives)
        self.hear(cache, "search_prefix_match", after=self.matched)
        self.hear(cache, "free_blocks", self.leaves)
        self.hear(cache, "prepare_fork_request", after=self.forked)
        self.hear(processor.offloading_manager, "offload_requests", self.preempting, self.went_on)
        self.hear(processor, "prepare_next_batch", after=self.prepared)
        self.hear(processor, "_generation_step", self.ordered)
        self.hear(processor, "update_batch", self.answering, self.answered)
        self.hear(processor, "_handle_request_error", self.failed)
        for group, each in enumerate(self.layout.allocators):
            self.hear(each, "mark_complete_blocks", after=self.marked(group))
            self.hear(each, "copy_blocks", lambda *pairs, g=group: self.copied(g, *pairs))
            self.hear(each.ledger, "release",
                      after=lambda _, block, *__, g=group: self.dropped(g, block))
            self.hear(each.ledger, "evict_cached_blocks",
                      after=lambda blocks, g=group: [self.dropped(g, block) for block in blocks])
        self.hear(cache.pool, "free_blocks", lambda g, blocks: self.queued("freed", g, blocks))
        self.hear(cache.pool, "get_free_blocks",
                  after=lambda blocks, g, _: self.queued("taken", g, blocks))

    def hear(self, owner, name, before=None, after=None):
        """Calls of ours before and after a method. What goes wrong in them ends the recording."""
        def called(original, *values, **named):
            self.safely(before, *values, **named)
            result = original(*values, **named)
            self.safely(after, result, *values, **named)
            return result
        around(owner, name, called)

    def safely(self, ours, *values, **named):
        if ours is None or self.silent:
            return
        try:
            ours(*values, **named)
        except Exception as error:  # it is ours, and no reason for the engine to stop
            self.lose(f"the recorder failed: {type(error).__name__}: {error}"[:300])

    def emit(self, event):
        if self.silent:
            return
        if self.held is None:
            self.recorder.emit(event)
        else:
            self.held.append(event)

    def lose(self, what):
        self.emit({"op": "lost", "what": what})
        self.silent = True

    def last(self):
        if not self.alive:
            self.emit({"op": "end", "free": [self.layout.free(self.cache)], "unfinished": []})

    # Requests.

    def arrives(self, state):
        if state.request_id in self.alive:  # it was reset, and keeps its name
            return
        name = state.request_id
        if name in self.names:  # a name that was given before
            name = f"{name}#{next(self.arrived)}"
        self.names[state.request_id] = name
        self.alive.add(state.request_id)
        known = self.tokens.of(state.initial_tokens + state.generated_tokens)
        self.emit({"op": "request", "req": name, "tokens": known})

    def matched(self, length, request_id, prompt):
        if length:
            self.emit({"op": "hit", "req": self.names[request_id], "tokens": length})

    def preempting(self):
        self.way = "preempt"

    def went_on(self, *_):
        self.way = "abort"
        waiting = self.processor.scheduler.waiting_requests
        if any(state.is_cpu_offloaded for state in waiting.values()):
            self.lose("a request went to the memory of the host")

    def leaves(self, request_id, no_cache=False):
        """It gives back its blocks; one that is preempted does so twice, and has none left."""
        has_blocks = any(request_id in each.block_table for each in self.layout.allocators)
        if request_id not in self.alive or (self.way == "preempt" and not has_blocks):
            return
        self.told.pop(request_id, None)
        self.emit({"op": self.way, "req": self.names[request_id]})
        if self.way != "preempt":
            self.alive.discard(request_id)

    def failed(self, error, state):
        self.leaves(state.request_id)

    def raised(self, error):
        held, self.held = self.held or [], None
        for event in held:
            self.emit(event)
        self.emit({"op": "raised", "what": f"{type(error).__name__}: {error}"[:300]})

    def forked(self, children, source, *_):
        for child in children:
            self.names[child] = child
            self.alive.add(child)
            known = self.tokens.of(source.initial_tokens + source.generated_tokens)
            self.emit({"op": "request", "req": child, "tokens": known})

    def copied(self, group, sources, targets):
        """The copies of forks are a step of their own."""
        copies = [[group, *pair] for blocks in zip(sources, targets)
                  for pair in zip(*(self.layout.ids(group, block) for block in blocks))]
        step = next(self.steps)
        self.emit({"op": "dispatch", "step": step, "rows": self.changed(()), "copies": copies})
        self.emit({"op": "retire", "step": step, "sampled": {}})

    # Steps.

    def prepared(self, ready):
        if not ready and self.processor.has_pending_requests():
            step = next(self.steps)
            self.emit({"op": "dispatch", "step": step, "rows": []})
            self.emit({"op": "retire", "step": step, "sampled": {}})

    def rows(self):
        """@return the batch that is about to run"""
        io = self.processor.inputs_and_outputs
        stored = ((io.write_index_storage, io.true_write_sizes),
                  (io.read_index_storage, io.true_read_sizes))
        indices = [[iter(index[group, :sizes[group]].tolist()) for index, sizes in stored]
                   for group in range(len(self.layout.sizes))]
        return [Row(self.layout, self.names[each.state.request_id], each, indices)
                for each in io.requests_in_batch]

    def parts(self, row):
        """@return what of the row is one step of the run, as [start, stop)"""
        window = min(filter(None, self.layout.windows), default=row.stop)
        first = min(row.stop, max(row.start + 1, window))
        return [(row.start, first)] + [(at, at + 1) for at in range(first, row.stop)]

    def ordered(self, _):
        """A forward is about to run. The last parts of all rows are in the last of its steps."""
        rows = [(row, self.parts(row)) for row in self.rows() if row.n]
        fed = iter(self.processor.inputs_and_outputs.input_ids.tolist())
        inputs = {row.request: list(itertools.islice(fed, row.n)) for row, _ in rows}
        for left in range(max((len(parts) for _, parts in rows), default=1), 0, -1):
            now = [(row, *parts[-left]) for row, parts in rows if len(parts) >= left]
            if self.step is not None:
                self.emit({"op": "retire", "step": self.step, "sampled": {}})
            self.step = next(self.steps)
            told = self.changed(row for row, _ in rows)
            told += [{"req": row.request, "start": start, "n": stop - start}
                     | self.tables(row.state.request_id, row.tables, start, stop)
                     for row, start, stop in now]
            self.emit({"op": "dispatch", "step": self.step, "rows": told})
            self.emit({"op": "run", "step": self.step} | self.seen(now, inputs))
        for row, _ in rows:
            if row.misread:
                self.emit({"op": "raised", "what": f"step {self.step}: {row.misread}"})

    def tables(self, request_id, tables, start, stop):
        """@return what is to be told of tables: what is new, or all that is still read"""
        new = [table[:stop] if window else table
               for table, window in zip(tables, self.layout.windows)]
        old = self.told.get(request_id)
        self.told[request_id] = new
        if old is None or any(now[:len(was)] != was for was, now in zip(old, new)):
            left = [max(0, start + 1 - window) if window else 0 for window in self.layout.windows]
            return {"tables": [[0] * n + table[n:] for n, table in zip(left, new)]}
        more = [now[len(was):] for was, now in zip(old, new)]
        return {"more": more} if any(more) else {}

    def changed(self, batch):
        """@return rows without tokens, of requests beside the batch whose blocks were exchanged for
        others with the same content"""
        out, batch = [], {row.state.request_id for row in batch}
        for request_id, old in self.told.items():
            stop = len(old[0])
            if request_id in batch or any(self.layout.windows):  # no ring is exchanged
                continue
            new = [self.layout.table(group, request_id, stop) for group in range(len(old))]
            if new != old:
                self.told[request_id] = new
                out.append({"req": self.names[request_id], "start": 0, "n": 0, "tables": new})
        return out

    def seen(self, now, inputs):
        """@return what the forward does otherwise than was ordered"""
        out = {"inputs": {}, "tables": {}, "slots": {}}
        for row, start, stop in now:
            known = (row.state.initial_tokens + row.state.generated_tokens)[start:stop]
            tokens = inputs[row.request][start - row.start:stop - row.start]
            if tokens != known:
                out["inputs"][row.request] = self.tokens.of(tokens)
            if row.read != row.tables:
                out["tables"][row.request] = [
                    ids[:stop] if window else ids
                    for ids, window in zip(row.read, self.layout.windows)]
            slots = [slot for slot in row.slots if start <= slot[1] < stop]
            if slots:
                out["slots"][row.request] = slots
        return {what: told for what, told in out.items() if told}

    # Answers.

    def answering(self):
        """Its answers are about to be taken. What follows from them is told behind their tokens."""
        batch, answers, _ = self.processor.inputs_and_outputs.prepare_batch_update()
        answers, sampled = iter(answers), {}
        for each in batch:
            if each.has_new_token:
                sampled[self.names[each.state.request_id]] = self.tokens.of([next(answers)])
        self.emit({"op": "retire", "step": self.step, "sampled": sampled})
        self.step = None
        self.taken = [(each.state, len(each.state.generated_tokens)) for each in batch]
        self.held, self.way = [], "finish"

    def answered(self, *_):
        held, self.held, self.way = self.held, None, "abort"
        for state, before in self.taken:
            if more := state.generated_tokens[before:]:
                self.emit({"op": "tokens", "req": self.names[state.request_id],
                           "append": self.tokens.of(more)})
        for event in held:
            self.emit(event)

    # Claims about blocks.

    def queued(self, op, group, blocks):
        ids = [each for block in blocks for each in self.layout.ids(group, block)]
        if ids:
            self.emit({"op": op, "tier": 0, "blocks": ids})

    def marked(self, group):
        each = self.layout.allocators[group]

        def after(_, request_id, *__):
            for i, block in enumerate(each.block_table[request_id], 1):
                if block in each.ledger.block_to_hash and (group, block) not in self.keys:
                    key = {"tier": 0, "block": self.layout.ids(group, block)[0], "group": group,
                           "req": self.names[request_id], "to": i * each.tokens_per_page}
                    self.keys[group, block] = key
                    self.emit({"op": "publish"} | key)
        return after

    def dropped(self, group, block):
        ledger = self.layout.allocators[group].ledger
        if block not in ledger.block_to_hash and (group, block) in self.keys:
            self.emit({"op": "unpublish"} | self.keys.pop((group, block)))


class Attached:
    """Records until it is closed."""

    def __init__(self, where):
        self.where, self.watches = where, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self in ATTACHED:
            ATTACHED.remove(self)
        for watch in self.watches:
            watch.recorder.close()


def version():
    import transformers
    return transformers.__version__


def attach(where=None):
    """Each processor of batches that is made from now on writes a run.

    @param where as of the Recorder; without it, what KVPROOF_LIVE says
    @return what is closed at the end, by itself as a context manager
    """
    from transformers.generation.continuous_batching import continuous_api as api

    def made(original, self, *values, **named):
        original(self, *values, **named)
        if ATTACHED:
            watches = ATTACHED[-1].watches
            self.kvproof = Watch(self, ATTACHED[-1].where, len(watches))
            watches.append(self.kvproof)

    def died(original, self, error, processor):
        if hasattr(processor, "kvproof"):
            processor.kvproof.raised(error)
        return original(self, error, processor)

    around(api.ContinuousBatchProcessor, "__init__", made)
    around(api.ContinuousBatchingManager, "_handle_critical_error", died)
    ATTACHED.append(Attached(where or os.environ["KVPROOF_LIVE"]))
    return ATTACHED[-1]
