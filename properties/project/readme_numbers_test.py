#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The numbers of README.md are those that the commands beside them print.

    readme_numbers_test.py <build folder> [liars]

Without "liars" it asks what is known within seconds: `check` with fewer operations and one subject,
`selftest --mutants` with one operation for each bug, which counts them all and kills few (that all
are killed is what mutants_test holds), and lists. It also runs the commands of transcripts, blocks
with lines of "$ ", and looks for each line of output; one that ends in "..." is a beginning. With
"liars" it runs `selftest --liars` whole and unpacks the recordings. What takes longer (all states),
a request log or a network is not asked.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "reports"), str(ROOT / "properties" / "foreign" / "engines")]
sys.dont_write_bytecode = True
from kvproof_report.common import parts  # noqa: E402
from rows import ROWS  # noqa: E402


def surroundings():
    return {name: value for name, value in os.environ.items() if not name.startswith("KVPROOF_")}


def said(code, *command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings())
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def number(pattern, text):
    match = re.search(pattern, text, re.M)
    assert match, f"nothing is printed like {pattern}:\n{text}"
    return int(match[1])


def printed(build):
    """(a pattern of README.md, the numbers that its groups must be)"""
    out = said(0, f"{build}/bin/kvproof-check", "--subject=optimized-xxh3", "--operations=2000")
    yield r"rejects states .*?\| (\S+) laws ", [number(r"of (\d+) laws evaluated", out)]
    yield r"(\S+) of the (\S+) pairs that exist", [number(r"^(\d+) of \d+ pairs of features", out),
                                                   number(r"of (\d+) pairs of features", out)]
    configurations = number(r"of (\d+) configurations,", out)

    out = said(1, f"{build}/bin/kvproof-selftest", "--mutants", "--operations=1")
    patches = number(r"^P +patches of optimized/ +(\d+)", out)
    schedulers = number(r"^E +faults of schedulers +(\d+)", out)
    reports = number(r"^all +(\d+)", out) - patches - schedulers
    yield (r"(\S+) of (\S+); (\S+) more need a mechanism that kvproof does not have \(\[`mutants.h",
           [reports, reports, number(r"(\d+) reports need a mechanism", out)])
    yield r"(\S+) of (\S+) \(\[`optimized.patches", [patches, patches]
    yield r"(\S+) of (\S+) \(\[`serving.patches", [schedulers, schedulers]

    random = f"{build}/tests/random_test"
    names = re.findall(r"(\w+)_vllm_(\d_\d+)_(\w+)",
                       said(0, random, "--gtest_list_tests", "--gtest_filter=*/StateMachine.*"))
    out = said(0, random, "--gtest_filter=*/StateMachine.*/naive_vllm_0_24_plain")
    subjects, profiles, rows = ({name[i] for name in names} for i in range(3))
    assert len(names) == len(subjects) * len(profiles) * len(rows) and len(rows) == configurations
    yield (r"\| on (\S+) random operations in each of (\S+) configurations and (\S+) profiles",
           [number(r"KVPROOF_OPERATIONS=(\d+)", out), configurations, len(profiles)])

    text = (ROOT / "properties/kernels/kernel_mutants.h").read_text(encoding="utf-8")
    ids = re.findall(r'^ +\{"([BM])\d+ ', text, re.M)
    others = re.findall(r'^ +\{"', text[text.index("kKernelNotApplicable[]"):], re.M)
    yield (r"on a CPU \| (\S+) of (\S+) \((\S+) published, (\S+) ours\), "
           r"(\S+) only by AddressSanitizer; (\S+) more",
           [len(ids), len(ids), ids.count("B"), ids.count("M"),
            len(re.findall(r"NoticedBy::addresses\}", text)), len(others)])

    engines = [row for row in ROWS if row.source != "own"]
    advisories = [path for path in (ROOT / "properties/foreign/findings").glob("*.md")
                  if path.name != "README.md"]
    of_runs = [path.name for path in advisories if "-run-" in path.name]
    of_vllm = [name for name in of_runs if name.startswith("vllm-")]
    yield (r"of (\S+) revisions .*?\[(\S+) advisories\]",
           [len(engines), len(advisories) - len(of_runs)])
    yield (r"copies of nine .*?\| \S+ of (\S+) are detected",
           [sum(len(row.seeded) for row in engines)])
    out = said(0, f"{build}/bin/kvproof-live", str(ROOT / "properties/live/runs/sound.jsonl"))
    yield (r"engine's run \| (\S+) laws; (\S+) more \[advisories\].*?, (\S+) for continuous",
           [len(re.findall(r"^ +[SL]\d+ ", out, re.M)), len(of_vllm), len(of_runs) - len(of_vllm)])

    out = said(0, f"{build}/bin/kvproof-replay", str(ROOT / "properties/traces/recordings"))
    replayed = number(r"^(\d+) passed, 0 failed, 0 skipped", out)
    vectors = map(str, (ROOT / "properties/traces/vectors").glob("recorded-*"))
    ours = number(r"^(\d+) passed, 0 failed, 0 skipped", said(
        0, f"{build}/bin/kvproof-replay", *vectors))
    yield r"(\S+) of (\S+) recordings .* and (\S+) that we", [replayed, replayed, ours]

    measured = parts.parts_of("default")
    yield (r"in (\S+) parts, about (\S+) s once", [len(measured), parts.PAGE_SECONDS + sum(
        part.expected_seconds("default", 0) for part in measured)])


def lies(build):
    out = said(0, f"{build}/bin/kvproof-selftest", "--liars")
    yield (r"(\S+) of (\S+) are detected; the other (\S+) cannot be observed",
           [number(pattern, out) for pattern in (r"^(\d+) of \d+ cells", r"of (\d+) cells noticed",
                                                 r"noticed, (\d+) excused")])
    with tempfile.TemporaryDirectory() as work:
        said(0, f"{build}/bin/kvproof-replay", str(ROOT / "properties/traces/recordings"),
             f"--unpack={work}/all")
        yield (r"recordings \((\S+) of 0.22, (\S+) of 0.24, (\S+) of 0.33.0\)",
               [len(list(Path(work, "all", f"vllm-{release}").iterdir()))
                for release in ("0.22", "0.24", "0.33")])


def transcripts(build, text):
    """What is wrong with the transcripts: lines of output that their commands do not print."""
    for block in re.findall(r"^```\n(\$ .*?)^```$", text, re.M | re.S):
        with tempfile.TemporaryDirectory() as work:
            Path(work, "properties").symlink_to(ROOT / "properties")
            out = []
            for line in block.splitlines():
                if line.startswith("$ "):
                    command = line[2:].replace("./kvproof ",
                                               f"{Path(build).resolve()}/bin/kvproof-")
                    out = subprocess.run(command, shell=True, cwd=work, capture_output=True,
                                         text=True, check=False, env=surroundings()).stdout
                elif not any(one == line or line.endswith("...") and one.startswith(line[:-3])
                             for one in out.splitlines()):
                    yield f"README.md shows a line that is not printed: {line}"


def difference(text, pattern, numbers):
    """What is wrong with this text; empty if it has the numbers, once."""
    places = list(re.finditer(pattern, text, re.M))
    if len(places) != 1:
        return f"{len(places)} places in README.md are like {pattern}"
    there = [group.replace(",", "") for group in places[0].groups()]
    wanted = [str(n) for n in numbers]
    return "" if there == wanted else f"README.md says {there}, printed is {wanted}: {pattern}"


def main(build, which="quick"):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    failures = []
    if which == "quick":
        failures += transcripts(build, text)
        print("\n".join(failures))
        wrong = transcripts(build, "```\n$ echo ab\na...\nab\na\n$ echo c\nab\nb...\n```\n")
        assert [line.split(": ")[1] for line in wrong] == ["a", "ab", "b..."], "none is read"
    for pattern, numbers in (lies if which == "liars" else printed)(build):
        failures.append(difference(text, pattern, numbers))
        print(failures[-1] or f"{numbers}: {pattern}")
        for i in range(len(numbers) if not failures[-1] else 0):  # and it notices another number
            start, end = re.search(pattern, text, re.M).span(i + 1)
            changed = f"{text[:start]}{numbers[i] + 1}{text[end:]}"
            assert difference(changed, pattern, numbers), pattern
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
