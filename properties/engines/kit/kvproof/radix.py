# SPDX-License-Identifier: Apache-2.0
"""Engines that hand out slots of tokens, and those that keep published content as a tree of tokens.
The tree is shown as nodes; keys, index, references and the blocks that can be had follow from
it."""

from typing import NamedTuple

from kvproof.engine import EngineAdapter, needed
from kvproof.requests import chain


class PageAdapter(EngineAdapter):
    """Its slots lie in pages of self.size; a page is a block of kvproof's."""

    def pages(self, slots):
        """@return the pages of slots. They must lie in their pages as tokens lie in a sequence."""
        slots = [int(slot) for slot in slots]
        for at, slot in enumerate(slots):
            if slot % self.size != at % self.size or slot // self.size != slots[
                    at - at % self.size] // self.size:
                raise ValueError(f"token {at} lies in slot {slot}: no page of {self.size}")
        return [slot // self.size for slot in slots[::self.size]]


class Node(NamedTuple):
    tokens: list   # from the parent on
    blocks: list   # one for each whole block of them
    children: list  # nodes
    lock: int      # how many requests hold it or something below it
    seed: object = ""  # extra keys, of nodes right below the root


class RadixAdapter(PageAdapter):
    """Set self.tree, which has a root_node, or define roots(); define shown(), or nodes();
    unused(); and what an EngineAdapter does."""

    def roots(self):
        """@return the roots of the trees, which hold no tokens; a node has `children`, a dict"""
        return [self.tree.root_node]

    @needed("nodes")
    def shown(self, node):
        """Returns the tokens of a node of its tree, its blocks, how many requests hold it."""

    def nodes(self):
        """@return the nodes right below the roots"""
        def below(node):
            for child in node.children.values():
                tokens, blocks, lock = self.shown(child)
                yield Node([int(token) for token in tokens], blocks, [*below(child)], int(lock))
        return [node for root in self.roots() for node in below(root)]

    @needed("free_blocks")
    def unused(self):
        """Returns the blocks that are neither in the tree nor held, the next one first."""

    def seed(self, r):
        """@return the extra keys of a request, as those of its nodes"""
        return ""

    def published(self):
        """Each block of the tree, with its key and the lock of its node; the leaves come first,
        as they can be evicted first."""
        def below(node, tokens, seed):
            tokens = tokens + list(node.tokens)
            for child in node.children:
                yield from below(child, tokens, seed)
            ends = len(tokens) // self.size - len(node.blocks)
            keys = chain(tokens, self.size, seed)[max(ends, 0):]
            if ends < 0 or len(keys) != len(node.blocks):
                raise ValueError(f"{len(node.blocks)} blocks at the end of {len(tokens)} tokens")
            yield from reversed([(block, key, node.lock)
                                 for block, key in zip(node.blocks, keys)])
        for node in self.nodes():
            yield from below(node, [], node.seed)

    def free_blocks(self):
        return [*self.unused(), *(block for block, _, lock in self.published() if lock == 0)]

    def counts(self):
        """A block of the tree has the lock of its node; of the others, whatever is not unused is
        held once."""
        out = {block: lock for block, _, lock in self.published()}
        loose = {*range(self.first_block, self.first_block + self.usable)}
        loose -= {block for block, _, _ in self.published()} | {*self.unused()}
        return [*out.items(), *((block, 1) for block in sorted(loose))]

    def keys(self):
        return {block: key for block, key, _ in self.published()}

    def index(self):
        out = {}
        for block, key, _ in self.published():
            out.setdefault(key, []).append(block)
        return out

    def hashes(self, r):
        return chain(r.tokens, self.size, self.seed(r))
