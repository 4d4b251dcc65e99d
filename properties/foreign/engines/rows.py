# SPDX-License-Identifier: Apache-2.0
"""THE LIST of engines: where each comes from, its adapter, and what is known to be wrong with it.

What an engine does otherwise (traits) and what it can be asked (abilities) is said by its adapter.
"""

from typing import NamedTuple, Optional

import faults


class Row(NamedTuple):
    name: str
    revision: str
    source: str  # pypi, checkout or own
    origin: str  # a requirement of pip; owner/repository; a subject of `kvproof check`
    adapter: str = ""
    needs: str = ""  # of SHARED
    package: str = ""  # of a wheel: the folder of its modules
    seeded: tuple = ()  # faults
    mend: tuple = ()  # faults the other way round: what a pull request mends, applied to a copy
    known: tuple = ()  # (finding, reason, link)

    @property
    def commit(self) -> Optional[str]:
        return self.revision.split("+")[0] if self.source == "checkout" else None


# What engines need of pip, installed once and shared.
SHARED = {"light": ("numpy", "xxhash", "msgspec"),
          "wire": ("cbor2", "msgspec", "pyzmq", "typing_extensions"),
          "torch": ("torch==2.9.1", "numpy", "sortedcontainers", "msgspec", "pybase64")}
VLLM_V1 = "../vllm_adapter.py --around-known"
NANO, MINI = "GeeeekExplorer/nano-vllm", "sgl-project/mini-sglang"
ISSUE_163 = "https://github.com/GeeeekExplorer/nano-vllm/issues/163"
MINIVLLM = "https://github.com/Wenyueh/MinivLLM"
PULL_142 = "https://github.com/sgl-project/mini-sglang/pull/142"
MEND_142 = (
    faults.Fault("the row is copied before it changes", faults.CACHE,
                 "self.page_table[req.table_idx, : req.cached_len]\n        old",
                 "self.page_table[req.table_idx, : req.cached_len].clone()\n        old"),
    faults.Fault("the row names the pages of the tree", faults.CACHE,
                 "            req.cache_handle = new_handle",
                 "            req.cache_handle = new_handle\n"
                 "            if new_handle.cached_len:\n"
                 "                row = self.page_table[req.table_idx]\n"
                 "                row[: new_handle.cached_len] = new_handle.get_matched_indices()"))

ROWS = [
    Row("vllm-v1", "0.24.0", "pypi", "vllm==0.24.0", VLLM_V1, "wire", "vllm",
        tuple(faults.VLLM_V1)),
    Row("vllm-v1", "0.33.0", "pypi", "vllm==0.33.0", VLLM_V1, "wire", "vllm"),
    Row("vllm-v0", "0.6.6.post1", "pypi", "vllm==0.6.6.post1", "vllm_v0.py", "torch", "vllm",
        tuple(faults.VLLM_V0), known=(
            ("I18", "a hit counts a block that was evicted before the one behind it",
             "properties/foreign/findings/vllm-v0-first-block-evicted.md"),)),
    Row("sglang", "0.5.23", "pypi", "sglang==0.5.23", "sglang_adapter.py", "torch", "sglang",
        tuple(faults.SGLANG)),
    Row("lmdeploy", "0.18.0", "pypi", "lmdeploy==0.18.0", "lmdeploy_adapter.py", "torch",
        "lmdeploy", tuple(faults.LMDEPLOY)),
    Row("nano-vllm", "82f5ca2", "checkout", NANO, "nano_vllm.py", "light", known=(
        ("I9", "a block that is handed out stays in the index", ISSUE_163),
        ("I18", "a prompt whose blocks are all published is hit whole", ISSUE_163))),
    Row("nano-vllm", "f64d821", "checkout", NANO, "nano_vllm.py", "light", known=(
        ("I13+I18", "a hit on a free block erases its key", ISSUE_163),
        ("content", "so a later request writes where that hit is still read", ISSUE_163))),
    Row("nano-vllm", "bb823b3", "checkout", NANO, "nano_vllm.py", "light",
        seeded=tuple(faults.NANO_VLLM)),
    Row("minivllm", "e63c96c", "checkout", "Wenyueh/MinivLLM", "minivllm.py", "light", known=(
        ("I2+I5+I6", "a block that is handed out counts no reference",
         MINIVLLM),
        ("I13", "its content is forgotten while its key stays", MINIVLLM),
        ("I18", "a prompt whose blocks are all published is hit whole", MINIVLLM),
        ("I23", "what counts no reference is never given back", MINIVLLM),
        ("C12", "and its next use ends in an assertion of its own", MINIVLLM))),
    Row("mini-sglang", "20fcd7f", "checkout", MINI, "mini_sglang.py", "torch", known=(
        ("I6", "the row keeps naming a page that was given back", PULL_142),
        ("I6+I13", "and the page that the tree has is not in the row", PULL_142),
        ("I7", "which is handed out again, to the same row", PULL_142),
        ("I8", "so two rows name a page that is not published", PULL_142))),
    Row("mini-sglang", "20fcd7f+142", "checkout", MINI, "mini_sglang.py", "torch",
        seeded=tuple(faults.MINI_SGLANG), mend=MEND_142),
    Row("lightllm", "fc72ffa", "checkout", "ModelTC/lightllm", "lightllm.py", "torch"),
    Row("atom", "ffdf3bb", "checkout", "ROCm/ATOM", "atom.py", "light"),
    Row("kvproof", "naive", "own", "naive"),
    Row("kvproof", "optimized-xxh3", "own", "optimized-xxh3"),
    Row("kvproof", "optimized-sha256", "own", "optimized-sha256"),
]
