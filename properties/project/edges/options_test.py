# SPDX-License-Identifier: Apache-2.0
"""Every option of every program, with a wrong value and in a wrong company.

The options are those that --help lists, so a new one fails here until MODES says where it has an
effect. Where it has none it must be refused by name; where it has one it must not be.
"""

import os
import re
import tempfile
import unittest

from program import CHECKOUT, Case, run

PROGRAMS = ("bench", "check", "gate", "plan", "replay", "selftest", "study")
TRACE = os.path.join(CHECKOUT, "properties", "traces", "vectors", "gates-vllm-0.24.jsonl")
NOWHERE = "/no/such/folder/x.json"  # ends a run before anything is measured

WRONG = {"ID": ["", "X1", "i1"], "IDS": ["X1", "I1,,I2", "I1;I2"],
         "N": ["-1", "010", "0x10", "+1", "1.5", "1e3", "nan", "9" * 23, "", "x", " 1", "1 "],
         "X": ["nan", "inf", "-inf", "1e999", "0x1p3", "", "x", "1,5", " 1", "1 "],
         "TEXT": [""], "PATH": [""], "FILE": [""]}
REPEATABLE = {("check", "--configuration"), ("check", "--without-law"), ("selftest", "--mutant"),
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

LOG = ["--ids-block-size", "--max-context", "--skip-zero-input", "--skip-zero-output",
       "--sessions-at-once"]
REQUESTS = ["--requests", "--block-size", "--capacity-blocks", "--hash", "--json"]
TIME = ["--card", "--model", "--bandwidth-gb-per-s", "--peak-tflop-per-s", "--bandwidth-share",
        "--compute-share", "--step-overhead-us"]
SERVING = ["--over-time", *TIME, "--profile", "--step-tokens", "--max-running",
           "--closed-loop-clients", "--draft-tokens", "--memory-gib", "--storage",
           "--steps-in-flight"]
PAGED = ["--admit-by-chunk", "--no-prefix-cache", "--watermark", "--preempt", "--laws",
         "--subject", "--subject-command", "--defer-frees"]
IN_FLIGHT = ["--steps-in-flight", "--defer-frees"]
THRESHOLDS = ["--instructions-percent", "--misses-percent", "--allocations-percent",
              "--bytes-percent", "--hits-percent", "--preemptions-percent"]
LIMITS = ["--start-limit-seconds", "--memory-limit-gib"]
GATE = ["--subject", "--hash", "--profile", "--operations", "--workload", "--time-limit-seconds"]
FINDINGS = ["--findings", "--shrink-seconds", "--without-law", "--known", "--require"]
LENGTHS = ["--max-len", "--in-flight-tokens", "--workload", "--mean-len"]

# program, the words that choose what is done, the options that have an effect then
MODES = (
    ("bench", [], ["--filter", "--json", "--smoke", "--list", "--min-seconds-per-case",
                   "--fewest-rounds", "--seed"]),
    ("bench", ["--list"], ["--filter", "--smoke"]),
    ("check", [], ["--subject", "--subject-command", "--hash", "--profile", "--configuration",
                   "--seed", "--operations", "--exhaustive", "--deep", "--json", *FINDINGS]),
    ("check", ["--deep=1"], ["--subject", "--subject-command", "--hash", "--profile",
                             "--configuration", "--seed", "--operations", "--resume", "--json",
                             *FINDINGS]),
    ("check", ["--hash=sha256"], ["--profile", "--configuration", "--seed", "--operations",
                                  "--deep", "--json", "--exhaustive", *FINDINGS]),
    ("check", ["--subject=naive"], ["--profile", "--configuration", "--seed", "--operations",
                                    "--deep", "--json", "--exhaustive", *FINDINGS]),
    ("check", ["--subject-command=cat"], ["--profile", "--configuration", "--seed", "--operations",
                                          "--deep", "--json", "--time-limit-seconds", *LIMITS,
                                          *FINDINGS]),
    ("check", ["--exhaustive=lone"], ["--subject", "--hash", "--json"]),
    ("selftest", ["--mutants"], ["--mutant", "--seed", "--operations", "--json"]),
    ("selftest", ["--mutation-score"], ["--seed", "--draw", "--all", "--only", "--excuses",
                                        "--json"]),
    ("selftest", ["--mutation-score", "--only=none"], ["--seed", "--excuses", "--json"]),
    ("selftest", ["--liars"], ["--lie", "--lie-about", "--seed", "--operations", "--json"]),
    ("gate", ["--against=naive"], [*GATE, "--json", "--summary", "--seed", "--pairs", "--no-time",
                                   "--time-percent", *THRESHOLDS]),
    ("gate", ["--against=naive", "--no-time"], [*GATE, "--json", "--summary", "--seed",
                                                *THRESHOLDS]),
    ("gate", ["--baseline=no_such_baseline.json"], [*GATE, "--json", "--summary", *THRESHOLDS]),
    ("gate", [f"--record={NOWHERE}"], [*GATE, "--seed"]),
    ("gate", ["--subject=./no_such.so", "--against=naive"],
     [*(o for o in GATE if o not in ("--subject", "--hash")), "--json", "--summary", "--seed",
      "--pairs", "--no-time", "--time-percent", *THRESHOLDS, *LIMITS]),
    ("plan", ["--list"], []),
    ("plan", ["--model=llama-3-8b", "--memory-gib=60"], ["--block-size", *LENGTHS, "--dtype",
                                                         "--json"]),
    ("plan", ["--model=llama-3-8b", "--memory-gib=60", "--mean-len=500"],
     ["--block-size", "--max-len", "--in-flight-tokens", "--dtype", "--json"]),
    ("replay", [TRACE],
     ["--subject", "--subject-command", "--hash", "--audit", "--pack", "--unpack"]),
    ("replay", [TRACE, "--unpack=folder"], []),
    ("replay", [TRACE, "--hash=sha256"], ["--audit"]),
    ("replay", [TRACE, "--subject=naive"], ["--audit"]),
    ("replay", ["--trace=log.jsonl"], [*LOG, *REQUESTS, "--simulate"]),
    ("replay", ["--trace=chat"], [*REQUESTS, "--simulate"]),
    ("replay", ["--trace=chat", "--simulate"], [*REQUESTS, *SERVING, *PAGED]),
    ("replay", ["--trace=chat", "--simulate", "--draft-tokens=2"],
     [*REQUESTS, *SERVING, *PAGED, "--draft-acceptance", "--seed"]),
    ("replay", ["--trace=chat", "--simulate", "--capacity-blocks=600"],
     [*(o for o in REQUESTS + SERVING if o != "--memory-gib"), *PAGED]),
    ("replay", ["--trace=chat", "--simulate", "--preempt=swap", "--host-blocks=9"],
     [*REQUESTS, *(o for o in SERVING + PAGED if o not in IN_FLIGHT)]),
    ("replay", ["--trace=chat", "--simulate", "--subject=naive"],
     [*(o for o in REQUESTS + SERVING + PAGED if o not in ("--hash", "--subject-command")),
      "--record"]),
    ("replay", ["--trace=chat", "--simulate", "--profile=vllm-0.24"],
     [*(o for o in REQUESTS + SERVING + PAGED if o not in IN_FLIGHT)]),
    ("replay", ["--trace=chat", "--simulate", "--storage=contiguous_oracle"],
     [*(o for o in REQUESTS + SERVING if o != "--hash")]),
    ("replay", ["--trace=chat", "--simulate", "--storage=contiguous_max_length"],
     [*(o for o in REQUESTS + SERVING if o != "--hash"), "--reserve-tokens"]),
    ("study", [], ["--trace", "--json", "--seed", "--smoke"]),
    ("study", ["memory_of_models"], ["--json", "--smoke"]),
    ("study", ["utilisation"], ["--json", "--smoke", "--seed"]),
    ("study", ["serving"], ["--json", "--smoke", "--seed", "--trace"]),
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
        self.assertLessEqual(len(options_of("check")), 20, "what else is a verb of its own?")

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
        log = b'{"timestamp":0,"input_length":600,"output_length":2,"hash_ids":[0,1]}\n'
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "log.jsonl"), "wb") as stream:
                stream.write(log)
            for program, words, effective in MODES:
                self.company(program, words, effective, folder)

    def company(self, program, words, effective, folder):
        options = options_of(program)
        self.assertEqual(set(effective) - set(options), set(), f"{program}: not in --help")
        chosen = {word.partition("=")[0] for word in words}
        for name in options.keys() - chosen - {"--help"}:
            line = [*words, as_word(name, options[name])]
            if name == "--preempt":
                line.append("--host-blocks=9")
            if name not in effective:
                outcome = self.ask(program, *line, folder=folder)
                self.refused(outcome, name, what=f"{program} {line}")
                self.assertRegex(outcome.lines[0], r"\bgo(es)? with", outcome)
                continue
            if "--json" in effective and name != "--json":
                line.append(f"--json={NOWHERE}")
            outcome = self.ask(program, *line, folder=folder)
            self.clean(outcome)
            self.assertNotRegex("\n".join(outcome.lines), f"{name} (goes|does not go) with", line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
