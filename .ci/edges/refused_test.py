# SPDX-License-Identifier: Apache-2.0
"""What the programs refuse: the commands of refused.txt, and wrong values of each option that a
--help lists, by the name that it gives a value."""

import gzip
import json
import os
import re
import shlex
import unittest

from program import CHECKOUT, PLUGINS, Folder, run

PROGRAMS = ("bench", "check", "gate", "plan", "replay", "selftest", "study")
TRACE = os.path.join(CHECKOUT, "properties/sources/traces/vectors/gates-vllm-0.24.jsonl")
NAMED = {"$PLUGINS": PLUGINS, "$TRACE": TRACE,
         "$RUN": os.path.join(CHECKOUT, "properties/shadow/runs/sound.jsonl"),
         "$REGRESSION": os.path.join(CHECKOUT, "properties/sources/regressions/stale-hit.jsonl")}
SCRIPTS = {name: ["/bin/sh", os.path.join(CHECKOUT, *path.split())] for name, path in {
    "kvproof": "kvproof", "report": "reports run.sh", "device": "reports device run.sh",
    "fuzz": "properties sources fuzz run.sh"}.items()}
SCRIPTS["fuzz"].append("-")
LOG = b'{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]}\n'
CSV = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"

# By what --help calls a value; a wrong one of any other name is "nobody".
WRONG = {"ID": ("X1", "i1"), "IDS": ("X1", "I1,,I2", "I1;I2"), "TEXT": (), "FILE": (),
         "N": ("-1", "010", "1.5", "1e3", "9" * 23, "x", " 1", "1 "),
         "X": ("nan", "-inf", "1e999", "0x1p3", "x", "1,5", "1 ")}


class Refused(Folder):
    def test_commands(self):
        with open(TRACE, "rb") as stream:
            lines = stream.readlines()
        header = json.loads(lines[0])
        header["config"]["groups"] *= 30_000
        for name, data in (
                ("my log.jsonl", LOG), ("log.csv", CSV), ("log.gz", gzip.compress(LOG)),
                ("mine", b'{"ts": 1}\n'), ("groups.jsonl", json.dumps(header).encode() + b"\n"),
                ("text.so", b"this is no library\n"), ("bad.json", b'{"schema":1,"results":[]}'),
                ("bad.jsonl", b'{"timestamp": 0}\n'), ("cut.zst", b"\x28\xb5\x2f\xfd\x04\x58"),
                ("late.jsonl", LOG + LOG + b"{\n"), ("empty.jsonl", b""),
                ("damaged.jsonl", lines[0] + lines[1][:9] + b"?" + lines[1][9:])):
            self.write(name, data)
        os.symlink("loop", self.path("loop"))
        there = sorted(os.listdir(self.folder))
        with open(os.path.join(os.path.dirname(__file__), "refused.txt"), encoding="utf-8") as rows:
            commands = [row.rstrip("\n") for row in rows if not row.startswith("#")]
        for row in commands:
            with self.subTest(row):
                for name, text in NAMED.items():
                    row = row.replace(name, text)
                command, _, said = row.partition(" => ")
                words = shlex.split(command)
                environment = {"KVPROOF_BIN": os.path.dirname(PLUGINS) + "/bin"}
                while "=" in words[0]:
                    environment.update([words.pop(0).split("=")])
                outcome = run(*SCRIPTS.get(words[0], words[:1]), *words[1:], folder=self.folder,
                              environment=environment)
                self.refused(outcome, said)
                self.assertIn(outcome.out, (b"", b"seed 1\n\n"), outcome)
                self.assertEqual(sorted(os.listdir(self.folder)), there, outcome)
                self.assertLess(outcome.seconds, 5, outcome)

    def test_options(self):
        """What --help lists, how it ends, and that each option of it refuses what it must."""
        for program in PROGRAMS:
            outcome = run(program, "--help")
            text = outcome.out.decode()
            self.assertEqual((outcome.code, outcome.error), (0, b""), outcome)
            self.assertIn(f"Usage: kvproof {program} [OPTIONS]", text)
            self.assertTrue(text.splitlines()[-1].startswith("Exit codes: 0 holds"), outcome)
            self.assertNotIn("/bin/", text)
            listed = re.findall(r"^  (?:-h,)?(--[a-z0-9-]+)(?: (\S+?)( \.\.\.)?)?(?: {2,}|$)", text,
                                re.MULTILINE)
            self.assertGreater(len(listed), 6, outcome)
            for option in listed:
                self.ask(program, *option)
            for word in ("--nonsense", "--js=x", "-x", "--json-", "--=", "-"):
                self.refused(run(program, word))
            if program == "check":  # but the files that every verb writes which judges
                names = {name for name, *_ in listed} - {"--json", "--junit", "--sarif"}
                self.assertLessEqual(len(names), 23, "what else is a verb of its own?")

    def ask(self, program, name, value, repeatable):
        must = value and not value.startswith("[=")  # it cannot be left out
        if not value:
            self.refused(run(program, f"{name}=1"), f"{name} takes no value")
        for wrong in ("", *WRONG.get(value, ("nobody",))) if value else ():
            self.refused(run(program, f"{name}={wrong}"), name)
        for words in ([name], [name, "--json"]) if must else ():
            self.refused(run(program, *words), f"{name}: expected a value")
        if not repeatable:
            self.refused(run(program, *[f"{name}=x" if must else name] * 2),
                         f"{name} is given twice")


if __name__ == "__main__":
    unittest.main(verbosity=2)
