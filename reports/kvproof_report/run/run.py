# SPDX-License-Identifier: Apache-2.0
"""Measures everything that the page shows, one result file after the other, and draws the page.

KVPROOF_BIN is the folder of the kvproof-* executables. DIR/run.json keeps what was asked for and
what each part took: --resume goes on from it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import shlex
import sys
from argparse import Namespace
from pathlib import Path

from kvproof_report.common.experiments import words
from kvproof_report.common.parts import (CANNOT_TELL, PAGE_SECONDS, PARTS, VIOLATED, Part,
                                         parts_of)
from kvproof_report.common.result_files import load_file
from kvproof_support.files import InputError
from kvproof_support.files import OutputError, put, write
from kvproof_support.options import Parser
from kvproof_report.page.programs import compare as draw_comparison
from kvproof_report.run.folder import held
from kvproof_support.progress import Progress
from kvproof_report.run.run_file import RunFile, UnlikeRun, digest_of, options_text
from kvproof_support.stopping import STOPPED
from kvproof_support.tasks import NOT_STARTED, Ended, Runner, Stopped, Task

# What draws the page, as this program calls it and its user may.
MAKE_PAGE = str(Path(__file__).parents[2] / "make_page.py")
# Beside reports/ in a checkout; an installation, which cannot measure peers, has it elsewhere.
LAUNCHER = str(Path(__file__).parents[3] / "kvproof")
LENSES = ("double-free", "stale-hit")  # scenes of kvproof lens that break a law


class Malformed(Exception):
    """A program cannot read a trace; the text is what the program said."""


def parse_arguments(arguments: list[str]) -> Namespace:
    parser = Parser(
        prog="kvproof report", usage="kvproof report [option]...",
        description="Measures the built-in workloads and draws one page: figures with the\n"
                    "commands that made them.",
        example="kvproof report --thorough",
        exit_codes="0 the page is whole, 1 a part failed or something does not hold (the page says "
        "what), 2 usage, unreadable input or unwritable output, 3 kvproof check cannot tell, 77 "
        "matplotlib is not installed, 130 stopped")
    parser.add_argument("--output", metavar="DIR", default="results",
                        help="where the result files and report.html go (default: ./results)")
    parser.add_argument("--trace", metavar="FILE", action="append", default=[],
                        help="also measure on this request trace, plain, .gz or .zst; may be "
                             "repeated")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--smoke", dest="mode", action="store_const", const="smoke",
                      default="default", help="small inputs: shows that everything works, in "
                      "seconds; not to be quoted")
    mode.add_argument("--thorough", dest="mode", action="store_const", const="thorough",
                      help="a longer look at every case, retention, and the published "
                           "claims; under 6 minutes on two cores")
    mode.add_argument("--full", dest="mode", action="store_const", const="full",
                      help="also every seeded bug and the exhaustive search, and a longer look at "
                           "every case; under 45 minutes on two cores")
    parser.add_argument("--resume", action="store_true",
                        help="go on from an interrupted run of the same build and options in DIR")
    parser.add_argument("--json", metavar="FILE",
                        help="also write the seconds of each phase, and how many parts were "
                             "measured and how many failed")
    parser.add_argument("--png", action="store_true",
                        help="also write every figure as DIR/figures/NAME.png")
    parser.add_argument("--compare", metavar="PATH", action="append", default=[],
                        help="instead: draw DIR/compare.html of machines from their result files, "
                             "a folder each; repeat it for each")
    options = parser.parse_args(arguments)
    if options.compare:
        check_compared(options, parser)
    return options


def check_compared(options: Namespace, parser: Parser) -> None:
    """What says how to measure or what else to write says nothing to a comparison."""
    given = (("trace", options.trace), (options.mode, options.mode != "default"),
             ("resume", options.resume), ("json", options.json), ("png", options.png))
    for name, is_given in given:
        if is_given:
            parser.error(f"--{name} does not go with --compare, which takes --output only")


def nobody_reads() -> bool:
    """Whether what read stdout or stderr has gone, as `head` does."""
    streams = select.poll()
    for number in (1, 2):
        streams.register(number, 0)
    return any(event & select.POLLERR for _, event in streams.poll(0))


def say(text: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens
        print(text, file=sys.stderr, flush=True)


# ---- one part -----------------------------------------------------------------------------------

def reason_of(ended: Ended, program: str) -> str:
    """Why a part failed, in one line."""
    status, name = ended.exit_code, os.path.basename(program)
    if status == NOT_STARTED:
        return f"{name} is not built"
    how = f"ended with exit code {status}" if status >= 0 else f"was ended by signal {-status}"
    last = re.sub(r"[\x00-\x1f]+", " ", ended.last_line(""))
    return f"{name} {how}" + (f": {last}" if last else "")


def is_whole(path: str) -> bool:
    """Whether this is a result file with results. Programs write it under another name and rename
    it, so it is never half a file."""
    try:
        return bool(load_file(path).results)
    except InputError:
        return False


# ---- all of them --------------------------------------------------------------------------------

class Run:
    def __init__(self, options: Namespace, programs_folder: str):
        self.options, self.programs, self.runner = options, programs_folder, Runner(self.watch)
        self.downloads = os.environ.get("KVPROOF_YES") == "yes" and os.path.exists(LAUNCHER)
        self.parts = parts_of(options.mode, self.downloads)
        self.file = RunFile(options.output, "kvproof report " + self.words(),
                            options_text(options.mode, options.trace),
                            digest_of({f"kvproof-{part.program}" for part in self.parts},
                                      programs_folder))
        self.files: list[str] = []
        self.absent: dict[str, str] = {}
        self.cpu_before = cpu_seconds()
        self.progress = Progress(sys.stderr, len(self.parts), PAGE_SECONDS + sum(
            part.expected_seconds(options.mode, len(options.trace)) for part in self.parts))

    def words(self, resume: bool = False) -> str:
        """The options of this run as a user would type them."""
        words = [f"--{self.options.mode}"] if self.options.mode != "default" else []
        words += [f"--trace={path}" for path in self.options.trace]
        if self.options.output != "results":
            words.append(f"--output={self.options.output}")
        words += ["--png"] if self.options.png else []
        words += ["--yes"] if self.downloads else []
        return shlex.join(words + (["--resume"] if resume else []))

    def path_of(self, name: str) -> str:
        return os.path.join(self.options.output, f"{name}.json")

    def watch(self) -> None:
        self.progress.update()
        if nobody_reads():
            self.runner.stop()

    def do(self, name: str, command: list[str]) -> Ended:
        """Throws Stopped."""
        return self.runner.one(Task(name, tuple(command), output=os.devnull,
                                    log=os.path.join(self.runner.work, name)))

    def measure(self) -> None:
        """Measures one part after the other. Throws Stopped, UnlikeRun, Malformed."""
        there = set()
        if self.options.resume:
            self.file.go_on()
            there = {part.name for part in self.parts
                     if part.name in self.file.parts and is_whole(self.path_of(part.name))}
            say(f"{len(there)} of {len(self.parts)} parts are there from before.")
        else:
            self.remove(self.file.path)
        say(f"{len(self.parts) - len(there)} parts, about {self.progress.all_seconds} s in all; "
            "Ctrl-C keeps those that are finished.")
        for part in parts_of(self.options.mode, downloads=True):
            if part not in self.parts and os.path.exists(LAUNCHER):
                say(f"{part.name} is left out: with --yes it is downloaded from PyPI and measured, "
                    f"too, {part.seconds[self.options.mode] // 60} minutes more.")
        for part in self.parts:
            expected = part.expected_seconds(self.options.mode, len(self.options.trace))
            if part.name in there:
                self.progress.skip(expected)
                self.files.append(self.path_of(part.name))
            else:
                self.progress.start(part.name, expected)
                self.measure_part(part)
                self.progress.end()

    def measure_part(self, part: Part) -> None:
        path = self.path_of(part.name)
        program = os.path.join(self.programs, f"kvproof-{part.program}")
        command = [LAUNCHER, part.program, "--yes"] if part.downloads else [program]
        command += [*part.arguments[self.options.mode], f"--json={path}"]
        command += [f"--trace={trace}" for trace in self.options.trace] if part.traces else []
        command += ["--workloads"] if part.traces and self.options.trace else []
        self.remove(path)
        ended = self.do(part.name, command)
        status = ended.exit_code
        found = status in (VIOLATED, CANNOT_TELL) and part.program in ("check", "selftest")
        if (status == 0 or found) and os.path.exists(path):
            self.files.append(path)
            self.file.add(ended)
            if found:
                self.progress.clear()
                say(f"kvproof report: {part.name}: "
                    f"{'not all of it holds' if status == VIOLATED else 'cannot tell'}; the page "
                    "says what")
            return
        if status == 2 and part.traces and self.options.trace:
            self.progress.clear()
            raise Malformed(ended.printed().rstrip("\n"))
        self.remove(path)
        self.absent[part.name] = reason_of(ended, program)
        self.progress.clear()
        say(f"kvproof report: {part.name} failed: {self.absent[part.name]}")

    def remove(self, path: str) -> None:
        """Removes the file and the unfinished copies that a stopped program left beside it."""
        folder, name = os.path.split(path)
        for entry in os.listdir(folder):
            if entry == name or entry.startswith(name + ".part-"):
                os.unlink(os.path.join(folder, entry))

    def draw_lenses(self) -> None:
        """Pages that show a seeded bug as it breaks a law, to which the page leads."""
        program = os.path.join(self.programs, "kvproof-lens")
        for scene in LENSES if os.path.exists(program) else ():
            path = os.path.join(self.options.output, f"lens-{scene}.html")
            self.remove(path)
            ended = self.do(scene, [program, f"--scene={scene}", f"--output={path}"])
            if ended.exit_code != 0:
                say(f"kvproof report: no lens of {scene}: {reason_of(ended, program)}")

    def draw(self) -> tuple[int, str | None]:
        """@return the exit code of the page, and its path."""
        page = os.path.join(self.options.output, "report.html")
        ours = {part.name for part in self.parts}
        # The page also shows what check, selftest and the verbs that no report runs left there.
        files = self.files + [self.path_of(part.name) for part in PARTS
                              if (part.program in ("check", "selftest") or part.downloads
                                  or not part.arguments) and part.name not in ours
                              and os.path.exists(self.path_of(part.name))]
        command = [sys.executable, MAKE_PAGE, *files, self.file.path,
                   *[f"--absent={name}={reason}"
                     for name, reason in self.absent.items()],
                   *(["--png"] if self.options.png else []), f"--output={page}"]
        self.remove(page)
        self.progress.start("drawing the page", PAGE_SECONDS)
        try:
            ended = self.do("page", command)
        except Stopped:
            self.remove(page)
            raise
        self.progress.end()
        status = ended.exit_code
        if status != 0:
            say(ended.printed().rstrip("\n"))
        if status in (0, 1) and os.path.exists(page):
            return status, page
        say("kvproof report: the page could not be drawn; the result files are in "
            f"{self.options.output}")
        return 77 if status == 77 else 2, None

    def say_what_is_left(self) -> None:
        self.progress.clear()
        done = [name for name in self.file.parts if is_whole(self.path_of(name))]
        for part in self.parts:
            if part.name not in done:
                self.remove(self.path_of(part.name))
        say(f"Stopped; {len(done)} of {len(self.parts)} parts are finished"
            + (f" ({', '.join(done)})" if done else "") + f", in {self.options.output}.")
        if not done:
            return
        called = shlex.quote(os.environ.get("KVPROOF_CALLED", "./kvproof"))
        say(f"Go on with:   {called} report {self.words(resume=True)}")
        say(f"Draw them:    {shlex.join([sys.executable, MAKE_PAGE])} "
            f"{self.options.output}/*.json --output={self.options.output}/report.html")


def cpu_seconds() -> float:
    """Of this process, which the launcher was before, and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def write_summary(run: Run, path: str) -> None:
    """What the launcher took before (KVPROOF_PHASES) and what this run took, as one JSON object."""
    installed, built = (os.environ.get("KVPROOF_PHASES", "") + " 0 0").split()[:2]
    summary = {"install_seconds": float(installed), "build_seconds": float(built),
               "build_cpu_seconds": round(run.cpu_before, 1),
               "run_seconds": round(run.progress.elapsed(), 1),
               "run_cpu_seconds": round(cpu_seconds() - run.cpu_before, 1),
               "passed": len(run.parts) - len(run.absent), "failed": len(run.absent),
               "skipped": 0}
    write(path, (json.dumps(summary) + "\n").encode("utf-8"))


def what_is_wrong(options: Namespace, programs_folder: str) -> str | None:
    """Says in one line what is wrong with the folders and traces; None if nothing is."""
    if not programs_folder:
        return "KVPROOF_BIN is not set: expected the folder of the kvproof-* executables"
    for trace in options.trace:
        if not (os.path.isfile(trace) and os.access(trace, os.R_OK)):
            return f"{trace}: cannot be read; expected a trace"
    return None


def measure_and_draw(run: Run) -> tuple[int, str | None]:
    """@return the exit code of the page, and its path. Ends where the run has to end."""
    try:
        run.measure()
        run.draw_lenses()
        return run.draw()
    except Stopped:
        run.say_what_is_left()
        sys.exit(STOPPED)
    except (UnlikeRun, OutputError, OSError) as error:
        say(f"kvproof report: {error}")
    except Malformed as error:
        say(error)
    sys.exit(2)


def finish(run: Run, code: int, page: str | None) -> int:
    """Says how it went. @return the exit code"""
    if run.options.json:
        write_summary(run, run.options.json)
    if page:
        largest = run.file.largest()
        say(f"The report took {run.progress.elapsed():.0f} s" + (
            f"; at most {largest[1] / 1e6:,.0f} MB of memory ({words(largest[0])})."
            if largest else "."))
        put(page)
    return code or next((found for found in (VIOLATED, CANNOT_TELL)
                         if found in run.file.exit_codes()), 0)


def compare(options: Namespace) -> int:
    is_there = os.path.isdir(options.output)  # else nothing in it can be harmed
    with held(options.output) if is_there else contextlib.nullcontext():
        return draw_comparison([
            *options.compare, f"--output={os.path.join(options.output, 'compare.html')}"])


def measured(options: Namespace) -> int:
    programs_folder = os.environ.get("KVPROOF_BIN", "")
    wrong = what_is_wrong(options, programs_folder)
    if wrong:
        say(f"kvproof report: {wrong}")
        return 2
    with held(options.output):
        run = Run(options, programs_folder)
        with run.runner:
            code, page = measure_and_draw(run)
    return finish(run, code, page)


def report(arguments: list[str]) -> int:
    options = parse_arguments(arguments)
    try:
        return compare(options) if options.compare else measured(options)
    except Stopped:
        return STOPPED
    except OutputError as error:
        say(f"kvproof report: {error}")
        return 2
