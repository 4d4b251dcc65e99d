#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of numbers in README.md is made from the rows that the commands beside it write.

    readme_numbers_test.py <build folder> [quick | liars] [--write]

A row's first cell names it. Where its numbers are made here, its second cell is compared, or with
--write replaced; the other rows need a request log, a network or hours. "quick" takes seconds: one
operation for each bug counts the bugs (mutants_test holds that all are killed). It also runs
transcripts, blocks with lines of "$ ", and looks for each line of output; one that ends in "..." is
a beginning.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from engines.allocators.rows import ROWS
from kvproof_report.common import parts

ROOT = Path(__file__).resolve().parents[1]

SURROUNDINGS = {name: text for name, text in os.environ.items() if not name.startswith("KVPROOF_")}


def said(code, *command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=SURROUNDINGS)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def rows_of(code, *command):
    """{experiment: its rows} of a command, each with its parameters and the values of metrics"""
    out = {}
    with tempfile.TemporaryDirectory() as work:
        said(code, *command, f"--json={work}/rows.json")
        for row in json.loads(Path(work, "rows.json").read_text(encoding="utf-8"))["results"]:
            values = {name: metric["value"] for name, metric in row["metrics"].items()}
            out.setdefault(row["experiment"], []).append({**row["parameters"], **values})
    return out


def quick(build):
    """(the first cell of a row, its second)"""
    checked = rows_of(0, f"{build}/bin/kvproof-check", "--subject=optimized-xxh3",
                      "--operations=2000")
    known = checked["check"][0]
    laws = len(checked["check_law"])
    yield "each law of an allocator rejects states written to break it", f"{laws} laws"
    yield ("features (layers, pools, tiers, policies) are tried together",
           f"{known['pairs_of_features']} of the {known['pairs_possible']} pairs that exist")
    random = f"{build}/tests/random_test"
    names = re.findall(r"/naive_vllm_(\d_\d+)_(\w+)", said(0, random, "--gtest_list_tests"))
    profiles, configurations = map(set, zip(*names))
    assert len(names) == len(profiles) * len(configurations)
    out = said(0, random, "--gtest_filter=*/StateMachine.*/naive_vllm_0_24_plain")
    operations = int(out.partition("KVPROOF_OPERATIONS=")[2].split()[0])
    yield ("model and allocator agree, in each run of the tests",
           f"on {operations:,} random operations in each of {len(configurations)} configurations "
           f"and {len(profiles)} profiles")

    seeded = rows_of(1, f"{build}/bin/kvproof-selftest", "--mutants", "--operations=1")
    of = Counter(row["family"] for row in seeded["mutant"])
    reports = of.total() - of["P"] - of["E"]
    yield ("published bugs, reproduced; each is detected by its own law, with all other laws off",
           f"{reports} of {reports}; {seeded['mutants'][0]['not_applicable']} more need a "
           "mechanism that kvproof does not have")
    yield "bugs seeded into our allocator, in the same way", f"{of['P']} of {of['P']}"
    faults = f"{of['E']} of {of['E']}"
    yield "bugs seeded into the simulated scheduler, detected in its runs", faults
    text = (ROOT / "properties/kernels/kernel_mutants.h").read_text(encoding="utf-8")
    text, _, others = text.partition("kKernelNotApplicable[]")
    published, ours = text.count('\n    {"B'), text.count('\n    {"M')
    yield ("bugs seeded into CUDA kernels are detected on a CPU",
           f"{published + ours} of {published + ours} ({published} published, {ours} ours), "
           f"{text.count('NoticedBy::addresses}')} only by AddressSanitizer; "
           f"{others.count('    {')} more cannot be seeded")

    engines = [row for row in ROWS if row.source != "own"]
    pages = [path.name for path in (ROOT / "properties/engines/findings").glob("*-*.md")]
    of, of_runs = (Counter(name.split("-")[0] for name in pages if ("-run-" in name) == runs)
                   for runs in (False, True))
    findings = "advisories](properties/engines/findings/README.md)"
    yield ("allocators of twelve other engines under the same laws",
           f"of {len(engines)} revisions 17 pass, 3 fail by defects that we found, 4 by defects "
           f"reported before; [{of.total()} {findings}: {of['openvino']} on OpenVINO, "
           f"{of['vllm']} on vLLM, {of['tvm']} on TVM")
    seeds = sum(len(row.seeded) for row in engines)
    yield "bugs seeded into copies of nine of them", f"193 of {seeds} are detected"
    run = rows_of(0, f"{build}/bin/kvproof-live", str(ROOT / "properties/shadow/runs/sound.jsonl"))
    yield ("laws of a whole engine's run",
           f"{len(run['live_law'])} laws; {of_runs['vllm']} more [{findings} with the "
           f"twelve defects above, {of_runs.total() - of_runs['vllm']} for continuous batching in "
           "transformers")
    replayed, ours = (said(0, f"{build}/bin/kvproof-replay",
                           *map(str, (ROOT / "properties/sources/traces").glob(files)))
                      for files in ("recordings", "vectors/recorded-*"))
    of = [replayed.count(f" (vllm-{release}): ") for release in ("0.22", "0.24", "0.33")]
    yield ("what vLLM's own managers answered is repeated block for block",
           f"{sum(of)} of {sum(of)} recordings ({of[0]} of 0.22, {of[1]} of 0.24, {of[2]} of "
           f"0.33.0), and {ours.count(' (vllm-')} that we made of further cases")


def liars(build):
    lies = rows_of(0, f"{build}/bin/kvproof-selftest", "--liars")
    cells, excused = len(lies["liar"]), lies["liars"][0]["excused"]
    yield ("false answers, one at a time", f"{cells - excused:,} of {cells:,} are detected; "
           f"the other {excused} cannot be observed by a caller")


def rewritten(text, made):
    """README.md with these second cells in its table, whose links to sources remain."""
    head, block, tail = text.split("<!-- numbers: ")
    lines = [line.split(" | ") for line in block.split("\n")]
    for what, numbers in made:
        places = [cells for cells in lines if cells[0] == f"| {what}"]
        assert len(places) == 1, f"README.md has {len(places)} rows in its table: {what}"
        places[0][1] = " ([`".join([numbers, *places[0][1].split(" ([`")[1:]])
    return "<!-- numbers: ".join([head, "\n".join(map(" | ".join, lines)), tail])


def transcripts(build, text):
    """The lines of output that the commands of transcripts do not print."""
    for block in (block for block in text.split("```\n") if block.startswith("$ ")):
        with tempfile.TemporaryDirectory() as work:
            Path(work, "properties").symlink_to(ROOT / "properties")
            for line in block.splitlines():
                if line.startswith("$ "):
                    command = line[2:].replace("./kvproof ",
                                               f"{Path(build).resolve()}/bin/kvproof-")
                    out = subprocess.run(command, shell=True, cwd=work, capture_output=True,
                                         text=True, check=False, env=SURROUNDINGS).stdout
                elif not any(one == line or line.endswith("...") and one.startswith(line[:-3])
                             for one in out.splitlines()):
                    yield f"README.md shows a line that is not printed: {line}"


def main(build, which="quick", write=""):
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    made = list((liars if which == "liars" else quick)(build))
    if write:
        return path.write_text(rewritten(text, made), encoding="utf-8") * 0
    wrong = [f"README.md has other numbers than these: {what} | {numbers}"
             for what, numbers in made if rewritten(text, [(what, numbers)]) != text]
    if which == "quick":
        measured = parts.parts_of("default")
        seconds = parts.PAGE_SECONDS + sum(p.expected_seconds("default", 0) for p in measured)
        line = f"in {len(measured)} parts, about {seconds} s once"
        wrong += [*transcripts(build, text), *([] if line in text else [line])]
        broken = transcripts(build, "```\n$ echo ab\na...\nab\na\n$ echo c\nab\nb...\n```\n")
        assert [line.split(": ")[1] for line in broken] == ["a", "ab", "b..."], "none is read"
    print("\n".join(wrong or map(": ".join, made)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
