#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the block hashes that an installed vLLM gives to the request of each line, in hex.

It answers the line {} with its release, or with the reason why it has no such hashes.
"""

import json
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from types import SimpleNamespace

from kvproof import without_torch


def hashes(o):
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core import kv_cache_utils
    os.environ.pop("PYTHONHASHSEED", None)
    if o["seed"] is not None:
        os.environ["PYTHONHASHSEED"] = o["seed"]
    function = get_hash_fn_by_name(o["hash"])
    kv_cache_utils.init_none_hash(function)
    unit, ahead = o["unit"], o["lookahead"]
    hasher = kv_cache_utils.get_request_block_hasher(unit, function, ahead)
    request = SimpleNamespace(
        all_token_ids=[], num_tokens=0, block_hashes=[], cache_salt=o["salt"] or None,
        lora_request=o["lora"] and SimpleNamespace(lora_name=o["lora"], lora_path=o["path"]),
        mm_features=[SimpleNamespace(identifier=item["id"], mm_position=SimpleNamespace(**item))
                     for item in o["mm"]],
        prompt_embeds=o["embeds"] or None,
        _prompt_embeds_per_block_hashes={(i * unit, (i + 1) * unit): bytes.fromhex(rows)
                                         for i, rows in enumerate(o["embeds"])})
    for end in o["ends"]:
        request.all_token_ids, request.num_tokens = o["tokens"][:end], end
        request.block_hashes += hasher(request)
    return [key.hex() for key in request.block_hashes]


def release():
    try:
        vllm = distribution("vllm")
    except PackageNotFoundError:
        return f"{sys.executable} has no vLLM (KVPROOF_VLLM_PYTHON names one that has)"
    without_torch.install()
    from vllm.v1.core import kv_cache_utils
    if not hasattr(kv_cache_utils, "generate_lookahead_block_hash_extra_keys"):
        return f"vLLM {vllm.version} has other keys than 0.33"
    return {"vllm": vllm.version}


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to the other stream
    for line in sys.stdin:
        o = json.loads(line)
        print(json.dumps(hashes(o) if o else release()), file=answers, flush=True)


if __name__ == "__main__":
    main()
