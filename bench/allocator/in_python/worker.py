# SPDX-License-Identifier: Apache-2.0
"""The textbook allocator behind lines of text, for programs that measure it or compare with it.
Each line is a command and its arguments; each answer is one line: words of key=value. Tokens are
hexadecimal, as they lie in memory.

    start HASH NUM_BLOCKS LIVE SEED       HASH is pickle or bytes; LIVE requests at a time
    batch PROMPT OUTPUT PROMPTS OUTPUTS   lives of requests, tokens of each and all of them: the
                                          processor time of all
    phases PROMPT OUTPUT PROMPTS OUTPUTS  the same in parts: the median time of a request
    pool COUNT ROUNDS                     single operations on COUNT blocks: the median round
    arrive NAME TOKENS | admit NAME COUNT | append NAME TOKENS | step NAME | free NAME | finish NAME
"""

import sys
from array import array
from statistics import median
from time import perf_counter_ns, process_time_ns

from allocator import Allocator, hash_bytes, hash_pickled

BLOCK_SIZE = 16
HASHES = {"pickle": hash_pickled, "bytes": hash_bytes}


def tokens_of(text):
    return array("i", bytes.fromhex(text)).tolist()


class Worker:
    def start(self, hash_name, num_blocks, live, seed):
        self.allocator = Allocator(int(num_blocks), BLOCK_SIZE, HASHES[hash_name], int(seed))
        self.live = [None] * int(live)
        self.served = 0
        self.requests = {}
        return {}

    # ---- whole lives ----

    def admit_one(self, prompt):
        allocator = self.allocator
        request = allocator.arrive(prompt)
        found = allocator.lookup(request)
        taken = allocator.allocate(request, len(prompt) - len(found) * BLOCK_SIZE, found)
        if taken is None:
            raise MemoryError("an admission was refused")
        allocator.advance(request, len(prompt))
        self.hits += len(found)
        self.taken += taken
        return request

    def decode(self, request, outputs):
        allocator = self.allocator
        computed = request.num_computed
        for token in outputs:
            allocator.append(request, token)
            taken = allocator.allocate(request, 1)
            if taken is None:
                raise MemoryError("a decode step was refused")
            self.taken += taken
            computed += 1
            allocator.advance(request, computed)

    def finish_oldest(self, request):
        blocks = request.blocks
        self.checksum = (self.checksum * 31 + blocks[0].block_id * 7 + blocks[-1].block_id) % 2**64
        place = self.served % len(self.live)
        if self.live[place] is not None:
            self.allocator.free(self.live[place])
        self.live[place] = request
        self.served += 1

    def prompts(self, prompt, output, prompts, outputs):
        self.hits = self.taken = self.checksum = 0
        prompt, output = int(prompt), int(output)
        prompts, outputs = tokens_of(prompts), tokens_of(outputs)
        return [(prompts[i * prompt:(i + 1) * prompt], outputs[i * output:(i + 1) * output])
                for i in range(len(prompts) // prompt)]

    def counts(self, **times):
        return {**times, "hits": self.hits, "taken": self.taken, "checksum": self.checksum,
                "free": self.allocator.pool.queue.num_free}

    def batch(self, *arguments):
        lives = self.prompts(*arguments)
        begin = process_time_ns()
        for prompt, outputs in lives:
            request = self.admit_one(prompt)
            self.decode(request, outputs)
            self.finish_oldest(request)
        return self.counts(ns=process_time_ns() - begin)

    def phases(self, *arguments):
        times = {"admission": [], "decode": [], "finish": []}
        for prompt, outputs in self.prompts(*arguments):
            begin = perf_counter_ns()
            request = self.admit_one(prompt)
            admitted = perf_counter_ns()
            self.decode(request, outputs)
            decoded = perf_counter_ns()
            self.finish_oldest(request)
            times["finish"].append(perf_counter_ns() - decoded)
            times["admission"].append(admitted - begin)
            times["decode"].append(decoded - admitted)
        return self.counts(**{part: int(median(ns)) for part, ns in times.items()})

    # ---- single operations ----

    def pool(self, count, rounds):
        """The median of the rounds. The blocks carry content, and keep it."""
        allocator, pool = self.allocator, self.allocator.pool
        count, rounds = int(count), int(rounds)
        tokens = list(range(count * BLOCK_SIZE))
        request = allocator.arrive(tokens)
        allocator.allocate(request, len(tokens))
        blocks, keys = request.blocks, request.hashes
        allocator.free(request)
        times = {"hash": [], "lookup": [], "touch_release": [], "take_release": []}
        sum_of_ids = 0
        for _ in range(rounds):
            begin = perf_counter_ns()
            allocator.arrive(tokens)
            hashed = perf_counter_ns()
            found = [pool.find(key) for key in keys]
            looked_up = perf_counter_ns()
            pool.touch(found)
            pool.release(found)
            touched = perf_counter_ns()
            blank = pool.take(count)
            pool.release(blank)
            taken = perf_counter_ns()
            times["hash"].append(hashed - begin)
            times["lookup"].append(looked_up - hashed)
            times["touch_release"].append(touched - looked_up)
            times["take_release"].append(taken - touched)
            sum_of_ids += sum(block.block_id for block in found) + blank[0].block_id
        assert [block.block_id for block in found] == [block.block_id for block in blocks]
        return {**{part: int(median(ns)) for part, ns in times.items()}, "checksum": sum_of_ids}

    # ---- one request at a time, for a comparison ----

    def state(self, name, **more):
        request = self.requests.get(name)
        table = request.blocks if request else []
        return {**more, "free": self.allocator.pool.queue.num_free,
                "table": ",".join(str(block.block_id) for block in table)}

    def arrive(self, name, tokens):
        self.requests[name] = self.allocator.arrive(tokens_of(tokens))
        return self.state(name)

    def admit(self, name, count):
        """Of `count` tokens behind what is found."""
        request = self.requests[name]
        found = self.allocator.lookup(request)
        end = min(len(found) * BLOCK_SIZE + int(count), len(request.tokens))
        taken = self.allocator.allocate(request, end - len(found) * BLOCK_SIZE, found)
        if taken is not None:
            self.allocator.advance(request, end)
        return self.state(name, hit=len(found), taken=-1 if taken is None else taken)

    def append(self, name, tokens):
        for token in tokens_of(tokens):
            self.allocator.append(self.requests[name], token)
        return self.state(name)

    def step(self, name):
        request = self.requests[name]
        taken = self.allocator.allocate(request, 1)
        if taken is not None:
            self.allocator.advance(request, request.num_computed + 1)
        return self.state(name, taken=-1 if taken is None else taken)

    def free(self, name):
        self.allocator.free(self.requests[name])
        return self.state(name)

    def finish(self, name):
        self.allocator.free(self.requests.pop(name))
        return self.state(name)


COMMANDS = ("start", "batch", "phases", "pool", "arrive", "admit", "append", "step", "free",
            "finish")


def main():
    worker = Worker()
    for line in sys.stdin:
        command, *arguments = line.split()
        if command not in COMMANDS:
            sys.exit(f"worker: {command}: expected one of {' '.join(COMMANDS)}")
        answer = getattr(worker, command)(*arguments)
        print(*(f"{key}={value}" for key, value in answer.items()), flush=True)


if __name__ == "__main__":
    main()
