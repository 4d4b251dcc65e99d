#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes runs of vLLM 0.33's own Scheduler, as lines of JSON (properties/shadow/README.md).

    properties/engines/scheduler/drive.py --steps=N --seed=S [--case=NAME] [--output=FILE]

The worker is not real: it keeps tables and samples. Between every two calls of the engine it is
drawn what is launched, runs and is copied. The same seed gives the same bytes.
"""

import argparse
import json
import pathlib
import random
import sys
import traceback
from collections import deque

import vllm_modules
import world
from worker import END, Desync, Worker

PATIENCE = 400  # steps

encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Index:
    """What the index of a pool names, from before a call to behind it."""

    def __init__(self, tier, pool, run):
        self.tier, self.pool, self.run = tier, pool, run
        self.named = [None] * len(pool.blocks)

    def look(self):
        for block, before in zip(self.pool.blocks, self.named):
            now = block.block_hash
            if now is before or now == before:
                continue
            number = block.block_id
            if before is not None:
                self.say("unpublish", number, before)
            if now is not None:
                self.say("publish", number, now)
            self.named[number] = now

    def say(self, op, block, key):
        of_key = self.run.meaning[key[:-4]] or self.run.gone[key[:-4]]
        req, end = next(iter(of_key.items()))
        self.run.emit({"op": op, "tier": self.tier, "block": block,
                       "group": int.from_bytes(key[-4:], "big"), "req": req, "to": end})

    def forget(self):
        self.named = [block.block_hash for block in self.pool.blocks]


class Client:
    """A request as whoever asked for it knows it."""

    def __init__(self, request, turns):
        self.request, self.tokens = request, list(request.prompt_token_ids)
        self.turns, self.hashes, self.waits = turns, 0, False


class Run:
    def __init__(self, options, seed, emit):
        from vllm.utils.hashing import sha256
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler
        import connectors
        self.options, self.emit, self.draw = options, emit, random.Random(seed)
        self.quiet = False
        kv_cache_utils.init_none_hash(sha256)
        self.hasher = kv_cache_utils.get_request_block_hasher(options.block_size, sha256)
        self.worker, self.transfers = Worker(options, self.draw), connectors.workers(self)
        kind = AsyncScheduler if options.asynchronous else Scheduler
        grammar = vllm_modules.Said(accept_tokens=lambda *_: True, validate_tokens=lambda _, t: t)
        self.engine = kind(world.config(options), world.layout(options), grammar,
                           options.block_size, options.block_size, mm_registry=None)
        self.pools = [self.engine.kv_cache_manager.block_pool]
        self.pools += connectors.pools(self.engine.connector, self.transfers)
        self.indices = [Index(tier, pool, self) for tier, pool in enumerate(self.pools)]
        self.live, self.earlier, self.meaning, self.gone = {}, deque(maxlen=40), {}, {}
        self.flight, self.arrived, self.preempted = deque(), 0, set()
        names = ("device", "host", "storage")
        emit({"kvproof_run": 1, "engine": "vllm 0.33.0", "seed": seed, "depth": options.depth,
              "tiers": [{"name": name, "blocks": len(pool.blocks)}
                        for name, pool in zip(names, self.pools)],
              "groups": [{"block_size": options.block_size, "window": window, "state": False}
                         for window in options.windows],
              "null_block": True, "patience": PATIENCE})

    def chance(self, of):
        return of > 0 and self.draw.random() < of

    # What happens between two calls.

    def between(self):
        while self.draw.random() < self.options.pace:
            what = self.draw.randrange(3)
            if what == 0:
                self.launch()
            elif what == 1:
                self.execute()
            elif self.transfers:
                self.transfers.tick()

    def launch(self):
        """The next step's worker takes its orders to the device."""
        step = next((each for each in self.flight if not each.launched), None)
        if step is None:
            return
        step.launched = True
        if self.transfers:
            self.transfers.flush(step, step.out.kv_connector_metadata)
            step.report = self.transfers.launched(step, step.out.kv_connector_metadata)

    def execute(self):
        """The next step that was launched runs."""
        step = next((each for each in self.flight if not each.ran), None)
        if step is None or not step.launched:
            return
        step.ran = True
        self.emit({"op": "run", "step": step.number} | step.inputs)

    def group_of(self, pair):
        """@return of which group two blocks are that are copied from one to the other"""
        key = self.pools[pair[0]].blocks[pair[1]].block_hash
        if key is not None:
            return int.from_bytes(key[-4:], "big")
        block = pair[1] if pair[0] == 0 else pair[3]
        groups = self.engine.kv_cache_manager.coordinator.single_type_managers
        return next((i for i, group in enumerate(groups) for ids in group.req_to_blocks.values()
                     if any(each.block_id == block for each in ids)), 0)

    def learn(self, client):
        """Which tokens the keys of a request mean."""
        hashes = client.request.block_hashes
        for i in range(client.hashes, len(hashes)):
            of_key = self.meaning.setdefault(hashes[i], {})
            of_key[client.request.request_id] = (i + 1) * self.options.block_size
        client.hashes = len(hashes)

    def forget(self, client, tokens):
        """The keys that a request had behind so many tokens mean it no more."""
        kept, name = tokens // self.options.block_size, client.request.request_id
        for key in client.request.block_hashes[kept:client.hashes]:
            self.gone[key] = {name: self.meaning[key].pop(name)}
        client.hashes = min(client.hashes, kept)

    def look(self):
        for client in self.live.values():
            if len(client.request.block_hashes) != client.hashes:
                self.learn(client)
        for index in self.indices:
            index.look()

    # The calls.

    def prompt(self):
        draw, shared = self.draw, []
        if self.earlier and draw.random() < 0.75:
            tokens, prompt = draw.choice(self.earlier)
            shared = tokens[:draw.choice((len(tokens), prompt, draw.randint(1, len(tokens))))]
        own = [draw.randrange(END) for _ in range(draw.choice((0, 1, 2, 3, 5, 8, 13, 21)))]
        return (shared + own)[:self.options.max_length - 24] or [draw.randrange(END)]

    def request(self, name, tokens, **named):
        from vllm.v1.request import Request
        return Request(name, tokens, world.sampling(self.draw.randint(1, 20), END), None,
                       arrival_time=float(self.arrived), block_hasher=self.hasher, **named)

    def arrive(self):
        prompt, name = self.prompt(), f"r{self.arrived}"
        turns = self.draw.randint(1, 3) if self.chance(self.options.sessions) else 0
        request = self.request(name, prompt, resumable=turns > 0,
                               priority=self.draw.randrange(self.options.priorities))
        self.arrived += 1
        self.live[name] = Client(request, turns)
        self.emit({"op": "request", "req": name, "tokens": prompt})
        self.engine.add_request(request)
        self.look()

    def go_on(self):
        """A session that waits gets its next tokens, or its end."""
        waits = [name for name, client in self.live.items() if client.waits]
        if not waits:
            return
        name = self.draw.choice(waits)
        client = self.live[name]
        client.waits = False
        if not client.turns or self.quiet or len(client.tokens) > self.options.max_length - 26:
            self.engine.add_request(self.request(name, [0], resumable=False))
            self.leave(name, "finish")
            return
        client.turns -= 1
        more = [self.draw.randrange(END) for _ in range(self.draw.randint(1, 6))]
        client.tokens[-1:] = more
        self.emit({"op": "tokens", "req": name, "length": len(client.tokens) - len(more),
                   "append": more})
        self.forget(client, len(client.tokens) - len(more))
        self.engine.add_request(self.request(name, list(more), resumable=True))
        self.look()

    def leave(self, name, op):
        client = self.live.pop(name)
        self.learn(client)
        self.earlier.append((client.tokens, client.request.num_prompt_tokens))
        self.emit({"op": op, "req": name})

    def abort(self):
        from vllm.v1.request import RequestStatus
        name = self.draw.choice(list(self.live))
        self.engine.finish_requests(name, RequestStatus.FINISHED_ABORTED)
        self.leave(name, "abort")
        self.look()

    def reset(self):
        running = not self.options.connector and self.draw.random() < 0.5
        connector = bool(self.options.connector) and self.draw.random() < 0.5
        device = self.engine.reset_prefix_cache(reset_running_requests=running)
        host = connector and self.engine.reset_connector_cache() and len(self.pools) > 1
        self.say_preempted(self.engine.reset_preempted_req_ids)
        tiers = [0] * bool(device) + [1] * bool(host)
        if tiers:
            self.emit({"op": "reset", "tiers": tiers})
        for tier in tiers:
            self.indices[tier].forget()
        self.look()

    def say_preempted(self, names):
        for name in sorted(set(names or ()) - self.preempted):
            self.preempted.add(name)
            self.emit({"op": "preempt", "req": name})

    def schedule(self):
        out = self.engine.schedule()
        self.say_preempted(out.preempted_req_ids)
        self.preempted.clear()
        step, meta = self.worker.given(out), out.kv_connector_metadata
        needed = self.transfers.before(step, meta) if self.transfers else {}
        for new in out.scheduled_new_reqs:
            if new.num_computed_tokens:
                self.emit({"op": "hit", "req": new.req_id, "tokens": new.num_computed_tokens}
                          | ({"transfer": needed[new.req_id]} if new.req_id in needed else {}))
        self.emit({"op": "dispatch", "step": step.number, "rows": step.rows} | self.copies(out))
        if self.transfers:
            self.transfers.behind(step, meta)
        inputs = {row["req"]: step.fed[row["req"]] for row in step.rows
                  if step.fed[row["req"]] != self.known(row)}
        step.inputs = {"inputs": inputs} if inputs else {}
        self.flight.append(step)
        self.look()

    def known(self, row):
        client = self.live.get(row["req"])
        return client and client.tokens[row["start"]:row["start"] + row["n"]]

    @staticmethod
    def copies(out):
        return {"copies": [[0, each.src_block_id, each.dst_block_id]
                           for each in out.kv_cache_block_copies or ()]}

    def retire(self):
        from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
        step = self.flight[0]
        while not step.ran:
            self.launch()
            self.execute()
        self.flight.popleft()
        names = list(step.out.num_scheduled_tokens)
        result = ModelRunnerOutput(
            req_ids=names, req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=[list(step.sampled.get(name, ())) for name in names])
        result.kv_connector_output = step.report
        for line in step.settled:
            self.emit(line)
        answers = self.engine.update_from_output(step.out, result)
        taken = {each.request_id: each for answer in answers.values()
                 for each in getattr(answer, "outputs", ())}
        self.emit({"op": "retire", "step": step.number, "sampled": step.sampled,
                   "discarded": [name for name in step.sampled
                                 if name not in taken or not taken[name].new_token_ids]})
        for name, answer in taken.items():
            self.take(name, answer)
        self.look()
        if self.options.drafts and not self.options.asynchronous:
            named = [name for name in step.sampled if name in self.worker.batch]
            self.engine.update_draft_token_ids(DraftTokenIds(
                named, [list(self.worker.batch[name].drafts) for name in named]))

    def take(self, name, answer):
        client = self.live.get(name)
        if client is None:
            self.emit({"op": "raised", "what": f"{name} has ended and gets an answer"})
            return
        if answer.new_token_ids:
            self.emit({"op": "tokens", "req": name, "append": list(answer.new_token_ids)})
            client.tokens += answer.new_token_ids
        if answer.finish_reason is None:
            return
        if name in self.engine.requests and client.request.resumable and (
                not client.request.is_finished()):
            client.waits = True
        else:
            self.leave(name, "finish" if answer.new_token_ids else "abort")

    def step(self):
        """One turn of the engine's loop; steps may stay in flight behind it."""
        o = self.options
        while not self.quiet and len(self.live) < 2 * o.requests and self.draw.random() < 0.5:
            self.arrive()
            self.between()
        if not self.quiet and self.live and self.chance(o.abort):
            self.abort()
            self.between()
        if not self.quiet and self.chance(o.reset):
            self.reset()
            self.between()
        if o.sessions and (self.quiet or self.draw.random() < 0.4):
            self.go_on()
            self.between()
        if len(self.flight) < o.depth and self.engine.has_requests():
            self.schedule()
            self.between()
            if not self.quiet and self.live and self.chance(o.abort):
                self.abort()
                self.between()
        full = len(self.flight) >= o.depth or not self.engine.has_requests()
        if self.flight and (full or self.draw.random() < 0.3):
            self.retire()
            self.between()

    def turn_until(self, steps, more):
        """The loop turns up to so many steps, while there is more to do and it does something."""
        idle = 0
        while self.worker.steps < steps and idle < PATIENCE and more():
            before = self.worker.steps
            self.step()
            idle = 0 if self.worker.steps > before or self.flight else idle + 1

    def go(self, steps):
        self.turn_until(steps, lambda: True)
        self.quiet = True
        self.emit({"op": "quiet"})
        self.turn_until(self.worker.steps + 2 * PATIENCE, lambda: (
            self.live or self.flight or self.engine.has_requests()))
        while self.flight:
            self.retire()
        self.emit({"op": "end", "free": [pool.get_num_free_blocks() for pool in self.pools],
                   "unfinished": list(self.live)})


def raised(error):
    """@return the line of vLLM's that has raised"""
    if isinstance(error, Desync):
        return {"op": "raised", "what": str(error)}
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "vllm/" in each.filename
              and "properties" not in each.filename]
    if not frames:
        raise error
    last = frames[-1]
    return {"op": "raised", "what": f"{pathlib.Path(last.filename).name}:{last.lineno} "
            f"{type(error).__name__}: {error or last.line}"}


def record(case, steps, seed, write):
    """Writes one run."""
    def emit(line):
        write(encode(line) + "\n")
    try:
        run = Run(case.options, f"{case.name} {seed}", emit)
        run.go(steps)
    except Exception as error:  # whatever the engine raises is what the run ends with
        emit(raised(error))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=[each.name for each in world.CASES], default="sync")
    parser.add_argument("--output", default="-")
    told = parser.parse_args()
    vllm_modules.install()
    case = next(each for each in world.CASES if each.name == told.case)
    with open(sys.stdout.fileno() if told.output == "-" else told.output, "w",
              encoding="utf-8") as file:
        record(case, told.steps, told.seed, file.write)


if __name__ == "__main__":
    main()
