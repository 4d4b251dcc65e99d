# SPDX-License-Identifier: Apache-2.0
"""What an engine can be asked at all, from its row "abilities" of the answer to a header."""


# Of an engine that says nothing else.
PLAIN = {"groups": 1, "kinds": ["full", "mla"], "eagle": False, "watermark": False, "chunks": False,
         "drafts": False, "external": False, "extra": False, "delay_cache": False,
         "skip_lookup": False, "reserved": False, "full_sequence_must_fit": False,
         "in_flight": False, "max_tokens": False}


def abilities_of(adapter):
    """@return what an engine of the kit can be asked, as the answer to a header has it"""
    out = PLAIN | adapter.abilities
    if adapter.one_by_one:
        out["appends"] = "one"
    if adapter.whole_steps:
        out["advance"] = "whole"
    if adapter.always_hits or adapter.traits.get("lookup") == "within_allocate":
        out["without_lookup"] = False
    return out


def why_not_built(abilities, config, partial=False):
    """@return why the engine has no manager of this configuration; empty if it has

    @param partial it has keys of blocks that are not full, and so one for each token
    """
    groups, kinds, sizes = config["groups"], abilities["kinds"], abilities.get("block_sizes")
    if len(groups) > abilities["groups"]:
        return f"at most {abilities['groups']} groups"
    if any(group["kind"] not in kinds for group in groups):
        return f"layers of the kinds {', '.join(kinds)} only"
    if sizes and any(group["block_size"] not in sizes for group in groups):
        return f"blocks of {', '.join(map(str, sizes))} tokens only"
    if config["enable_caching"] not in abilities.get("caching", [True, False]):
        return "with a prefix cache only" if not config["enable_caching"] else "no prefix cache"
    if not abilities["eagle"] and any(group.get("eagle") for group in groups):
        return "no EAGLE"
    if not abilities["watermark"] and config.get("watermark"):
        return "no watermark"
    if partial and config["enable_caching"]:
        if config["hash_block_size"] != 1:
            return "a key for each token only"
    elif config["hash_block_size"] != groups[0]["block_size"]:
        return "keys of whole blocks only"
    return "no host tier" if config.get("num_host_blocks") else ""


def why_not_arrived(abilities, operation):
    """@return why the engine does not take such a request; empty if it does"""
    if operation.get("encoder_tokens"):
        return "no encoder"
    if operation.get("extra") and not abilities["extra"]:
        return "no extra keys"
    if operation.get("skip_lookup") and not abilities["skip_lookup"]:
        return "no skipped lookups"
    return ""


# An argument of allocate, and what it is called in a refusal to perform it.
ARGUMENTS = {"external": "connector", "delay_cache": "delayed publication", "reserved": "reserve",
             "full_sequence_must_fit": "gate of the whole sequence",
             "in_flight": "steps in flight"}


def why_not_allocated(abilities, operation, request, end, admits):
    """@return why the engine does not grant such tokens; empty if it does"""
    for argument, name in ARGUMENTS.items():
        if operation.get(argument) and not abilities[argument]:
            return f"no {name}"
    drafts = operation["lookahead"] or end > len(request.tokens)
    if drafts and not abilities["drafts"]:
        return "no drafts"
    if admits and end < len(request.tokens) and not abilities["chunks"]:
        return "a prompt is admitted whole"
    return ""
