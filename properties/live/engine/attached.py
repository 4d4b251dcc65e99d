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
import signal
import subprocess
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "foreign" / "kvproof"
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
    ends = os.open(path, os.O_RDONLY), os.open(path, os.O_WRONLY)
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
    @param judge the program kvproof-live
    @param log where the words of the engine go
    """

    def __init__(self, command, version, judge, log, quiet=False):
        self.command, self.version, self.program = command, version, judge
        self.log, self.quiet = log, quiet
        self.engine = self.judge = None
        self.started = self.deserted = False  # whether it has started; whether the judge has gone

    def run(self, progress):
        """@return what `kvproof live --json` says of the run. Throws Failed."""
        with tempfile.TemporaryDirectory() as work:
            reads, writes = pipe(os.path.join(work, "run"))
            verdict, said = os.path.join(work, "verdict.json"), os.path.join(work, "said")
            problem = None
            try:
                self.start(work, verdict, said, reads)
                os.close(reads)
                problem = self.follow(progress)
            finally:
                self.end()
                os.close(writes)
                code = self.judge.wait() if self.judge else None
            if problem and not self.started and not self.deserted:
                raise Failed(problem, 77)
            if code not in (0, 1, 3):
                raise Failed(f"the judge ended with {code}: {lines_of(said)[-1]}",
                             2 if code == 2 else 3)
            with open(verdict, encoding="utf-8") as file:
                return json.load(file) | {"problem": problem, "code": code}

    def start(self, work, verdict, said, reads):
        with open(said, "wb") as errors:
            self.judge = subprocess.Popen(
                [self.program, "-", f"--json={verdict}"], stdin=reads, preexec_fn=os.setpgrp,
                stdout=subprocess.DEVNULL if self.quiet else None, stderr=errors)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("KVPROOF_LIVE", "PYTHON", "VLLM_"))}
        environment |= SETTINGS | {"PYTHONPATH": plugin(tempfile.mkdtemp(dir=work), self.version),
                                        "KVPROOF_LIVE": os.path.join(work, "run")}
        with open(self.log, "wb") as log:
            self.engine = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                text=True, cwd=work, env=environment, preexec_fn=os.setpgrp)

    def follow(self, progress):
        """Waits until the engine has ended. @return what went wrong, if anything did"""
        said, last = queue.Queue(), time.monotonic()
        threading.Thread(target=self.listen, args=(said,), daemon=True).start()
        while True:
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
            self.deserted = self.judge.poll() is not None
            if self.deserted:
                return "the judge ended before the engine"
            if time.monotonic() > last + patience:
                return f"the engine said nothing for {patience} s"
        code = self.engine.wait()
        when = "while it served" if self.started else "before it served"
        return f"the engine ended with {code} {when}: {cause(self.log)}" if code else None

    def listen(self, said):
        for line in self.engine.stdout:
            said.put(line)
        said.put(None)

    def end(self):
        """Ends the engine with all its processes, so that nobody writes any more."""
        if self.engine is None:
            return
        try:
            os.killpg(self.engine.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.engine.wait()
        self.engine.stdout.close()
