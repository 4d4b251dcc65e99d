#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SGLang's UnifiedRadixCache, which its servers use by default, driven as sglang_adapter.py drives
RadixCache. Its first argument names the tree core: rust, or python. What is read of either is what
both print, and the keys are those under which they would store pages. Its own sanity_check is
called after each operation."""

import hashlib
import os
import struct
import sys

os.environ["SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"] = (sys.argv[1:] or ["rust"])[0]

from sglang_adapter import CacheInitParams, Sglang  # noqa: E402
from sglang.srt.disaggregation.kv_events import AllBlocksCleared, BlockStored  # noqa: E402
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


class SglangUnified(Sglang):
    promises = "hits"
    operations = Sglang.operations + " reset"

    def build(self):
        super().build()
        self.tree = UnifiedRadixCache(CacheInitParams(
            False, self.rows, self.pool, self.size, enable_kv_cache_events=True,
            tree_components=(ComponentType.FULL,)))
        self.tree.take_events()
        self.before, self.seen = {}, None

    def greet(self, header):
        return super().greet(header) | {"events": True}

    def do_reset(self, *_):
        idle = not any(r.holds for r in self.requests.values())
        if idle:
            for part in (self.tree.reset, self.rows.clear, self.pool.clear):
                part()
        return idle

    def events(self, _):
        """Of its blocks the engine tells the keys; which ones they are, its tree shows."""
        before, self.before = self.before, {key: page for page, key in self.keys().items()}
        out = []
        for event in self.tree.take_events():
            if isinstance(event, AllBlocksCleared):
                out.append({"type": "cleared"})
                continue
            stored = isinstance(event, BlockStored)
            pages = self.before if stored else before
            blocks = [[self.ids([pages[key]])[0], self.key_tokens[key]]
                      for key in event.block_hashes]
            out += [{"type": "stored", "group": 0, "from": blocks[0][1] - self.size,
                     "to": blocks[-1][1], "blocks": blocks}] if stored else [
                {"type": "removed", "group": 0, "block": block, "prefix": prefix}
                for block, prefix in blocks]
        return out

    def perform(self, operation):
        self.seen = None
        out = super().perform(operation)
        try:
            self.tree.sanity_check()
        except BaseException as error:  # a panic of Rust is none of Exception
            return {"error": f"{type(error).__name__}: {error}"}
        return out

    def printed(self):
        """@return the lines that the tree prints, of a core that may not be Python"""
        sys.stdout.flush()
        paper, stdout = os.memfd_create("tree"), os.dup(1)
        os.dup2(paper, 1)
        try:
            self.tree.pretty_print()
            sys.stdout.flush()
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)
        with os.fdopen(paper, "r", encoding="utf-8") as file:
            file.seek(0)
            return file.read().splitlines()

    def published(self):
        if self.seen is None:
            core = self.tree.tree_core
            core.backfill_missing_hash_values()
            self.seen = [block for line in reversed(self.printed()[1:])  # the leaves first
                         for block in self.of_node(core, *line.split()[:3])]
        return self.seen

    def of_node(self, core, name, length, lock):
        node, lock = int(name[1:-1]), int(lock.partition("=")[2])
        pages = self.pages(core.get_component_device_value(node, ComponentType.FULL))
        keys = numbers(core.get_hash_values(node))
        if not len(pages) == len(keys) == int(length) // self.size:
            raise ValueError(f"node {node} of {length} tokens: {pages}, {len(keys)} keys")
        return [(page, key, lock) for page, key in zip(pages, keys)][::-1]

    def hashes(self, r):
        return numbers(page_hashes(r.tokens, None, self.size))


if __name__ == "__main__":
    SglangUnified().serve()
