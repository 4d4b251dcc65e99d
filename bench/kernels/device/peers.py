# SPDX-License-Identifier: Apache-2.0
"""Measures our kernels beside PyTorch's, cuDNN's (through PyTorch) and FlashInfer's, interleaved in
the same rounds on the same tensors. Prints one result a line, as JSON, as soon as it has it.

An output is held against double precision before anything is timed. L2 holds other bytes before
every launch. What a peer prepares for a batch once (contiguous copies, FlashInfer's plan) and what
Python takes to queue a launch are not timed; of several forms, ours too, the fastest counts. Cycles
stand beside times: a card that draws too much power lowers its clock. A peer that cannot be had or
is wrong has `not_comparable` with the reason; tracebacks go to stderr.

Exit codes: 0 measured, 1 something went wrong on the device, 2 usage, 77 no PyTorch or no device.
"""

import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import traceback
from dataclasses import asdict, dataclass

PEERS = ("PyTorch", "cuDNN", "FlashInfer")
ROWS = ("cuda/wgmma", "cuda/mma")  # ours, where warps multiply
LATENT, ROPE, HEAD = 512, 64, 128  # [elements]
FLUSH_BYTES = 2 << 30  # far more than any L2; reading it takes longer than to queue a launch
# Why we are behind, where it is known: (operation, cache type).
WGMMA = "warps multiply by themselves (mma.sync), not in Hopper's groups of four (wgmma)"
BINDS = {("prefill", "bf16"): WGMMA, ("mla", "bf16"): WGMMA}


@dataclass(frozen=True)
class Case:
    operation: str  # decode, prefill, mla, write
    batch: int
    context: int = 4096  # [tokens] of each sequence, the new ones included
    heads: int = 32
    kv_heads: int = 8
    new: int = 1  # [tokens] of each sequence
    block_size: int = 16
    cache_type: str = "bf16"

    @property
    def name(self):
        return (f"{self.operation} {self.batch} x {self.context}, {self.new} new, "
                f"{self.heads}/{self.kv_heads} heads, block {self.block_size}, {self.cache_type}")

    @property
    def bytes(self):
        """What must be read (and written, if the operation writes)."""
        row = LATENT + ROPE if self.operation == "mla" else 2 * self.kv_heads * HEAD
        size = 1 if self.cache_type == "fp8_e4m3" else 4 if self.operation == "write" else 2
        return self.batch * self.context * row * size


def cases(smoke):
    """The most important cases come first, because a run may be cut off."""
    if smoke:
        return [Case("decode", 4, 1024)]
    return [
        *(Case("decode", batch) for batch in (32, 1, 4, 256)),
        Case("decode", 4, 32768), Case("decode", 1, 131072),
        *(Case("prefill", 1, context, new=new) for context, new in ((6144, 2048), (4096, 4096))),
        *(Case("mla", 32, heads=heads, kv_heads=1) for heads in (16, 128)),
        Case("write", 16, 1024, new=1024),
        *(Case("decode", 32, heads=8 * ratio) for ratio in (1, 8, 16)),
        Case("decode", 32, block_size=64), Case("decode", 32, cache_type="fp8_e4m3")]


def turns(names, rounds):
    """The order of each round; every round begins with another."""
    return [names[i % len(names):] + names[:i % len(names)] for i in range(rounds)]


def metric(values, unit):
    return {"value": statistics.median(values), "unit": unit, "min": min(values),
            "max": max(values)}


def best_of(times, name):
    """@return (name, form) of the fastest form, or None"""
    return min((key for key in times if key[0] == name),
               key=lambda key: statistics.median(times[key]), default=None)


def result_of(case, peer, version, times, reasons, copy_bytes_per_us, cycles=None):
    """@param times (name, form) -> its rounds [us], ours under "kvproof"
    @param reasons why forms of this peer, or ours, have no times, each with its form
    @param cycles as times, where they are known"""
    ours, theirs = best_of(times, "kvproof"), best_of(times, peer)
    parameters = {"peer": peer, "peer_version": version, "case": case.name, **asdict(case)}
    metrics, shown = {}, {"": ours} if ours else {}
    forms = [form for name, form in times if name == "kvproof"]
    for form in forms if len(forms) > 1 else []:
        metrics[form.split("/")[-1] + "_time"] = metric(times["kvproof", form], "us")
    if ours and theirs:
        parameters["our_form"], parameters["form"], shown["peer_"] = ours[1], theirs[1], theirs
        ratios = metric([a / b for a, b in zip(times[ours], times[theirs])], "ratio")
        metrics["ours_over_peer"] = ratios
        if (ratios["value"] > 1 and ours[1] == "cuda/mma"
                and (case.operation, case.cache_type) in BINDS):
            parameters["binds"] = BINDS[case.operation, case.cache_type]
        if reasons:  # forms of the peer that could not be had
            parameters["without"] = "; ".join(reasons)[:900]
    else:
        parameters["not_comparable"] = "; ".join(reasons or ["no form"])[:900]
    for prefix, key in shown.items():
        found = times[key]
        metrics[prefix + "time"] = metric(found, "us")
        if cycles and any(cycles[key]):
            metrics[prefix + "cycles"] = metric(cycles[key], "cycles")
        if case.operation != "prefill":
            metrics[prefix + "fraction_of_copy_bandwidth"] = metric(
                [case.bytes / time / copy_bytes_per_us for time in found], "ratio")
    return {"experiment": "device_peers", "parameters": parameters, "metrics": metrics}


def reference(torch, query, key, value, seen, scale):
    """Attention in double precision, and the sum of weights times absolute values.
    @param query [rows, heads, size] @param key, value [tokens, KV heads, size]
    @param seen [rows] how many tokens each row sees"""
    key, value = key.float().double(), value.float().double()
    rows = query.double().view(len(query), key.shape[1], -1, query.shape[-1])
    scores = torch.einsum("rkgd,nkd->rkgn", rows, key) * scale
    hidden = torch.arange(len(key), device=key.device) >= seen[:, None]
    weights = scores.masked_fill(hidden[:, None, None], -math.inf).softmax(-1)
    return [torch.einsum("rkgn,nkd->rkgd", weights, by).flatten(1, 2)
            for by in (value, value.abs())]


class Tensors:
    """The inputs of a case, which all implementations share."""

    def __init__(self, torch, case, device):
        self.torch, self.case, self.device = torch, case, device
        generator = torch.Generator(device).manual_seed(1)
        self.each = case.context // case.block_size
        blocks = case.batch * self.each
        self.rows = case.batch * case.new

        def draw(*shape):
            made = torch.empty(shape, device=device, dtype=torch.bfloat16)
            return made.uniform_(-1, 1, generator=generator)
        self.tables = torch.randperm(blocks, generator=generator, device=device,
                                     dtype=torch.int32).view(case.batch, self.each)
        if case.operation == "mla":
            self.key = draw(blocks, case.block_size, 1, LATENT + ROPE)
            self.value = self.key[..., :LATENT]
        else:
            self.key, self.value = (draw(blocks, case.block_size, case.kv_heads, HEAD)
                                    for _ in range(2))
        if case.cache_type == "fp8_e4m3":
            self.key, self.value = (x.to(torch.float8_e4m3fn) for x in (self.key, self.value))
        if case.operation == "write":
            self.new_key, self.new_value = (draw(self.rows, case.kv_heads, HEAD)
                                            for _ in range(2))
            inside = torch.arange(case.block_size, device=device)
            self.slots = (self.tables.view(-1, 1).long() * case.block_size + inside).flatten()
        self.query = draw(self.rows, case.heads, self.key.shape[-1])
        self.lens = self.whole([case.context] * case.batch)
        # Scores with a deviation of 3: few tokens matter, so that a wrong one shows.
        self.scale = 9 / math.sqrt(self.key.shape[-1])

    def whole(self, numbers):
        return self.torch.tensor(list(numbers), dtype=self.torch.int32, device=self.device)

    def output(self):
        return self.torch.empty(self.rows, self.case.heads, self.value.shape[-1],
                                dtype=self.torch.bfloat16, device=self.device)

    def gather(self, cache, tables):
        """The tokens of these blocks, one after the other. @return [tokens, KV heads, size]"""
        bits = cache.view(self.torch.uint8) if cache.itemsize == 1 else cache
        return bits[tables.flatten().long()].view(cache.dtype).flatten(0, 1)

    def contiguous(self):
        """K and V as PyTorch wants them. @return [batch, KV heads, tokens, size] of each"""
        def plain(cache):
            rows = self.gather(cache, self.tables).unflatten(0, (self.case.batch, -1))
            return rows.transpose(1, 2).contiguous()
        key = plain(self.key)
        return key, key[..., :LATENT] if self.case.operation == "mla" else plain(self.value)

    def check(self, output):
        """Raises unless a few rows are as exact as bf16 allows, or all that was written is there.
        @param output [rows, heads, size], or as PyTorch has it"""
        if self.case.operation == "write":
            for cache, rows in ((self.key, self.new_key), (self.value, self.new_value)):
                if not self.torch.equal(cache.flatten(0, 1)[self.slots], rows):
                    raise ValueError("the cache does not hold what was written")
                cache.zero_()
            return
        if output.dim() == 4:
            output = output[0].transpose(0, 1) if self.case.operation == "prefill" else (
                output.reshape(self.rows, self.case.heads, -1))
        for sequence in sorted({0, self.case.batch - 1}):
            places = self.whole(sorted({0, self.case.new // 2, self.case.new - 1})).long()
            chosen = sequence * self.case.new + places
            exact, magnitude = reference(
                self.torch, self.query[chosen], self.gather(self.key, self.tables[sequence]),
                self.gather(self.value, self.tables[sequence]),
                self.case.context - self.case.new + places + 1, self.scale)
            off = (output[chosen].double() - exact).abs()
            if not bool((off <= 2 ** -7 * (magnitude + exact.abs())).all()):
                raise ValueError(f"sequence {sequence} is off by up to {float(off.max()):.3g}")


def our_form(t, library, threads=0, is_hnd=False, row="cuda/mma"):
    """@param threads of the CPU, where the tensors are there @param row of a device's kernels
    @return the launch, which returns what `check` takes"""
    torch, c = t.torch, t.case
    key, value = (cache.transpose(1, 2).contiguous() if is_hnd else cache
                  for cache in (t.key, t.value))

    def call(name, output, *arguments):
        function = getattr(library, "kvproof_" + name)
        function.restype = ctypes.c_char_p
        converted = [ctypes.c_int32(a) if isinstance(a, int) else ctypes.c_float(a)
                     if isinstance(a, float) else ctypes.c_char_p(a) if isinstance(a, bytes)
                     else ctypes.c_void_p(a if a is None else a.data_ptr())
                     for a in arguments]

        def launch(kept=arguments):  # so that the tensors live as long
            refusal = function(*converted)
            if refusal:
                raise RuntimeError(refusal.decode())
            return output
        return launch

    if c.operation == "write":
        return call("write", None, t.new_key, t.new_value, t.key, t.value, t.slots, t.rows,
                    c.kv_heads, HEAD, c.block_size, threads)
    splits, starts, is_mla = 1, None, c.operation == "mla"
    if c.operation == "prefill":
        starts = t.whole(range(0, t.rows + 1, c.new))
    elif not threads:
        processors = torch.cuda.get_device_properties(t.device).multi_processor_count
        splits = library.kvproof_splits(is_mla, c.batch, c.heads if is_mla else c.kv_heads,
                                        c.context, processors)
    output = t.output()
    scratch = [torch.empty(t.rows * c.heads * splits * size, device=t.device)
               for size in (t.value.shape[-1], 1)]
    scratch.append(torch.zeros((t.rows + c.batch) * c.heads, dtype=torch.int32, device=t.device))
    return call("attention", output, key, value, t.tables, t.lens, starts, t.query, output,
                *scratch, c.batch, t.rows, t.each, c.heads, c.kv_heads, t.key.shape[-1],
                t.value.shape[-1], c.block_size, int(c.cache_type != "bf16"), splits, t.scale,
                int(is_hnd), row.encode(), threads)


def our_forms(t, library):
    """@return form -> what makes the launch, on a device"""
    rows = {"write": ("cuda/vector",), "decode": ("cuda/mma",)}.get(t.case.operation, ROWS)
    return {row: lambda row=row: our_form(t, library, row=row) for row in rows}


def refuse(reason):
    raise NotImplementedError(reason)


def torch_forms(t, cudnn=False):
    """@return form -> what makes the launch: those of cuDNN, or all others"""
    torch, c = t.torch, t.case
    if c.operation == "write":
        if cudnn:
            refuse("cuDNN writes into no cache")
        def put():
            t.key.flatten(0, 1)[t.slots] = t.new_key
            t.value.flatten(0, 1)[t.slots] = t.new_value
        return {"index_put_": lambda: put}
    if c.cache_type != "bf16":
        refuse("scaled_dot_product_attention takes no fp8 cache")
    from torch.nn.attention import SDPBackend, bias, sdpa_kernel
    key, value = t.contiguous()
    ratio = c.heads // c.kv_heads

    def make(backend, how):
        k, v = (x.repeat_interleave(ratio, 1) if how == "repeated" else x for x in (key, value))
        shape = (c.kv_heads, ratio) if how == "folded" else (c.heads, 1)
        query = (t.query.transpose(0, 1)[None].contiguous() if c.operation == "prefill"
                 else t.query.view(c.batch, *shape, -1))
        mask = bias.causal_lower_right(c.new, c.context) if c.operation == "prefill" else None

        def launch():
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(
                    query, k, v, attn_mask=mask, scale=t.scale, enable_gqa=how == "gqa")
        return launch

    ways = {"decode": ("folded", "gqa"), "prefill": ("gqa", "repeated"), "mla": ("folded",)}
    return {f"{name} {how}": lambda b=backend, h=how: make(b, h)
            for name, backend in (("flash", SDPBackend.FLASH_ATTENTION),
                                  ("cudnn", SDPBackend.CUDNN_ATTENTION),
                                  ("efficient", SDPBackend.EFFICIENT_ATTENTION),
                                  ("math", SDPBackend.MATH))
            for how in ways[c.operation]
            if (name == "cudnn") == cudnn and (name != "math" or c.operation == "mla")}


def flashinfer_forms(t, flashinfer, workspace):
    """@return form -> what makes the launch"""
    c, output = t.case, t.output()
    indptr, indices = t.whole(range(0, c.batch * t.each + 1, t.each)), t.tables.flatten()
    last, starts = t.whole([c.block_size] * c.batch), t.whole(range(0, t.rows + 1, c.new))
    types = {"q_data_type": t.query.dtype, "kv_data_type": t.key.dtype, "sm_scale": t.scale}

    def decode(cores, backend):
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            workspace, "NHD", use_tensor_cores=cores, backend=backend)
        wrapper.plan(indptr, indices, last, c.heads, c.kv_heads, HEAD, c.block_size, **types)
        return lambda: wrapper.run(t.query, (t.key, t.value), out=output)

    def prefill(backend):
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, "NHD",
                                                                 backend=backend)
        wrapper.plan(starts, indptr, indices, last, c.heads, c.kv_heads, HEAD, c.block_size,
                     causal=True, **types)
        return lambda: wrapper.run(t.query, (t.key, t.value), out=output)

    def mla(backend):
        from flashinfer.mla import BatchMLAPagedAttentionWrapper
        wrapper = BatchMLAPagedAttentionWrapper(workspace, backend=backend)
        wrapper.plan(qo_indptr=starts, kv_indptr=indptr, kv_indices=indices, kv_len_arr=t.lens,
                     num_heads=c.heads, head_dim_ckv=LATENT, head_dim_kpe=ROPE,
                     page_size=c.block_size, causal=False, **types)
        cache = t.key[:, :, 0]
        return lambda: wrapper.run(
            q_nope=t.query[..., :LATENT], q_pe=t.query[..., LATENT:],
            ckv_cache=cache[..., :LATENT], kpe_cache=cache[..., LATENT:], out=output)

    def write():
        token = t.torch.arange(t.rows, dtype=t.torch.int32, device=t.device)
        sequences, positions = token // c.context, token % c.context
        return lambda: flashinfer.append_paged_kv_cache(
            t.new_key, t.new_value, sequences, positions, (t.key, t.value), indices, indptr, last)
    return {
        "decode": {"CUDA cores": lambda: decode(False, "auto"),
                   "tensor cores": lambda: decode(True, "fa2"),
                   "tensor cores, fa3": lambda: decode(True, "fa3")},
        "prefill": {name: lambda name=name: prefill(name) for name in ("fa2", "fa3")},
        "mla": {name: lambda name=name: mla(name) for name in ("fa2", "fa3")},
        "write": {"append_paged_kv_cache": write}}[c.operation]


def clock_of(before, after):
    """[cycles per us], a median over the processors that were stamped twice, 0 if none was.
    @param before, after [cycles, ns] of each; 0, 0 where no block ran"""
    clocks = [(end - begin) / (late - early) * 1000
              for (begin, early), (end, late) in zip(before, after) if 0 < early < late]
    return statistics.median(clocks) if clocks else 0


class Stopwatch:
    """Its `cycles` are those of the last call of `time`, in the same order."""

    def __init__(self, torch, library):
        self.torch, self.library, self.cycles = torch, library, {}
        self.processors = torch.cuda.get_device_properties("cuda").multi_processor_count
        self.stamps = torch.zeros(2, self.processors, 2, dtype=torch.int64, device="cuda")
        self.flush = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def stamp(self, at):
        self.library.kvproof_stamp_clocks(ctypes.c_void_p(self.stamps[at].data_ptr()),
                                          self.processors)

    def once(self, launch):
        """[us] and cycles of a launch that was queued whole before the device began it."""
        for reads in (1, 2, 4, 8):
            self.stamps.zero_()
            for _ in range(reads):
                self.flush.sum()  # reads: modified lines would be written back later
            self.stamp(0)
            self.start.record()
            launch()
            self.stop.record()
            self.stamp(1)
            is_queued = not self.start.query()
            self.stop.synchronize()
            if is_queued:
                break
        us = self.start.elapsed_time(self.stop) * 1000
        return us, us * clock_of(*self.stamps.tolist())

    def time(self, launches, rounds):
        found = {name: [] for name in launches}
        self.cycles = {name: [] for name in launches}
        for launch in launches.values():
            self.once(launch)
        for order in turns(list(launches), rounds):
            for name in order:
                us, cycles = self.once(launches[name])
                found[name].append(us)
                self.cycles[name].append(cycles)
        return found

    def copy_bytes_per_us(self, rounds):
        half = self.flush[:len(self.flush) // 2]
        to = self.torch.empty_like(half)
        found = self.time({"copy": lambda: to.copy_(half)}, rounds)
        return FLUSH_BYTES / statistics.median(found["copy"])


def why(error):
    text = f"{type(error).__name__}: {error}".strip()
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:300]


def measure(t, stopwatch, sources, rounds):
    """@param sources name -> what gives its forms @return times and reasons of result_of"""
    launches, reasons = {}, {}

    def tried(name, form, action):
        try:
            return action()
        except Exception as error:
            print(f"--- {t.case.name}: {name}, {form}", file=sys.stderr)
            traceback.print_exc()
            reasons.setdefault(name, []).append(f"{form}: {why(error)}".lstrip(": "))
    for name, forms_of in sources.items():
        for form, make in (tried(name, "", lambda: forms_of(t)) or {}).items():
            def checked():
                launch = make()
                t.check(launch())
                return launch
            launch = tried(name, form, checked)
            if launch:
                launches[name, form] = launch
    return tried("kvproof", "the rounds", lambda: stopwatch.time(launches, rounds)) or {}, reasons


def sources_of(torch, library):
    """@return name -> what gives its forms, peer -> its version"""
    sources = {"kvproof": lambda t: our_forms(t, library), "PyTorch": torch_forms,
               "cuDNN": lambda t: torch_forms(t, cudnn=True)}
    versions = {"PyTorch": torch.__version__, "cuDNN": str(torch.backends.cudnn.version()),
                "FlashInfer": "none"}
    try:
        import flashinfer
        versions["FlashInfer"] = flashinfer.__version__
        workspace = torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")
        sources["FlashInfer"] = lambda t: flashinfer_forms(t, flashinfer, workspace)
    except Exception as error:  # whatever an installation that is not whole raises
        traceback.print_exc()
        reason = f"cannot be imported: {why(error)}"
        sources["FlashInfer"] = lambda _: refuse(reason)
    return sources, versions


def main(arguments):
    parser = argparse.ArgumentParser(prog="peers.py", allow_abbrev=False, description=__doc__)
    parser.add_argument("--library", dest="path", required=True, help="libkvproof_python.so")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--skip", type=int, default=0, help="so many cases are measured already")
    options = parser.parse_args(arguments)
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch finds no CUDA device")
    except (ImportError, OSError) as error:
        print(why(error))
        return 77
    rounds = 3 if options.smoke else 15
    library = ctypes.CDLL(options.path)
    sources, versions = sources_of(torch, library)
    stopwatch = Stopwatch(torch, library)
    copy_bytes_per_us = stopwatch.copy_bytes_per_us(rounds)
    for number, case in enumerate(cases(options.smoke)[options.skip:], options.skip + 1):
        times, reasons, cycles = {}, {}, {}
        try:
            t = Tensors(torch, case, "cuda")
            times, reasons = measure(t, stopwatch, sources, rounds)
            cycles = stopwatch.cycles
        except Exception as error:
            traceback.print_exc()
            reasons = {"kvproof": [why(error)]}
        for peer in PEERS:
            ours = [] if best_of(times, "kvproof") else reasons.get("kvproof", [])
            print(json.dumps(result_of(case, peer, versions[peer], times,
                                       ours + reasons.get(peer, []), copy_bytes_per_us, cycles)),
                  flush=True)
        t = None
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception:  # after such an error a process can do nothing more on the device
            traceback.print_exc()
            sys.stderr.flush()
            os.execv(sys.executable, [sys.executable, __file__, f"--library={options.path}",
                                      f"--skip={number}", *["--smoke"] * options.smoke])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
