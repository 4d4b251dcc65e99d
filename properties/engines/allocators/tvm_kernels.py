# SPDX-License-Identifier: Apache-2.0
"""TVM's paged KV cache on a CPU: its own kernels, forwards of values that can be told apart, and
what is read back."""

import ctypes
import functools
import os
import subprocess

import numpy as np
import tvm
import tvm_ffi
from tvm.relax.frontend.nn.llm import kv_cache as llm
from tvm.s_tir import dlight
from tvm_ffi import Shape

LAYERS, HEADS, WIDTH, TYPE = 2, 2, 4, "float32"
# A value is written as 64 times itself and a mark, another one for each layer, head and element.
MARKS = np.arange(LAYERS * HEADS * WIDTH).reshape(LAYERS, HEADS, WIDTH)
SIZES = [1, 2, 4, 16]  # of pages
SIBLING = 8  # the token of a node that is not accepted
MOST_NODES = 256  # of a tree
# Headers that the wheel does not have, as far as the cache's source asks for them.
ANY = "template <class... T> bool {}(T&&...) {{ return false; }} "
HEADERS = {"serializer.h": "", "cuda/nvtx.h": "struct NVTXScopedRange {"
           "explicit NVTXScopedRange(const std::string&) {} };", "io.h": "struct Stream {"
           + "".join(map(ANY.format, ("Read", "Write", "ReadArray", "WriteArray"))) + "};"}


def built(function):
    target = tvm.target.Target.from_device(tvm.cpu())
    with target:
        module = dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(
            tvm.IRModule({"main": function}))
    return tvm.tirx.build(module["main"], target=target).main


def kernels():
    """@return by the size of pages: the kernels in the order of the cache's arguments"""
    heads, out = (HEADS, HEADS, WIDTH), {}
    ragged, paged_tree, tree, merge, rotate, read = map(built, (
        llm._attention_prefill_ragged_cpu(*heads, WIDTH, TYPE, {}),
        llm.tree_attn_with_paged_kv_cache_cpu(*heads, TYPE, {}),
        llm.tree_attn_cpu(*heads, TYPE, {}), llm._merge_state_inplace_cpu(TYPE),
        llm.llama_rope_with_position_map(1e4, 1.0, WIDTH, HEADS, HEADS, TYPE, {}),
        llm._kv_cache_debug_get_kv(LAYERS, HEADS, WIDTH, TYPE)))
    for size in SIZES:
        append, copy, compact, *attend = map(built, (
            llm._kv_cache_transpose_append(HEADS, WIDTH, TYPE, page_size=size),
            llm._copy_single_page_cpu(HEADS, size, WIDTH, TYPE),
            llm._compact_kv_copy_cpu(HEADS, WIDTH, TYPE, page_size=size),
            *(make(*heads, TYPE, window, {}, page_size=size) for window in (False, True)
              for make in (llm._attention_prefill_cpu, llm._attention_decode_cpu))))
        out[size] = (append, None, *(["tirx", f] for f in (ragged, *attend, paged_tree, tree)), [],
                     [merge], rotate, copy, read, compact)
    return out


def create():
    """@return what makes a cache; where its source, which is in the wheel, is another one in a copy
    of the wheel, it is compiled and takes the place of what the runtime has"""
    name, top = "vm.builtin.paged_attention_kv_cache_create", os.path.dirname(tvm.__file__)
    folder = os.path.join(top, "src", "runtime", "vm")
    source, library = (os.path.join(folder, file) for file in ("paged_kv_cache.cc", "changed.so"))
    if os.path.islink(tvm.__file__) and not os.path.islink(source):
        for file, text in HEADERS.items():
            path = os.path.join(folder, "tvm", "support", file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as header:
                header.write("#pragma once\n#include <string>\n"
                             f"namespace tvm::support {{{text}}}\n")
        include = os.path.join(os.path.dirname(tvm_ffi.__file__), "include")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-w", "-fPIC", "-shared",
                        "-fvisibility=hidden", "-Wl,-Bsymbolic", f"-I{folder}", f"-I{top}/include",
                        f"-I{include}", source, os.path.join(folder, "attn_backend.cc"), "-o",
                        library], check=True)
        tvm_ffi.registry.remove_global_func(name)
        ctypes.CDLL(library)
    return tvm.get_global_func(name)


KERNELS, CREATE = kernels(), create()


class Cache:
    """The cache, and what it tells its kernels about where tokens are."""

    def __init__(self, pages, size, longest, slides):
        *others, copy, read, compact = KERNELS[size]
        self.size, self.copies, self.places = size, [], []
        copies, places = self.copies, self.places  # a kernel that knew the cache would keep it

        def copy_page(tensor, source, target, length):
            copies.append((source, target))
            copy(tensor, source, target, length)

        def read_places(tensor, found, *more):
            places[:] = np.from_dlpack(found).tolist()
            read(tensor, found, *more)

        self.cache = CREATE(
            Shape([1, (pages - 1 - 2 * slides) * size, longest, size, slides]), Shape([0, LAYERS]),
            HEADS, HEADS, WIDTH, WIDTH, Shape([0] * LAYERS), False, 0, 1.0, 1e4, None,
            tvm.runtime.empty((), TYPE), *others, copy_page, read_places, compact)

    def __getattr__(self, name):
        """@return a function of the runtime, of this cache"""
        for prefix in ("kv_state_", "attention_kv_cache_"):
            if function := tvm.get_global_func(f"vm.builtin.{prefix}{name}", allow_missing=True):
                return functools.partial(function, self.cache)
        raise AttributeError(name)

    def fork(self, parent, child):
        """@return the pages that were copied, and where to"""
        self.copies.clear()
        self.fork_sequence(parent, child, -1)
        return sorted(set(self.copies))

    def fits(self, rows, start, tokens):
        """@return whether each token can have a sibling for as long as the forward lasts; in a
        batch it takes no page that would then go to another"""
        pages = [-(-(start + n * len(tokens)) // self.size) for n in (1, 2)]
        left = self.get_num_available_pages() - pages[0] + -(-start // self.size)
        return 2 * len(tokens) <= MOST_NODES and pages[1] - pages[0] <= left * (len(rows) == 1)

    def forward(self, rows):
        """Writes tokens in one batch of (sequence, positions that it keeps, first position, tokens,
        whether as a tree), and looks whether attention reads what it should: the mean of all V."""
        trees = []
        for _, _, start, tokens, branches in rows:
            branches = branches and self.fits(rows, start, tokens)
            tree, last = [], -1  # (token, position, parent)
            for position, token in enumerate(tokens, start):
                tree += [(SIBLING, position, last)] * branches + [(token, position, last)]
                last = len(tree) - 1
            trees.append(tree)
        if not rows:
            return
        sequences, nodes = Shape([row[0] for row in rows]), [n for tree in trees for n in tree]
        chains = all(node[2] == at - 1 for tree in trees for at, node in enumerate(tree))
        self.begin_forward(sequences, Shape([len(tree) for tree in trees]),
                           None if chains else Shape([parent for _, _, parent in nodes]))
        means = [np.mean([*row[1], *range(row[2], position + 1)])
                 for row, tree in zip(rows, trees) for _, position, _ in tree]
        token, position, mean = np.array([(*n[:2], mean) for n, mean in zip(nodes, means)]).T
        for marks, layer in zip(MARKS, range(LAYERS)):
            key, value, wanted = (64 * column[:, None, None] + marks
                                  for column in (token, position, mean))
            out = tvm.runtime.empty(value.shape, TYPE)
            data = np.concatenate([0 * key, key, value], 1).astype(TYPE)
            self.attention_with_fused_qkv(layer, 1.0, tvm.runtime.tensor(data), out)
            if not np.allclose(out.numpy(), wanted, 1e-5, 0.01):
                raise AssertionError(f"attention of {len(means)} rows reads others than it should")
        self.end_forward()
        if not chains:
            self.commit_accepted_token_tree_nodes(sequences, Shape([len(t) - 1 for t in trees]))

    def read(self, sequence, kept):
        """@return for each position that a sequence keeps its place, and the K and V read there"""
        if not kept:
            return {}
        both = [tvm.runtime.empty((LAYERS, len(kept), HEADS, WIDTH), TYPE) for _ in range(2)]
        self.debug_get_kv(sequence, 0, len(kept), *both)
        found = (np.stack([tensor.numpy() for tensor in both]) - MARKS[:, None]) / 64
        found = found.transpose(2, 0, 1, 3, 4).reshape(len(kept), 2, -1)
        first = found[:, :, 0]
        values = np.where((found == first[:, :, None]).all(2) & (first % 1 == 0), first, -1)
        return dict(zip(kept, zip(self.places, values.astype(int).tolist())))
