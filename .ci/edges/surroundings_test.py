# SPDX-License-Identifier: Apache-2.0
"""The programs in surroundings that are not as they should be: full, closed, missing, mixed up."""

import gzip
import json
import os
import re
import resource
import select
import shutil
import stat
import subprocess
import sys
import unittest

from program import CHECKOUT, PLUGINS, Folder, is_revision, program, run

VECTOR = os.path.join(CHECKOUT, "properties/sources/traces/vectors/gates-vllm-0.24.jsonl")
BROKEN = f"--subject={PLUGINS}/broken_plugin.so"
LOG = b'{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]}\n'
CSV = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
PLAN = ("plan", "--model=llama-3-8b", "--memory-gib=60")
# What writes a file in C++, and what does so in Python; {} is the file.
WRITERS = ((*PLAN, "--json={}"), (
    sys.executable, "-B", os.path.join(CHECKOUT, "bench/campaign/main.py"), "tasks",
    "--built-in=smoke", "--output={}"))
SEARCH = ("check", "--exhaustive=lone", "--visited-memory-gib=0.0001")

SHORT = {"bench": ["--smoke", "--filter=serving_cost/10000$"],
         "check": ["--subject=naive", "--configuration=full", "--operations=1"],
         "gate": ["--against=naive", "--operations=1", "--workload=chat", "--no-time"],
         "plan": PLAN[1:], "replay": [VECTOR], "study": ["memory_of_one_request"]}


def limited(what, most):
    """@return what limits a new process"""
    return lambda: resource.setrlimit(what, (most, most))


class Output(Folder):
    def test_full_standard_output_is_an_error_of_every_program(self):
        for name, words in SHORT.items():
            for arguments in (words, ["--help"]):
                without_valgrind = {"PATH": "/nowhere"} if name == "gate" else {}
                outcome = run(name, *arguments, stdout="/dev/full", environment=without_valgrind)
                self.refused(outcome, "standard output")

    def test_closed_standard_output(self):
        for name in ("bench", "plan", "replay", "study"):
            outcome = run("/bin/sh", "-c", 'exec "$0" "$@" >&-', program(name), *SHORT[name])
            self.assertEqual((outcome.code, outcome.files), (2, []), outcome)

    def test_a_reader_that_goes_away_leaves_nothing(self):
        outcome = run("/bin/sh", "-c", 'exec "$0" "$@" --json=x.json | true', program("bench"),
                      *SHORT["bench"], folder=self.folder)
        self.clean(outcome)
        self.assertLessEqual(set(os.listdir(self.folder)), {"x.json"})

    def writes(self, name, behind="", **how):
        """The end of each writer of a file."""
        for words in WRITERS:
            words = [word.replace("{}", name) for word in words]
            if "/" not in words[0]:
                words[0] = program(words[0])
            with self.subTest(words=words):
                yield run("/bin/sh", "-c", '"$0" "$@"' + behind, *words, **how)

    def is_result(self, text):
        return json.JSONDecoder().raw_decode(text.decode()[text.index(b'{"'):])[0]

    def test_what_is_no_file_is_written_in_place(self):
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            for outcome in self.writes(name, behind=" | cat"):
                self.clean(outcome)
                self.assertTrue(self.is_result(outcome.out), outcome)
            for outcome in self.writes(name, stdout=self.path("out")):
                self.clean(outcome)
                self.assertTrue(self.is_result(self.read("out")), outcome)
        os.remove(self.path("out"))
        os.mkfifo(self.path("pipe"))
        for outcome in self.writes("pipe", behind=" & cat pipe; wait $!", folder=self.folder):
            self.clean(outcome)
            self.assertTrue(self.is_result(outcome.out), outcome)
        for outcome in self.writes("/dev/fd/77"):
            self.refused(outcome, "/dev/fd/77: cannot be written: Bad file descriptor")
        self.assertEqual(os.listdir(self.folder), ["pipe"])

    def test_a_full_device_stays_a_device_and_a_link_to_one_a_link(self):
        device = self.path("full")  # a second one: a program that failed here would replace it
        try:
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        except PermissionError as error:
            self.skipTest(f"no device can be made: {error}")
        os.symlink("full", self.path("link"))
        for name in (device, "link"):
            for outcome in self.writes(name, folder=self.folder):
                self.refused(outcome, f"{name}: cannot be written: No space left on device")
        self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode))
        self.assertTrue(os.path.islink(self.path("link")))
        self.assertEqual(sorted(os.listdir(self.folder)), ["full", "link"])

    def test_a_full_disk_leaves_what_was_there(self):
        self.write("x.json", b"before")
        full = limited(resource.RLIMIT_FSIZE, 4096)
        for outcome in self.writes("x.json", folder=self.folder, prepare=full):
            self.refused(outcome, "x.json: cannot be written: File too large")
            self.assertEqual((os.listdir(self.folder), self.read("x.json")),
                             (["x.json"], b"before"))
        self.refused(run(*SEARCH, prepare=limited(resource.RLIMIT_FSIZE, 65536)),
                     "expected room for what a search has visited, found: File too large")

    def test_a_failure_that_cannot_be_kept_is_still_told(self):
        os.mkdir(self.path("kvproof-failure-1.jsonl"))  # even root cannot replace it by a file
        self.write("kvproof-failure-1.jsonl/occupied", b"")
        for reason, left, surroundings in (
                ("Is a directory", ["kvproof-failure-1.jsonl"], {}), ("File too large", [], {
                    "stdout": "/dev/null", "prepare": limited(resource.RLIMIT_FSIZE, 100)})):
            outcome = run("check", BROKEN, "--findings=1", folder=self.folder,
                          environment={"KVPROOF_BREAK": "double_hand_out"}, **surroundings)
            self.assertEqual((outcome.code, outcome.lines, outcome.files), (1, [
                "kvproof: ./kvproof-failure-1.jsonl: the failing trace cannot be written: "
                + reason], []), outcome)
            self.assertEqual(b'{"op":"allocate"' in outcome.out, not surroundings)
            self.assertEqual(os.listdir(self.folder), left)
            shutil.rmtree(self.path("kvproof-failure-1.jsonl"), ignore_errors=True)

    def test_a_terminal_is_told_what_gate_builds(self):
        if not is_revision():
            self.skipTest("this is no git checkout")
        ours, its = os.openpty()
        gate = subprocess.Popen([program("gate"), "--against=HEAD", "--operations=1"], stderr=its,
                                stdout=subprocess.DEVNULL, start_new_session=True)
        os.close(its)
        told = b""
        try:
            while not re.search(rb"[1-9] %[^\r]* building HEAD", told):
                self.assertTrue(select.select([ours], [], [], 3600)[0], told)
                told += os.read(ours, 4096)  # an error when it has ended
        finally:
            gate.terminate()
            gate.wait()
            os.close(ours)
        self.assertIn(b"configuring HEAD", told)


class Files(Folder):
    def test_marks_and_line_endings_of_other_systems(self):
        with open(VECTOR, "rb") as stream:
            trace = stream.read()
        for name, data, words in (("t", trace, ("replay", "")), ("a", LOG, ("replay", "--trace=")),
                                  ("b", CSV, ("replay", "--trace="))):
            said = [run(*words[:-1], words[-1] + self.write(name, text), folder=self.folder)
                    for text in (data, gzip.compress(
                        b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")))]
            self.assertEqual([one.code for one in said], [0, 0], said[1])
            last = [one.out.rsplit(b"\n", 2)[-2] for one in said]
            self.assertEqual(last[0], last[1])

    def test_what_compares_nothing_does_not_hold(self):
        with open(VECTOR, "rb") as stream:
            header = {**json.loads(stream.readline()), "recorded_from": "kvproof"}
        invalid = ({"op": "release", "blocks": [99999]}, {"op": "free", "req": "unknown"})
        for operations, code, expected in (
                ((), 3, b"0 operations, 0 with recorded results: there is nothing to compare"),
                (invalid, 3, b"2 operations, 2 of them rejected"),
                ((*invalid, {"op": "arrive", "req": "a", "tokens": [1, 2]}), 0,
                 b"3 operations, 2 of them rejected")):
            lines = [header, *operations, {"op": "end", "ops": len(operations)}]
            outcome = run("replay", self.write("trace.jsonl", b"".join(
                json.dumps(line).encode() + b"\n" for line in lines)))
            self.assertEqual(outcome.code, code, outcome)
            self.assertIn(expected, outcome.out, outcome)


class Limits(Folder):
    def test_a_pool_that_does_not_fit_is_refused_with_both_figures(self):
        for words in (["--capacity-blocks=1000000000"],
                      ["--simulate", "--capacity-blocks=99", "--preempt=swap",
                       "--host-blocks=1000000000"],
                      ["--simulate", "--subject=naive", "--capacity-blocks=500000000"]):
            # So that what is refused does not depend on the memory of this machine.
            outcome = run("replay", "--trace=chat", *words,
                          prepare=limited(resource.RLIMIT_DATA, 16 << 30))
            self.refused(outcome, "GiB of memory; ", "GiB are available")
            self.assertRegex(outcome.lines[0], r"takes about \d+\.\d GiB")

    def test_an_allocator_that_takes_all_memory_is_bounded(self):
        promise = json.dumps({"promises": "safety", "block_ids": True, "operations": [
            "arrive", "append", "advance", "allocate", "free", "finish"]})
        endless = self.write("endless.py", (
            f"import sys; print({promise!r}, flush=True); input()\nheld = []\n"
            "while True: held.append(bytearray(1 << 20))").encode())
        for subject in (f"--subject-command={sys.executable} {endless}", BROKEN):
            outcome = run("check", subject, "--memory-limit-gib=0.25", "--operations=1",
                          folder=self.folder, environment={"KVPROOF_BREAK": "memory"})
            self.assertEqual((outcome.code, outcome.lines), (1, []), outcome)
            self.assertIn(b"it may take 0.25 GiB of memory (--memory-limit-gib)", outcome.out)
            self.assertLess(outcome.bytes_at_most, 400 << 20, outcome)

    def test_numbers_do_not_depend_on_the_language(self):
        base = run(*PLAN)
        for language in ("de_DE.UTF-8", "tr_TR.UTF-8", "C"):
            outcome = run(*PLAN, environment={"LC_ALL": language, "LANG": language})
            self.assertEqual((outcome.code, outcome.out), (0, base.out))


if __name__ == "__main__":
    unittest.main(verbosity=2)
