# SPDX-License-Identifier: Apache-2.0
"""Reads captures of vLLM's KV cache events: batches as msgpack, one behind the other, or as JSON,
one a line. A batch stands alone, behind its number, or in the frames of its ZMQ message."""

import json
import struct
from hashlib import blake2b
from typing import NamedTuple

from kvproof_support.files import InputError

DEEPEST = 12  # nested lists
PLAIN = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = dict(zip(range(0xCA, 0xD4), (">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q")))
SHORT = {8: (dict, 15), 9: (list, 15), 10: (str, 31), 11: (str, 31)}  # by the upper half of a byte
LONG = {0xC4: (bytes, ">B"), 0xC5: (bytes, ">H"), 0xC6: (bytes, ">I"),
        0xD9: (str, ">B"), 0xDA: (str, ">H"), 0xDB: (str, ">I"),
        0xDC: (list, ">H"), 0xDD: (list, ">I"), 0xDE: (dict, ">H"), 0xDF: (dict, ">I")}


class Event(NamedTuple):
    kind: str  # stored, removed or cleared
    where: str
    rank: object = None  # of data parallelism
    group: int = 0
    medium: str = "GPU"
    hashes: tuple = ()
    main: bool = True  # whether routers follow the group: it keeps all tokens
    parent: object = None
    contents: tuple = ()  # of each hash a digest of what its block itself holds
    size: int = 0
    tokens: int = 0


def digest(what):
    """@return 64 bits that stand for it"""
    return int.from_bytes(blake2b(repr(what).encode(), digest_size=8).digest(), "big")


def unpack(data, at, depth=0):
    """@return a value of msgpack, and where it ends. Throws IndexError or struct.error where the
    data end before. What it takes grows with the bytes that are there, not with what they say."""
    tag, at = data[at], at + 1
    if tag < 0x80 or tag > 0xDF:
        return tag - 256 * (tag > 0xDF), at
    if tag in PLAIN:
        return PLAIN[tag], at
    form = NUMBERS.get(tag) or LONG.get(tag, (0, ""))[1]
    if not form and tag >> 4 not in SHORT:
        raise ValueError(f"byte {tag:#x} begins nothing that events have")
    (length,), at = struct.unpack_from(form, data, at) or (0,), at + struct.calcsize(form)
    if tag in NUMBERS:
        return length, at
    kind, mask = LONG[tag] if form else SHORT[tag >> 4]
    length = length if form else tag & mask
    if kind in (bytes, str):
        part = bytes(data[at:at + length])
        if len(part) < length:
            raise IndexError
        return (part if kind is bytes else part.decode()), at + length
    if depth == DEEPEST:
        raise ValueError(f"more than {DEEPEST} nested lists")
    parts = []
    for _ in range(length * (2 if kind is dict else 1)):
        part, at = unpack(data, at, depth + 1)
        parts.append(part)
    return (dict(zip(parts[::2], parts[1::2])) if kind is dict else parts), at


def whole(value, least=0):
    return type(value) is int and value >= least


def is_hash(value):
    return type(value) in (int, str, bytes)


def is_list(value, of):
    return isinstance(value, list) and all(map(of, value))


MAIN = ("full_attention", "mla_attention")  # kinds of groups
EVENTS = {"BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
                          "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"),
          "BlockRemoved": ("block_hashes", "medium", "group_idx"), "AllBlocksCleared": ()}
FIELDS = {
    "block_hashes": (lambda value: is_list(value, is_hash), "a list of hashes"),
    "parent_block_hash": (lambda value: value is None or is_hash(value), "a hash or null"),
    "token_ids": (lambda value: is_list(value, whole), "a list of whole numbers"),
    "block_size": (lambda value: whole(value, 1), "a whole number from 1 on"),
    "medium": (lambda value: value is None or isinstance(value, str), "a text or null"),
    "extra_keys": (lambda value: value is None or isinstance(value, list), "a list or null"),
    "group_idx": (lambda value: value is None or whole(value), "a whole number or null")}


def need(good, where, field, expected):
    if not good:
        raise InputError(f"{where}: {field}: expected {expected}")


def event_of(value, rank, where):
    """@return an event, from the map of its fields or from the array of old. Throws InputError."""
    if isinstance(value, list) and value:
        value = dict(zip(("type", *EVENTS.get(str(value[0]), ())), value))
    kind = value.get("type") if isinstance(value, dict) else None
    need(isinstance(kind, str) and kind in EVENTS, where, "type", " or ".join(EVENTS))
    for name, (good, expected) in FIELDS.items():
        need(name not in EVENTS[kind] or good(value.get(name)), where, name, expected)
    if kind == "AllBlocksCleared":
        return Event("cleared", where, rank)
    group, hashes = value.get("group_idx") or 0, tuple(value["block_hashes"])
    common = rank, group, value.get("medium") or "GPU", hashes
    if kind == "BlockRemoved":
        return Event("removed", where, *common)
    tokens, size = value["token_ids"], value["block_size"]
    more = value.get("extra_keys") or [None] * len(hashes)
    need(len(more) == len(hashes), where, "extra_keys", "one for each hash")
    contents = tuple(digest((tokens[i * size:(i + 1) * size], value.get("lora_name"), extra))
                     for i, extra in enumerate(more))
    kind = value.get("kv_cache_spec_kind")
    return Event("stored", where, *common, kind in MAIN if kind else not group,
                 value.get("parent_block_hash"), contents, size, len(tokens))


def batch_of(value, where):
    """@return number, rank and events of a batch. Throws InputError."""
    number = None
    if isinstance(value, dict):
        number, value = value.get("seq"), value.get("batch")
    elif isinstance(value, list) and len(value) > 1 and isinstance(value[-1], bytes):  # frames
        number = isinstance(value[-2], bytes) and int.from_bytes(value[-2], "big")
        try:
            value = unpack(value[-1], 0)[0]
        except (IndexError, struct.error, TypeError, ValueError) as error:
            raise InputError(f"{where}: payload: expected msgpack ({error})") from error
    need(number is None or whole(number), where, "seq", "a whole number")
    need(isinstance(value, list) and len(value) > 1 and isinstance(value[1], list), where, "batch",
         "[time, [events], rank]")
    rank = value[2] if len(value) > 2 else None
    need(rank is None or whole(rank), where, "data_parallel_rank", "a whole number or null")
    return number, rank, [event_of(event, rank, f"{where}: events[{i}]")
                          for i, event in enumerate(value[1])]


def packed_values(data, path, torn):
    """@return where each value of msgpack begins, and the value. Throws InputError."""
    at = 0
    while at < len(data):
        where = f"{path}: byte {at}"
        try:
            value, at = unpack(data, at)
        except (IndexError, struct.error):
            torn.append(f"{where}: the end is torn; what is behind is not judged")
            return
        except (TypeError, ValueError) as error:
            raise InputError(f"{where}: batch: expected msgpack ({error})") from error
        yield where, value


def lines(file, path, torn):
    """@return where each line of JSON is, and its value. Throws InputError."""
    for number, line in enumerate(file, 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if line.endswith(b"\n"):
                raise InputError(f"{path}:{number}: line: expected JSON") from error
            torn.append(f"{path}:{number}: the end is torn; this line is not judged")
            return
        yield f"{path}:{number}", value
