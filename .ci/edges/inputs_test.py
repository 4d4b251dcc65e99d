# SPDX-License-Identifier: Apache-2.0
"""Hundreds of damaged inputs of the programs: an answer or one line, never a crash.

A damaged file may still be a good one, and then it is read. Whatever it is, the program ends by
itself with a documented exit code, within a second or so and 1 GiB; exit code 2 comes with exactly
one line, which names the file; nothing stays in the folder. Tests of the readers damage every
format of a request log (damaged_logs_test.cpp), each field of a baseline and of a result file.
"""

import gzip
import json
import os
import unittest

from program import CHECKOUT, Folder, program, run

VECTORS = os.path.join(CHECKOUT, "properties", "sources", "traces", "vectors")
LOG = (b'{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]}\n'
       b'{"timestamp":9.5,"input_length":700,"output_length":0,"hash_ids":[0,2]}\n')
NUMBERS = ["-1", "1e999", "NaN", "-Infinity", "1.5", "010", "0x10", "9" * 23, "9" * 400,
           "18446744073709551616", "1e-400", "4294967296", "2147483648"]
VALUES = ["null", "true", '""', "[]", "{}", '"x"', '"\\ud800"', "[[[[1]]]]", "[" * 500 + "]" * 500]


def damage_bytes(random, good):
    at = random.randrange(len(good) or 1)
    instead = random.choice([
        b"", bytes([random.randrange(256)]), b"\0" + good[at:], b"\xff\xfe" + good[at:],
        b"\xed\xa0\x80" + good[at:], good[at + random.randrange(1, 40):], b"[" * 100_000,
        b'{"a":' * 50_000, b"9" * 100_000, b'"' + b"x" * 1_000_000])
    packed = gzip.compress(good, mtime=0)
    return random.choice([
        good[:at] + instead, good[:at] + instead, b"\xef\xbb\xbf" + good,
        b"\xff\xfe" + good.decode("utf-8").encode("utf-16-le"), good.replace(b"\n", b"\r"),
        good + good, good + b"\n\n", b"\n" + good, packed[:-random.randrange(1, 20)],
        packed[:20] + good, b"\x28\xb5\x2f\xfd" + good])


def damage_field(random, good):
    """A field of one line of JSON is missing, has another name or another value."""
    lines = good.splitlines(keepends=True)
    at = random.randrange(len(lines))
    document = json.loads(lines[at])
    holder, key = random.choice(list(places_in(document)))
    how = random.choice([None, "rename", *["value"] * 2])
    value = holder.pop(key)
    if how == "rename" and isinstance(holder, dict):
        holder["_" + key] = value
    elif how and isinstance(holder, dict):
        holder[key] = "\x01"
    elif how:
        holder.insert(key, "\x01")
    text = json.dumps(document).replace(json.dumps("\x01"), random.choice(
        random.choice([NUMBERS, VALUES])))
    return b"".join([*lines[:at], text.encode() + b"\n", *lines[at + 1:]])


def places_in(value):
    """(object or array, key) of each value"""
    for key in list(value) if isinstance(value, dict) else range(len(value[:4])):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places_in(value[key])


class BadInputs(Folder):
    def ask(self, good, times, name, codes, words):
        """@param words: path -> the verb and its arguments"""
        counts = {}
        for i in range(times):
            data = (damage_field if i % 2 else damage_bytes)(self.random, good)
            what = f"{name}: {data[:300]!r} ({len(data)} bytes)"
            path = self.write(name, data)
            outcome = run(*words(path), folder=self.folder)
            counts[outcome.code] = counts.get(outcome.code, 0) + 1
            self.clean(outcome, what)
            left = set(os.listdir(self.folder)) - {name}
            kept = {"kvproof-failure-1.html", "kvproof-failure-1.jsonl"} if (
                name == "answers.jsonl" and outcome.code == 1) else set()
            self.assertEqual(left, kept, f"{what}\n{outcome}")
            for file in kept:
                os.remove(self.path(file))
            self.assertIn(outcome.code, codes, f"{what}\n{outcome}")
            self.assertLess(outcome.seconds, 20, f"{what}\n{outcome}")
            if outcome.code == 2:
                self.refused(outcome, name, what=what)
            else:
                self.assertEqual(outcome.lines, [], f"{what}\n{outcome}")
        print(f"{name}: " + ", ".join(f"{n} ended with {code}" for code, n in counts.items()))

    def test_operation_traces(self):
        for name in ("gates-vllm-0.24", "prefix_reuse-vllm-0.22", "eviction_order-vllm-0.24"):
            with open(os.path.join(VECTORS, f"{name}.jsonl"), "rb") as stream:
                lines = stream.read().splitlines(keepends=True)[:9]
            good = b"".join(lines) + json.dumps({"op": "end", "ops": len(lines) - 1}).encode()
            self.ask(good + b"\n", 110, "trace.jsonl", (0, 1, 2, 3), lambda path: ("replay", path))

    def test_request_logs(self):
        for more in ((), ("--simulate",)):
            self.ask(LOG, 60, "log.jsonl", (0, 2), lambda path, more=more: (
                "replay", f"--trace={path}", "--capacity-blocks=4096", *more))

    def test_baselines(self):
        # A baseline that is read is followed by an output that cannot be written, so that nothing
        # is measured.
        path = self.path("recorded.json")
        recorded = run("gate", f"--record={path}", "--workload=eviction", "--operations=1",
                       environment={"PATH": "/nowhere"}, folder=self.folder)
        self.assertEqual(recorded.code, 0, recorded)
        good = self.read("recorded.json").replace(b"\n", b" ") + b"\n"  # as one line
        os.remove(path)
        self.ask(good, 100, "base.json", (2,), lambda path: (
            "gate", f"--baseline={path}", f"--json={os.path.dirname(path)}/no/such/base.json"))

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
        """Those that answer whatever: nonsense before the first promise is exit 2, later exit 1."""
        good = b"".join(json.dumps(line).encode() + b"\n" for line in (
            {"promises": "safety", "block_ids": True, "operations": [
                "arrive", "append", "advance", "allocate", "free", "finish"]},
            {"out": None, "state": {"tables": {}, "free": 3, "queue": [1, 2, 3], "ref": []}}))
        self.ask(good, 140, "answers.jsonl", (1, 2), lambda path: (
            "check", "--operations=1", "--configuration=chunked", "--time-limit-seconds=1",
            "--subject-command=" + "while read -r line && read -r answer <&3; "
            f"do printf '%s\\n' \"$answer\"; done 3<{path}"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
