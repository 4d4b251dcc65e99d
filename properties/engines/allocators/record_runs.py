#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what vLLM since 0.33 answers to a small scheduler.

    properties/engines/allocators/record_runs.py NAME COMMAND... | gzip -9n >RECORDING

NAME becomes the headers' recorded_from. The scheduler steps as vLLM's does: running requests go
first and preempt the youngest when the pool is empty, then those that wait; it splits prefills
where states of Mamba layers are kept. So what it does next depends on the answers. Each family of
FAMILIES is a manager and its load; its seeds are recorded one after another.
"""

import math
import random
import sys
from typing import NamedTuple

from record import Recorder, arguments


class Family(NamedTuple):
    name: str
    note: str
    groups: list
    seeds: tuple
    config: dict = {}
    blocks: int = 24
    budget: int = 24  # tokens of a step
    drafts: int = 0
    load: tuple = ()  # of "external", "extra", "gates"
    unit: int = 4


def group(kind, block_size=4, **fields):
    return {"kind": kind, "block_size": block_size, "eagle": False} | fields


def mamba(block_size=4, drafts=0, **fields):
    return group("mamba", block_size, mode="align", speculative_blocks=drafts, **fields)


FULL, MLA, RING = group("full"), group("mla"), group("ring")
FULL2, FULL8 = group("full", 2), group("full", 8)
WINDOW, WIDE = (group("sliding_window", window=8), group("sliding_window", 8, window=16))
STATES, CHECKPOINTS = mamba(), mamba(checkpoints=1, checkpoint_alignment=1)
BOUNDARIES, SEGMENTS = {"retention_interval": 0}, {"retention_interval": 16}


def draft(*groups):
    """The same groups, behind a draft head."""
    return [each | {"eagle": True} for each in groups]


FAMILIES = (
    Family("full", "full attention alone", [FULL], (1,)),
    Family("mla_without_cache", "no prefix cache", [MLA], (2,), {"enable_caching": False}, 14),
    Family("window_dense", "all blocks of a window are kept", [WINDOW], (3,), {}, 18),
    Family("window_boundaries", "those at the boundaries of a prompt", [WINDOW], (4,), BOUNDARIES,
           18),
    Family("full_window_dense", "hybrid", [FULL, WINDOW], (5,)),
    Family("full_window_boundaries", "hybrid", [FULL, WINDOW], (6, 7), BOUNDARIES),
    Family("full_window_segments", "a tail of each 16 tokens", [FULL, WINDOW], (8, 9), SEGMENTS),
    Family("two_windows", "three groups of two sizes", [FULL, WINDOW, WIDE], (10,), BOUNDARIES, 36),
    Family("prompt_tails", "keys inside the last block of a prompt", [FULL8, WINDOW], (11, 12),
           BOUNDARIES),
    Family("full_drop", "the last block of a hit is dropped", draft(FULL), (1000,), {}, 18),
    Family("full_window_drop", "in both groups", draft(FULL, WINDOW), (14,)),
    Family("full_window_drop_boundaries", "in both groups", draft(FULL, WINDOW), (15, 16),
           BOUNDARIES),
    Family("prompt_tails_drop", "of two sizes", draft(FULL8, WINDOW), (17,), BOUNDARIES),
    Family("lookahead", "keys cover a token behind their block", draft(FULL), (18,),
           {"hash_lookahead": 1}, 18),
    Family("lookahead_two", "and two", draft(FULL, WINDOW), (19, 20),
           BOUNDARIES | {"hash_lookahead": 2}),
    Family("states_dense", "Mamba", [FULL, STATES], (21,)),
    Family("states_boundaries", "Mamba", [FULL, STATES], (22, 23), BOUNDARIES),
    Family("states_segments", "a state of each 16 tokens", [FULL, STATES], (24,), SEGMENTS),
    Family("states_drop", "behind a draft head", draft(FULL, STATES), (25,), BOUNDARIES),
    Family("inside", "hits inside a block, which is copied", [FULL2, STATES], (26, 27),
           BOUNDARIES, 32, unit=2),
    Family("inside_dense", "hits inside a block", [FULL2, STATES], (28,), {}, 32, unit=2),
    Family("inside_both", "hits inside blocks of both groups", [FULL, STATES], (29, 1000, 5005),
           BOUNDARIES, unit=2),
    Family("inside_drop", "behind a draft head", draft(FULL2, STATES), (31,), BOUNDARIES, 32,
           unit=2),
    Family("inside_lookahead", "hits inside blocks, by keys that look ahead",
           draft(FULL, STATES), (1002, 5003), BOUNDARIES | {"hash_lookahead": 1}, unit=2),
    Family("checkpoints", "a block for the state at the end of a prompt", [FULL, CHECKPOINTS],
           (33,), BOUNDARIES),
    Family("checkpoints_dense", "a checkpoint", [FULL, CHECKPOINTS], (34,), {}),
    Family("checkpoints_drop", "behind a draft head", draft(FULL, CHECKPOINTS), (35,), BOUNDARIES),
    Family("checkpoints_inside", "inside a block", [FULL2, CHECKPOINTS], (36, 37), BOUNDARIES, 32,
           unit=2),
    Family("checkpoints_inside_both", "on a grid of 4 tokens",
           [FULL, mamba(checkpoints=1, checkpoint_alignment=4)], (38, 1001, 5005), BOUNDARIES,
           unit=2),
    Family("drafts", "states of two drafts", [FULL, mamba(drafts=2)], (39,), BOUNDARIES, 36,
           drafts=2),
    Family("drafts_lookahead", "drafts, and keys that look ahead", draft(FULL, mamba(drafts=2)),
           (40,), BOUNDARIES | {"hash_lookahead": 1}, 36, drafts=2),
    Family("drafts_inside", "drafts, and hits inside a block", [FULL2, mamba(drafts=1)], (41,),
           BOUNDARIES, 36, drafts=1, unit=2),
    Family("reference_window", "R-SWA", [group("rswa", window=8)], (42,)),
    Family("reference_window_states", "R-SWA beside Mamba, hits inside both",
           [group("rswa", window=8), STATES], (43,), BOUNDARIES, unit=2),
    Family("ring", "a block that each request keeps", [FULL, RING], (44,)),
    Family("external", "tokens of a connector", [FULL], (45,), {}, 18, load=("external",)),
    Family("external_window", "tokens of a connector, hybrid", [FULL, WINDOW], (46,), BOUNDARIES,
           load=("external",)),
    Family("preemption", "a pool that is too small", [FULL], (47,), {}, 11),
    Family("preemption_states", "Mamba in a pool that is too small", [FULL2, STATES], (48,),
           BOUNDARIES, 20, unit=2),
    Family("extra_keys", "adapters with their paths, salts, images", [FULL], (49, 50), {}, 18,
           load=("extra",)),
    Family("gates", "watermark, blocks kept for others, whole sequences", [FULL, WINDOW], (51, 52),
           BOUNDARIES | {"watermark": 0.15, "max_in_flight_tokens": 24}, load=("gates",)),
)


class Waits(NamedTuple):
    """What a request that waits is offered."""

    hit: int = 0
    external: int = 0
    looked_up: bool = False


class Request:
    def __init__(self, name, tokens, extra, most):
        self.name, self.tokens, self.extra, self.most = name, tokens, extra, most
        self.prompt = len(tokens)
        self.computed, self.junction, self.status = 0, 0, "waiting"
        self.holds = self.loading = False

    def prefill_end(self):
        return max(self.prompt, len(self.tokens) - 1)


class Split:
    """Where a prefill has to stop, because a state is kept there."""

    def __init__(self, family, config):
        states = [each for each in config["groups"] if each["kind"] == "mamba"]
        self.active = bool(states) and config["enable_caching"]
        if not self.active:
            return
        self.unit, self.block, self.budget = (
            config["hash_block_size"], states[0]["block_size"], family.budget)
        self.inside = self.block > self.unit and all(
            each["kind"] in ("full", "mla", "rswa", "mamba") or each["block_size"] == self.unit
            for each in config["groups"])
        self.grid = states[0].get("checkpoint_alignment")
        self.ahead = config.get("hash_lookahead", 0)
        self.drops = not self.ahead and any(each["eagle"] for each in config["groups"])
        self.aligned = self.unit if self.inside else config["scheduler_block_size"]

    def boundary(self, tokens, unit):
        """From where others go on behind so many tokens."""
        if self.drops:
            return max(tokens // unit * unit - unit, 0)
        return max((tokens - max(1, self.ahead)) // unit * unit, 0)

    def exported(self, start, end, at):
        """Whether the state is written by the way, to a block of its own."""
        return (self.grid is not None and start % self.unit == 0
                and -(-end // self.block) - 2 > (start - 1) // self.block
                and start + self.unit <= at < end and (at - start) % self.grid == 0)

    def tokens(self, request, start, new):
        """@return how many of the new tokens are computed in this step"""
        end, prefill_end, block = start + new, request.prefill_end(), self.block
        if start >= prefill_end:
            return new
        exports = end >= prefill_end and self.exported(
            start, end, self.boundary(prefill_end, self.aligned))
        last = 0 if exports else self.boundary(len(request.tokens), block)
        if end < prefill_end:
            whole = end // block * block
            end = whole if whole > start or block <= self.budget else end
        stops = [last]
        if start % block and not exports:
            stops.append((start // block + 1) * block)
        tail = self.boundary(request.prompt, self.unit) if self.inside and not exports else 0
        if last < tail < request.prompt:
            stops.append(tail)
        if start < request.junction < end:
            stops.append(start + (request.junction - start) // block * block)
        return max(min((stop for stop in stops if start < stop < end), default=end) - start, 0)


class Run:
    """One recording: requests arrive, are scheduled, generate and finish."""

    REQUESTS, STEPS = 11, 60

    def __init__(self, recorder, family, seed):
        self.recorder, self.family, self.random = recorder, family, random.Random(seed)
        sizes = [each["block_size"] for each in family.groups]
        self.config = {
            "num_blocks": family.blocks, "enable_caching": True, "max_model_len": 96,
            "hash_block_size": family.unit, "scheduler_block_size": math.lcm(*sizes),
            "watermark": 0.0, "max_in_flight_tokens": None, "use_eagle": False,
            "prompt_tail_keys": False, "groups": family.groups} | family.config
        self.split = Split(family, self.config)
        self.waiting, self.running, self.earlier, self.arrived, self.operations = [], [], [], 0, 0
        recorder.ask({"kvproof_trace": 1, "recorded_from": "", "profile": "vllm-0.33",
                      "family": family.name, "seed": seed, "name": family.name,
                      "note": family.note, "driver": "scheduler", "later_than_0.24": [],
                      "config": self.config})

    def ask(self, op, **said):
        self.operations += 1
        answer = self.recorder.ask({"op": op, **said})
        if isinstance(answer["out"], dict) and "error" in answer["out"]:
            raise ValueError(f"{self.family.name}: {op} {said}: {answer['out']['error']}")
        return answer

    def one_in(self, n):
        return self.random.randrange(n) == 0

    def prompt(self):
        """@return tokens: often those of an earlier request, cut, and some of its own; and what
        else is in their keys: often the same"""
        draw, shared, extra = self.random, [], {}
        if self.earlier and not self.one_in(4):
            request = draw.choice(self.earlier)
            cut = draw.choice((request.prompt, request.prompt, len(request.tokens),
                               draw.randint(min(3, request.prompt), len(request.tokens))))
            shared = request.tokens[:min(cut, 60)]
            if not self.one_in(3):
                extra = {name: value for name, value in request.extra.items() if name != "mm"}
                items = [each for each in request.extra.get("mm", ())
                         if each["offset"] + each["length"] <= len(shared)]
                extra |= {"mm": items} if items else {}
        own = [draw.randrange(6) for _ in range(draw.choice((0, 1, 2, 3, 5, 8, 13, 21)))]
        tokens = (shared + own)[:60] or [draw.randrange(6)]
        return tokens, extra or self.extra(len(tokens))

    def extra(self, length):
        draw, out = self.random, {}
        if "extra" not in self.family.load:
            return out
        if not self.one_in(3):
            out["lora"] = draw.choice("xy")
            if self.one_in(2):
                out["lora_path"] = draw.choice("pq")
        if self.one_in(3):
            out["salt"] = draw.choice("xs")
        if self.one_in(2) and length > 6:
            out["mm"] = [{"id": draw.choice("ab"), "offset": draw.randrange(length - 5),
                          "length": draw.randint(1, 5)}]
        return out

    def arrive(self):
        tokens, extra = self.prompt()
        request = Request(f"r{self.arrived}", tokens, extra, self.random.randint(1, 14))
        self.arrived += 1
        said = {"req": request.name, "tokens": list(tokens)}
        if extra:
            said["extra"] = extra
        if self.one_in(16):
            said["skip_lookup"] = True
        self.earlier.append(request)
        self.ask("arrive", **said)
        self.waiting.append(request)

    def allocate(self, request, new, waits=None, **gates):
        """@return whether it was granted"""
        waits = waits or Waits()
        said = {"req": request.name, "new_tokens": new, "use_lookup": waits.looked_up,
                "lookahead": self.family.drafts, "external": waits.external, "delay_cache": False,
                "full_sequence_must_fit": False, "has_scheduled": True, "reserved": 0,
                "status": request.status} | gates
        granted = self.ask("allocate", **said)["out"] is not None
        if granted:
            request.holds = True
            if waits.looked_up:
                self.advance(request, waits.hit + waits.external)
        return granted

    def advance(self, request, computed):
        request.computed = computed
        self.ask("advance", req=request.name, computed=computed)

    def tokens_of(self, request, start, drafts, budget):
        new = min(len(request.tokens) + drafts - start, budget,
                  self.config["max_model_len"] - 1 - start)
        return self.split.tokens(request, start, new) if self.split.active else new

    def schedule_running(self):
        """@return the tokens of each request that goes on; the budget that is left; whether one was
        preempted"""
        granted, budget, preempted, at = {}, self.family.budget, False, 0
        while at < len(self.running) and budget > 0:
            request = self.running[at]
            decodes = request.computed + 1 == len(request.tokens)
            drafts = self.random.randint(0, self.family.drafts) if decodes else 0
            new = self.tokens_of(request, request.computed, drafts, budget)
            while new > 0 and not self.allocate(request, new):
                preempted = True
                last = self.running.pop()
                self.ask("free", req=last.name)
                last.computed, last.status, last.holds = 0, "preempted", False
                budget += granted.pop(last, 0)
                self.waiting.insert(0, last)
                if last is request:
                    return granted, budget, True
            if new > 0:
                granted[request] = new
                budget -= new
            at += 1
        return granted, budget, preempted

    def look_up(self, request):
        answer = self.ask("lookup", req=request.name)
        hit, external = answer["out"]["hit_tokens"], 0
        request.junction = answer["state"]["boundary"][request.name]
        most = (len(request.tokens) - 1 - hit) // self.family.unit
        if "external" in self.family.load and most > 0 and not self.one_in(3):
            external = self.random.randint(1, most) * self.family.unit
        return Waits(hit, external, True)

    def schedule_waiting(self, granted, budget):
        for request in list(self.waiting):
            if budget <= 0 or len(self.running) >= 4:
                return
            if request.loading:
                self.loaded(request)
            waits = Waits() if request.holds else self.look_up(request)
            start = request.computed + waits.hit + waits.external
            loads = bool(waits.external) and self.one_in(2)
            new = 0 if loads else self.tokens_of(request, start, 0, budget)
            if new <= 0 and not loads:
                return
            gates = {"full_sequence_must_fit": True, "has_scheduled": bool(self.running)}
            if loads:
                gates |= {"delay_cache": True, "lookahead": 0,
                          "reserved": self.random.choice((0, 0, 2))}
            elif "gates" in self.family.load:
                gates |= {"full_sequence_must_fit": self.one_in(2),
                          "reserved": self.random.choice((0, 0, 1, 3))}
            if not self.allocate(request, new, waits, **gates):
                return
            request.loading = loads
            if not loads:
                self.waiting.remove(request)
                self.running.append(request)
                request.status = "running"
                granted[request] = new
                budget -= new

    def loaded(self, request):
        """What a connector has loaded is published."""
        self.ask("cache", req=request.name, computed=request.computed)
        request.loading = False

    def output(self, request, new):
        """The tokens of a step are computed; behind the last one, some are generated."""
        before, end = len(request.tokens), request.computed + new
        if end < before:
            self.advance(request, end)
            return
        accepted = self.random.randint(0, end - before)
        out = [self.random.randrange(6) for _ in range(accepted + 1)]
        request.tokens += out
        self.ask("append", req=request.name, tokens=out)
        self.advance(request, before + accepted)
        if self.family.drafts:
            self.ask("cache", req=request.name, computed=request.computed)
        longest = len(request.tokens) >= self.config["max_model_len"] - 1
        if len(request.tokens) - request.prompt >= request.most or longest:
            self.running.remove(request)
            self.ask("finish", req=request.name)

    def now_and_then(self):
        if self.one_in(14):
            blocks = sorted(self.random.sample(range(1, self.family.blocks), 2))
            self.ask("evict", blocks=blocks)
        if self.one_in(30) or not self.running and self.one_in(4):
            self.ask("reset")

    def step(self):
        while self.arrived < self.REQUESTS and self.one_in(2 if self.running else 1):
            self.arrive()
            if len(self.waiting) > 2:
                break
        self.ask("step")
        granted, budget, preempted = self.schedule_running()
        if not preempted:
            self.schedule_waiting(granted, budget)
        stuck = not granted and not self.running and self.waiting and not any(
            request.loading for request in self.waiting)
        for request, new in granted.items():
            self.output(request, new)
        if stuck:
            self.ask("finish", req=self.waiting.pop(0).name)
        self.now_and_then()

    def record(self):
        for _ in range(self.STEPS):
            if self.arrived == self.REQUESTS and not self.waiting and not self.running:
                break
            self.step()
        for request in self.running + self.waiting:
            self.ask("finish", req=request.name)
        self.ask("step")
        self.ask("reset")
        self.recorder.keep({"op": "end", "ops": self.operations})


def main():
    name, *command = arguments(2, __doc__)
    with Recorder(name, command) as recorder:
        for family in FAMILIES:
            for seed in family.seeds:
                Run(recorder, family, seed).record()
    sys.stdout.writelines(recorder.lines)


if __name__ == "__main__":
    main()
