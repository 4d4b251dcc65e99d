# SPDX-License-Identifier: Apache-2.0
"""A paged allocator with a prefix cache as textbooks and engines write it in Python: objects in a
doubly linked free queue, a dictionary of block hashes, reference counts. Standard library only.

It makes the same decisions as optimized/ with one group of full attention, which vllm-0.24 and
vllm-0.33 treat alike, block for block; what it costs is measured beside it (python_bench.cpp).
"""

import hashlib
import pickle
from array import array


def hash_pickled(parent, tokens):
    """SHA-256 over a pickled tuple, as engines do that hash Python objects."""
    return hashlib.sha256(pickle.dumps((parent, tuple(tokens), None),
                                       protocol=pickle.HIGHEST_PROTOCOL)).digest()


def hash_bytes(parent, tokens):
    """SHA-256 over the very bytes that optimized::Sha256Digest gets."""
    return hashlib.sha256(parent + array("i", tokens).tobytes()).digest()


def root_hash(seed):
    """What stands for the block before the first."""
    return hashlib.sha256(b"kvproof\0" + seed.to_bytes(8, "little")).digest()


class Block:
    __slots__ = ("block_id", "ref_cnt", "block_hash", "prev_free", "next_free")

    def __init__(self, block_id):
        self.block_id = block_id
        self.ref_cnt = 0
        self.block_hash = None
        self.prev_free = self.next_free = None


class FreeQueue:
    """A doubly linked list between two sentinels, in the order of eviction."""

    def __init__(self, blocks):
        self.head, self.tail = Block(-1), Block(-1)
        self.head.next_free, self.tail.prev_free = self.tail, self.head
        self.num_free = 0
        for block in blocks:
            self.insert_after(self.tail.prev_free, block)

    def insert_after(self, before, block):
        block.prev_free, block.next_free = before, before.next_free
        before.next_free.prev_free = block
        before.next_free = block
        self.num_free += 1

    def remove(self, block):
        block.prev_free.next_free = block.next_free
        block.next_free.prev_free = block.prev_free
        block.prev_free = block.next_free = None
        self.num_free -= 1

    def pop_first(self):
        block = self.head.next_free
        self.remove(block)
        return block


class BlockPool:
    def __init__(self, num_blocks):
        self.blocks = [Block(block_id) for block_id in range(num_blocks)]
        self.queue = FreeQueue(self.blocks[1:])  # block 0 is the null block
        self.cached = {}  # hash -> {block id: block}, the oldest first

    def take(self, count):
        """@pre there are so many"""
        taken = []
        for _ in range(count):
            block = self.queue.pop_first()
            if block.block_hash is not None:
                self.evict(block)
            block.ref_cnt = 1
            taken.append(block)
        return taken

    def evict(self, block):
        copies = self.cached[block.block_hash]
        del copies[block.block_id]
        if not copies:
            del self.cached[block.block_hash]
        block.block_hash = None

    def touch(self, blocks):
        for block in blocks:
            if block.ref_cnt == 0:
                self.queue.remove(block)
            block.ref_cnt += 1

    def release(self, blocks):
        """Blocks with content go to the back, others to the front, behind one another."""
        last_front = self.queue.head
        for block in blocks:
            block.ref_cnt -= 1
            if block.ref_cnt > 0:
                continue
            if block.block_hash is None:
                self.queue.insert_after(last_front, block)
                last_front = block
            else:
                self.queue.insert_after(self.queue.tail.prev_free, block)

    def publish(self, block, block_hash):
        if block.block_hash is not None:
            return
        block.block_hash = block_hash
        self.cached.setdefault(block_hash, {})[block.block_id] = block

    def find(self, block_hash):
        copies = self.cached.get(block_hash)
        return next(iter(copies.values())) if copies else None


class Request:
    def __init__(self, tokens):
        self.tokens = list(tokens)
        self.hashes = []
        self.blocks = []
        self.num_computed = 0
        self.num_published = 0


class Allocator:
    def __init__(self, num_blocks, block_size, hash_block, seed=0):
        self.pool = BlockPool(num_blocks)
        self.block_size = block_size
        self.hash_block = hash_block
        self.root = root_hash(seed)

    def arrive(self, tokens):
        request = Request(tokens)
        self.hash_full_blocks(request)
        return request

    def hash_full_blocks(self, request):
        size, hashes = self.block_size, request.hashes
        parent = hashes[-1] if hashes else self.root
        for start in range(len(hashes) * size, len(request.tokens) - size + 1, size):
            parent = self.hash_block(parent, request.tokens[start:start + size])
            hashes.append(parent)

    def append(self, request, token):
        request.tokens.append(token)
        if len(request.tokens) % self.block_size == 0:
            self.hash_full_blocks(request)

    def lookup(self, request):
        """The longest cached prefix; the last token is always computed anew."""
        found = []
        for block_hash in request.hashes[:(len(request.tokens) - 1) // self.block_size]:
            block = self.pool.find(block_hash)
            if block is None:
                break
            found.append(block)
        return found

    def allocate(self, request, new_tokens, found=()):
        """Makes slots for more tokens behind a looked-up prefix and publishes the blocks that they
        complete. @return the number of blocks taken, or None for a shortage"""
        end = request.num_computed + len(found) * self.block_size + new_tokens
        missing = -(-end // self.block_size) - len(request.blocks) - len(found)
        revived = sum(block.ref_cnt == 0 for block in found)
        if max(missing, 0) + revived > self.pool.queue.num_free:
            return None
        if found:
            self.pool.touch(found)
            request.blocks.extend(found)
            request.num_published = len(found)
        if missing > 0:
            request.blocks.extend(self.pool.take(missing))
        full = min(end, len(request.tokens)) // self.block_size
        for i in range(request.num_published, full):
            self.pool.publish(request.blocks[i], request.hashes[i])
        request.num_published = max(full, request.num_published)
        return max(missing, 0)

    def advance(self, request, num_computed):
        request.num_computed = num_computed

    def free(self, request):
        """The last block first; the tokens stay, for a request that is preempted."""
        self.pool.release(reversed(request.blocks))
        request.blocks = []
        request.num_computed = request.num_published = 0
