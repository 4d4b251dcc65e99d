# SPDX-License-Identifier: Apache-2.0
"""Every option of every program that --help lists, with a wrong value, twice, and some in a wrong
company: each is refused by name."""

import os
import re
import unittest

from program import CHECKOUT, Case, run

PROGRAMS = ("bench", "check", "gate", "plan", "replay", "selftest", "study")
TRACE = os.path.join(CHECKOUT, "properties/sources/traces/vectors/gates-vllm-0.24.jsonl")
# By what --help calls a value; a wrong one of any other name is "nobody".
WRONG = {"ID": ("X1", "i1"), "IDS": ("X1", "I1,,I2", "I1;I2"), "TEXT": (), "FILE": (),
         "N": ("-1", "010", "0x10", "+1", "1.5", "1e3", "nan", "9" * 23, "x", " 1", "1 "),
         "X": ("nan", "inf", "-inf", "1e999", "0x1p3", "x", "1,5", " 1", "1 ")}

# Each option that is last here lacks another or has a wrong one beside it: one for each kind of
# company. Which options go together is stated beside each option (goes_with, not_with).
ALONE = f"""
bench --list --json=x.json
check --exhaustive --seed=1
check --subject=naive --hash=sha256
check --resume=deep.json
check --visited-memory-gib=1
check --subject=naive --memory-limit-gib=1
selftest --mutants --draw=2
selftest --lie-about=fork
gate --against=naive --no-time --pairs=20
gate --record=/no/such/folder/x.json --json=x.json
plan --list --max-len=4
replay {TRACE} --simulate
replay {TRACE} --unpack=folder --audit
replay --trace=chat --sessions-at-once=2
replay --trace=chat --model=llama-3-8b
replay --trace=chat --simulate --host-blocks=9
study memory_of_models --seed=1
study utilisation --trace=log.jsonl
"""


class Options(Case):
    def test_help(self):
        """What it lists, how it ends, and that each option of it refuses what it must."""
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

    def test_unknown(self):
        for program in PROGRAMS:
            for word in ("--nonsense", "--js=x", "-x", "--json-", "--=", "---", "-"):
                self.refused(run(program, word))

    def test_company(self):
        for line in ALONE.strip().splitlines():
            outcome = run(*line.split(" "))
            self.refused(outcome, line.split(" ")[-1].partition("=")[0], what=line)
            self.assertRegex(outcome.lines[0], r"\bgo(es)? with", outcome)


if __name__ == "__main__":
    unittest.main(verbosity=2)
