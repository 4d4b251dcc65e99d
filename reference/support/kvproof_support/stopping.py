# SPDX-License-Identifier: Apache-2.0
"""What SIGINT, SIGTERM and SIGHUP do to a script: it ends with 130, without a traceback, and leaves
nothing half-written.

No handler raises an exception: it would come in the middle of anything, of what clears away too.
"""

import os
import signal  # and nothing that takes longer: until `handle` Python answers with a traceback
from collections.abc import Callable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPED = 130


def end_at_once() -> None:
    """From here on a signal ends this process, files are written under `Held`."""
    handle(lambda: os._exit(STOPPED))


def handle(stop: Callable[[], object]) -> None:
    """From here on a signal calls stop(), which must not raise."""
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, lambda *_: stop())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # run.sh has blocked them


class Held:
    """Signals wait until the end of the block."""

    def __enter__(self) -> None:
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.before)
