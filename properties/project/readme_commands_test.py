#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of the READMEs as they stand, as somebody in a fresh checkout would.

    readme_commands_test.py <build folder>

The documents are all of the tree's *.md but CHANGELOG.md, which names options without a command,
and reference/vllm/, whose backquotes hold formulas; and the examples in each verb's --help. What is
a command is a rule of form, so that nobody has to mark one, and nobody can hide one:

- In a fenced block without a language every line is a command. Where a line of it begins with "$ ",
  the block is a transcript: those lines are the commands, the others are output. Lines of "#" are
  remarks. The only languages are cmake, cpp and json; none of their lines may begin as a
  command does.
- Lines that are indented by four columns would be code, too: they must be fenced.
- A span in backquotes is a command if it begins with "./", if it is the path of an executable file,
  or if it has several words and the first, after NAME=value, is a program: on the PATH, below
  build/, or one of the lists below. "kvproof VERB" alone is the name of a verb. A span with an
  option is a command or begins with that option.

- The lines of a --help behind "Example:" or "Examples:" are commands.

The commands of a document run in turn in one folder of their own, which links to the entries of the
checkout. Each must end with 0, or with the N of "exit code N" in its remark or in the parenthesis
behind it. A command of LONG must be under way when it is interrupted, and leave nothing running and
nothing half-written. One of NOT_RUN is not run. Both lists name the command whole, and an entry
that no document has any more is an error. "VERB" stands for each verb of the launcher.

Nothing is installed: ./kvproof gets --no-install, in the place of --yes. Exit code 77 with a reason
where the build folder is not that of the launcher.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60      # that a command may take which is not in LONG
UNDER_WAY = 1.0   # [s] that one of LONG runs, once it is built, before it is interrupted
TO_END = 10       # [s] that it then may take to end

LONG = {
    "measures for minutes": [
        "./kvproof report", "./kvproof report --yes", "./kvproof report --thorough",
        "./kvproof report --full", "./kvproof report --resume",
        "./kvproof report --trace=log.jsonl --output=results/log",
        "./kvproof report --thorough --output=my-machine && gzip -9n my-machine/*.json",
        "./kvproof bench --filter=concurrent_pool", "./kvproof bench --filter=textbook",
        "./kvproof bench --filter=pool_operation", "./kvproof bench --filter=serving_cost",
        "./kvproof bench --filter=life_cycle --json=life_cycle.json",
        "./kvproof bench --filter=paged_decode --json=decode.json",
        "./kvproof bench --filter=memory", "./kvproof bench --filter=movement/copy",
        "./kvproof bench --filter=movement/gather", "./kvproof bench --filter=movement/reshape",
        "./kvproof bench --filter=movement/slot", "./kvproof bench --filter=movement/swap"],
    "checks for minutes": [
        "./kvproof check", "./kvproof check --deep=60 --resume=deep.json",
        "./kvproof check --deep=3600",
        "./kvproof check --exhaustive", "./kvproof check --subject=naive --seed=7",
        "./kvproof selftest --mutants", "./kvproof selftest --mutants --json=mutants.json",
        "./kvproof selftest --liars", "./kvproof study published",
        "build/release/tests/kernel_mutants_test", "build/release/tests/random_test",
        "./kvproof study live_memory --json=live.json"],
    "builds and measures twice": [
        "./kvproof gate --against=HEAD~1",
        "./kvproof gate --subject=./libmine.so --against=./base.so --summary=comment.md",
        "./kvproof gate --record=base.json && ./kvproof gate --baseline=base.json --json=gate.json",
        "(cd mine && sh gate.sh .. HEAD summary.md)",
        "./kvproof gate --against=naive --no-time --summary=comment.md",
        "./kvproof gate --record=base.json; ./kvproof gate --baseline=base.json"],
    "draws every figure of the page": [
        "python3 reports/make_page.py results/*.json --output=results/report.html --png",
        "python3 reports/make_page.py reports/gallery/amd-epyc-zen3-2cpu/*.json.gz "
        "--output=report.html --png"],
    # They wait for the tests that are running, of which this is one, and are interrupted there.
    "is what is running": [
        "./kvproof test", "./kvproof test --yes", "./kvproof test --full",
        "./kvproof test --filter=BlockPool", "./kvproof test --filter=RecordsAndIndex",
        "./kvproof test --full --filter=RealLog"],
}

NOT_RUN = {
    "needs the network": [
        "./kvproof engines --checkout=..",
        "curl -LO https://github.com/kvcache-ai/Mooncake/raw/main/FAST25-release/traces/"
        "conversation_trace.jsonl",
        "./kvproof replay --trace=conversation_trace.jsonl --block-size=512 "
        "--capacity-blocks=18279",
        "./kvproof replay --trace=conversation_trace.jsonl --block-size=512 "
        "--capacity-blocks=2000",
        "./kvproof study prefix_hit_rate --trace=conversation_trace.jsonl",
        "awk 1 traces/*.json >sessions.jsonl",
        "python3 -m venv V && V/bin/pip install --no-deps vllm==0.24.0 && "
        "V/bin/pip install msgspec cbor2 pyzmq typing_extensions",
        './kvproof check --subject-command="V/bin/python properties/foreign/vllm_adapter.py"',
        './kvproof check --subject-command="V/bin/python properties/foreign/vllm_adapter.py '
        '--around-known"',
        './properties/foreign/record_runs.py "vllm 0.33.0" V/bin/python '
        "properties/foreign/vllm_adapter.py | gzip -9n >runs.jsonl.gz",
        "pip install .", "pip wheel ."],
    "compiles every mutant of optimized/": [
        "./kvproof selftest --mutation-score", "./kvproof selftest --mutation-score --all",
        "./kvproof selftest --mutation-score --draw=20 --seed=7"],
    "installs gigabytes from PyPI": [
        "./kvproof engines", "./kvproof engines --engine=vllm-v0",
        "./kvproof engines --engine=vllm-v1", "./kvproof engines --engine=nano-vllm --checkout=..",
        "./kvproof engines --checkout=..",
        "./kvproof engines --history", "./kvproof engines --history --json=results/history.json"],
    "needs a GPU": ["./kvproof device", "./kvproof device --output=h200"],
    "needs root and the network": [
        ".ci/bare", '.ci/bare "test --full"', ".ci/bare report", ".ci/bare test"],
    "needs AFL++": [
        "afl-fuzz -i properties/fuzz/corpus/full -o out -- build/fuzz/fuzz_full"],
    "builds everything once more, in a folder of its own": [
        "./kvproof test --non-unity", ".cmake/coverage.sh", "./kvproof fuzz",
        "./kvproof fuzz --seconds=600 --target=hybrid",
        "cmake --workflow --preset debug-audit", "cmake --workflow --preset asan-ubsan",
        "cmake --workflow --preset tsan", "cmake --workflow --preset clang",
        "cmake --preset clang && clang-tidy -p build/clang optimized/*.cpp"],
    "builds in the folder that is being tested": [
        "cmake --workflow --preset test", ".ci/run", ".ci/run test", ".ci/run test --full"],
    "writes into the sources": [
        "clang-format -i $(git ls-files '*.h' '*.cpp')",
        "KVPROOF_RECORD=1 build/release/tests/traces_test"],
}

# What a command of LONG must have written before it is interrupted, because a later one reads it.
UNTIL = {"./kvproof report": "results/run.json"}

# What the launcher says last before it starts the program, or before it waits for other tests.
AT_WORK = r"^(.*, )?built in|runs the tests of .*: waiting for it$"

# What a command that was interrupted would have left, where a later one of the document reads it.
STANDS_IN = {"results": "reports/gallery/amd-epyc-zen3-2cpu"}


LISTED_PROGRAMS = {text.split()[0] for texts in [*LONG.values(), *NOT_RUN.values()]
                   for text in texts}


@dataclass(frozen=True)
class Command:
    place: str  # document:line
    text: str
    code: int
    span: bool  # in a sentence, not in a block


# ---- finding the commands -----------------------------------------------------------------------

def program(words):
    """Whether these words begin with something that can be run."""
    alone = len(words) == 1
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    first = words[0] if words else ""
    if first.startswith(("./", "(")):
        return True
    if alone:
        return "/" in first and os.path.isfile(ROOT / first) and os.access(ROOT / first, os.X_OK)
    return (first in LISTED_PROGRAMS or first.startswith("build/")
            or re.match("kvproof(-|$)", first) is not None or shutil.which(first) is not None)


def stated_code(remark):
    match = re.search(r"\bexit code (\d+)", remark)
    return int(match[1]) if match else 0


def block_commands(place, lines, complaints):
    """The commands of the lines of a fenced block that has no language."""
    if any(line.startswith("$ ") for _, line in lines):
        lines = [(number, line[2:]) for number, line in lines if line.startswith("$ ")]
    joined = []
    for number, line in lines:
        if joined and joined[-1][1].endswith("\\"):
            joined[-1] = (joined[-1][0], joined[-1][1][:-1] + line.lstrip())
        else:
            joined.append((number, line))
    for number, line in joined:
        text, _, remark = re.sub(r"(^|\s+)# ", "\0", line, count=1).partition("\0")
        if not text.strip():
            continue
        if not program(text.split()):
            complaints.append(f"{place}:{number}: is no command: {line}")
        yield Command(f"{place}:{number}", text.strip(), stated_code(remark), span=False)


def span_commands(place, text, complaints):
    """The commands in backquotes of a text without blocks."""
    for match in re.finditer(r"(`+)([^`]+)\1", text):
        words = match[2].split()
        number = text.count("\n", 0, match.start()) + 1
        if not words or words[0].startswith("-"):
            continue
        if words[0] == "kvproof" and len(words) == 2 and not words[1].startswith("-"):
            continue
        if program(words):
            behind = re.match(r" \(([^`)]*)\)", text[match.end():])
            yield Command(f"{place}:{number}", " ".join(words),
                          stated_code(behind[1] if behind else ""), span=True)
            if words[0] == "kvproof":
                complaints.append(f"{place}:{number}: write ./kvproof: {match[2]}")
        elif any(re.match("--?[a-z]", word) for word in words[1:]):
            complaints.append(f"{place}:{number}: has an option and is no command: "
                              + " ".join(words))


def find_commands(place, text):
    """(the commands of a document in their order, complaints)"""
    commands, complaints, rest, block = [], [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r" *```(.*)", line)
        rest.append("" if fence or block else line)
        if fence and block:
            if block[0] == "":
                commands += block_commands(place, block[1], complaints)
            block = None
        elif fence:
            block = (fence[1].strip(), [])
            if block[0] not in ("", "cmake", "cpp", "json"):
                complaints.append(f"{place}:{number}: a language other than cmake, cpp and json")
        elif block:
            block[1].append((number, line))
            if block[0] and re.match(r"\$ |\./", line):
                complaints.append(f"{place}:{number}: a command in a block of {block[0]}")
        elif re.match(r"(    |\t)", line):
            complaints.append(f"{place}:{number}: indented code: fence it")
    if block:
        complaints.append(f"{place}: a block without an end")
    commands += span_commands(place, "\n".join(rest), complaints)
    return sorted(commands, key=lambda command: int(command.place.rsplit(":")[-1])), complaints


def find_examples(place, text):
    """The commands of the help of a verb."""
    match = re.search(r"^Examples?: (.*\n(?: +.*\n)*)", text, re.M)
    for line in match[1].splitlines() if match else ["none"]:
        here = re.sub(r"(^|; )kvproof ", r"\1./kvproof ", line.strip())
        yield Command(f"{place}:1", here, 0, span=True)


def verbs():
    said = subprocess.run([ROOT / "kvproof", "--help"], capture_output=True, text=True, check=True)
    return re.findall(r"^  ([a-z]+) ", said.stdout, re.M)


def helps():
    for verb in verbs():
        yield verb, subprocess.run([ROOT / "kvproof", verb, "--help"], capture_output=True,
                                   text=True, check=True).stdout


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
    found = find_examples("a", "a\nExamples: kvproof a\n  kvproof b; kvproof c\nUsage: x\n")
    assert [c.text for c in found] == ["./kvproof a", "./kvproof b; ./kvproof c"]
    for text in ("```text\nsh a\n```", "```json\n./a\n```", "a:\n\n    sh a", "`unknown --a`",
                 "```\nunknown a\n```", "`kvproof gate --a`", "```\nsh a"):
        assert find_commands("a", text)[1], f"no complaint of {text!r}"


def documents():
    skipped = {"build", "results", "install"}
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT)
        if name.parts[0] not in skipped and not name.parts[0].startswith(".") \
                and name.name != "CHANGELOG.md" and name.parts[:2] != ("reference", "vllm"):
            yield str(name), path.read_text(encoding="utf-8")


# ---- what a command needs that not every machine has --------------------------------------------

def succeeds(*command, **options):
    try:
        return subprocess.run(command, capture_output=True, check=False, **options).returncode == 0
    except OSError:
        return False


NEEDS = (  # (a pattern of commands, what they need, whether it is here)
    (r"\./kvproof gate|gate\.sh|--figure=gate", "valgrind", lambda: shutil.which("valgrind")),
    (r"make_page|draw_figure|--figure=|\./kvproof report", "matplotlib",
     lambda: succeeds(sys.executable, "-c", "import matplotlib")),
    (r"^c\+\+|libmine\.so|gate\.sh", "nlohmann/json.hpp where a compiler finds it",
     lambda: succeeds("c++", "-E", "-x", "c++", "-", input=b"#include <nlohmann/json.hpp>\n")),
    (r"HEAD~1", "the history of the checkout",
     lambda: succeeds("git", "-C", str(ROOT), "rev-parse", "--verify", "-q", "HEAD~1")),
    (r"\bgit ", "git", lambda: shutil.which("git")),
    (r"\./kvproof test", "flock", lambda: shutil.which("flock")),
)


def lacking(text, known={}):
    for pattern, what, here in NEEDS:
        if re.search(pattern, text):
            if what not in known:
                known[what] = bool(here())
            if not known[what]:
                return what
    return ""


# ---- running them -------------------------------------------------------------------------------

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


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Folder:
    """Where the commands of one document run."""

    def __init__(self, work, name):
        self.path = work / name
        self.temporary = work / f"{name}.temporary"
        self.log = work / f"{name}.log"
        tools = work / f"{name}.tools"
        for folder in (self.path, self.temporary, tools):
            folder.mkdir()
        for entry in ROOT.iterdir():
            if entry.name not in ("kvproof", "results", "install", ".git"):
                (self.path / entry.name).symlink_to(entry)
        script(self.path / "kvproof", LAUNCHER.format(launcher=ROOT / "kvproof"))
        script(tools / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.environment = dict(
            os.environ, PATH=f"{tools}:{os.environ['PATH']}", KVPROOF_PYTHON=sys.executable,
            TMPDIR=str(self.temporary), PYTHONDONTWRITEBYTECODE="1")
        self.interrupted = False

    def start(self, text):
        with open(self.log, "w") as log:
            return subprocess.Popen(["sh", "-c", text], cwd=self.path, env=self.environment,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True)

    def said(self):
        return self.log.read_text(errors="replace")

    def stand_in(self, text):
        """Puts what an interrupted command would have left where this one reads it."""
        for name, source in STANDS_IN.items():
            folder = self.path / name
            if self.interrupted and re.search(rf"\b{name}\b", text):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                for packed in (ROOT / source).glob("*.json.gz"):
                    (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))

    def run(self, command):
        """What is wrong with one that ends by itself; empty if nothing is."""
        self.stand_in(command.text)
        child = self.start(command.text)
        try:
            code = child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            end_session(child)
            return f"takes more than {SECONDS} s: is it one of LONG?"
        if code != command.code:
            return f"exit code {code}, expected {command.code}"
        return ""

    def interrupt(self, command):
        """What is wrong with one that takes long; empty if nothing is."""
        if "make_page" in command.text:
            self.stand_in(command.text)
        self.interrupted = True
        child = self.start(command.text)
        if "kvproof " in command.text and not wait_until(
                lambda: child.poll() is not None or re.search(AT_WORK, self.said(), re.M), SECONDS):
            end_session(child)
            return f"is not at work after {SECONDS} s"
        if command.text in UNTIL:
            written = self.path / UNTIL[command.text]
            wait_until(lambda: child.poll() is not None or written.exists(), SECONDS)
        if wait_until(lambda: child.poll() is not None, UNDER_WAY):
            return "" if child.returncode == command.code else f"exit code {child.returncode}"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGINT)
        try:
            code = child.wait(TO_END)
        except subprocess.TimeoutExpired:
            end_session(child)
            return f"has not ended {TO_END} s after an interrupt"
        if code not in (130, -signal.SIGINT):
            return f"exit code {code} after an interrupt, expected 130"
        if not wait_until(lambda: not session(child.pid), 3):
            left = session(child.pid)
            end_session(child)
            return f"an interrupt leaves running: {', '.join(left)}"
        return self.half_written()

    def half_written(self):
        left = [*self.temporary.iterdir(), *self.path.rglob("*part-*")]
        for path in self.path.glob("**/*.json"):
            try:
                json.loads(path.read_text())
            except ValueError:
                left.append(path)
        for path in left:  # so that it is said once
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return f"an interrupt leaves {', '.join(path.name for path in left)}" if left else ""


def wait_until(true, seconds):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def session(number):
    """The names of the processes of a session that have not ended."""
    names = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            name, _, rest = path.read_text().rpartition(") ")
            state, _, _, of = rest.split()[:4]
            if of == str(number) and state != "Z":
                names.append(name.partition("(")[2])
    return names


def end_session(child):
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            if path.read_text().rpartition(") ")[2].split()[3] == str(child.pid):
                os.kill(int(path.parent.name), signal.SIGKILL)
    child.kill()
    child.wait()


def expanded(commands):
    """VERB is each verb; a long command of a sentence runs only where no block has it."""
    listed = {text for texts in LONG.values() for text in texts}
    seen = {command.text for command in commands if not command.span}
    for command in commands:
        if " VERB" in command.text:
            for verb in verbs():
                yield Command(command.place, command.text.replace("VERB", verb), 0, command.span)
        elif not (command.span and command.text in listed and command.text in seen):
            seen.add(command.text)
            yield command


def run_document(work, name, commands, reasons, failures, lock):
    folder = Folder(work, re.sub(r"[/ ]", ".", name))
    for command in commands:
        reason = reasons.get(command.text, "")
        lacks = lacking(command.text)
        started = time.monotonic()
        if reason in NOT_RUN or lacks:
            said, wrong = f"not run: {reason or 'needs ' + lacks}", ""
        elif reason:
            said, wrong = f"interrupted: {reason}", folder.interrupt(command)
        else:
            said, wrong = "", folder.run(command)
        with lock:
            print(f"{time.monotonic() - started:5.1f} s  {command.place}: {command.text}"
                  + (f"  ({said})" if said else ""))
            if wrong:
                failures.append(command.place)
                print(f"FAILED: {wrong}\n" + folder.said()[-2000:])


def main(build):
    test_find_commands()
    if Path(build).resolve() != ROOT / "build" / "release":
        print(f"skipped: {build} is not where ./kvproof builds")
        return 77
    by_document, failures = {}, []
    for name, text in documents():
        by_document[name], complaints = find_commands(name, text)
        failures += complaints
    for verb, text in helps():
        by_document[f"kvproof {verb} --help"] = list(find_examples(f"kvproof {verb} --help", text))
    found = {command.text for commands in by_document.values() for command in commands}
    reasons = {text: reason for group in (LONG, NOT_RUN) for reason, texts in group.items()
               for text in texts}
    failures += [f"no document has: {text}" for text in sorted(reasons.keys() - found)]
    everything = list(expanded([c for commands in by_document.values() for c in commands]))
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as work, open(Path(build) / "test.lock", "a") as tests:
        with contextlib.suppress(OSError):  # whoever runs the tests may hold it already
            fcntl.flock(tests, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(run_document, Path(work), name,
                                   [c for c in everything if c.place.startswith(name + ":")],
                                   reasons, failures, lock)
                       for name in sorted(by_document, key=lambda n: -len(by_document[n]))]
            for one in running:
                one.result()
    print(f"{len(everything)} commands of {len(by_document)} documents, {len(failures)} failures")
    for failure in failures:
        print(f"  {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
