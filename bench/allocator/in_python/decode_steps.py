# SPDX-License-Identifier: Apache-2.0
"""Decode steps of a batch in lockstep by an allocator in Python, for programs that measure them.
Each line is a command and its arguments; each answer is one line: words of key=value.

    textbook LIVE BLOCKS SEED   a batch of LIVE requests on a warm pool, by allocator.py
    vllm LIVE BLOCKS SEED       the same by the KVCacheManager of an installed vLLM. The first
                                argument of this program is the folder of its adapter
    steps COUNT                 so many steps: the time of all, and the blocks that they took
"""

import random
import sys
from time import perf_counter_ns

BLOCK_SIZE = 16
PROMPT = 256  # tokens of the shortest one; prompts end at every place within a block
STEPS = 256  # of a request


class Textbook:
    def __init__(self, num_blocks):
        from allocator import Allocator, hash_pickled
        self.allocator = Allocator(num_blocks, BLOCK_SIZE, hash_pickled)

    def admit(self, name, prompt):
        request = self.allocator.arrive(prompt)
        self.allocator.allocate(request, len(prompt))
        self.allocator.advance(request, len(prompt))
        return request

    def step(self, request, token):
        self.allocator.append(request, token)
        if self.allocator.allocate(request, 1) is None:
            raise MemoryError("a decode step was refused")
        self.allocator.advance(request, request.num_computed + 1)

    def finish(self, request):
        self.allocator.free(request)

    def begin_step(self):
        pass

    def held(self, request):
        return len(request.blocks)


class Vllm:
    """What its scheduler does with the KV cache in a step: a token more, a slot for it."""

    def __init__(self, num_blocks, longest=PROMPT + BLOCK_SIZE + STEPS):
        from kvproof import without_torch
        without_torch.install()
        import vllm_manager
        group = {"kind": "full", "block_size": BLOCK_SIZE}
        config = {"num_blocks": num_blocks, "enable_caching": True, "groups": [group],
                  "max_model_len": longest, "hash_block_size": BLOCK_SIZE}
        self.hasher = vllm_manager.block_hasher(config)
        self.manager = vllm_manager.build(config, False)
        self.request_of = vllm_manager.request_of
        self.begin_step = getattr(self.manager, "new_step_starts", lambda: None)

    def admit(self, name, prompt):
        request = self.request_of({"req": name, "tokens": prompt}, {}, self, self.hasher)
        self.manager.allocate_slots(request, len(prompt))
        request.num_computed_tokens = len(prompt)
        return request

    def salt(self, _):
        """Of a request: none."""

    def step(self, request, token):
        request.append_output_token_ids(token)
        if self.manager.allocate_slots(request, 1) is None:
            raise MemoryError("a decode step was refused")
        request.num_computed_tokens += 1

    def finish(self, request):
        self.manager.free(request)

    def held(self, request):
        return len(self.manager.get_block_ids(request.request_id)[0])


class Batch:
    """An epoch is a batch from arrival to its last step."""

    def __init__(self, engine, live, num_blocks, seed):
        self.engine, self.random = engine(num_blocks), random.Random(seed)
        self.requests, self.live, self.named = [], live, 0
        self.warm_up(num_blocks)
        self.start_epoch()

    def warm_up(self, num_blocks):
        """Gives content to every block, and leaves the free ones as epochs would: those that were
        taken together lie near each other, in no order."""
        blocks = self.live * (PROMPT + STEPS) // BLOCK_SIZE
        for epoch in range(num_blocks // blocks + 1):
            requests = [self.engine.admit(f"w{epoch}.{i}", self.tokens(BLOCK_SIZE))
                        for i in range(blocks)]
            self.random.shuffle(requests)
            for request in requests:
                self.engine.finish(request)

    def tokens(self, count):
        return self.random.choices(range(1 << 17), k=count)

    def start_epoch(self):
        for request in self.requests:
            self.engine.finish(request)
        self.requests = []
        for i in range(self.live):
            prompt = self.tokens(PROMPT + i % BLOCK_SIZE)
            self.requests.append(self.engine.admit(f"r{self.named}", prompt))
            self.named += 1
        self.left = STEPS

    def run(self, steps):
        """@return its time [ns]"""
        outputs = self.tokens(steps * self.live)
        begin = perf_counter_ns()
        at = 0
        for _ in range(steps):
            self.engine.begin_step()
            for request in self.requests:
                self.engine.step(request, outputs[at])
                at += 1
        self.left -= steps
        return perf_counter_ns() - begin

    def steps(self, count):
        if self.left < count:
            self.start_epoch()
        held = sum(map(self.engine.held, self.requests))
        ns = self.run(count)
        return {"ns": ns, "taken": sum(map(self.engine.held, self.requests)) - held}


def main():
    engines = {"textbook": Textbook, "vllm": Vllm}
    batch = None
    for line in sys.stdin:
        command, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if command in engines:
            batch = Batch(engines[command], *numbers)
            answer = {"live": batch.live}
        elif command == "steps" and batch:
            answer = batch.steps(*numbers)
        else:
            sys.exit(f"decode_steps: {command}: expected textbook, vllm or, after them, steps")
        print(*(f"{key}={value}" for key, value in answer.items()), flush=True)


if __name__ == "__main__":
    main()
