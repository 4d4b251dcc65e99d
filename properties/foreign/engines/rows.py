# SPDX-License-Identifier: Apache-2.0
"""THE LIST of engines: where each comes from, its adapter, what it does otherwise (traits), what it
can be asked (abilities), and what is known to be wrong with it.

The adapter says its traits and abilities itself; where it says others than this list, `kvproof
engines` does not check it.
"""

import os
import sys
from typing import NamedTuple, Optional

import faults
import faults_openvino
import faults_sglang_unified
import faults_tvm
from faults_transformers import TRANSFORMERS
from faults_vllm import VLLM_33

sys.path.append(os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")))
from kvproof.abilities import PLAIN  # noqa: E402


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
    traits: dict = {}
    abilities: Optional[dict] = {}  # empty: not restricted; None: as its adapter says
    whole: bool = False  # pip installs what the wheel requires, too
    events: Optional[tuple] = None  # laws that they are known to break; None: it tells none
    beside: str = ""  # the revision that must answer its check in the same way

    def says(self):
        """@return its traits and its abilities, in words"""
        def words(table, base):
            return ", ".join(f"{name} {value if isinstance(value, str) else _short(value)}"
                             for name, value in table.items() if base.get(name, ...) != value)
        plain = "plain" if {*PLAIN} <= {*self.abilities} else ""
        can = ", ".join(filter(None, (plain, words(self.abilities, PLAIN if plain else {}))))
        return words(self.traits, {}) or "-", can or "not restricted"

    @property
    def commit(self) -> Optional[str]:
        return self.revision.split("+")[0] if self.source == "checkout" else None


def _short(value):
    if isinstance(value, list):
        return "/".join(map(_short, value))
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


# What engines need of pip, installed once and shared.
SHARED = {"openvino": ("openvino==2026.4.1",), "light": ("numpy", "xxhash", "msgspec"),
          "wire": ("cbor2", "msgspec", "pyzmq", "typing_extensions"),
          "tvm": ("apache-tvm-ffi==0.1.15.post2", "ml_dtypes", "numpy", "typing_extensions"),
          "torch": ("torch==2.14.1", "numpy", "sortedcontainers", "msgspec", "pybase64")}
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
LOST = "properties/foreign/findings/tvm-rows-lost.md"
INSIDE, APART = {"lookup": "within_allocate"}, {"lookup": "separate"}
OPENVINO = ("checkout", "openvinotoolkit/openvino.genai", "openvino_genai.cpp", "openvino",
            "openvino")
PAGES = "properties/foreign/findings/openvino-"
OPENVINO_DOES = INSIDE | {"duplicates": "free_first", "free_list": "set", "granularity": "partial"}
OPENVINO_CAN = HITS | {"chunks": True, "forks": "computed"}

ROWS = [
    Row("vllm-v1", "0.24.0", "pypi", "vllm==0.24.0", VLLM_V1, "wire", "vllm",
        tuple(faults.VLLM_V1), abilities={"kinds": KINDS_24, "max_tokens": False}, events=()),
    Row("vllm-v1", "0.33.0", "pypi", "vllm==0.33.0", VLLM_V1, "wire", "vllm",
        tuple(VLLM_33), abilities={"kinds": KINDS_33},
        events=("tail",)),  # https://github.com/vllm-project/vllm/issues/58119
    Row("vllm-v0", "0.6.6.post1", "pypi", "vllm==0.6.6.post1", "vllm_v0.py", "torch", "vllm",
        tuple(faults.VLLM_V0), known=(
            ("I18", "a hit counts a block that was evicted before the one behind it",
             "properties/foreign/findings/vllm-v0-first-block-evicted.md"),),
        traits={"duplicates": "table_repointed", "reserves": "prompt"} | INSIDE,
        abilities=PLAIN | CACHED | {"forks": "computed", "without_lookup": False}),
    Row("sglang", "0.5.23", "pypi", "sglang==0.5.23", "sglang_adapter.py", "torch", "sglang",
        tuple(faults.SGLANG), traits=REPOINTED | {"refusal": "may_evict"},
        abilities=HITS | CACHED | {"chunks": True}),
    # The Rust core, which servers use by default, that in Python; and either with windows beside.
    # Not said: states of Mamba, which a match copies; the host tier, whose copies begin unasked.
    *(Row("sglang-unified", f"0.5.23{which}", "pypi", "sglang==0.5.23", adapter, "torch", "sglang",
          tuple(seeded), traits=REPOINTED | {"refusal": "may_evict"},
          abilities=HITS | CACHED | {"chunks": True},
          beside="" if "python" in which else f"0.5.23+python{which}",
          events=None if "window" in which else ())
      for which, adapter, seeded in (
          ("", "sglang_unified.py", faults_sglang_unified.GLUE),
          ("+python", "sglang_unified.py python", faults_sglang_unified.PYTHON),
          ("+window", "sglang_window.py", ()),
          ("+python+window", "sglang_window.py python", faults_sglang_unified.WINDOW))),
    Row("lmdeploy", "0.18.0", "pypi", "lmdeploy==0.18.0", "lmdeploy_adapter.py", "torch",
        "lmdeploy", tuple(faults.LMDEPLOY),
        traits=REPOINTED | INSIDE | {"refusal": "may_evict"}, abilities=HITS),
    Row("transformers", "5.24.0", "pypi", "transformers==5.24.0", "transformers_cache.py", "torch",
        "transformers", tuple(TRANSFORMERS), traits=REPOINTED | {"refusal": "may_evict"},
        abilities=HITS | {"chunks": True, "forks": "computed"}, whole=True),
    Row("tvm", "0.27.0.post1", "pypi", "apache-tvm==0.27.0.post1", "tvm_cache.py", "tvm", "tvm",
        known=(("content", "a tree beside a chain in one commit loses rows", LOST),
               ("I5", "a pop behind a window gives back the page of tokens that stay", LOST),
               ("C12", "so that attention reads others", LOST)),
        abilities=TVM_CAN),
    Row("tvm", "0.27.0.post1+mend", "pypi", "apache-tvm==0.27.0.post1", "tvm_cache.py", "tvm",
        "tvm", tuple(faults_tvm.TVM), mend=faults_tvm.MEND, abilities=TVM_CAN),
    Row("openvino-genai", "da1db86", *OPENVINO, known=(
        ("I13", "a block of a prompt is cached before it is computed",
         f"{PAGES}cached-before-it-is-computed.md"),
        ("content", "and hit so; and two prompts go on in one half-filled block",
         f"{PAGES}half-filled-block-written-twice.md"),
        ("I9", "of copies the index forgets one that is there", f"{PAGES}copy-is-forgotten.md")),
        traits=OPENVINO_DOES, abilities=OPENVINO_CAN),
    *(Row("openvino-genai", f"da1db86+{what}", *OPENVINO, seeded=seeded,
          mend=faults_openvino.MENDED, traits=OPENVINO_DOES, abilities=OPENVINO_CAN)
      for what, seeded in (("mended", tuple(faults_openvino.OPENVINO)), ("asan", ()),
                           ("tsan", ()))),
    Row("nano-vllm", "82f5ca2", "checkout", NANO, "nano_vllm.py", "light", known=(
        ("I9", "a block that is handed out stays in the index", ISSUE_163),
        ("I18", "a prompt whose blocks are all published is hit whole", ISSUE_163)),
        traits=NEWEST | INSIDE, abilities=NANO_CAN),
    Row("nano-vllm", "f64d821", "checkout", NANO, "nano_vllm.py", "light", known=(
        ("I13+I18", "a hit on a free block erases its key", ISSUE_163),
        ("content", "so a later request writes where that hit is still read", ISSUE_163)),
        traits=NEWEST | APART, abilities=NANO_CAN | {"chunks": True}),
    Row("nano-vllm", "bb823b3", "checkout", NANO, "nano_vllm.py", "light",
        seeded=tuple(faults.NANO_VLLM), traits=NEWEST | APART,
        abilities=NANO_CAN | {"chunks": True}),
    Row("minivllm", "e63c96c", "checkout", "Wenyueh/MinivLLM", "minivllm.py", "light", known=(
        ("I2+I5+I6", "a block that is handed out counts no reference",
         MINIVLLM),
        ("I13", "its content is forgotten while its key stays", MINIVLLM),
        ("I18", "a prompt whose blocks are all published is hit whole", MINIVLLM),
        ("I23", "what counts no reference is never given back", MINIVLLM),
        ("C12", "and its next use ends in an assertion of its own", MINIVLLM)),
        traits=NEWEST | INSIDE, abilities=NANO_CAN),
    Row("mini-sglang", "20fcd7f", "checkout", MINI, "mini_sglang.py", "torch", known=(
        ("I6", "the row keeps naming a page that was given back", PULL_142),
        ("I6+I13", "and the page that the tree has is not in the row", PULL_142),
        ("I7", "which is handed out again, to the same row", PULL_142),
        ("I8", "so two rows name a page that is not published", PULL_142)),
        traits=REPOINTED, abilities=HITS | CACHED),
    Row("mini-sglang", "20fcd7f+142", "checkout", MINI, "mini_sglang.py", "torch",
        seeded=tuple(faults.MINI_SGLANG), mend=MEND_142, traits=REPOINTED,
        abilities=HITS | CACHED),
    Row("lightllm", "fc72ffa", "checkout", "ModelTC/lightllm", "lightllm.py", "torch",
        traits={"granularity": "token", "free_list": "set"} | INSIDE,
        abilities=HITS | CACHED | {"block_sizes": [1]}),
    Row("atom", "ffdf3bb", "checkout", "ROCm/ATOM", "atom.py", "light",
        traits=NEWEST | {"free_list": "set"}, abilities=HITS | {"chunks": True}),
    Row("kvproof", "naive", "own", "naive", events=()),
    Row("kvproof", "optimized-xxh3", "own", "optimized-xxh3", events=()),
    Row("kvproof", "optimized-sha256", "own", "optimized-sha256", events=()),
]


class Defect(NamedTuple):
    """What releases of vLLM V1 have, by its name in ../vllm_known.py."""

    name: str
    what: str
    lived: tuple  # the first and the last of RELEASES in which it is found; empty: in none
    link: str = ""  # to a report; empty: none was seen
    configurations: tuple = ("plain", "full", "full_window")  # where it is looked for
    operations: int = 4000  # in each of them

    def expected(self, revision):
        return bool(self.lived) and RELEASES.index(self.lived[0]) <= RELEASES.index(
            revision) <= RELEASES.index(self.lived[1])


RELEASES = ("0.11.0", "0.13.0", "0.15.1", "0.18.1", "0.20.2", "0.22.1", "0.24.0", "0.27.1",
            "0.30.0", "0.33.0")
HISTORY = [Row("vllm-v1", release, "pypi", f"vllm=={release}", VLLM_V1, "wire", "vllm",
               abilities=None) for release in RELEASES]
VLLM = "https://github.com/vllm-project/vllm/"
WINDOWS = ("window", "chunked", "full_window")
MIXED = ("full_window", "full2_window", "full_window2", "full_two_windows")
ALIGN = ("full_mamba_align", "full_mamba2_align_drafts")
DEFECTS = [
    Defect("progress", "publication goes back when fewer tokens are asked for",
           ("0.11.0", "0.11.0")),
    Defect("25431", "the last published block of a chunk that is over is kept",
           ("0.11.0", "0.11.0"), VLLM + "pull/25431", ("chunked", "full_chunked")),
    Defect("30544", "an event behind a null block ends in an assertion", ("0.11.0", "0.13.0"),
           VLLM + "pull/30544", WINDOWS),
    Defect("null-key", "the null block gets a key", ("0.11.0", "0.13.0"), "", WINDOWS),
    Defect("hit-of-one", "a hit holds what a window of 1 does not read", ("0.11.0", "0.13.0"), "",
           WINDOWS),
    Defect("36708", "an image has one key at two places", ("0.11.0", "0.18.1"),
           VLLM + "pull/36708"),
    Defect("output-key", "behind an image, output has another key than a prompt",
           ("0.11.0", "0.18.1"), "", ("plain",), 60000),
    Defect("align-state", "a state is given back a step sooner", ("0.15.1", "0.15.1"), "", ALIGN),
    Defect("39271", "a Mamba chunk that needs fewer blocks is an assertion", (),
           VLLM + "issues/39271", ALIGN),
    Defect("33775", "a block that one group hit goes to another", ("0.18.1", "0.22.1"),
           VLLM + "issues/33775", MIXED),
    Defect("twice", "an id twice in one release enters the queue twice", ("0.11.0", "0.22.1")),
    Defect("43559", "behind a draft head a hit is longer than full attention lists",
           ("0.22.1", "0.24.0"), VLLM + "issues/43559",
           ("full_mamba_align_eagle", "full_mamba_all_eagle")),
    Defect("46892", "external tokens beside Mamba take a block too many", ("0.18.1", "0.33.0"),
           VLLM + "pull/46892", ALIGN),
    Defect("beyond-keys", "a lookup indexes behind the last key", ("0.33.0", "0.33.0"),
           "properties/foreign/findings/vllm-v1-lookup-behind-the-last-key.md", ("window",)),
    Defect("late-checkpoint", "the state of a checkpoint gets the key of a later state",
           ("0.33.0", "0.33.0"), "properties/foreign/findings/vllm-v1-checkpoint-renamed.md",
           ("full_mamba_align_eagle",)),
    Defect("44701", "a salt and an adapter of one name are one key", ("0.13.0", "0.30.0"),
           VLLM + "issues/44701"),
    Defect("two-full", "of two full groups the hit of the first alone is cut",
           ("0.15.1", "0.24.0"), "properties/foreign/findings/vllm-v1-two-full-groups.md",
           ("two_fulls_window",)),
    Defect("counts", "the common prefix is counted, not compared", ("0.13.0", "0.24.0"),
           VLLM + "pull/55227"),
]
