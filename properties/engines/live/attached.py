# SPDX-License-Identifier: Apache-2.0
"""One run of an engine whose recording is judged while it is made.

The recorder in the engine writes to a named pipe, and the judge, a process of its own, reads it.
Neither waits for ever: an engine that says nothing is ended, and the judge reads the pipe's end
when nobody has it open any more.
"""

import json
import os
import pathlib
import queue
import re
import subprocess
import tempfile
import threading
import time

from kvproof_support import results
from kvproof_support.tasks import runner

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent / "kit" / "kvproof"
START_SECONDS, QUIET_SECONDS = 600, 120  # that an engine may say nothing
SETTINGS = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING",
            "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1"}
ENTRY = "[vllm.general_plugins]\nkvproof = kvproof.live.vllm:register\n"
ERROR = re.compile(r"\b(\w+(?:Error|Exception|Interrupt|Exit): .+)")
HIDES = re.compile("initialization failed|EngineDead|Tokenizer not available|Worker failed with")


class Failed(Exception):
    """The run came to no verdict.

    @param code the exit code of the verb
    """

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code


def plugin(folder, version):
    """Makes a folder in which Python finds the package, and vLLM its plugin. Older releases look
    for a distribution `vllm` with `cpu` in its version, and PyPI has them by another name."""
    os.symlink(PACKAGE, os.path.join(folder, "kvproof"))
    for name, number, entries in (("kvproof_live", "0", ENTRY), ("vllm", f"{version}+cpu", "")):
        about = pathlib.Path(folder, f"{name}-{number}.dist-info")
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {number}\n")
        (about / "entry_points.txt").write_text(entries)
    return folder


def pipe(path):
    """@return the two ends of a new named pipe"""
    os.mkfifo(path)
    both = os.open(path, os.O_RDWR)  # so that neither end waits for the other
    ends = open(path, "rb", 0), open(path, "wb", 0)
    os.close(both)
    return ends


def lines_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.strip() for line in file if line.strip()] or ["it said nothing"]


def cause(log):
    """@return the error of an engine that is not about another"""
    lines = lines_of(log)
    found = [match[1] for match in map(ERROR.search, lines) if match and not HIDES.search(match[1])]
    return (found or lines)[-1]


class Attached:
    """@param command of the engine, which says how far it is, one JSON object a line
    @param log where the words of the engine go
    """

    def __init__(self, command, version, log):
        self.command, self.version, self.log = command, version, log
        self.started = self.deserted = False  # whether it has started; whether the judge has gone

    def run(self, progress):
        """@return the rows of the judge, its exit code, and what went wrong. Throws Failed."""
        with tempfile.TemporaryDirectory() as work:
            reads, writes = pipe(os.path.join(work, "run"))
            verdict, said = os.path.join(work, "verdict.json"), os.path.join(work, "said")
            with writes, open(said, "wb") as errors, runner().open(
                    [results.program("live"), "-", f"--json={verdict}"], stdin=reads,
                    stdout=subprocess.DEVNULL, stderr=errors) as judge:
                reads.close()
                with open(self.log, "wb") as log, runner().open(
                        self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                        text=True, cwd=work, env=self.environment(work)) as engine:
                    problem = self.follow(engine, judge, progress)
                writes.close()  # nobody writes any more
                code = judge.wait()
            if problem and not self.started and not self.deserted:
                raise Failed(problem, 77)
            if code not in (0, 1, 3):
                raise Failed(f"the judge ended with {code}: {lines_of(said)[-1]}",
                             2 if code == 2 else 3)
            return results.read_rows(verdict), code, problem

    def environment(self, work):
        """@return that of the engine, in which it finds the plugin"""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("KVPROOF_LIVE", "PYTHON", "VLLM_"))}
        return environment | SETTINGS | {
            "PYTHONPATH": plugin(tempfile.mkdtemp(dir=work), self.version),
            "KVPROOF_LIVE": os.path.join(work, "run")}

    def follow(self, engine, judge, progress):
        """Waits until the engine has ended. @return what went wrong, if anything did"""
        said, last = queue.Queue(), time.monotonic()
        threading.Thread(target=listen, args=(engine, said), daemon=True).start()
        while True:
            runner().check()
            patience = QUIET_SECONDS if self.started else START_SECONDS
            try:
                line = said.get(timeout=0.2)
            except queue.Empty:
                line = ""
            if line is None:
                break
            if line:
                self.started, last = True, time.monotonic()
                progress(json.loads(line))
            self.deserted = judge.poll() is not None
            if self.deserted:
                return "the judge ended before the engine"
            if time.monotonic() > last + patience:
                return f"the engine said nothing for {patience} s"
        code = engine.wait()
        when = "while it served" if self.started else "before it served"
        return f"the engine ended with {code} {when}: {cause(self.log)}" if code else ""


def listen(engine, said):
    for line in engine.stdout:
        said.put(line)
    said.put(None)
