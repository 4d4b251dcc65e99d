# SPDX-License-Identifier: Apache-2.0
"""The process in which what a recorder emits becomes events, and is written."""

import os
import pickle
import sys
import threading
import time

from kvproof.live.recorder import PATIENCE, lines_of, opened, put


def translated(translator, record):
    try:
        return translator(record)
    except (LookupError, TypeError, ValueError) as error:  # the engine did what nobody expects
        return [{"op": "lost", "what": f"the recorder: {error!r}"}]


def outlive(engine, done):
    """Ends this process where the engine has ended and nobody reads what is written."""
    before = None
    while os.getppid() == engine or done[0] != before:
        before = done[0]
        time.sleep(PATIENCE)
    os._exit(1)


def serve(translator):
    """Reads lists of records from standard input to its end.

    @param translator makes a list of events of a record; events themselves pass
    """
    where, name = sys.argv[1:]
    done = [0]  # lists of records
    threading.Thread(target=outlive, args=(int(name.rpartition("-")[2]), done), daemon=True).start()
    file, judge = opened(where, name)
    try:
        while True:
            done[0] += 1
            try:
                records = pickle.load(sys.stdin.buffer)
            except (EOFError, pickle.UnpicklingError):  # the engine has ended, in a record or not
                break
            put(file, lines_of(event for record in records for event in (
                [record] if isinstance(record, dict) else translated(translator, record))))
    except OSError as error:
        sys.exit(f"kvproof: the recording of {where} ends here: {error}")
    os.close(file)
    if judge is not None:
        judge.stdin.close()
        judge.wait()
