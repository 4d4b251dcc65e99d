# SPDX-License-Identifier: Apache-2.0
"""Says how far a run is: of parts whose time is known how long they still take, as a bar on a
terminal, else a line for each; of others what their verb says, on a terminal alone."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

BAR = 24


class Progress:
    def __init__(self, stream: TextIO | None = None, num_parts: int = 0, all_seconds: int = 0):
        """@param stream: that of errors, if none is given"""
        self.stream, self.num_parts = stream or sys.stderr, num_parts
        self.all_seconds, self.is_terminal = max(all_seconds, 1), self.stream.isatty()
        self.begin = time.monotonic()
        self.index = 0
        self.past_seconds = 0  # the expected time of the finished parts
        self.skipped_seconds = 0  # the expected time of those among them that an earlier run did

    def skip(self, expected: int) -> None:
        self.index += 1
        self.past_seconds += expected
        self.skipped_seconds += expected

    def start(self, name: str, expected: int) -> None:
        self.index += 1
        self.name, self.expected, self.part_begin = name.replace("_", " "), expected, \
            time.monotonic()
        if not self.is_terminal:
            self.put(self.line() + "\n")

    def update(self) -> None:
        if self.is_terminal:
            share = (self.past_seconds + self.inside()) / self.all_seconds
            bar = "#" * min(BAR, int(BAR * share))
            self.put(f"\r\033[K[{bar:<{BAR}}] {self.line()}")

    def say(self, text: str) -> None:
        """@param text: how far it is, such as "3 of 7 runs"; until it is said anew, or cleared"""
        if self.is_terminal:
            self.put(f"\r\033[K{text}")

    def end(self) -> None:
        self.past_seconds += self.expected
        self.clear()

    def clear(self) -> None:
        if self.is_terminal:
            self.put("\r\033[K")

    def put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody listens
            self.stream.write(text)
            self.stream.flush()

    def elapsed(self) -> float:
        return time.monotonic() - self.begin

    def inside(self) -> float:
        """How much of the expected time of this part has passed."""
        return min(time.monotonic() - self.part_begin, self.expected)

    def left(self) -> float:
        """Once enough has been measured, the rest is scaled by the speed of this machine so far."""
        left = self.all_seconds - self.past_seconds - self.inside()
        done = self.past_seconds - self.skipped_seconds
        if done * 4 >= self.all_seconds:
            left *= (self.part_begin - self.begin) / done
        return left

    def line(self) -> str:
        count = f"{self.index}/{self.num_parts} " if self.index <= self.num_parts else ""
        return (f"{count}{self.name}  ({self.elapsed():.0f} s, "
                f"about {self.left():.0f} s left)")
