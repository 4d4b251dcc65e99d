#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `kvproof events`. KVPROOF_BIN is where kvproof-check is, whose naive allocator is
recorded. Where Dynamo is, it follows, too."""

import copy
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import unittest

import run
from judge import Judge
from router import radix_tree
from scenes import RECORDING, SCENES, SOUND, removed, stored, stream

from kvproof_support import results
from kvproof_support.files import InputError

try:
    TREE = radix_tree()
except ImportError:
    TREE = None
HERE = pathlib.Path(__file__).resolve().parent
CHECK = results.program("check")


def packed(value):
    """@return the value as msgpack"""
    if isinstance(value, (list, dict)):
        parts = value if isinstance(value, list) else sum(map(list, value.items()), [])
        tag = 0xDD if isinstance(value, list) else 0xDF
        return struct.pack(">BI", tag, len(value)) + b"".join(map(packed, parts))
    if isinstance(value, (str, bytes)):
        text = value if isinstance(value, bytes) else value.encode()
        return struct.pack(">BI", 0xC6 if text is value else 0xDB, len(text)) + text
    return b"\xc0" if value is None else struct.pack(">Bq", 0xD3, value)


def as_lines(lines):
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def as_json(events):
    return as_lines(stream(*events))


def as_frames(events):
    return b"".join(packed([b"topic", i.to_bytes(8, "big"), packed([0, [event]])])
                    for i, event in enumerate(events))


class EventsTest(unittest.TestCase):
    def judged(self, data, tree=TREE, unique=True):
        """@return the laws that data break, and that their end is torn"""
        self.judge, path = Judge(tree, unique), pathlib.Path(self.folder, "stream")
        path.write_bytes(data)
        self.torn = run.put(str(path), self.judge)
        return {*self.judge.found}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_sound_stream_holds_in_each_form(self):
        for data in (as_json(SOUND), as_frames(SOUND), packed([0, SOUND, 3])):
            self.assertEqual(self.judged(data), set())
            self.assertEqual((self.judge.counts["events"], self.judge.asked["lookup"]), (9, 8))

    def test_each_law_of_the_list_reports_its_scenes_alone(self):
        self.assertEqual([*SCENES], [law["id"] for law in results.describe()["laws"]
                                     if law["judges"] == "events"])
        for law, scenes in SCENES.items():
            self.assertTrue(scenes, law)
            for what, lines in scenes.items():
                found = self.judged(as_lines(lines), getattr(lines, "tree", TREE))
                self.assertEqual(found - {"lookup"}, {law} - {"lookup"}, what)
                self.assertIn(law, found, what)

    def test_what_stands_behind_a_removed_parent_is_cut_and_not_blamed(self):
        self.assertEqual(self.judged(as_json([stored("abc"), removed("b"), stored("b", "a"),
                                              stored("d", "c")])), set())
        self.assertEqual(self.judge.counts["cut"], 1)

    def test_each_fault_of_a_recording_is_noticed(self):
        subprocess.run([CHECK, f"--subject-command='{CHECK}' --serve=naive", "--operations=300",
                        "--configuration=full"], stdout=subprocess.DEVNULL, check=False,
                       env=os.environ | {"KVPROOF_RECORDINGS": self.folder})
        lines = [json.loads(line) for path in pathlib.Path(self.folder).glob("*.jsonl")
                 for line in path.read_bytes().splitlines()]

        def found_now():
            return self.judged(as_lines(lines), unique=False)
        self.assertEqual(found_now(), set())
        self.assertGreater(self.judge.asked["lookup"], 1000)

        def change(kind, mend, most=1):
            """@return the laws that are broken when the first lines with such an event are changed,
            one at a time"""
            found = set()
            for line in [line for line in lines if line.get("events") and
                         line["events"][0]["type"] == kind][:most]:
                kept = copy.deepcopy(line["events"])
                mend(line["events"])
                found |= found_now()
                line["events"] = kept
            return found
        for kind in ("stored", "removed", "cleared"):
            self.assertLessEqual({"residency", "lookup"},
                                 change(kind, lambda events: events.pop(0), 30), kind)
        for kind, law in (("stored", "residency"), ("removed", "removed")):
            self.assertIn(law, change(kind, lambda events: events.append(events[0])), kind)
        self.assertIn("removed", change("stored", lambda events: events.insert(0, {
            "type": "removed", "group": 0, "prefix": events[0]["blocks"][0][1],
            "block": events[0]["blocks"][0][0]})))
        self.assertIn("parent", change("stored", lambda events: events[0].update({
            end: events[0][end] + 4 for end in ("from", "to")})))

    def test_a_request_may_publish_as_it_ends(self):
        lines = [{"kvproof_trace": 1, "config": {"hash_block_size": 2, "groups": [
            {"kind": "full", "block_size": 2}]}}]
        for op, events, hashes, index in (("arrive", [], {"r0": ["k"]}, []), ("finish", [{
                "type": "stored", "group": 0, "from": 0, "to": 2, "blocks": [[1, 2]]}], {},
                [[0, "k", [1]]])):
            lines.append({"op": op, "req": "r0", "events": events, "state": {
                "hashes": hashes, "index": index, "tables": {}}})
        self.assertEqual(self.judged(as_lines(lines)), set())
        self.assertEqual(self.judge.asked["residency"], 2)

    def test_bad_input_is_one_line_and_a_torn_end_is_said(self):
        for data, said in ((b"{]\n{}", ":1: line: expected JSON"), (b"\xc1", "byte 0: batch"),
                           (b"[0]\n", ":1: batch: expected [time"), (b"\x91" * 99, "more than 12"),
                           (as_json([stored("a", group_idx=-1)]), "events[0]: group_idx: expected"),
                           (b'{"kvproof_trace":1}\n', ":1: line: expected one of the trace")):
            with self.assertRaisesRegex(InputError,
                                        "^[^\n]*" + said.replace("[", r"\[") + "[^\n]*$"):
                self.judged(data)
        for whole in (as_json(SOUND), as_frames(SOUND)):
            self.assertEqual(self.judged(whole[:-3]), set())
            self.assertEqual((len(self.torn), self.judge.counts["events"]), (1, 8))

    def test_no_bytes_are_too_bad(self):
        draw = random.Random(1)
        tracemalloc.start()
        self.assertEqual((self.judged(as_lines(RECORDING)), self.judge.asked["lookup"]), (set(), 1))
        for seed in (as_json(SOUND), as_frames(SOUND), as_lines(RECORDING),
                     b"\xdd\xff\xff\xff\xff" * 9):
            for _ in range(1000):
                data = bytearray(seed)
                for _ in range(draw.randint(1, 5)):
                    at = draw.randrange(len(data))
                    end = at + draw.choice((0, 1, 1, 9))
                    data[at:end] = draw.randbytes(draw.choice((0, 1, 1, 5)))
                try:
                    self.judged(bytes(data) or b"x", None)
                except InputError as error:
                    self.assertNotIn("\n", str(error))
        self.assertLess(tracemalloc.get_traced_memory()[1], 4 << 20)
        tracemalloc.stop()

    def test_exit_codes_and_rows(self):
        path, told = pathlib.Path(self.folder, "stream"), pathlib.Path(self.folder, "known.jsonl")
        told.write_text('{"law":"removed","id":"MINE-1"}\n{"law":"size","id":"MINE-2"}\n')
        for data, words, code, verdict, stale in (
                (as_json(SOUND), [], 0, "holds", 0), (b"", [], 3, "cannot_tell", 0),
                (as_json([removed("a")]), [], 1, "broken", 0),
                (as_json([removed("a")]), [f"--known={told}"], 0, "holds", 1),
                (as_json([removed("a"), stored("b", "x")]), [f"--known={told}"], 1, "broken", 1),
                (b"{\n", [], 2, None, 0)):
            path.write_bytes(data)
            out = pathlib.Path(f"{path}.json")
            out.unlink(missing_ok=True)
            done = subprocess.run([
                sys.executable, "-B", str(HERE / "run.py"), str(path), "--no-mirror", *words,
                f"--json={out}"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(out.exists(), verdict is not None)
            if verdict:
                rows = json.loads(out.read_text())["results"]
                self.assertEqual(rows[-1]["parameters"]["verdict"], verdict)
                self.assertEqual(sum(row["experiment"] == "known" for row in rows), stale)
                self.assertTrue(all((row["parameters"]["file"], row["parameters"]["line"]) == (
                    str(path), 1 + (row["parameters"]["law"] == "parent"))
                    for row in rows if row["experiment"] == "events_finding"), rows)
            else:
                self.assertIn("expected JSON", done.stderr)


if __name__ == "__main__":
    unittest.main()
