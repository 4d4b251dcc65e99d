# SPDX-License-Identifier: Apache-2.0
"""Hundreds of damaged inputs of the programs: an answer or one line, never a crash.

A damaged file may still be a good one, and then it is read. Whatever it is, the program ends by
itself with a documented exit code, within a second or so and 1 GiB; exit code 2 comes with exactly
one line, which names the file; nothing stays in the folder. Tests of the readers damage every
format of a request log, and each field of a baseline and of a result file, in their own process.
"""

import gzip
import json
import os
import unittest

from program import CHECKOUT, Folder, program, run

VECTORS = os.path.join(CHECKOUT, "properties", "sources", "traces", "vectors")
# Of a program that answers whatever: nonsense before the first promise is exit 2, later exit 1.
ANSWERS = (b'{"promises": "safety", "block_ids": true, "operations": ["arrive", "append", '
           b'"advance", "allocate", "free", "finish"]}\n'
           b'{"out": null, "state": {"tables": {}, "free": 3, "queue": [1, 2, 3], "ref": []}}\n')
VALUES = ["-1", "1e999", "NaN", "1.5", "010", "0x10", "9" * 400, "18446744073709551616",
          "4294967296", "null", "true", '""', "[]", "{}", '"x"', '"\\ud800"', "[" * 500 + "]" * 500]


def damage_bytes(random, good):
    at = random.randrange(len(good))
    packed = gzip.compress(good, mtime=0)
    return random.choice([
        good[:at] + random.choice([
            b"", bytes([random.randrange(256)]), b"\0" + good[at:], b"\xed\xa0\x80" + good[at:],
            good[at + random.randrange(1, 40):], b"[" * 100_000, b'{"a":' * 50_000, b"9" * 100_000,
            b'"' + b"x" * 1_000_000]),
        b"\xef\xbb\xbf" + good, b"\xff\xfe" + good.decode().encode("utf-16-le"),
        good.replace(b"\n", b"\r"), good + good, b"\n" + good, packed[:-random.randrange(1, 20)],
        packed[:20] + good, b"\x28\xb5\x2f\xfd" + good])


def damage_field(random, good):
    """A field of one line of JSON is missing, has another name or another value."""
    lines = good.splitlines(keepends=True)
    at = random.randrange(len(lines))
    document = json.loads(lines[at])
    holder, key = random.choice(list(places_in(document)))
    value = holder[key]
    holder[key] = "\x01"
    if random.random() < 0.4:
        del holder[key]
        if isinstance(holder, dict) and random.random() < 0.5:
            holder["_" + key] = value
    text = json.dumps(document).replace(json.dumps("\x01"), random.choice(VALUES))
    return b"".join([*lines[:at], text.encode() + b"\n", *lines[at + 1:]])


def places_in(value):
    """(object or array, key) of each value"""
    for key in list(value) if isinstance(value, dict) else range(len(value[:4])):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places_in(value[key])


class BadInputs(Folder):
    def ask(self, good, times, name, codes, *words):
        """@param words: the verb and its arguments; {} is the file"""
        path, counts = self.path(name), {}
        for i in range(times):
            data = (damage_field if i % 2 else damage_bytes)(self.random, good)
            self.write(name, data)
            outcome = run(*(word.replace("{}", path) for word in words), folder=self.folder)
            what = f"{name}: {data[:300]!r} ({len(data)} bytes)\n{outcome}"
            counts[outcome.code] = counts.get(outcome.code, 0) + 1
            self.clean(outcome, what)
            left = set(os.listdir(self.folder)) - {name}
            self.assertEqual(left, {"kvproof-failure-1.html", "kvproof-failure-1.jsonl"} if (
                name == "answers.jsonl" and outcome.code == 1) else set(), what)
            for file in left:
                os.remove(self.path(file))
            self.assertIn(outcome.code, codes, what)
            self.assertLess(outcome.seconds, 20, what)
            if outcome.code == 2:
                self.refused(outcome, name, what=what)
            else:
                self.assertEqual(outcome.lines, [], what)
        print(f"{name}: " + ", ".join(f"{n} ended with {code}" for code, n in counts.items()))

    def test_operation_traces(self):
        for name in ("gates-vllm-0.24", "prefix_reuse-vllm-0.22", "eviction_order-vllm-0.24"):
            with open(os.path.join(VECTORS, f"{name}.jsonl"), "rb") as stream:
                lines = stream.read().splitlines(keepends=True)[:9]
            good = b"".join(lines) + json.dumps({"op": "end", "ops": len(lines) - 1}).encode()
            self.ask(good + b"\n", 110, "trace.jsonl", (0, 1, 2, 3), "replay", "{}")

    def test_libraries(self):
        with open(program("replay"), "rb") as stream:
            elf = stream.read(20_000)
        for verb, *words in (["check"], ["gate", "--against=naive"],
                             ["replay", os.path.join(VECTORS, "gates-vllm-0.24.jsonl")]):
            for i in range(20):
                path = self.write("libmine.so", elf[:self.random.randrange(len(elf))] if i % 2
                                  else self.random.randbytes(900))
                self.refused(run(verb, *words, f"--subject={path}", folder=self.folder), path)
                self.assertEqual(os.listdir(self.folder), ["libmine.so"])

    def test_programs(self):
        self.ask(ANSWERS, 140, "answers.jsonl", (1, 2), "check", "--operations=1",
                 "--configuration=chunked", "--time-limit-seconds=1",
                 "--subject-command=while read -r line && read -r answer <&3; "
                 "do printf '%s\\n' \"$answer\"; done 3<{}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
