# SPDX-License-Identifier: Apache-2.0
"""Damages a good file, one way after the other, by a seed."""

import gzip
import json

NUMBERS = ["-1", "1e999", "NaN", "-Infinity", "1.5", "010", "0x10", "9" * 23, "9" * 400,
           "18446744073709551616", "1e-400", "4294967296", "2147483648"]
VALUES = ["null", "true", '""', "[]", "{}", '"x"', '"\\ud800"', "[[[[1]]]]", "[" * 500 + "]" * 500]


def bytes_of(random, good):
    """A way to damage the bytes of a file."""
    at = random.randrange(len(good) or 1)
    return random.choice([
        lambda: good[:at],
        lambda: good[:at] + bytes([random.randrange(256)]) + good[at + 1:],
        lambda: good[:at] + b"\0" + good[at:],
        lambda: good[:at] + b"\xff\xfe" + good[at:],
        lambda: good[:at] + b"\xed\xa0\x80" + good[at:],
        lambda: good[:at] + good[at + random.randrange(1, 40):],
        lambda: b"\xef\xbb\xbf" + good,
        lambda: b"\xff\xfe" + good.decode("utf-8").encode("utf-16-le"),
        lambda: good.replace(b"\n", b"\r\n"),
        lambda: good.replace(b"\n", b"\r"),
        lambda: good + good,
        lambda: good + b"\n\n",
        lambda: b"\n" + good,
        lambda: good[:at] + b"[" * 100_000,
        lambda: good[:at] + b'{"a":' * 50_000,
        lambda: good[:at] + b"9" * 100_000,
        lambda: good[:at] + b'"' + b"x" * 1_000_000,
        lambda: gzip.compress(good, mtime=0)[:-random.randrange(1, 20)],
        lambda: gzip.compress(good, mtime=0)[:20] + good,
        lambda: b"\x28\xb5\x2f\xfd" + good,
        lambda: b"",
    ])()


def fields_of(random, good):
    """A way to damage one line of JSON: a field is missing, twice, or has another value."""
    lines = good.splitlines(keepends=True)
    at = random.randrange(len(lines))
    places = []
    collect(json.loads(lines[at]), [], places)
    place = random.choice(places)
    how = random.choice(["remove", "number", "value", "rename"])
    mark = "\x01"
    document = json.loads(lines[at])
    holder = document
    for step in place[:-1]:
        holder = holder[step]
    if how == "remove":
        del holder[place[-1]]
    elif how == "rename" and isinstance(place[-1], str):
        holder["_" + place[-1]] = holder.pop(place[-1])
    else:
        holder[place[-1]] = mark
    text = json.dumps(document).replace(
        json.dumps(mark), random.choice(NUMBERS if how == "number" else VALUES))
    return b"".join([*lines[:at], text.encode() + b"\n", *lines[at + 1:]])


def collect(value, place, places):
    steps = value.items() if isinstance(value, dict) else (
        enumerate(value[:4]) if isinstance(value, list) else ())
    for step, inner in steps:
        places.append([*place, step])
        collect(inner, [*place, step], places)


def cells_of(random, good):
    """A way to damage one cell of a table."""
    lines = good.decode().splitlines()
    at = random.randrange(len(lines))
    cells = lines[at].split(",")
    cell = random.randrange(len(cells))
    how = random.randrange(4)
    if how == 0:
        del cells[cell]
    elif how == 1:
        cells.insert(cell, "7")
    else:
        cells[cell] = random.choice([*NUMBERS, "", '"', '"x', "x", "2023-13-45 25:61:61", " 7"])
    lines[at] = ",".join(cells)
    return ("\n".join(lines) + "\n").encode()
