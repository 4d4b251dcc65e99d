# SPDX-License-Identifier: Apache-2.0
"""What a router knows of a worker that follows its events: by the rules of Dynamo's indexer, and by
that indexer itself, where it is there."""

import json
import os

from wire import digest


def radix_tree():
    """@return Dynamo's. Throws ImportError."""
    os.environ.setdefault("DYN_LOG", "off")
    from dynamo.llm import RadixTree
    return RadixTree()


class Router:
    """The blocks of one worker that can be found. A block whose parent is unknown is refused; with
    a block go all that stand behind it, though the worker may still hold them."""

    workers = 0

    def __init__(self, tree):
        self.tree, self.parents, self.children = tree, {}, {}
        Router.workers += 1
        self.worker = Router.workers

    def stored(self, parent, blocks):
        """@param blocks pairs of hash and content"""
        self.tell({"stored": {
            "parent_hash": None if parent is None else digest((self.worker, parent)),
            "blocks": [{"block_hash": digest((self.worker, name)), "tokens_hash": tokens}
                       for (name, _), tokens in zip(blocks, self.apart(blocks))]}})
        for name, _ in blocks:
            if parent is None or parent in self.parents:
                self.parents.setdefault(name, parent)
                self.children.setdefault(parent, set()).add(name)
            parent = name

    def removed(self, name):
        self.tell({"removed": {"block_hashes": [digest((self.worker, name))]}})
        gone = [name] * (name in self.parents)
        while gone:
            name = gone.pop()
            self.children[self.parents.pop(name)].discard(name)
            gone += self.children.get(name, ())

    def apart(self, blocks):
        """@return what stands for the tokens of blocks, for this worker alone: where others have
        the same, its tree forgets less"""
        return [hash((self.worker, content)) % 2**64 for _, content in blocks]

    def cleared(self):
        self.tell("cleared")
        self.parents, self.children = {}, {}

    def tell(self, data):
        if self.tree:
            event = json.dumps({"event_id": 0, "dp_rank": 0, "data": data})
            try:
                self.tree.apply_event(self.worker, event.encode())
            except RuntimeError:  # an unknown parent or block: lookups show what that costs
                pass

    def finds(self, chain):
        """@return how many leading blocks can be found: by the rules, and by the tree"""
        names = [None, *(name for name, _ in chain)]
        known = next((i for i, name in enumerate(names[1:])
                      if self.parents.get(name, self) != names[i]), len(chain))
        if not self.tree:
            return known, known
        scores = self.tree.find_matches(self.apart(chain)).scores
        return known, scores.get((self.worker, 0), 0)

    def leave(self):
        if self.tree:
            self.tree.remove_worker(self.worker)


def leading(chain, has):
    """@return how many leading blocks of a chain are had"""
    return next((i for i, (name, _) in enumerate(chain) if not has(name)), len(chain))
