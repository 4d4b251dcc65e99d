#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the keys of published_keys.cpp: what others say of the last unit of its requests.

The others are pickle and hashlib of CPython, and cbor2 and xxhash of PyPI; nothing is of kvproof.
vLLM's message of a unit is the tuple (parent, tokens, extra keys), with its source in
reference/vllm/0.33.md; ours is described in optimized/pool/hashing.h.
"""
import hashlib
import pickle
import struct

import cbor2
import xxhash


def text(size, letter):
    return letter * size


WIDE = [0, 23, 24, 255, 256, 65535, 65536, 2147483647]
LONG = {"lora": text(255, "a"), "lora_path": text(256, "b"), "salt": text(70000, "g"),
        "layout": "k",
        "mm": [(text(65535, "c"), 0, 1), (text(65536, "d"), 1, 1), (text(23, "e"), 2, 1),
               (text(24, "f"), 3, 1), ("behind", 4, 1)],
        "embeds": [(text(255, "h"), 0, 1), (text(256, "i"), 1, 1), (text(65536, "j"), 3, 1),
                   ("behind", 4, 1)]}
ACROSS = {"mm": [("i", 0, 2), ("i", 2, 1), ("ab", 3, 2), ("\u00e9", 5, 1), ("\u00e9", 6, 1),
                 ("far", 7, 300)], "embeds": [("rows", 1, 6)]}
MANY = {"mm": [(f"item-{i:06}", 0, 1) for i in range(4000)] + [("\u00e9", 1, 1)] * 2
        + [("x", 2, 1)] * 2}
LETTERS = {"mm": [(chr(letter), 0, 1) for letter in range(33, 256)] * 32}
# Name, tokens of a unit, lookahead, tokens, extra keys.
CASES = [("plain", 4, 0, range(12), {}),
         ("usual", 16, 0, range(101, 133), {}),
         ("behind_one", 4, 1, range(1, 10), {}),
         ("behind_two", 4, 2, range(1, 11), {"salt": "salt"}),
         ("wide", 8, 0, WIDE, {}),
         ("adapter", 4, 0, range(1, 9), {"lora": "x", "lora_path": "p", "salt": "s"}),
         ("long", 4, 0, range(1, 9), LONG),
         ("across", 4, 0, range(1, 309), ACROSS),
         ("many", 4, 0, range(1, 5), MANY),
         ("letters", 4, 0, range(1, 5), LETTERS)]


def overlapping(items, start, end):
    return [(item, offset - start) for item, offset, length in items
            if offset < end and offset + length > start]


def own(value):
    """A text that is an object of its own, as far as Python makes one."""
    return "".join(list(value))


def vllm_extra(extra, start, end):
    out = []
    if extra.get("lora") or extra.get("lora_path"):
        out.append(("lora", own(extra["lora"]), own(extra["lora_path"])))
    out += [("mm", own(item), at) for item, at in overlapping(extra.get("mm", []), start, end)]
    if start == 0 and extra.get("salt"):
        out.append(("cache_salt", own(extra["salt"])))
    for item, at in overlapping(extra.get("embeds", []), start, end):
        rows = item.encode()
        out.append(("prompt_embeds", rows) if at == 0 else ("prompt_embeds", rows, at))
    if start == 0 and extra.get("layout"):
        out.append(("layout", own(extra["layout"])))
    return tuple(out) or None


def vllm_key(write, unit, lookahead, tokens, extra):
    key = hashlib.sha256(write("vllm-none-hash")).digest()
    for start in range(0, len(tokens) - lookahead - unit + 1, unit):
        keys = vllm_extra(extra, start, start + unit + lookahead)
        if lookahead:
            keys = (keys, *tokens[start + unit:start + unit + lookahead])
        key = hashlib.sha256(write((key, tuple(tokens[start:start + unit]), keys))).digest()
    return key


def own_extra(extra, start, end):
    def entry(kind, value):
        return kind + struct.pack("<Q", len(value.encode())) + value.encode()
    out = b"".join(entry(kind, extra[name])
                   for kind, name in ((b"L", "lora"), (b"P", "lora_path")) if extra.get(name))
    for kind, name in ((b"M", "mm"), (b"E", "embeds")):
        for item, at in overlapping(extra.get(name, []), start, end):
            out += entry(kind, item) + struct.pack("<q", at)
    for kind, name in ((b"S", "salt"), (b"D", "layout")):
        if start == 0 and extra.get(name):
            out += entry(kind, extra[name])
    return out


def own_key(digest, unit, lookahead, tokens, extra):
    key = digest(b"kvproof\0" + bytes(8))
    for start in range(0, len(tokens) - lookahead - unit + 1, unit):
        covered = tokens[start:start + unit + lookahead]
        message = key + struct.pack(f"<{len(covered)}i", *covered)
        key = digest(message + own_extra(extra, start, start + unit + lookahead))
    return key


def xxh3(message):
    value = xxhash.xxh3_128_intdigest(message)
    return struct.pack("<QQ", value & (2**64 - 1), value >> 64)  # the low word first


HASHES = {"xxh3": lambda *case: own_key(xxh3, *case),
          "sha256": lambda *case: own_key(lambda m: hashlib.sha256(m).digest(), *case),
          "vllm_sha256": lambda *case: vllm_key(lambda v: pickle.dumps(v, protocol=5), *case),
          "vllm_sha256_cbor": lambda *case: vllm_key(
              lambda v: cbor2.dumps(v, canonical=True), *case)}

for name, *case in CASES:
    case[2] = list(case[2])
    keys = [f'"{key(*case).hex()}"' for key in HASHES.values()]
    print(f"    // {name}", *(f"     {key}," for key in keys), sep="\n")
