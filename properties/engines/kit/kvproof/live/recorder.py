# SPDX-License-Identifier: Apache-2.0
"""Writes the events of a run to a file, to a pipe or to a judge, and never waits for them.

Whoever emits puts an event on a bounded queue; a thread encodes and writes. What finds no room is
counted and told in the recording (`lost`), behind which nothing is judged. An error in writing ends
the recording, never the engine. Where making events takes time that the engine has not, they are
made by a translator, a process of its own, from what is emitted.
"""

import atexit
import hashlib
import json
import multiprocessing.util
import os
import pathlib
import pickle
import secrets
import stat
import subprocess
import sys
import threading
import time
from collections import deque

ROOM = 1 << 16  # events that may wait
BATCH = 512  # of these are written at a time
PAUSE = 0.02  # seconds between two looks; nobody is woken, for that would cost the engine
PATIENCE = 5.0  # seconds that the end of a process waits for a reader
encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Masked(dict):
    """Tokens as the recording has them: keyed hashes of 31 bits, so that equal ones stay equal and
    nobody reads the text. Two of a large vocabulary may share one: what was written for the one
    then passes for the other. KVPROOF_LIVE_TOKENS=plain leaves them as they are."""

    def __init__(self):
        super().__init__()
        self.key = secrets.token_bytes(16)
        self.plain = os.environ.get("KVPROOF_LIVE_TOKENS") == "plain"

    def __missing__(self, token):
        value = int(token)
        if not self.plain:
            word = value.to_bytes(8, "little", signed=True)
            told = hashlib.blake2b(word, digest_size=4, key=self.key).digest()
            value = int.from_bytes(told, "little") >> 1
        self[token] = value
        return value

    def of(self, tokens):
        return [self[token] for token in tokens]


def opened(where, name):
    """@return a descriptor that is written to, and the judge, if one was started"""
    if where == "judge":
        command = os.environ.get("KVPROOF_LIVE_JUDGE", "kvproof live -").split()
        judge = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr,
                                 start_new_session=True)  # an interrupt is for the engine
        return os.dup(judge.stdin.fileno()), judge
    if not os.path.isdir(where):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(where, flags, 0o600), None
    path = os.path.join(where, f"{name}.jsonl")
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), None


def translating(module, where, name):
    """@return the pipe to a new translator, and its process"""
    paths = [str(pathlib.Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, "-m", module, where, name], stdin=subprocess.PIPE, start_new_session=True,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths))))
    return os.dup(process.stdin.fileno()), process


def put(file, lines):
    """Writes whole lines. Throws OSError, and then a file ends with the line before."""
    done, regular = 0, stat.S_ISREG(os.fstat(file).st_mode)
    before = os.fstat(file).st_size
    try:
        while done < len(lines):
            done += os.write(file, lines[done:])
    except OSError:
        if regular:
            os.ftruncate(file, before + lines.rfind(b"\n", 0, done) + 1)
        raise


def lines_of(events):
    return "".join(encode(event) + "\n" for event in events).encode()


class Recorder:
    """One recording.

    @param where a folder, in which a file is made; a file or a named pipe; or "judge"
    @param last is called before the end, and may emit
    @param translator the module that makes events of what is emitted (translate.serve)
    """

    def __init__(self, where, name="run", room=ROOM, last=lambda: None, translator=None):
        self.where, self.name, self.last = where, f"{name}-{os.getpid()}", last
        self.translator = translator
        self.waiting, self.room = deque(), room
        self.lost, self.told, self.why, self.closing = 0, 0, "", False
        self.process = os.getpid()
        self.thread = threading.Thread(target=self.write, name="kvproof", daemon=True)
        self.thread.start()
        atexit.register(self.close)
        multiprocessing.util.Finalize(None, self.close, exitpriority=0)  # of a forked process

    def emit(self, event):
        """Takes an event, which nobody changes any more."""
        if self.lost:  # what is behind a gap is not judged, so that none is put there
            self.lost += 1
            return
        if len(self.waiting) < self.room:
            self.waiting.append(event)
        else:
            self.lost, self.why = 1, "the reader was too slow"

    def close(self):
        """Writes what waits. An engine ends, whoever does not read."""
        if self.closing or os.getpid() != self.process:  # a child inherits no thread
            return
        self.last()
        self.closing = True
        self.thread.join(PATIENCE)

    def write(self):
        try:
            file, reader = (translating(self.translator, self.where, self.name)
                            if self.translator else opened(self.where, self.name))
        except OSError as error:
            return self.give_up(error)
        try:
            while (events := self.take()) is not None:
                if events:
                    put(file, pickle.dumps(events) if self.translator else lines_of(events))
        except OSError as error:
            self.give_up(error)
        os.close(file)
        if reader is not None:
            reader.stdin.close()
            reader.wait()
        return None

    def take(self):
        """@return some events; None at the end"""
        closing = self.closing  # what was emitted before is waiting then
        events = [self.waiting.popleft() for _ in range(min(len(self.waiting), BATCH))]
        if not events and self.lost > self.told:
            lost, self.told = self.lost - self.told, self.lost
            events.append({"op": "lost", "events": lost, "what": self.why})
        if not events and not closing:
            time.sleep(PAUSE)
        return None if not events and closing else events

    def give_up(self, error):
        """Nothing is written any more, and the engine goes on."""
        self.lost, self.why = self.lost or 1, str(error)
        print(f"kvproof: the recording of {self.where} ends here: {error}", file=sys.stderr)
        while not self.closing:  # room for what is still emitted
            time.sleep(PAUSE)
            self.waiting.clear()
