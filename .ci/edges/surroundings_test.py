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
import tempfile
import unittest

from program import CHECKOUT, PROGRAMS, Case, program, run

VECTOR = os.path.join(CHECKOUT, "properties/sources/traces/vectors/gates-vllm-0.24.jsonl")
PLUGINS = os.path.join(os.path.dirname(PROGRAMS), "plugins")
LOG = b'{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]}\n'
CSV = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
PLAN = ("plan", "--model=llama-3-8b", "--memory-gib=60")

SHORT = {"bench": ["--smoke", "--filter=serving_cost/10000$"],
         "check": ["--subject=naive", "--configuration=full", "--operations=1"],
         "gate": ["--against=naive", "--operations=1", "--workload=chat", "--no-time"],
         "plan": PLAN[1:], "replay": [VECTOR], "study": ["memory_of_one_request"]}


class Folder(Case):
    def setUp(self):
        super().setUp()
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as stream:
            stream.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as stream:
            return stream.read()


class Output(Folder):
    def test_full_standard_output_is_an_error_of_every_program(self):
        for name, words in SHORT.items():
            for arguments in (words, ["--help"]):
                without_valgrind = {"PATH": "/nowhere"} if name == "gate" else {}
                outcome = run(name, *arguments, stdout="/dev/full", environment=without_valgrind)
                self.refused(outcome, "standard output")

    def test_closed_standard_output(self):
        for name in ("bench", "plan", "replay", "study"):
            outcome = run("/bin/sh", "-c", 'exec "$0" "$@" >&-', program(name),
                          *SHORT[name])
            self.assertEqual((outcome.code, outcome.files), (2, []), outcome)

    def test_a_reader_that_goes_away_leaves_nothing(self):
        outcome = run("/bin/sh", "-c", 'exec "$0" "$@" --json=x.json | true', program("bench"),
                      "--smoke", "--filter=serving_cost/10000$", folder=self.folder)
        self.clean(outcome)
        self.assertLessEqual(set(os.listdir(self.folder)), {"x.json"})

    def test_a_device_or_a_pipe_is_written_in_place(self):
        for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            outcome = run("/bin/sh", "-c", 'exec "$0" "$@" | cat', program("replay"),
                          "--trace=chat", "--requests=3", f"--json={name}")
            self.clean(outcome)
            self.assertEqual(self.result_in(outcome.out)["schema"], 1, outcome)

    def test_a_full_device_stays_a_device(self):
        device = self.path("full")  # a second one: a program that failed here would replace it
        try:
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
        except PermissionError as error:
            self.skipTest(f"no device can be made: {error}")
        outcome = run("replay", "--trace=chat", "--requests=3", f"--json={device}",
                      folder=self.folder)
        self.refused(outcome, f"{device}: cannot be written")
        self.assertTrue(stat.S_ISCHR(os.stat(device).st_mode))
        self.assertEqual(os.listdir(self.folder), ["full"])

    def test_standard_output_in_a_file_keeps_all_of_it(self):
        outcome = run(*PLAN, "--json=/dev/stdout", stdout=self.path("out"))
        self.clean(outcome)
        text = self.read("out")
        self.assertIn(b"bytes per token", text)
        self.assertEqual(self.result_in(text)["schema"], 1)

    @staticmethod
    def result_in(text):
        return json.JSONDecoder().raw_decode(text.decode()[text.index(b'{"schema"'):])[0]

    def test_a_file_that_may_not_grow_is_named(self):
        def no_growth():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        outcome = run(*PLAN, "--json=out.json", folder=self.folder, prepare=no_growth)
        self.refused(outcome, "out.json: cannot be written: File too large")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_full_disk_ends_a_search_that_needs_it(self):
        def little_growth():
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        outcome = run("check", "--exhaustive=lone", "--visited-memory-gib=0.0001", "--json=x.json",
                      folder=self.folder, prepare=little_growth)
        self.refused(outcome, "expected room for what a search has visited, found: File too large")
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_failure_that_cannot_be_kept_is_still_told(self):
        os.mkdir(self.path("kvproof-failure-1.jsonl"))  # even root cannot replace it by a file
        self.write("kvproof-failure-1.jsonl/occupied", b"")
        def tell(**surroundings):
            return run("check", f"--subject={PLUGINS}/broken_plugin.so", "--findings=1",
                       folder=self.folder, environment={"KVPROOF_BREAK": "double_hand_out"},
                       **surroundings)

        words = "kvproof: ./kvproof-failure-1.jsonl: the failing trace cannot be written: "
        outcome = tell()
        self.assertEqual((outcome.code, outcome.files), (1, []), outcome)
        self.assertEqual(outcome.lines, [words + "Is a directory"])
        self.assertIn(b'{"op":"allocate"', outcome.out)
        self.assertNotIn(b"cannot be written", outcome.out)
        self.assertEqual(os.listdir(self.folder), ["kvproof-failure-1.jsonl"])
        shutil.rmtree(self.path("kvproof-failure-1.jsonl"))
        outcome = tell(stdout="/dev/null", prepare=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (100, 100)))
        self.assertEqual((outcome.code, outcome.lines), (1, [words + "File too large"]), outcome)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_terminal_is_told_what_gate_builds(self):
        if subprocess.run(["git", "-C", CHECKOUT, "rev-parse", "-q", "--verify", "HEAD"],
                          capture_output=True, check=False).returncode != 0:
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

    def test_no_folder_for_temporary_files(self):
        search = ("--exhaustive=lone", "--visited-memory-gib=0.0001")
        for name, words in (("gate", SHORT["gate"]), ("check", search)):
            outcome = run(name, *words, environment={"TMPDIR": "/no/such/folder"})
            self.refused(outcome, "/no/such/folder")


class Files(Folder):
    def test_a_log_is_no_operation_trace_and_the_reverse(self):
        for name, data in (("log.jsonl", LOG), ("log.csv", CSV), ("log.gz", gzip.compress(LOG))):
            path = self.write(name, data)
            self.refused(run("replay", path), path, f"kvproof replay --trace={path}")
        self.refused(run("replay", f"--trace={VECTOR}"), VECTOR, f"kvproof replay {VECTOR}")
        self.refused(run("study", "serving", f"--trace={VECTOR}"), f"kvproof replay {VECTOR}")

    def test_a_file_of_another_kind_is_named_with_what_reads_it(self):
        live = os.path.join(CHECKOUT, "properties", "shadow", "runs", "sound.jsonl")
        log = self.write("my log.jsonl", LOG)
        for name, path, expected in (
                ("explain", log, f"; this is a request log: kvproof explain --trace='{log}'"),
                ("lens", log, "kvproof replay --trace="), ("live", log, "; this is a request log"),
                ("live", VECTOR, f"; this is an operation trace: kvproof replay {VECTOR}"),
                ("replay", live, f"; this is a run of an engine: kvproof live {live}")):
            self.refused(run(name, path, folder=self.folder), f"{path}: line 1: ", expected)
        log = self.write("mine.jsonl", b'{"ts": 1, "prompt": "x"}\n')
        self.refused(run("replay", f"--trace={log}"), "found the field 'ts'; the least is "
                     '{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": [...]}')

    def test_loops_of_links_and_folders_without_a_trace(self):
        os.symlink("loop", self.path("loop"))
        for name in ("explain", "lens", "live", "replay"):
            self.refused(run(name, "loop", folder=self.folder), "loop: ", "symbolic links")
        for name in ("explain", "lens", "replay"):
            self.refused(run(name, ".", folder=self.folder), ".: expected a trace, or a folder "
                         "that kvproof replay --pack has made; found a folder that is not")

    def test_marks_and_line_endings_of_other_systems(self):
        with open(VECTOR, "rb") as stream:
            trace = stream.read()
        base = run("replay", VECTOR).out.rsplit(b"\n", 2)[-2]
        for data in (b"\xef\xbb\xbf" + trace, trace.replace(b"\n", b"\r\n"),
                     gzip.compress(b"\xef\xbb\xbf" + trace.replace(b"\n", b"\r\n"))):
            outcome = run("replay", self.write("trace.jsonl", data))
            self.assertEqual((outcome.code, outcome.out.rsplit(b"\n", 2)[-2]), (0, base), outcome)
        for name, data in (("log.jsonl", LOG), ("log.csv", CSV)):
            for text in (b"\xef\xbb\xbf" + data, data.replace(b"\n", b"\r\n")):
                self.assertEqual(run("replay", f"--trace={self.write(name, text)}").code, 0)

    def test_damage_is_told_by_byte_and_cause(self):
        with open(VECTOR, "rb") as stream:
            header = stream.readline()
        for line, expected in ((b'{"op":"fr\0ee"}', "byte 10: a NUL byte"),
                               (b'{"op":NaN}', "byte 7: syntax error"),
                               (b'{"op":"\xff"}', "ill-formed UTF-8 byte"),
                               (b'{"op":"free"', "unexpected end of input"),
                               (b"[1]", "a JSON object, found an array"),
                               (b"", "found an empty line")):
            path = self.write("trace.jsonl", header + line + b"\n")
            self.refused(run("replay", path), f"{path}: line 2: expected", expected)

    def test_what_compares_nothing_does_not_hold(self):
        with open(VECTOR, "rb") as stream:
            header = json.loads(stream.readline())
        header["recorded_from"] = "kvproof"

        def trace(*operations):
            lines = [header, *operations, {"op": "end", "ops": len(operations)}]
            return self.write("trace.jsonl", b"".join(
                json.dumps(line).encode() + b"\n" for line in lines))

        invalid = ({"op": "release", "blocks": [99999]}, {"op": "free", "req": "unknown"})
        for operations, code, expected in (
                ((), 3, b"0 operations, 0 with recorded results: there is nothing to compare"),
                (invalid, 3, b"2 operations, 2 of them rejected"),
                ((*invalid, {"op": "arrive", "req": "a", "tokens": [1, 2]}), 0,
                 b"3 operations, 2 of them rejected")):
            outcome = run("replay", trace(*operations))
            self.assertEqual(outcome.code, code, outcome)
            self.assertIn(expected, outcome.out, outcome)
        self.refused(run("replay", self.write("empty.jsonl", b"")), "empty.jsonl", "an empty file")

    def test_a_header_of_30000_groups(self):
        with open(VECTOR, "rb") as stream:
            header = json.loads(stream.readline())
        header["config"]["groups"] *= 30_000
        path = self.write("trace.jsonl", json.dumps(header).encode() + b"\n")
        outcome = run("replay", path)
        self.refused(outcome, "field groups: expected at most 64")
        self.assertLess(outcome.seconds, 5)

    def test_no_library(self):
        half = os.path.join(PLUGINS, "half_plugin.so")
        outcome = run("check", f"--subject={half}")
        self.refused(outcome, f"kvproof check: {half}: exports no kvproof_subject_create")
        self.assertEqual(outcome.lines[0].count("exports no"), 1)
        self.refused(run("check", f"--subject={self.folder}"), "found a directory")
        self.refused(run("check", "--subject=./none.so"), "found no such file")
        self.refused(run("check", "--subject=/dev/null"), "something that is no file")


class Limits(Folder):
    def test_a_pool_that_does_not_fit_is_refused_with_both_figures(self):
        for words in (["--capacity-blocks=1000000000"],
                      ["--simulate", "--capacity-blocks=1000000000"],
                      ["--simulate", "--capacity-blocks=99", "--preempt=swap",
                       "--host-blocks=1000000000"],
                      ["--simulate", "--subject=naive", "--capacity-blocks=500000000"]):
            outcome = run("replay", "--trace=chat", *words, prepare=at_most_16_gib)
            self.refused(outcome, "GiB of memory; ", "GiB are available")
            self.assertRegex(outcome.lines[0], r"takes about \d+\.\d GiB")

    def test_an_allocator_that_takes_all_memory_is_bounded(self):
        begin = f"import sys; print({json.dumps(PROMISE)!r}, flush=True); input()\n"
        endless = self.write("endless.py", (
            begin + "held = []\nwhile True: held.append(bytearray(1 << 20))").encode())
        program_of = f"--subject-command={sys.executable} {endless}"
        library = f"--subject={PLUGINS}/broken_plugin.so"
        for subject in (program_of, library):
            outcome = run("check", subject, "--memory-limit-gib=0.25", "--operations=1",
                          folder=self.folder, environment={"KVPROOF_BREAK": "memory"})
            self.assertEqual((outcome.code, outcome.lines), (1, []), outcome)
            self.assertIn(b"it may take 0.25 GiB of memory (--memory-limit-gib)", outcome.out)
            self.assertLess(outcome.bytes_at_most, 400 << 20, outcome)

    def test_a_constructor_that_hangs(self):
        library = f"--subject={PLUGINS}/broken_plugin.so"
        for words in (["check"], ["gate", "--against=naive"]):
            outcome = run(*words, library, "--start-limit-seconds=0.5",
                          environment={"KVPROOF_BREAK": "start"})
            self.refused(outcome, "no answer within 0.5 s")

    def test_numbers_do_not_depend_on_the_language(self):
        base = run(*PLAN)
        for language in ("de_DE.UTF-8", "tr_TR.UTF-8", "C"):
            outcome = run(*PLAN, environment={"LC_ALL": language, "LANG": language})
            self.assertEqual((outcome.code, outcome.out), (0, base.out))


PROMISE = {"promises": "safety", "block_ids": True,
           "operations": ["arrive", "append", "advance", "allocate", "free", "finish"]}


def at_most_16_gib():
    """So that what is refused does not depend on the memory of this machine."""
    resource.setrlimit(resource.RLIMIT_DATA, (16 << 30, 16 << 30))


if __name__ == "__main__":
    unittest.main(verbosity=2)
