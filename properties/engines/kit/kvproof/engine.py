# SPDX-License-Identifier: Apache-2.0
"""An engine that keeps tables of blocks for requests: the kit keeps the book, the engine works."""

from kvproof.abilities import abilities_of, why_not_allocated, why_not_arrived, why_not_built
from kvproof.adapter import Adapter
from kvproof.requests import Request


def needed(unless=""):
    """Marks a method that an adapter defines by itself, unless it defines that other one."""
    def mark(hook):
        hook.unless = unless
        return hook
    return mark


class EngineAdapter(Adapter):
    """Derive from it and define the hooks. Blocks are in the engine's numbers everywhere.

    What it does:   build(), lookup(r), admit(r, end, hit) or hold(r, hit), grow(r, end),
                    release(r); and if it cares: arrive(r), append(r, tokens), advance(r),
                    finish(r), fork(r, child).
    What it shows:  table(r) always; and whatever else it has: see state().

    r.own is for what the engine keeps of a request; table and progress are asked while r.holds.
    """

    promises = "safety"
    operations = "arrive append advance lookup allocate free finish"  # lookup: if it is separate
    traits, abilities, capacity = {}, {}, {}
    first_block = 0  # of the engine; kvproof's is 1, behind the null block

    # In what order its scheduler drives it. Whatever else is asked for is declined.
    one_by_one = False   # it grows by one token, when all before it are computed
    whole_steps = False  # what was granted is computed at once, and before the request goes
    always_hits = False  # an admission uses whatever is found

    # ---- what an engine does --------------------------------------------------------------------

    @needed()
    def build(self):
        """Makes it anew, with self.usable blocks of self.size tokens; self.caching, self.config."""
        raise NotImplementedError

    @needed()
    def lookup(self, r):
        """@return the blocks of the prefix that a request, which has tokens, is admitted with"""
        raise NotImplementedError

    def admit(self, r, end, hit):
        """Makes room for the first `end` tokens of a request that holds nothing.

        @param hit its blocks that are found already; None: the engine looks them up by itself
        @return how many tokens it has found, or None if refused
        """
        found = self.hold(r, hit)
        behind = min(found + 1 + r.ahead, self.config["max_model_len"])
        if self.grow(r, max(end, behind)):
            return found
        self.let_go(r)
        return None

    @needed("admit")
    def hold(self, r, hit):
        """Holds what is found, before more is taken; see admit()."""
        raise NotImplementedError

    def let_go(self, r):
        """Undoes hold()."""
        self.release(r)

    @needed()
    def grow(self, r, end):
        """Makes room for the first `end` tokens of a request that holds some; False if refused."""
        raise NotImplementedError

    @needed()
    def release(self, r):
        """Gives back all that a request holds: it is preempted, or r.finished."""
        raise NotImplementedError

    def arrive(self, r): ...
    def append(self, r, tokens): ...  # of one that holds blocks
    def advance(self, r): ...
    def finish(self, r): ...

    # ---- what an engine shows; None: it does not ------------------------------------------------

    @needed()
    def table(self, r):
        """@return the blocks of a request that holds some, in their order"""
        raise NotImplementedError

    @needed("num_free")
    def free_blocks(self):
        """@return those that can be handed out, the next one first; see num_free()"""

    def num_free(self):
        """@return how many can be handed out, by the engine's own count"""
        return len(self.free_blocks())

    def counts(self):
        """@return pairs of block and references; those above 0 are shown"""

    def keys(self):
        """@return dict from block to the key that it carries"""

    def index(self):
        """@return dict from key to its blocks, in the order in which they are found"""

    def hashes(self, r):
        """@return the keys of a request's whole blocks"""

    def progress(self, r):
        """@return how many leading blocks of a request that holds some are published"""

    def usage(self): ...

    def hit_tokens(self, r, hit):
        """@return how many tokens are found in these blocks; with partial keys maybe fewer than
        they have room for"""
        return len(hit) * self.size

    def contents(self, r):
        """@return for each computed position of a request that holds blocks what is read back from
        the tensors: [K, V], which are [the token, the position], or None where nothing is kept"""

    # ---- the book -------------------------------------------------------------------------------

    def begin(self, config):
        self.can, inside = abilities_of(self), self.traits.get("lookup") == "within_allocate"
        self.known = [o for o in self.operations.split() if o != "lookup" or not inside]
        if missing := self.missing():
            return {"error": f"{type(self).__name__} does not define {', '.join(missing)}"}
        reason = why_not_built(self.can, config, self.traits.get("granularity") == "partial")
        if reason:
            return {"unsupported": True, "reason": reason, "traits": self.traits,
                    "abilities": self.can}
        self.config, self.caching = config, config["enable_caching"]
        self.size, self.usable = config["groups"][0]["block_size"], config["num_blocks"] - 1
        self.requests, self.key_tokens = {}, {}
        self.build()
        return {"promises": self.promises, "operations": self.known,
                "block_ids": True, "traits": self.traits, "abilities": self.can,
                "contents": self.reads_back(),
                **({"capacity": self.capacity} if self.capacity else {})}

    def missing(self):
        """@return the methods that an adapter of this kind defines, and this one does not"""
        kind, out = type(self), []
        for name in dir(kind):
            unless = getattr(getattr(kind, name, None), "unless", None)
            other = getattr(getattr(kind, unless or "", None), "__module__", "kvproof.")
            if unless is not None and other.startswith("kvproof.") and name not in vars(self):
                out.append(f"{name}()")
        return [name for name in out if name != "lookup()" or "lookup" in self.known]

    def do_arrive(self, o, _):
        self.decline(why_not_arrived(self.can, o))
        r = Request(o["req"], o.get("extra"), o.get("skip_lookup", False))
        r.tokens += o["tokens"]
        self.arrive(r)
        self.requests[r.name] = r

    def do_append(self, o, r):
        if self.held(r):
            if self.one_by_one and (len(o["tokens"]) != 1 or r.computed != len(r.tokens)):
                self.decline("one token, when all before it are computed")
            self.append(r, o["tokens"])
        r.tokens += o["tokens"]

    def do_advance(self, o, r):
        if self.whole_steps and o["computed"] not in (r.granted, r.computed):
            self.decline("what was granted is computed at once")
        self.advance_to(r, o["computed"])

    def do_lookup(self, _, r):
        r.hit = self.found(r)
        return {"hit_tokens": self.hit_tokens(r, r.hit), "blocks": [self.ids(r.hit)]}

    def do_allocate(self, o, r):
        before, inside = self.held(r), self.traits.get("lookup") == "within_allocate"
        hit = r.hit if o["use_lookup"] and not inside else []
        end = min(r.computed + self.hit_tokens(r, hit) + o["new_tokens"],
                  self.config["max_model_len"])
        room = min(end + o["lookahead"], self.config["max_model_len"])
        self.decline(why_not_allocated(self.can, o, r, end, not before))
        if before:
            if self.whole_steps and r.computed < r.granted < end:
                self.decline("what was granted is computed first")
            found = room <= r.room or self.grow(r, room)
        else:
            self.decline(self.why_not_admitted(o, r, inside, hit))
            r.ahead = o["lookahead"]
            found = self.admit(r, room, None if inside else hit)
        if found is None or found is False:
            return None
        if inside and not before:  # one token behind what is found is computed in any case
            end, room = max(end, found + 1), max(room, found + 1 + r.ahead)
        r.holds, r.granted, r.room = True, max(end, r.granted), max(room, r.room)
        used = len(hit) if before or not inside else -(-found // self.size)
        after = self.ids(self.held(r))
        out = {"blocks": [after[len(before) + used:]]}
        if r.copies:
            out["copies"], r.copies = [self.ids(pair) for pair in r.copies], []
            out["blocks"][0] = [to for _, to in out["copies"]] + out["blocks"][0]
        if inside and not before:
            out |= {"hit_tokens": found, "hit": [after[:used]]}
        return out

    def why_not_admitted(self, o, r, inside, hit):
        if inside:
            return "" if o["use_lookup"] else "a prefix is always looked up"
        if self.always_hits and self.found(r) != hit:
            return "whatever is found is used"
        return ""

    def advance_to(self, r, computed):
        if computed != r.computed:
            r.computed = computed
            self.advance(r)

    def give_back(self, r):
        if self.held(r):
            if self.whole_steps:
                self.advance_to(r, r.granted)
            self.release(r)
        r.holds = False
        r.computed, r.granted, r.room, r.hit = 0, 0, 0, []

    def do_free(self, _, r):
        self.give_back(r)

    def do_finish(self, o, r):
        r.finished = True
        self.give_back(r)
        self.finish(r)
        del self.requests[o["req"]]

    def do_fork(self, o, r):
        child = r.child(o["child"])
        self.fork(r, child)
        self.requests[child.name] = child
        if child.copies:
            copies, child.copies = [self.ids(pair) for pair in child.copies], []
            return {"copies": copies}
        return None

    def found(self, r):
        return list(self.lookup(r)) if r.tokens and not r.skip_lookup else []

    def held(self, r):
        return list(self.table(r)) if r.holds else []

    # ---- the state ------------------------------------------------------------------------------

    def ids(self, blocks):
        """The engine's blocks in kvproof's numbers."""
        return [int(block) + 1 - self.first_block for block in blocks]

    def state(self):
        out = {"free": int(self.num_free()), "usage": self.usage()}
        queue, counts, requests = self.free_blocks(), self.counts(), self.requests.items()
        out["queue"] = None if queue is None else self.ids(queue)
        out["ref"] = None if counts is None else [
            [self.ids([block])[0], int(count)] for block, count in counts if count > 0]
        out["tables"] = {name: [self.ids(self.held(r))] for name, r in requests}
        if self.reads_back():
            out["contents"] = {name: self.contents(r) for name, r in requests if r.holds}
        if self.caching:
            out |= self.cache_state()
        return {part: value for part, value in out.items() if value is not None}

    def reads_back(self):
        return type(self).contents is not EngineAdapter.contents

    def cache_state(self):
        hashes = {name: self.hashes(r) for name, r in self.requests.items()}
        for keys in hashes.values():
            for at, key in enumerate(keys or ()):
                self.key_tokens[key] = (at + 1) * self.config["hash_block_size"]
        keys, index = self.keys(), self.index()
        progress = {name: self.progress(r) if r.holds else None
                    for name, r in self.requests.items()}
        carried = {self.ids([block])[0]: key for block, key in (keys or {}).items()}
        return {
            "cached": None if keys is None else [[block, 0] for block in sorted(carried)],
            "key": None if keys is None else [
                [block, key, self.key_tokens.get(key, 0)] for block, key in carried.items()],
            "index": None if index is None else [
                [0, key, self.ids(blocks)] for key, blocks in index.items()],
            "hashes": None if None in hashes.values() else hashes,
            "progress": {name: [count] for name, count in progress.items()}
                        if type(self).progress is not EngineAdapter.progress else None}
