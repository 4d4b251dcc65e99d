# SPDX-License-Identifier: Apache-2.0
"""How far a run is: a bar on a terminal, a line for each part elsewhere, and what is left."""

import time

BAR = 24


class Progress:
    def __init__(self, stream, num_parts, all_seconds):
        self.stream, self.num_parts, self.all_seconds = stream, num_parts, max(all_seconds, 1)
        self.is_terminal = stream.isatty()
        self.begin = time.monotonic()
        self.index = 0
        self.past_seconds = 0  # what the finished parts were expected to take
        self.skipped_seconds = 0  # of them, what an earlier run took

    def skip(self, expected):
        self.index += 1
        self.past_seconds += expected
        self.skipped_seconds += expected

    def start(self, name, expected):
        self.index += 1
        self.name, self.expected, self.part_begin = name.replace("_", " "), expected, \
            time.monotonic()
        if not self.is_terminal:
            print(self.line(), file=self.stream, flush=True)

    def update(self):
        if self.is_terminal:
            share = (self.past_seconds + self.inside()) / self.all_seconds
            bar = "#" * min(BAR, int(BAR * share))
            self.stream.write(f"\r\033[K[{bar:<{BAR}}] {self.line()}")
            self.stream.flush()

    def end(self):
        self.past_seconds += self.expected
        self.clear()

    def clear(self):
        if self.is_terminal:
            self.stream.write("\r\033[K")
            self.stream.flush()

    def elapsed(self):
        return time.monotonic() - self.begin

    def inside(self):
        """The share of this part that has passed, in expected seconds."""
        return min(time.monotonic() - self.part_begin, self.expected)

    def left(self):
        """Scaled by how this machine has done so far, once that says something about the rest."""
        left = self.all_seconds - self.past_seconds - self.inside()
        done = self.past_seconds - self.skipped_seconds
        if done * 4 >= self.all_seconds:
            left *= (self.part_begin - self.begin) / done
        return left

    def line(self):
        return (f"{self.index}/{self.num_parts} {self.name}  ({self.elapsed():.0f} s, "
                f"about {self.left():.0f} s left)")
