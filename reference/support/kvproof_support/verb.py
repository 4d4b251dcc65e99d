# SPDX-License-Identifier: Apache-2.0
"""How a verb that is written in Python ends: by one exit code, and one line if it could not run."""

from __future__ import annotations

import sys
from typing import Callable

from kvproof_support import stopping
from kvproof_support.environments import Absent
from kvproof_support.files import InputError, OutputError
from kvproof_support.tasks import Stopped


def run(verb: str, main: Callable[[], int]) -> int:
    """@return the exit code of main, 2 for input or output that cannot be used, 77 for what cannot
    be had, 130 if it was stopped"""
    stopping.end_at_once()  # until there is a runner, which has something to end
    try:
        return main()
    except Stopped:
        return stopping.STOPPED
    except Absent as error:
        print(f"{verb}: skipped: {error}", file=sys.stderr)
        return 77
    except (InputError, OutputError) as error:
        print(f"{verb}: {error}", file=sys.stderr)
        return 2
