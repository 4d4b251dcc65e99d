#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TVM's paged KV cache, which MLC-LLM serves from. A grant is a forward of the tokens that get room
by it; drafts are written, and popped when other tokens come; some forwards are trees, of which one
path is accepted. Of a window the first tokens are kept, too; it slides from the first step of one
token on, and by one token a step: TVM gives back at the grant what the step still reads.

Tables are the places to which its reading kernel is sent, and references are counted in them.
Whether pages are left is asked before, for the cache itself ends in an assertion."""

import collections
import itertools

from kvproof import EngineAdapter
from tvm_kernels import SIZES, Cache

DRAFT, SINKS = 7, 3  # a token that nobody accepts; how many a window keeps


class Tvm(EngineAdapter):
    operations = "arrive append advance allocate decode free finish truncate"
    abilities = {"caching": [False], "block_sizes": SIZES, "chunks": True, "drafts": True,
                 "forks": "computed",
                 "kinds": ["full", "mla", "sliding_window"], "blocks": [4, 2**20]}

    def begin(self, config):
        self.window = config["groups"][0].get("window", 0)
        forks = "" if self.window else " fork"  # what is shared does not slide
        self.operations = Tvm.operations + forks
        return super().begin(config) | ({"sinks": SINKS} if self.window else {})

    def build(self):
        self.cache = Cache(self.usable, self.size, 16 * self.config["max_model_len"],
                           bool(self.window))
        self.numbers, self.shared = itertools.count(), {}
        self.low = {}  # of each sequence; if it slides, the first position behind its sinks
        self.done = collections.Counter()  # of each sequence, how many tokens were computed

    def slid(self, r, end):
        """@return what is the first position behind the sinks when the first `end` have room"""
        step = self.window and r.computed == r.room == end - 1 >= self.window + SINKS
        return end - self.window if step else self.low[r.own]

    def kept(self, r, end, low=None):
        low = self.low[r.own] if low is None else low
        return [position for position in range(end) if position < SINKS or position >= low]

    def more(self, r, end):
        """@return how many pages a request takes if the first `end` tokens get room"""
        now, then = self.kept(r, r.room), self.kept(r, end, self.slid(r, end))
        return len({p // self.size for p in then}) - len({p // self.size for p in now})

    def advance(self, r):
        least = self.done[r.own] if self.low[r.own] else self.shared.get(r.own, 0)
        if r.computed < min(least, self.done[r.own]):
            self.decline("what slid away or is shared is not computed again")
        self.done[r.own] = r.computed

    def hold(self, r, hit):
        r.own = next(self.numbers)
        self.low[r.own] = 0
        self.cache.add_sequence(r.own)
        return 0

    def grow(self, r, end):
        if self.low[r.own] and not r.computed == r.room == end - 1:
            self.decline("a window slides by one token a step")
        if self.more(r, end) > self.num_free():
            return False
        self.write([(r, r.tokens, r.room, end)])
        return True

    def append(self, r, tokens):
        self.write([(r, r.tokens, min(len(r.tokens) - len(tokens), r.room), r.room)])

    def decode(self, *given):
        *requests, tokens = given
        refused, jobs, left = [], [], self.num_free()
        for at, (r, token) in enumerate(zip(requests, tokens)):
            if not r.holds:
                self.hold(r, None)
            start, end = min(len(r.tokens), r.room), max(r.room, r.computed + 1)
            r.tokens.append(token)
            need = self.more(r, end)
            if need <= left:
                left -= need
                jobs.append((r, r.tokens, start, end))
                r.holds = True
                continue
            refused.append(at)
            jobs.append((r, r.tokens, start, r.room))
            if not r.holds:
                self.release(r)
        self.write(jobs)
        for at, (r, *_) in enumerate(jobs):
            r.computed += at not in refused
            self.done[r.own] = r.computed
        return refused

    def write(self, jobs):
        """Forwards the tokens of requests from a start to an end: in one batch, as far as none of
        them pops, for what is popped would go to another one."""
        rows = []
        for r, tokens, start, end in jobs:
            if start < r.room:
                self.cache.forward(rows)
                rows = []
                self.cache.popn(r.own, r.room - start)
            if start < end:
                known, low = tokens[start:end], self.slid(r, end)
                rows.append((r.own, self.kept(r, start), start,
                             known + [DRAFT] * (end - start - len(known)),
                             not self.window and start % 2 == 0))
                if low and not self.low[r.own]:
                    self.cache.enable_sliding_window_for_seq(r.own, self.window + SINKS, SINKS)
                self.low[r.own], r.room = low, end
        self.cache.forward(rows)

    def truncate(self, r, tokens):
        if tokens < r.room:
            self.cache.popn(r.own, r.room - tokens)
            r.room = tokens
        if r.holds and not r.room:
            self.release(r)

    def fork(self, r, child):
        if not r.holds:
            return
        if r.room > r.computed:
            self.decline("drafts are not shared")
        if r.room % self.size and not self.num_free():
            self.decline("no page is left for a copy")
        child.own = next(self.numbers)
        self.low[child.own], self.done[child.own] = 0, self.done[r.own]
        self.shared[r.own] = self.shared[child.own] = r.room
        child.copies = self.cache.fork(r.own, child.own)

    def release(self, r):
        self.cache.remove_sequence(r.own)

    def table(self, r):
        table = [-1] * -(-r.room // self.size)
        for position, (place, _) in self.cache.read(r.own, self.kept(r, r.room)).items():
            table[position // self.size] = place // self.size
        return table

    def contents(self, r):
        found = self.cache.read(r.own, self.kept(r, r.room))
        return [found.get(position, (0, None))[1] for position in range(r.computed)]

    def counts(self):
        return collections.Counter(page for r in self.requests.values() if r.holds
                                   for page in self.table(r) if page >= 0).items()

    def num_free(self):
        return self.cache.get_num_available_pages()


if __name__ == "__main__":
    Tvm().serve()
