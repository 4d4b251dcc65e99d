# SPDX-License-Identifier: Apache-2.0
"""An engine's allocator behind lines of text, in the Python of its environment. Each line is a
command and its arguments; each answer is one line: words of key=value. Our own answers the same
lines (our_allocator.cpp), and makes the same tokens.

    start ENGINE BLOCKS LIVE PREFIXES SEED   a pool on which LIVE requests at a time have lived long
    life LIVE     LIVE requests of 1,024 tokens, the first 512 shared, take the place of LIVE that
                  finish, one after the other; then all decode 256 tokens in lockstep
    steps COUNT   so many steps of a batch of LIVE requests in lockstep
    hit COUNT     admissions of a prompt that is cached but for its last block; each finishes

`ns` is the time of all, `hits` [tokens] and `taken` [blocks] what was decided; `calls` and
`inner_ns`, where an engine is behind a binding, are of the same command once more.

Python finds the adapters of engines by PYTHONPATH.
"""

import sys
from time import perf_counter_ns

from in_python import decode_steps

BLOCK_SIZE, PROMPT, PREFIX, OUTPUT = 16, 1024, 512, 256
WHOLE = 2 ** 64 - 1


class Traffic:
    """Tokens by their number."""

    def __init__(self, seed, prefixes):
        self.seed, self.next = seed, 0
        self.prefixes = [self.fresh(PREFIX) for _ in range(prefixes)]

    def number(self):
        x = (self.next * 0x9E3779B97F4A7C15 + self.seed) & WHOLE
        self.next += 1
        x = ((x ^ x >> 29) * 0xBF58476D1CE4E5B9) & WHOLE
        return x ^ x >> 32

    def fresh(self, count):
        return [self.number() & 0x1FFFF for _ in range(count)]

    def prompt(self):
        return self.prefixes[self.number() % len(self.prefixes)] + self.fresh(PROMPT - PREFIX)


class Vllm(decode_steps.Vllm):
    """What its scheduler does with the KV cache. A batch is a loop over its requests."""

    def __init__(self, blocks, live):
        super().__init__(blocks, PROMPT + OUTPUT + BLOCK_SIZE)
        self.names = 0

    def admit(self, prompt):
        """@return the request, and the tokens of it that were found"""
        self.names += 1
        self.begin_step()
        request = self.request_of({"req": f"r{self.names}", "tokens": prompt}, {}, self,
                                  self.hasher)
        blocks, found, *_ = self.manager.get_computed_blocks(request)
        if self.manager.allocate_slots(request, len(prompt) - found, found, blocks) is None:
            raise MemoryError("an admission was refused")
        request.num_computed_tokens = len(prompt)
        return request, found

    def step(self, requests, tokens):
        self.begin_step()
        for request, token in zip(requests, tokens):
            super().step(request, token)

    def inside(self):
        """Nothing of it is behind a binding."""


class Sglang:
    """What its scheduler does with the tree and the pages. Pages that hold what the tree has
    already are given back when a prompt is published."""

    def __init__(self, blocks, live):
        sys.argv[1:] = []
        import sglang_unified as adapter
        import torch
        from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
        last = (torch.float32, "cpu", None, False)
        tokens = (blocks - 1) * BLOCK_SIZE
        parts = adapter.Sglang.build.__globals__
        self.schedule, self.allocation = parts["schedule_batch"], parts["allocation"]
        self.common, self.sampling = parts["common"], parts["Nothing"]("Sampling")
        self.torch, self.namespace = torch, parts["SimpleNamespace"]
        self.pool = parts["paged"].PagedTokenToKVPoolAllocator(tokens, BLOCK_SIZE, *last)
        self.rows = ReqToTokenPool(live + 2, PROMPT + OUTPUT + BLOCK_SIZE, "cpu", False)
        self.tree = adapter.UnifiedRadixCache(adapter.CacheInitParams(
            False, self.rows, self.pool, BLOCK_SIZE, tree_components=(adapter.ComponentType.FULL,)))
        self.names = 0

    def batch(self, requests, begins, ends):
        lengths = self.torch.tensor(ends)
        rows = self.torch.tensor([request.kv.req_pool_idx or 0 for request in requests])
        extends = [end - begin for begin, end in zip(begins, ends)]
        return self.namespace(
            reqs=requests, device="cpu", req_to_token_pool=self.rows, tree_cache=self.tree,
            hisparse_coordinator=None, maybe_evict_swa=lambda: None, is_dllm=lambda: False,
            prefix_lens=begins, extend_lens=extends, extend_num_tokens=sum(extends),
            seq_lens=lengths, seq_lens_cpu=lengths, req_pool_indices=rows,
            req_pool_indices_cpu=rows,
            model_config=self.namespace(is_encoder_decoder=False))

    def admit(self, prompt):
        from array import array
        self.names += 1
        request = self.schedule.Req(f"r{self.names}", "", array("q", prompt), self.sampling)
        request.init_next_round_input(self.tree)
        request.lock = self.tree.lock(request.last_node)
        found = request.kv.cache_protected_len = request.prefix_len
        request.extend_end = len(prompt)
        self.room(len(prompt) - found)
        self.allocation.alloc_for_extend(self.batch([request], [found], [len(prompt)]))
        self.common.checkpoint_kv_cache(request, self.tree)
        request.length = len(prompt)
        return request, found

    def room(self, tokens):
        if not self.pool.check_decode_capacity(num_tokens=tokens, tree_cache=self.tree):
            raise MemoryError("no room is left")

    def step(self, requests, tokens):
        lengths = [request.length for request in requests]
        pages = sum(length % BLOCK_SIZE == 0 for length in lengths)
        self.room(pages * BLOCK_SIZE)
        self.allocation.alloc_for_decode_default(self.batch(requests, lengths, lengths), 1)
        for request, token in zip(requests, tokens):
            request.output_ids.append(token)
            request.length += 1

    def finish(self, request):
        self.common.release_kv_cache(request, self.tree, checkpoint=True)

    def held(self, request):
        return -(-request.length // BLOCK_SIZE)

    def inside(self):
        """@return the kind of the object whose calls go into Rust"""
        return type(self.tree.tree_core._binding)


class Tvm:
    """What MLC-LLM does with the KV cache around a forward, without the forward's kernels."""

    def __init__(self, blocks, live):
        import tvm_kernels
        from timeit import timeit
        self.shape = tvm_kernels.Shape
        cache = tvm_kernels.Cache(blocks, BLOCK_SIZE, live * (PROMPT + OUTPUT), False)
        self.add, self.remove = cache.add_sequence, cache.remove_sequence
        self.begin, self.end = cache.begin_forward, cache.end_forward
        nothing = tvm_kernels.tvm.get_global_func("testing.nop")
        self.call_ns = min(timeit(nothing, number=1000) for _ in range(9)) * 1e6
        self.lengths, self.calls = {}, 0

    def forward(self, names, counts):
        self.begin(self.shape(names), self.shape(counts), None)
        self.end()
        self.calls += 2

    def admit(self, prompt):
        name = self.calls  # no two sequences have one name
        self.lengths[name] = len(prompt)
        self.add(name)
        self.calls += 1
        self.forward([name], [len(prompt)])
        return name, 0

    def step(self, names, tokens):
        self.forward(names, [1] * len(names))
        for name in names:
            self.lengths[name] += 1

    def finish(self, name):
        self.remove(name)
        self.calls += 1
        del self.lengths[name]

    def held(self, name):
        return -(-self.lengths[name] // BLOCK_SIZE)

    def inside(self):
        """Its calls are no methods that the hook of Python sees: they are counted in here."""


ENGINES = {"vLLM": Vllm, "SGLang": Sglang, "TVM": Tvm}


class Inside:
    """Counts the calls into a compiled object and the time in them, by Python's own hook."""

    def __init__(self, kind):
        self.kind, self.calls, self.ns, self.since = kind, 0, 0, None

    def __call__(self, frame, event, function):
        if event == "c_call" and isinstance(getattr(function, "__self__", None), self.kind):
            self.since = perf_counter_ns()
        elif event == "c_return" and self.since is not None and isinstance(
                getattr(function, "__self__", None), self.kind):
            self.ns += perf_counter_ns() - self.since
            self.calls, self.since = self.calls + 1, None


class Worker:
    def __init__(self, engine, blocks, live, prefixes, seed):
        self.engine, self.live = ENGINES[engine](blocks, live), live
        self.traffic, self.running = Traffic(seed, prefixes), []
        for _ in range(0, 4 * blocks // (PROMPT // BLOCK_SIZE), live):
            self.life(live)

    def perform(self, command, count):
        self.hits = self.taken = 0
        before = getattr(self.engine, "calls", 0)
        ns = {"life": self.life, "steps": self.steps, "hit": self.hit}[command](count)
        said = {"ns": ns, "hits": self.hits, "taken": self.taken}
        if before:
            calls = self.engine.calls - before
            said |= {"calls": calls, "inner_ns": int(ns - calls * self.engine.call_ns)}
        if kind := self.engine.inside():
            inside = Inside(kind)
            self.hook = inside
            {"life": self.life, "steps": self.steps, "hit": self.hit}[command](count)
            self.hook = None
            said |= {"calls": inside.calls, "inner_ns": inside.ns}
        return said
    hook = None

    def timed(self, work):
        sys.setprofile(self.hook)
        begin = perf_counter_ns()
        work()
        took = perf_counter_ns() - begin
        sys.setprofile(None)
        return took

    def life(self, _):
        prompts = [self.traffic.prompt() for _ in range(self.live)]
        outputs = [self.traffic.fresh(self.live) for _ in range(OUTPUT)]
        admitted, old = [], self.running

        def work():
            for i, prompt in enumerate(prompts):
                if old:
                    self.engine.finish(old[i])
                admitted.append(self.engine.admit(prompt))
            self.running = [request for request, _ in admitted]
            for tokens in outputs:
                self.engine.step(self.running, tokens)
        took = self.timed(work)
        self.hits = sum(hit for _, hit in admitted)
        self.taken = sum(map(self.engine.held, self.running)) - self.hits // BLOCK_SIZE
        return took

    def finish_all(self):
        for request in self.running:
            self.engine.finish(request)
        self.running = []

    def steps(self, count):
        self.finish_all()
        for i in range(self.live):
            self.running.append(self.engine.admit(self.traffic.fresh(OUTPUT + i % BLOCK_SIZE))[0])
        tokens = [self.traffic.fresh(self.live) for _ in range(count)]
        before = sum(map(self.engine.held, self.running))

        def work():
            for each in tokens:
                self.engine.step(self.running, each)
        took = self.timed(work)
        self.hits, self.taken = 0, sum(map(self.engine.held, self.running)) - before
        self.finish_all()
        return took

    def hit(self, count):
        prompt = self.traffic.fresh(PROMPT)
        self.engine.finish(self.engine.admit(prompt)[0])
        found = []

        def work():
            for _ in range(count):
                request, hit = self.engine.admit(prompt)
                found.append(hit)
                self.engine.finish(request)
        took = self.timed(work)
        self.hits = sum(found)
        self.taken = count * (PROMPT // BLOCK_SIZE) - self.hits // BLOCK_SIZE
        return took


def main():
    start, engine, *numbers = sys.stdin.readline().split()
    worker = Worker(engine, *map(int, numbers))
    print("ready=1", flush=True)
    for line in sys.stdin:
        command, count = line.split()
        answer = worker.perform(command, int(count))
        print(*(f"{key}={value}" for key, value in answer.items()), flush=True)


if __name__ == "__main__":
    main()
