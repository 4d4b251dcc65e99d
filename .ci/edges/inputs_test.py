# SPDX-License-Identifier: Apache-2.0
"""More than a thousand bad inputs over every reader: an answer or one line, never a crash.

A damaged file may still be a good one, and then it is read. Whatever it is, the program ends by
itself with a documented exit code, within a second or so and 1 GiB; exit code 2 comes with exactly
one line, which names the file; nothing stays in the folder.
"""

import gzip
import json
import os
import sys
import tempfile
import unittest

import damage
from program import CHECKOUT, Case, program, run

VECTORS = os.path.join(CHECKOUT, "properties", "sources", "traces", "vectors")

LOGS = {
    "mooncake.jsonl": b'{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]}\n'
                      b'{"timestamp":9.5,"input_length":700,"output_length":0,"hash_ids":[0,2]}\n',
    "rtp.jsonl": b'{"ts":100,"il":2050,"ol":7,"cached":0,"bh":["7580216758801619145","3"]}\n'
                 b'{"ts":350,"il":93,"ol":0,"cached":0,"bh":[]}\n',
    "bailian.jsonl": b'{"chat_id":1,"parent_chat_id":-1,"timestamp":61.25,"input_length":40,'
                     b'"output_length":3,"type":"text","turn":1,"hash_ids":[5,6,5]}\n'
                     b'{"chat_id":2,"parent_chat_id":1,"timestamp":61.5,"input_length":33,'
                     b'"output_length":3,"type":"text","turn":2,"hash_ids":[5,6,7]}\n',
    "tokens.jsonl": b'{"input_toks":5,"output_toks":1,"arrival_time_ns":1000,'
                    b'"input_tok_ids":[1,2,3,4,5],"output_tok_ids":[9]}\n'
                    b'{"input_toks":4,"output_toks":1,"arrival_time_ns":2001000,'
                    b'"input_tok_ids":[1,2,4,3]}\n',
    "sessions.jsonl": b'{"id":"a","models":["m"],"block_size":64,"requests":['
                      b'{"t":0,"type":"n","in":64,"out":5,"hash_ids":[0]},'
                      b'{"requests":[{"t":0,"type":"n","in":128,"out":5,"runs":[7,2]}],'
                      b'"type":"subagent","t":2},'
                      b'{"t":9,"type":"n","in":64,"out":0,"hash_ids":[0]}]}\n',
    "azure.csv": b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
                 b"2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
    "burst.csv": b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                 b"5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,API log\n",
    "vidur.csv": b",num_prefill_tokens,num_decode_tokens\n0,374,44\n1,396,109\n",
}


def trace_of(name):
    """The first lines of a recorded vector, small enough to be damaged anywhere."""
    with open(os.path.join(VECTORS, name), "rb") as stream:
        lines = stream.read().splitlines(keepends=True)
    kept = lines[:9]
    return b"".join(kept) + json.dumps({"op": "end", "ops": len(kept) - 1}).encode() + b"\n"


class BadInputs(Case):
    count = 0
    counted = {}

    @classmethod
    def tearDownClass(cls):
        told = ", ".join(f"{name} {sum(codes.values())}" for name, codes in cls.counted.items())
        print(f"{cls.count} bad inputs: {told}", flush=True)
        for name, codes in cls.counted.items():
            print(f"  {name}: " + ", ".join(f"{count} ended with {code}"
                                            for code, count in sorted(codes.items())))

    def damaged(self, good, fields, times):
        """`times` damaged copies of `good`, half of them damaged within a field."""
        for i in range(times):
            yield fields(self.random, good) if i % 2 else damage.bytes_of(self.random, good)

    def ask(self, reader, data, name, codes, words):
        """@param words: path -> the name of the program and its arguments"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "wb") as stream:
                stream.write(data)
            outcome = run(*words(path), folder=folder)
            left = sorted(os.listdir(folder))
        what = f"{name}: {data[:300]!r} ({len(data)} bytes)"
        type(self).count += 1
        counts = self.counted.setdefault(reader, {})
        counts[outcome.code] = counts.get(outcome.code, 0) + 1
        if outcome.code == 77:
            self.skipTest(f"not possible here: {outcome.lines}")
        self.clean(outcome, what)
        fails = reader == "programs" and outcome.code == 1
        failure = ["kvproof-failure-1.html", "kvproof-failure-1.jsonl"] if fails else []
        self.assertEqual(left, sorted([name, *failure]), f"{what}\n{outcome}")
        self.assertIn(outcome.code, codes, f"{what}\n{outcome}")
        self.assertLess(outcome.seconds, 20, f"{what}\n{outcome}")
        if outcome.code == 2:
            self.refused(outcome, name, what=what)
        else:
            # A page of one figure says that it lacks the others.
            lacks = reader == "result files" and outcome.code == 1
            self.assertEqual(len(outcome.lines), 1 if lacks else 0, f"{what}\n{outcome}")

    def test_operation_traces(self):
        for name in ("gates-vllm-0.24.jsonl", "prefix_reuse-vllm-0.22.jsonl",
                     "eviction_order-vllm-0.24.jsonl"):
            for data in self.damaged(trace_of(name), damage.fields_of, 110):
                self.ask("operation traces", data, "trace.jsonl", (0, 1, 2, 3),
                         lambda path: ("replay", path))

    def test_request_logs(self):
        for name, good in LOGS.items():
            fields = damage.cells_of if name.endswith(".csv") else damage.fields_of
            for data in self.damaged(good, fields, 50):
                self.ask("request logs", data, name, (0, 2),
                         lambda path: ("replay", f"--trace={path}", "--capacity-blocks=4096"))

    def test_simulated_logs(self):
        for data in self.damaged(LOGS["mooncake.jsonl"], damage.fields_of, 60):
            self.ask("simulated logs", data, "mooncake.jsonl", (0, 2),
                     lambda path: ("replay", f"--trace={path}", "--simulate",
                                   "--capacity-blocks=4096"))

    def test_baselines(self):
        # A baseline that is read is followed by an output that cannot be written, so that nothing
        # is measured.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "base.json")
            recorded = run("gate", f"--record={path}", "--workload=eviction", "--operations=1",
                           environment={"PATH": "/nowhere"}, folder=folder)
            self.assertEqual(recorded.code, 0, recorded)
            with open(path, "rb") as stream:
                good = b" ".join(stream.read().split(b"\n")) + b"\n"  # as one line
        for data in self.damaged(good, damage.fields_of, 150):
            self.ask("baselines", data, "base.json", (2,),
                     lambda path: ("gate", f"--baseline={path}",
                                   f"--json={os.path.dirname(path)}/no/such/base.json"))

    def test_libraries(self):
        with open(program("replay"), "rb") as stream:
            elf = stream.read(20_000)
        for i in range(60):
            data = elf[:self.random.randrange(len(elf))] if i % 2 else self.random.randbytes(900)
            verb = self.random.choice(["check", "gate", "replay"])
            options = {"gate": ["--against=naive"],
                       "replay": [os.path.join(VECTORS, "gates-vllm-0.24.jsonl")]}.get(verb, [])
            self.ask("libraries", data, "libmine.so", (2,),
                     lambda path, verb=verb, options=options: (verb, *options, f"--subject={path}"))

    def test_programs(self):
        """Those that answer whatever: nonsense before the first promise is exit 2, later exit 1."""
        promise = json.dumps({"promises": "safety", "block_ids": True, "operations": [
            "arrive", "append", "advance", "allocate", "free", "finish"]}).encode()
        answer = json.dumps({"out": None, "state": {
            "tables": {}, "free": 3, "queue": [1, 2, 3], "ref": []}}).encode()
        good = promise + b"\n" + answer + b"\n"
        for data in self.damaged(good, damage.fields_of, 140):
            self.ask("programs", data, "answers.jsonl", (1, 2), lambda path: (
                "check", "--operations=1", "--configuration=chunked", "--time-limit-seconds=1",
                "--subject-command=" + "while read -r line && read -r answer <&3; "
                f"do printf '%s\\n' \"$answer\"; done 3<{path}"))

    def test_result_files(self):
        gallery = os.path.join(CHECKOUT, "reports", "gallery", "amd-epyc-zen3-2cpu")
        with gzip.open(os.path.join(gallery, "utilisation.json.gz")) as stream:
            good = b" ".join(stream.read().split(b"\n")) + b"\n"
        page = os.path.join(CHECKOUT, "reports", "make_page.py")
        for data in self.damaged(good, damage.fields_of, 40):
            self.ask("result files", data, "utilisation.json", (0, 1, 2, 77), lambda path: (
                sys.executable, "-B", page, path, "--output=/dev/null"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
