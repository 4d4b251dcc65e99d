# SPDX-License-Identifier: Apache-2.0
"""Every option of every program that --help lists, with a wrong value, twice, and some in a wrong
company: each is refused by name."""

import os
import re
import unittest

from program import CHECKOUT, Case, run

PROGRAMS = ("bench", "check", "gate", "plan", "replay", "selftest", "study")
TRACE = os.path.join(CHECKOUT, "properties/sources/traces/vectors/gates-vllm-0.24.jsonl")
NOWHERE = "/no/such/folder/x.json"  # ends a run before anything is measured

WRONG = {"ID": ["", "X1", "i1"], "IDS": ["X1", "I1,,I2", "I1;I2"],
         "N": ["-1", "010", "0x10", "+1", "1.5", "1e3", "nan", "9" * 23, "", "x", " 1", "1 "],
         "X": ["nan", "inf", "-inf", "1e999", "0x1p3", "", "x", "1,5", " 1", "1 "],
         "TEXT": [""], "PATH": [""], "FILE": [""]}
REPEATABLE = {("check", "--configuration"), ("check", "--without-law"),
              ("replay", "--without-law"), ("selftest", "--mutant"),
              ("selftest", "--only"), ("gate", "--workload"), ("study", "--trace")}

MAY = "[=NAMES]"  # a flag that may have a value

# A value that is right wherever the option is.
RIGHT = {"--trace": "chat", "--subject": "naive", "--subject-command": "cat",
         "--configuration": "chunked", "--mutant": "B001", "--lie": "refuses",
         "--against": "naive", "--baseline": "no_such_baseline.json", "--record": NOWHERE,
         "--workload": "eviction", "--summary": NOWHERE, "--filter": ".", "--json": NOWHERE,
         "--model": "llama-3-8b", "--memory-gib": "1", "--storage": "paged", "--preempt": "swap",
         "--without-law": "I1", "--known": os.devnull, "--require": "I1",
         "--pairs": "20", "--requests": "3", "--time-percent": "3"}

# One line for each kind of company that an option can be wrong in, the option last. Which options
# go together is stated beside each option (goes_with, not_with) and nowhere else.
ALONE = (
    ("bench", "--list", "--json=x.json"), ("check", "--exhaustive", "--seed=1"),
    ("check", "--subject=naive", "--hash=sha256"), ("check", "--resume=deep.json"),
    ("check", "--visited-memory-gib=1"),
    ("check", "--subject=naive", "--memory-limit-gib=1"), ("selftest", "--mutants", "--draw=2"),
    ("selftest", "--liars", "--mutants"), ("selftest", "--lie-about=fork"),
    ("gate", "--against=naive", "--no-time", "--pairs=20"),
    ("gate", f"--record={NOWHERE}", "--json=x.json"), ("plan", "--list", "--max-len=4"),
    ("replay", TRACE, "--simulate"), ("replay", TRACE, "--unpack=folder", "--audit"),
    ("replay", "--trace=chat", "--sessions-at-once=2"),
    ("replay", "--trace=chat", "--model=llama-3-8b"),
    ("replay", "--trace=chat", "--simulate", "--host-blocks=9"),
    ("replay", "--trace=chat", "--simulate", "--draft-acceptance=0.5"),
    ("study", "memory_of_models", "--seed=1"), ("study", "utilisation", "--trace=log.jsonl"),
)


def options_of(program):
    """name -> placeholder of its value, None for a flag"""
    text = run(program, "--help").out.decode()
    return {name: value for name, value in
            re.findall(r"^  (?:-h,)?(--[a-z0-9-]+)(?: (\S+)(?: \.\.\.)?)?(?: {2,}|$)",
                       text, re.MULTILINE)}


def as_word(name, placeholder):
    if not placeholder or placeholder == MAY:
        return name
    choices = placeholder.split("|")
    right = RIGHT.get(name, {"N": "1", "X": "0.5"}.get(placeholder, choices[0]))
    return f"{name}={choices[0] if len(choices) > 1 and right not in choices else right}"


class Options(Case):
    counted = 0

    @classmethod
    def tearDownClass(cls):
        print(f"{cls.counted} option lines", flush=True)

    def ask(self, program, *words, **options):
        type(self).counted += 1
        return run(program, *words, **options)

    def test_help(self):
        for program in PROGRAMS:
            outcome = self.ask(program, "--help")
            lines = outcome.out.decode().splitlines()
            self.assertEqual((outcome.code, outcome.error), (0, b""), outcome)
            self.assertIn(f"Usage: kvproof {program} [OPTIONS]", outcome.out.decode())
            self.assertTrue(lines[-1].startswith("Exit codes: 0 holds"), lines[-1])
            self.assertNotIn("/bin/", outcome.out.decode())
        files = {"--json", "--junit", "--sarif"}  # of what every verb that judges writes
        self.assertLessEqual(len({*options_of("check")} - files), 23,
                             "what else is a verb of its own?")

    def test_wrong_values(self):
        for program in PROGRAMS:
            for name, placeholder in options_of(program).items():
                if not placeholder:
                    self.refused(self.ask(program, f"{name}=1"), f"{name} takes no value")
                    continue
                wrong = WRONG.get(placeholder, ["", "nobody"])
                for value in wrong:
                    self.refused(self.ask(program, f"{name}={value}"), name)
                if placeholder == MAY:
                    continue
                self.refused(self.ask(program, name), f"{name}: expected a value")
                self.refused(self.ask(program, name, "--json"), f"{name}: expected a value")

    def test_given_twice(self):
        for program in PROGRAMS:
            for name, placeholder in options_of(program).items():
                if (program, name) in REPEATABLE:
                    continue
                word = as_word(name, placeholder)
                self.refused(self.ask(program, word, word), f"{name} is given twice")

    def test_unknown(self):
        for program in PROGRAMS:
            for word in ("--nonsense", "--js=x", "-x", "--json-", "--=", "---", "-"):
                self.refused(self.ask(program, word))

    def test_company(self):
        for program, *words in ALONE:
            outcome = self.ask(program, *words)
            self.refused(outcome, words[-1].partition("=")[0], what=f"{program} {words}")
            self.assertRegex(outcome.lines[0], r"\bgo(es)? with", outcome)


if __name__ == "__main__":
    unittest.main(verbosity=2)
