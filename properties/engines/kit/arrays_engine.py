# SPDX-License-Identifier: Apache-2.0
"""A pool with real arrays behind it, which are written, copied and read back; and engines that
write, copy or share them wrongly."""

from examples.kit_pool import LastOut

PLANES = 2 * 2  # layers and heads, each with an encoding of its own


class Arrays(LastOut):
    operations = LastOut.operations + " fork"

    def build(self):
        super().build()
        self.arrays = [[[[0] * self.size for _ in range(self.usable)] for _ in range(PLANES)]
                       for _ in "kv"]

    def write(self, kind, block, offset, value):
        for plane, blocks in enumerate(self.arrays[kind]):
            blocks[block][offset] = (plane + 2) * value + plane

    def read(self, kind, block, offset):
        found = {(blocks[block][offset] - plane) / (plane + 2)
                 for plane, blocks in enumerate(self.arrays[kind])}
        return int(found.pop()) if len(found) == 1 else -1

    def copy(self, source, to):
        for blocks in self.arrays[0] + self.arrays[1]:
            blocks[to] = list(blocks[source])

    def contents(self, r):
        return [[self.read(kind, r.own[i // self.size], i % self.size) for kind in (0, 1)]
                for i in range(r.computed)]

    def hold(self, r, hit):
        r.written = r.found = len(hit) * self.size
        return super().hold(r, hit)

    def grow(self, r, end):
        start = max(r.computed, r.found)
        shared = [i for i in range(start // self.size, min(-(-end // self.size), len(r.own)))
                  if self.refs[r.own[i]] > 1]
        new = self.take(max(-(-end // self.size) - len(r.own), 0) + len(shared))
        if new is None:
            return False
        for i, block in zip(shared, new):
            r.copies.append((r.own[i], block))
            self.copy(r.own[i], block)
            self.drop([r.own[i]])
            r.own[i] = block
        r.own = r.own + new[len(shared):]
        return True

    def advance(self, r):
        for i in range(r.written, r.computed):
            self.write(0, r.own[i // self.size], i % self.size, r.tokens[i])
            self.write(1, r.own[i // self.size], i % self.size, i)
        r.written = max(r.written, r.computed)
        super().advance(r)

    def fork(self, r, child):
        if child.holds:
            child.own, child.written, child.found = list(r.own), r.written, r.found
            self.touch(child.own)


class WrongSlot(Arrays):
    """The sixth position goes where the fifth is, in one plane."""

    def write(self, kind, block, offset, value):
        super().write(kind, block, offset, value)
        if kind == 1 and value == 5:
            self.arrays[1][2][block][offset] = 2


class WrongCopy(Arrays):
    """A fork's block gets the bytes of another one."""

    def copy(self, source, to):
        super().copy((source + 1) % self.usable, to)


class NoCopy(Arrays):
    """It says that it copies, and only changes the table."""

    def copy(self, source, to):
        pass


class Hides(Arrays):
    """It shows less than is computed."""

    def contents(self, r):
        return super().contents(r)[:-1]


class CopiesAtFork(Arrays):
    """A fork copies the block that is not full."""

    says, shift = True, 0

    def fork(self, r, child):
        super().fork(r, child)
        at = max(r.computed, r.found) // self.size if child.holds else 0
        if at >= len(child.own or ()) or child.own[at] in self.key_of or not self.free:
            return
        new = self.take(1)
        child.own[at], old = new[0], child.own[at]
        self.drop([old])
        self.copy((old + self.shift) % self.usable, new[0])
        child.copies = [(old, new[0])] if self.says else []


class CopiesAnother(CopiesAtFork):
    """... and gets the bytes of another one."""

    shift = 1


class ConcealsACopy(CopiesAtFork):
    """... and does not say so."""

    says = False
