# SPDX-License-Identifier: Apache-2.0
"""A request as kvproof tells of it, and the keys of its content."""

import hashlib


class Request:
    """What kvproof has said of a request. `own` is for what the engine keeps of it."""

    def __init__(self, name):
        self.name, self.extra, self.skip_lookup = name, {}, False
        self.tokens, self.computed = [], 0
        self.granted = 0  # tokens that may be computed
        self.room = 0  # tokens for which it has room
        self.ahead = 0  # drafts behind the tokens of its admission
        self.holds = False  # blocks
        self.hit = []  # the blocks that its last lookup found
        self.finished = False  # it goes for good, when it gives back what it holds
        self.copies = []  # set by a hook: pairs of blocks that a grant or a fork copies
        self.own = None


def chain(tokens, size, seed=""):
    """One key for each whole block: equal exactly where all tokens so far and the seed are."""
    keys, parent = [], repr(seed).encode()
    for end in range(size, len(tokens) + 1, size):
        block = repr(list(tokens[end - size:end])).encode()
        parent = hashlib.blake2b(parent + block, digest_size=8).digest()
        keys.append(int.from_bytes(parent, "big"))
    return keys
