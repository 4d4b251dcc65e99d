# SPDX-License-Identifier: Apache-2.0
"""The words for the cases in which kernels are measured beside those of others, on a device and on
a CPU."""

from typing import Any

GROUPS = {"decode": "Decode: one new token a sequence",
          "prefill": "Prefill: new tokens behind cached ones",
          "mla": "MLA decode: rows of 512 + 64, read by all heads",
          "write": "Writing new tokens into the cache"}


def label_of(row: dict[str, Any]) -> str:
    """What tells a case from the others of its operation, and the peer."""
    text = f"{row['batch']:,} × {row['context']:,}"
    if row["operation"] == "prefill":
        text = f"{row['new']:,} behind {row['context'] - row['new']:,}"
    if row["operation"] == "mla" or row["heads"] != 32:
        text += f", {row['heads']} heads"
    if row["block_size"] != 16:
        text += f", blocks of {row['block_size']}"
    kind = row["cache_type"].split("_")[0]
    return text + (f", {kind}" if kind != "bf16" else "")
