#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the commands, transcripts and numbers of the READMEs hold.

    readme_test.py <build folder> commands | numbers | liars [--write]

"commands" runs the commands as they stand, as somebody in a fresh checkout would.

The documents are all of the tree's *.md but CHANGELOG.md, which names options without a command,
and reference/vllm/, whose backquotes hold formulas; and the examples in each verb's --help. What is
a command is a rule of form, so that nobody has to mark one, and nobody can hide one:

- In a fenced block without a language every line is a command. Where a line of it begins with "$ ",
  the block is a transcript: those lines are the commands, and each prints the lines below it, of
  which one that ends in "..." is a beginning. Lines of "#" are remarks. The only languages are
  cmake, cpp, json, python and yaml.
- A span in backquotes is a command if it begins with "./", if it is the path of an executable file,
  or if it has several words and the first, after NAME=value, is a program. "kvproof VERB" alone is
  the name of a verb. A span with an option is a command or begins with that option.

The commands of a document run in turn in one folder of their own, which links to the entries of the
checkout. Each must end with 0, or with the N of "exit code N" in its remark or in the parenthesis
behind it; one of LONG is ended when it has been under way for a while. One of NOT_RUN is not run,
but the program that it names is there. Nothing is installed: ./kvproof gets --no-install, in the
place of --yes. Exit code 77 with a reason where the build folder is not that of the launcher.

"numbers" compares the table of numbers in README.md with the rows that the commands beside it
write, or with --write replaces them; "liars" does so for the row that takes minutes. A row's first
cell names it; the numbers of its second cell are made here. The other rows need a request log, a
network or hours. One operation for each bug counts the bugs: mutants_test holds that all are
killed.
"""
import contextlib
import fcntl
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engines.allocators.rows import ROWS
from kvproof_report.common import parts

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "reports" / "gallery" / "amd-epyc-zen3-2cpu"
SECONDS = 3600   # a hang, of a command which is not LONG
UNDER_WAY = 3    # [s] after which one of LONG is ended

# What takes minutes.
LONG = re.compile(
    r"\./kvproof (report|test|gate\b.*(--against=(HEAD|\./base|naive)|--record)|bench --filter=|"
    r"check($| --(deep|exhaustive|subject=naive))|selftest|"
    r"study (published|live_memory))|gate\.sh|make_page|tests/(kernel_mutants|random)_test")

NOT_RUN = (  # (a pattern of commands, why they are not run)
    (r"kvproof engines($| --[ceh])|bench --peers --(yes|filter)|test --outside|pip (install|wheel)|"
     r"\bV/bin|^curl|_trace\.jsonl|traces/\*\.json|\.ci/bare", "needs the network"),
    (r"--mutation-score|--non-unity|coverage\.sh|kvproof fuzz|cmake .*--preset|\.ci/(run|same)",
     "builds everything once more"),
    (r"kvproof device($| --output| --peers)", "needs a GPU"),
    (r"^afl-fuzz", "needs AFL++"),
    (r"scheduler/\w+\.py|kvproof live (FILE|--scheduler|--engine)|vllm serve", "needs vLLM"),
    (r"^clang-format -i|KVPROOF_RECORD=1", "writes into the sources"),
)

NEEDS = (  # (a pattern of commands, a test of what they need)
    (r"\./kvproof gate|gate\.sh|--figure=gate", "command -v valgrind"),
    (r"make_page|draw_figure|--figure=|kvproof report",
     f"{sys.executable} -c 'import matplotlib'"),
    (r"^c\+\+|libmine\.so|gate\.sh", "echo '#include <nlohmann/json.hpp>' | c++ -E -x c++ -"),
    (r"HEAD~1", f"git -C {ROOT} rev-parse --verify -q HEAD~1"),
    (r"\bgit ", "command -v git"),
)
ABSENT = {"afl-fuzz", "curl", "clang-format", "pip", "vllm"}  # programs that a machine may lack


BLOCK = re.compile(r"^ *```(.*)\n((?:.*\n)*?) *```$", re.M)
Command = namedtuple("Command", "place text code shown", defaults=((),))  # document:line


def program(words):
    """Whether these words begin with something that can be run."""
    alone = len(words) == 1
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    first = words[0] if words else ""
    if first.startswith(("./", "(")):
        return True
    if "/" in first and os.path.isfile(ROOT / first) and os.access(ROOT / first, os.X_OK):
        return True
    return not alone and (first in ABSENT or first.startswith(("build/", "V/bin/"))
                          or re.match("kvproof(-|$)", first) is not None
                          or shutil.which(first) is not None)


def find_commands(place, text):
    """(the commands of a document in their order, complaints)"""
    commands, complaints = [], []

    def note(line, words, remark):
        code = re.search(r"\bexit code (\d+)", remark)
        commands.append((line, Command(f"{place}:{line}", words, int(code[1]) if code else 0, [])))

    def complain(line, what):
        complaints.append(f"{place}:{line}: {what}")

    for block in BLOCK.finditer(text):
        begin = text.count("\n", 0, block.start(2)) + 1
        if block[1] not in ("", "cmake", "cpp", "json", "python", "yaml"):
            complain(begin, "a language other than cmake, cpp, json, python and yaml")
        transcript = re.search(r"^\$ ", block[2], re.M)
        for line in [] if block[1] else re.finditer(r"(?:.*\\\n)*.+", block[2]):
            number = begin + block[2].count("\n", 0, line.start())
            whole = re.sub(r"\\\n *", "", line[0])
            words, _, remark = re.sub(r"(^|\s+)# ", "\0", whole, count=1).partition("\0")
            words = words.removeprefix("$ ").strip()
            if transcript and not whole.startswith("$ "):
                commands[-1][1].shown.append(whole)
            if not words or transcript and not whole.startswith("$ "):
                continue
            if not program(words.split()):
                complain(number, f"is no command: {words}")
            note(number, words, remark)
    prose = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    for match in re.finditer(r"^(    |\t| *```)", prose, re.M):
        complain(prose.count("\n", 0, match.start()) + 1, "code that is indented or has no end")
    for match in re.finditer(r"(`+)([^`]+)\1(?: \(([^`)]*)\))?", prose):
        words, number = match[2].split(), prose.count("\n", 0, match.start()) + 1
        if not words or words[0].startswith("-") or re.fullmatch(r"kvproof \w+", " ".join(words)):
            continue
        if program(words):
            note(number, " ".join(words), match[3] or "")
        elif any(re.match("--?[a-z]", word) for word in words[1:]):
            complain(number, f"has an option and is no command: {' '.join(words)}")
        if words[0] == "kvproof" and len(words) > 1:
            complain(number, f"write ./kvproof: {match[2]}")
    return [one for _, one in sorted(commands, key=lambda pair: pair[0])], complaints


def find_examples(place, text):
    """The commands of the help of a verb."""
    match = re.search(r"^Examples?: (.*\n(?: +.*\n)*)", text, re.M)
    for line in match[1].splitlines() if match else ["none"]:
        here = re.sub(r"(^|; )kvproof ", r"\1./kvproof ", line.strip())
        yield Command(f"{place}:1", here, 0)


def verbs():
    said = subprocess.run([ROOT / "kvproof", "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  ([a-z]+)[* ] ", said.stdout, re.M)


def test_find_commands():
    """The rule finds what it says, and complains of what it says."""
    found, wrong = find_commands("a", "\n".join([
        "Say `./kvproof a`, `kvproof gate`, `--json=F`, `one word`, `X=1 sh b` and `sh", "c`.",
        "```", "sh d \\", "  e   # exit code 3", "# sh f", "```", "```", "$ sh g", "sh h", "```",
        "```cpp", "int i;", "```", "`sh j` (exit code 1) `.ci/run` `touch`"]))
    assert not wrong, wrong
    assert [(c.text, c.code) for c in found] == [
        ("./kvproof a", 0), ("X=1 sh b", 0), ("sh c", 0), ("sh d e", 3), ("sh g", 0), ("sh j", 1),
        (".ci/run", 0)], found
    assert [c.shown for c in found if c.shown] == [["sh h"]], found
    assert lacking(["a...", "ab", "b", "b..."], "ab\n") == ["b", "b..."]
    for text in ("```text\nsh a\n```", "a:\n\n    sh a", "`unknown --a`", "```\nunknown a\n```",
                 "`kvproof gate --a`", "```\nsh a"):
        assert find_commands("a", text)[1], f"no complaint of {text!r}"


def lacking(shown, printed):
    """The lines of a transcript that were not printed."""
    return [line for line in shown if not any(
        one == line or line.endswith("...") and one.startswith(line[:-3])
        for one in printed.splitlines())]


def documents():
    skipped = {"build", "results", "install"}
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT)
        if name.parts[0] not in skipped and not name.parts[0].startswith(".") \
                and name.name != "CHANGELOG.md" and name.parts[:2] != ("reference", "vllm"):
            yield str(name), path.read_text(encoding="utf-8")


LAUNCHER = """#!/bin/sh
for word do
  shift
  [ "$word" = --yes ] || set -- "$@" "$word"
done
case ${{1:-}} in
  '' | -* | help | version | doctor | device) exec {launcher} "$@" ;;
  *) exec {launcher} "$@" --no-install ;;
esac
"""


class Folder:
    """Where the commands of one document run."""

    def __init__(self, work, name):
        self.path = work / name
        self.log = work / f"{name}.log"
        tools = work / f"{name}.tools"
        for folder in (self.path, tools):
            folder.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in ("kvproof", "results", "install", ".git"):
                (self.path / entry.name).symlink_to(entry)
        for path, text in ((self.path / "kvproof", LAUNCHER.format(launcher=ROOT / "kvproof")),
                           (tools / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')):
            path.write_text(text)
            path.chmod(0o755)
        self.environment = dict(
            os.environ, PATH=f"{tools}:{os.environ['PATH']}", KVPROOF_PYTHON=sys.executable,
            TMPDIR=str(tools), PYTHONDONTWRITEBYTECODE="1")

    def run(self, command):
        """What is wrong with a command; empty if nothing is."""
        measures = "kvproof report" in command.text and "--compare" not in command.text
        if re.search(r"\bresults\b", command.text) and not measures:
            (self.path / "results").mkdir(exist_ok=True)  # what a report would have left
            for packed in GALLERY.glob("*.json.gz"):
                (self.path / "results" / packed.stem).write_bytes(
                    gzip.decompress(packed.read_bytes()))
        is_long = LONG.search(command.text)
        with open(self.log, "w") as log:
            child = subprocess.Popen(["sh", "-c", command.text], cwd=self.path, stdout=log,
                                     stderr=log, env=self.environment, stdin=subprocess.DEVNULL,
                                     start_new_session=True)
        if command.text == "./kvproof report":  # under way once --resume could go on from a part
            patience = time.monotonic() + SECONDS
            while (child.poll() is None and time.monotonic() < patience
                   and not (self.path / "results" / "run.json").exists()):
                time.sleep(1)
        try:
            code = child.wait(UNDER_WAY if is_long else SECONDS)
        except subprocess.TimeoutExpired:
            end(child)
            return "" if is_long else f"takes more than {SECONDS} s: is it LONG?"
        if code != command.code:
            return f"exit code {code}, expected {command.code}"
        absent = lacking(command.shown, self.log.read_text(errors="replace"))
        return f"does not print: {absent[0]}" if absent else ""


def end(child):
    """Asks it and what it has started to end, and insists. Nothing of them is left then."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        for _ in range(150):
            child.poll()
            os.killpg(child.pid, 0)
            time.sleep(0.1)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def why_not(text, known={}):
    """Why a command is not run; empty if it is."""
    for pattern, reason in NOT_RUN:
        if re.search(pattern, text):
            return reason
    for pattern, needed in NEEDS:
        if re.search(pattern, text):
            if needed not in known:
                known[needed] = subprocess.run(needed, shell=True, capture_output=True).returncode
            if known[needed]:
                return f"needs: {needed}"
    return ""


def expanded(commands):
    """VERB is each verb; a long command runs once, but a report where others go on from it."""
    seen = set()
    for place, text, code, shown in commands:
        for verb in verbs() if " VERB" in text else [""]:
            if text not in seen or text == "./kvproof report" or not LONG.search(text):
                yield Command(place, text.replace("VERB", verb), code, shown)
        seen.add(text)


def run_document(work, name, commands, failures, lock):
    folder = Folder(work, re.sub(r"[/ ]", ".", name))
    for command in commands:
        started = time.monotonic()
        reason = why_not(command.text)
        wrong = "" if reason else folder.run(command)
        with lock:
            print(f"{time.monotonic() - started:5.1f} s  {command.place}: {command.text}"
                  + (f"  (not run: {reason})" if reason else ""))
            if wrong:
                failures.append(command.place)
                print(f"FAILED: {wrong}\n" + folder.log.read_text(errors="replace")[-2000:])


def run_commands(build):
    test_find_commands()
    if Path(build).resolve() != ROOT / "build" / "release":
        print(f"skipped: {build} is not where ./kvproof builds")
        return 77
    by_document, failures = {}, []
    for name, text in documents():
        by_document[name], complaints = find_commands(name, text)
        failures += complaints
    for verb in ["", *verbs()]:
        words = ["kvproof", *verb.split(), "--help"]
        said = subprocess.run([ROOT / words[0], *words[1:]], capture_output=True, text=True,
                              check=True).stdout
        name = " ".join(words)
        by_document[name] = list(find_examples(name, said))
    everything = list(expanded([c for commands in by_document.values() for c in commands]))
    lock = threading.Lock()
    with open(Path(build) / "test.lock", "a") as tests, tempfile.TemporaryDirectory() as work, \
            ThreadPoolExecutor(4) as pool:
        with contextlib.suppress(OSError):  # so that ./kvproof test waits; its caller may hold it
            fcntl.flock(tests, fcntl.LOCK_EX | fcntl.LOCK_NB)
        running = [pool.submit(run_document, Path(work), name,
                               [c for c in everything if c.place.startswith(name + ":")],
                               failures, lock)
                   for name in sorted(by_document, key=lambda n: -len(by_document[n]))]
        for one in running:
            one.result()
    print(f"{len(everything)} commands of {len(by_document)} documents, {len(failures)} failures")
    for failure in failures:
        print(f"  {failure}")
    return 1 if failures else 0


# ---- the table of numbers ----------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\d.])\d+(?:,\d{3})*(?!\.?\d)")
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
    """(the first cell of a row, the numbers of its second); one that is not made here is None"""
    checked = rows_of(0, f"{build}/bin/kvproof-check", "--subject=optimized-xxh3",
                      "--operations=2000")
    known = checked["check"][0]
    yield ("each law of an allocator rejects states written to break it",
           [len(checked["check_law"])])
    yield ("features (layers, pools, tiers, policies) are tried together",
           [known["pairs_of_features"], known["pairs_possible"]])
    random = f"{build}/tests/random_test"
    names = re.findall(r"/naive_vllm_(\d_\d+)_(\w+)", said(0, random, "--gtest_list_tests"))
    profiles, configurations = map(set, zip(*names))
    assert len(names) == len(profiles) * len(configurations)
    out = said(0, random, "--gtest_filter=*/StateMachine.*/naive_vllm_0_24_plain")
    operations = int(out.partition("KVPROOF_OPERATIONS=")[2].split()[0])
    yield ("model and allocator agree, in each run of the tests",
           [operations, len(configurations), len(profiles)])

    seeded = rows_of(1, f"{build}/bin/kvproof-selftest", "--mutants", "--operations=1")
    of = Counter(row["family"] for row in seeded["mutant"])
    reports = of.total() - of["P"] - of["E"]
    yield ("published bugs, reproduced; each is detected by its own law, with all other laws off",
           [reports, reports, seeded["mutants"][0]["not_applicable"]])
    yield "bugs seeded into our allocator, in the same way", [of["P"]] * 2
    yield "bugs seeded into the simulated scheduler, detected in its runs", [of["E"]] * 2
    text = (ROOT / "properties/kernels/kernel_mutants.h").read_text(encoding="utf-8")
    text, _, others = text.partition("kKernelNotApplicable[]")
    published, ours = text.count('\n    {"B'), text.count('\n    {"M')
    yield ("bugs seeded into CUDA kernels are detected on a CPU",
           [published + ours, published + ours, published, ours,
            text.count("NoticedBy::addresses}"), others.count("    {")])

    engines = [row for row in ROWS if row.source != "own"]
    pages = [path.name for path in (ROOT / "properties/engines/findings").glob("*-*.md")]
    of, of_runs = (Counter(name.split("-")[0] for name in pages if ("-run-" in name) == runs)
                   for runs in (False, True))
    yield ("allocators of twelve other engines under the same laws",
           [len(engines), *[None] * 3, of.total(), of["openvino"], of["vllm"], of["tvm"]])
    yield "bugs seeded into copies of nine of them", [None, sum(len(e.seeded) for e in engines)]
    run = rows_of(0, f"{build}/bin/kvproof-live", str(ROOT / "properties/shadow/runs/sound.jsonl"))
    yield ("laws of a whole engine's run",
           [len(run["live_law"]), of_runs["vllm"], of_runs.total() - of_runs["vllm"]])
    replayed, ours = (said(0, f"{build}/bin/kvproof-replay",
                           *map(str, (ROOT / "properties/sources/traces").glob(files)))
                      for files in ("recordings", "vectors/recorded-*"))
    of = [replayed.count(f" (vllm-{release}): ") for release in ("0.22", "0.24", "0.33")]
    yield ("what vLLM's own managers answered is repeated block for block",
           [sum(of), sum(of), *of, ours.count(" (vllm-")])


def liars(build):
    lies = rows_of(0, f"{build}/bin/kvproof-selftest", "--liars")
    cells, excused = len(lies["liar"]), lies["liars"][0]["excused"]
    yield "false answers, one at a time", [cells - excused, cells, excused]


def rewritten(text, made):
    """README.md with these numbers in its table."""
    head, block, tail = text.split("<!-- numbers: ")
    lines = [line.split(" | ") for line in block.split("\n")]
    for what, numbers in made:
        places = [cells for cells in lines if cells[0] == f"| {what}"]
        assert len(places) == 1, f"README.md has {len(places)} rows in its table: {what}"
        assert len(NUMBER.findall(places[0][1])) == len(numbers), f"not of {numbers}: {places[0]}"
        each = iter(numbers)
        places[0][1] = NUMBER.sub(
            lambda found: found[0] if (now := next(each)) is None else f"{now:,}", places[0][1])
    return "<!-- numbers: ".join([head, "\n".join(map(" | ".join, lines)), tail])


def compare_numbers(build, make, write):
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    made = list(make(build))
    if write:
        return path.write_text(rewritten(text, made), encoding="utf-8") * 0
    wrong = [f"README.md has other numbers than these: {what}: {numbers}"
             for what, numbers in made if rewritten(text, [(what, numbers)]) != text]
    measured = parts.parts_of("default")
    seconds = parts.PAGE_SECONDS + sum(p.expected_seconds("default", 0) for p in measured)
    line = f"in {len(measured)} parts, about {seconds} s once"
    wrong += [] if line in text else [f"README.md does not say: {line}"]
    print("\n".join(wrong or [f"{what}: {numbers}" for what, numbers in made]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run_commands(sys.argv[1]) if sys.argv[2:] == ["commands"] else compare_numbers(
        sys.argv[1], {"numbers": quick, "liars": liars}[sys.argv[2]], sys.argv[3:] == ["--write"]))
