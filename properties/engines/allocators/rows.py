# SPDX-License-Identifier: Apache-2.0
"""THE LIST of engines: where each comes from, its adapter, what it does otherwise (traits), what it
can be asked (abilities). What is known to be wrong with it is in ../findings/known.jsonl.

The adapter says its traits and abilities itself; where it says others than this list, `kvproof
engines` does not check it.
"""

import os
from typing import NamedTuple, Optional

from kvproof.engine import PLAIN
from kvproof_support import known
from kvproof_support.patches import patches

HERE = os.path.dirname(os.path.abspath(__file__))


class Row(NamedTuple):
    name: str
    revision: str
    source: str  # pypi, checkout or own
    origin: str  # a requirement of pip; owner/repository; a subject of `kvproof check`
    adapter: str = ""
    needs: str = ""  # of SHARED
    package: str = ""  # of a wheel: the folder of its modules
    faults: str = ""  # groups of faults.patches: what is seeded
    mends: str = ""  # what a pull request mends, applied to a copy
    traits: dict = {}
    abilities: Optional[dict] = {}  # empty: not restricted; None: as its adapter says
    whole: bool = False  # pip installs what the wheel requires, too
    events: Optional[bool] = None  # it announces KV cache events
    beside: str = ""  # the revision that must answer its check in the same way

    def says(self):
        """@return its traits and its abilities, in words"""
        def words(table, base):
            return ", ".join(f"{name} {value if isinstance(value, str) else _short(value)}"
                             for name, value in table.items() if base.get(name, ...) != value)
        plain = "plain" if {*PLAIN} <= {*self.abilities} else ""
        can = ", ".join(filter(None, (plain, words(self.abilities, PLAIN if plain else {}))))
        return words(self.traits, {}) or "-", can or "not restricted"

    seeded = property(lambda self: _of_group(self.faults))
    mend = property(lambda self: _of_group(self.mends))

    @property
    def shared(self):
        """@return what it needs of pip, installed once for all that need it"""
        return SHARED[self.needs]

    @property
    def commit(self) -> Optional[str]:
        return self.revision.split("+")[0] if self.source == "checkout" else None


def _of_group(name):
    """@return the patches of a group, in the order of their list"""
    return [row for row in patches(HERE, "faults.patches") if name in row.group.split()
            ] if name else []


def _short(value):
    if isinstance(value, list):
        return "/".join(map(_short, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


# What engines need of pip, installed once and shared.
SHARED = {"openvino": ("openvino==2026.4.1",), "light": ("numpy", "xxhash", "msgspec"),
          "wire": ("cbor2", "msgspec", "pyzmq", "typing_extensions"),
          "tvm": ("apache-tvm-ffi==0.1.15.post2", "ml_dtypes", "numpy", "typing_extensions"),
          "torch": ("torch==2.14.1", "numpy", "sortedcontainers", "msgspec", "pybase64")}
VLLM_V1 = "vllm_adapter.py --around-known"
NANO, MINI = "GeeeekExplorer/nano-vllm", "sgl-project/mini-sglang"

# Abilities that several have.
STEPS = PLAIN | {"appends": "one", "advance": "whole"}
HITS = STEPS | {"without_lookup": False}
CACHED = {"caching": [True]}
NANO_CAN = HITS | CACHED | {"block_sizes": [2, 3, 4, 8, 16]}
NEWEST = {"duplicates": "newest_keeps", "reserves": "prompt"}
REPOINTED = {"duplicates": "table_repointed", "free_list": "set"}
KINDS_24 = ["full", "mla", "cross", "sliding_window", "chunked_local", "mamba"]
KINDS_33 = ["full", "mla", "rswa", "ring", *KINDS_24[2:]]
TVM_CAN = PLAIN | {"caching": [False], "block_sizes": [1, 2, 4, 16], "chunks": True, "drafts": True,
                   "forks": "computed", "kinds": ["full", "mla", "sliding_window"],
                   "blocks": [4, 2**20]}
INSIDE, APART = {"lookup": "within_allocate"}, {"lookup": "separate"}
OPENVINO = ("checkout", "openvinotoolkit/openvino.genai", "openvino_genai.cpp", "openvino",
            "openvino")
OPENVINO_DOES = INSIDE | {"duplicates": "free_first", "free_list": "set", "granularity": "partial"}
OPENVINO_CAN = HITS | {"chunks": True, "forks": "computed"}

ROWS = [
    Row("vllm-v1", "0.24.0", "pypi", "vllm==0.24.0", VLLM_V1, "wire", "vllm",
        "vllm-0.24", abilities={"kinds": KINDS_24, "max_tokens": False}, events=True),
    Row("vllm-v1", "0.33.0", "pypi", "vllm==0.33.0", VLLM_V1, "wire", "vllm",
        "vllm-0.33", abilities={"kinds": KINDS_33}, events=True),
    Row("vllm-v0", "0.6.6.post1", "pypi", "vllm==0.6.6.post1", "vllm_v0.py", "torch", "vllm",
        "vllm-v0",
        traits={"duplicates": "table_repointed", "reserves": "prompt"} | INSIDE,
        abilities=PLAIN | CACHED | {"forks": "computed", "without_lookup": False}),
    Row("sglang", "0.5.23", "pypi", "sglang==0.5.23", "sglang_adapter.py", "torch", "sglang",
        "sglang", traits=REPOINTED | {"refusal": "may_evict"},
        abilities=HITS | CACHED | {"chunks": True}),
    # The Rust core, which servers use by default, that in Python; and either with windows beside.
    # Not said: states of Mamba, which a match copies; the host tier, whose copies begin unasked.
    *(Row("sglang-unified", f"0.5.23{which}", "pypi", "sglang==0.5.23", adapter, "torch", "sglang",
          seeded, traits=REPOINTED | {"refusal": "may_evict"},
          abilities=HITS | CACHED | {"chunks": True},
          beside="" if "python" in which else f"0.5.23+python{which}",
          events=None if "window" in which else True)
      for which, adapter, seeded in (
          ("", "sglang_unified.py", "sglang-rust"),
          ("+python", "sglang_unified.py python", "sglang-python"),
          ("+window", "sglang_window.py", ""),
          ("+python+window", "sglang_window.py python", "sglang-window"))),
    Row("lmdeploy", "0.18.0", "pypi", "lmdeploy==0.18.0", "lmdeploy_adapter.py", "torch",
        "lmdeploy", "lmdeploy",
        traits=REPOINTED | INSIDE | {"refusal": "may_evict"}, abilities=HITS),
    Row("transformers", "5.24.0", "pypi", "transformers==5.24.0", "transformers_cache.py", "torch",
        "transformers", "transformers", traits=REPOINTED | {"refusal": "may_evict"},
        abilities=HITS | {"chunks": True, "forks": "computed"}, whole=True),
    Row("tvm", "0.27.0.post1", "pypi", "apache-tvm==0.27.0.post1", "tvm_cache.py", "tvm", "tvm",
        abilities=TVM_CAN),
    Row("tvm", "0.27.0.post1+mend", "pypi", "apache-tvm==0.27.0.post1", "tvm_cache.py", "tvm",
        "tvm", "tvm", mends="tvm-mend", abilities=TVM_CAN),
    Row("openvino-genai", "da1db86", *OPENVINO, traits=OPENVINO_DOES, abilities=OPENVINO_CAN),
    *(Row("openvino-genai", f"da1db86+{what}", *OPENVINO, faults=seeded,
          mends="openvino-mend", traits=OPENVINO_DOES, abilities=OPENVINO_CAN)
      for what, seeded in (("mended", "openvino"), ("asan", ""), ("tsan", ""))),
    Row("nano-vllm", "82f5ca2", "checkout", NANO, "nano_vllm.py", "light",
        traits=NEWEST | INSIDE, abilities=NANO_CAN),
    Row("nano-vllm", "f64d821", "checkout", NANO, "nano_vllm.py", "light",
        traits=NEWEST | APART, abilities=NANO_CAN | {"chunks": True}),
    Row("nano-vllm", "bb823b3", "checkout", NANO, "nano_vllm.py", "light",
        faults="nano-vllm", traits=NEWEST | APART,
        abilities=NANO_CAN | {"chunks": True}),
    Row("minivllm", "e63c96c", "checkout", "Wenyueh/MinivLLM", "minivllm.py", "light",
        traits=NEWEST | INSIDE, abilities=NANO_CAN),
    Row("mini-sglang", "20fcd7f", "checkout", MINI, "mini_sglang.py", "torch",
        traits=REPOINTED, abilities=HITS | CACHED),
    Row("mini-sglang", "20fcd7f+142", "checkout", MINI, "mini_sglang.py", "torch",
        faults="mini-sglang", mends="mini-sglang-mend", traits=REPOINTED,
        abilities=HITS | CACHED),
    Row("lightllm", "fc72ffa", "checkout", "ModelTC/lightllm", "lightllm.py", "torch",
        traits={"granularity": "token", "free_list": "set"} | INSIDE,
        abilities=HITS | CACHED | {"block_sizes": [1]}),
    Row("atom", "ffdf3bb", "checkout", "ROCm/ATOM", "atom.py", "light",
        traits=NEWEST | {"free_list": "set"}, abilities=HITS | {"chunks": True}),
    Row("kvproof", "naive", "own", "naive", events=True),
    Row("kvproof", "optimized-xxh3", "own", "optimized-xxh3", events=True),
    Row("kvproof", "optimized-sha256", "own", "optimized-sha256", events=True),
]


RELEASES = ("0.11.0", "0.13.0", "0.15.1", "0.18.1", "0.20.2", "0.22.1", "0.24.0", "0.27.1",
            "0.30.0", "0.33.0")
HISTORY = [Row("vllm-v1", release, "pypi", f"vllm=={release}", VLLM_V1, "wire", "vllm",
               abilities=None) for release in RELEASES]
# What releases of vLLM V1 have, by its name in vllm_known.py.
DEFECTS = [row for row in known.read(known.OWN).rows if row.name]
