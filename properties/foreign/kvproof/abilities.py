# SPDX-License-Identifier: Apache-2.0
"""What an engine can be asked at all, from its row "abilities" of the answer to a header."""


def why_not_built(abilities, config):
    """@return why the engine has no manager of this configuration; empty if it has"""
    groups = config["groups"]
    kinds, sizes = abilities.get("kinds", ["full", "mla"]), abilities.get("block_sizes", [1, 1024])
    blocks = abilities.get("blocks", [2, 1 << 30])
    if len(groups) > abilities.get("groups", 1):
        return f"at most {abilities.get('groups', 1)} groups"
    if any(group["kind"] not in kinds for group in groups):
        return f"layers of the kinds {', '.join(kinds)} only"
    if any(not sizes[0] <= group["block_size"] <= sizes[1] for group in groups):
        return f"blocks of {sizes[0]} to {sizes[1]} tokens only"
    if not blocks[0] <= config["num_blocks"] <= blocks[1]:
        return f"{blocks[0]} to {blocks[1]} blocks only"
    if config["enable_caching"] not in abilities.get("caching", [True, False]):
        return "with a prefix cache only" if not config["enable_caching"] else "no prefix cache"
    if not abilities.get("eagle") and any(group.get("eagle") for group in groups):
        return "no EAGLE"
    if not abilities.get("watermark") and config.get("watermark"):
        return "no watermark"
    if config["hash_block_size"] != groups[0]["block_size"]:
        return "keys of whole blocks only"
    return "no host tier" if config.get("num_host_blocks") else ""


def why_not_arrived(abilities, operation):
    """@return why the engine does not take such a request; empty if it does"""
    if operation.get("encoder_tokens"):
        return "no encoder"
    if operation.get("extra") and not abilities.get("extra"):
        return "no extra keys"
    return "no skipped lookups" if operation.get("skip_lookup") and not abilities.get(
        "skip_lookup") else ""


# An argument of allocate, and what it is called in a refusal to perform it.
ARGUMENTS = {"external": "connector", "delay_cache": "delayed publication", "reserved": "reserve",
             "full_sequence_must_fit": "gate of the whole sequence"}


def why_not_allocated(abilities, operation, request, end, admits):
    """@return why the engine does not grant such tokens; empty if it does"""
    for argument, name in ARGUMENTS.items():
        if operation.get(argument) and not abilities.get(argument):
            return f"no {name}"
    drafts = operation["lookahead"] or end > len(request.tokens)
    if drafts and not abilities.get("drafts"):
        return "no drafts"
    if admits and end < len(request.tokens) and not abilities.get("chunks"):
        return "a prompt is admitted whole"
    return ""
