#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SGLang's UnifiedRadixCache, which its servers use by default, driven as sglang_adapter.py drives
RadixCache. Its first argument names the tree core: rust, or python. What is read of either is what
both print, and the keys are those under which they would store pages. Its own sanity_check is
called after each operation."""

import hashlib
import itertools
import os
import struct
import sys

os.environ["SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"] = (sys.argv[1:] or ["rust"])[0]

from sglang_adapter import CacheInitParams, Sglang  # noqa: E402
from sglang.srt.disaggregation.kv_events import BlockRemoved, BlockStored  # noqa: E402
from sglang.srt.mem_cache import utils  # noqa: E402
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType  # noqa: E402
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache  # noqa: E402


def page_hashes(tokens, before, size):
    """What sglang's own C++ makes of tokens, which pip does not build."""
    out, digest = [], before or b""
    for end in range(size, len(tokens) + 1, size):
        page = struct.pack(f"<{size}i", *tokens[end - size:end])
        digest = hashlib.sha256(digest + page).digest()
        out.append(digest.hex())
    return out


def numbers(hashes):
    """The same, as the engine's events have them."""
    return [utils.hash_str_to_int64(key) for key in hashes]


utils.get_native_hash = lambda key, before, size: page_hashes(
    list(key.raw_token_ids()), before, size)
PAPER = os.memfd_create("tree")  # what is printed, in whatever language


class SglangUnified(Sglang):
    promises = "hits"
    operations = Sglang.operations + " reset"

    def build(self):
        super().build()
        os.dup2(PAPER, 1)
        self.full = self.pool
        self.plant(ComponentType.FULL)

    def plant(self, *components, **more):
        self.tree = UnifiedRadixCache(CacheInitParams(
            False, self.rows, self.pool, self.size, enable_kv_cache_events=True,
            tree_components=components, **more))
        self.tree.take_events()
        self.before, self.ends, self.seen = {}, {}, None

    def greet(self, header):
        return super().greet(header) | {"events": True}

    def idle(self):
        return not any(r.holds for r in self.requests.values())

    def reset(self):
        for part in (self.tree.reset, self.rows.clear, self.pool.clear) if self.idle() else ():
            part()
        return self.idle()

    def perform(self, line):
        self.seen = None
        out = super().perform(line)
        try:
            self.check()
        except BaseException as error:  # a panic of Rust is none of Exception
            return {"error": f"{type(error).__name__}: {error}"}
        return out

    def check(self):
        self.tree.sanity_check()

    def events(self, _):
        """Of its blocks the engine tells the keys; which ones they are, its tree shows."""
        before, self.before = self.before, {key: page for page, key in self.keys().items()}
        out = []
        for event in self.tree.take_events():
            out += ([self.stored(event.block_hashes)] if isinstance(event, BlockStored) else
                    self.gone(event.block_hashes, before) if isinstance(event, BlockRemoved) else
                    [{"type": "cleared"}])
        return out

    def gone(self, keys, pages):
        return [{"type": "removed", "group": 0, "block": pages[key],
                 "prefix": self.ends[key]} for key in keys]

    def stored(self, keys):
        ends = [self.ends[key] for key in keys]
        blocks = [self.before[key] for key in keys]
        return {"type": "stored", "group": 0, "from": ends[0] - self.size, "to": ends[-1],
                "blocks": [*map(list, zip(blocks, ends))]}

    def published(self):
        if self.seen is None:
            self.tree.tree_core.backfill_missing_hash_values()
            os.ftruncate(PAPER, os.lseek(PAPER, 0, os.SEEK_SET))
            self.tree.pretty_print()
            sys.stdout.flush()
            nodes = os.pread(PAPER, 1 << 22, 0).decode().splitlines()[1:]
            self.seen = [block for node in reversed(nodes)  # the leaves first
                         for block in self.of_node(*node.split()[:3])]
        return self.seen

    def of_node(self, name, length, lock):
        node, lock, core = int(name[1:-1]), int(lock.partition("=")[2]), self.tree.tree_core
        pages = self.pages(core.get_component_device_value(node, ComponentType.FULL))
        keys = numbers(core.get_hash_values(node))
        if not len(pages) == len(keys) == int(length) // self.size:
            raise ValueError(f"node {node} of {length} tokens: {pages}, {len(keys)} keys")
        return [(page, key, lock) for page, key in zip(pages, keys)][::-1]

    def hashes(self, r):
        keys = numbers(page_hashes(r.tokens, None, self.size))
        self.ends.update(zip(keys, itertools.count(self.size, self.size)))
        return keys

    def unused(self):
        return self.full.get_all_free_pages().tolist()

    def num_free(self):
        return (self.full.available_size() + self.tree.full_evictable_size()) // self.size


if __name__ == "__main__":
    SglangUnified().serve()
