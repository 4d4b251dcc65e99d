# SPDX-License-Identifier: Apache-2.0
"""An engine that keeps tables of blocks for requests: kvproof keeps the book of its requests and
calls hooks; the engine works and shows what it has."""

import inspect

from kvproof.adapter import Adapter, described
from kvproof.requests import Request

# What an engine can be asked that says nothing else.
PLAIN = {"groups": 1, "kinds": ["full", "mla"], "eagle": False, "watermark": False, "chunks": False,
         "drafts": False, "external": False, "extra": False, "delay_cache": False,
         "skip_lookup": False, "reserved": False, "full_sequence_must_fit": False,
         "in_flight": False, "max_tokens": False}


def needed(unless="", operation=""):
    """Marks a hook that an adapter defines by itself, unless it defines that other one; if an
    operation is named, only where the adapter declares it."""
    def mark(hook):
        hook.unless, hook.operation = unless, operation
        return hook
    return mark


class EngineAdapter(Adapter):
    """Derive from it and define the hooks. Blocks are in the engine's numbers everywhere.

    Calls:  build(), lookup(r), admit(r, end, hit) or hold(r, hit), grow(r, end), release(r); and
            if it cares: append(r, tokens), advance(r), fork(r, child), finish(r).
    Shows:  table(r) and free_blocks() or num_free() always; and whatever else it has.

    The facts of a request are up to date at each call. r.own is for what the engine keeps of it.
    A hook that cannot do such a thing at all calls self.decline("why").
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
        """Makes the engine anew, of self.usable blocks of self.size tokens; self.caching says
        whether with a prefix cache."""

    @needed(operation="lookup")
    def lookup(self, r):
        """Returns the blocks of the prefix that a request, which has tokens, is admitted with; or
        {"blocks": [...], "tokens": n} where the hit ends inside the last one."""

    def admit(self, r, end, hit):
        """Makes room for the first `end` tokens of a request that holds nothing, and returns how
        many tokens it has found; None: refused. `hit` are its blocks that lookup() has found;
        None: the engine looks them up by itself."""
        found = self.hold(r, hit)
        behind = min(found + 1 + r.ahead, self.config["max_model_len"])
        if self.grow(r, max(end, behind)):
            return found
        self.let_go(r)
        return None

    @needed("admit")
    def hold(self, r, hit):
        """Holds what was found for a request before more is taken, and returns its tokens."""

    def let_go(self, r):
        """Undoes hold()."""
        self.release(r)

    @needed()
    def grow(self, r, end):
        """Makes room for the first `end` tokens of a request that holds some; False: refused."""

    @needed()
    def release(self, r):
        """Gives back all that a request holds: it is preempted, or r.finished."""

    def append(self, r, tokens): ...  # of one that holds blocks; they are the last of r.tokens
    def advance(self, r): ...  # its first r.computed tokens have K and V
    def finish(self, r): ...

    @needed(operation="fork")
    def fork(self, r, child):
        """Has a child begin with the tokens and blocks of a request."""

    @needed(operation="truncate")
    def truncate(self, r, tokens):
        """Gives back what a request holds behind so many tokens."""

    @needed(operation="decode")
    def decode(self, *given):
        """Takes requests and then a list with a token of each, makes room for these, and returns
        the indexes of the requests that are refused."""

    @needed(operation="reset")
    def reset(self):
        """Forgets all content and returns True; or False where it has changed nothing."""

    # ---- what an engine shows; None: it does not ------------------------------------------------

    @needed()
    def table(self, r):
        """Returns the blocks of a request that holds some, in their order."""

    @needed("num_free")
    def free_blocks(self):
        """Returns the blocks that can be handed out, the next one first."""

    def num_free(self):
        """Returns how many can be handed out, by the engine's own count."""
        return len(self.free_blocks())

    def counts(self):
        """Returns pairs of block and references; those above 0 are shown."""

    def keys(self):
        """Returns a dict from block to the key that it carries."""

    def index(self):
        """Returns a dict from key to its blocks, in the order in which they are found."""

    def hashes(self, r):
        """Returns the keys of a request's whole blocks, which follow from its tokens."""

    def progress(self, r):
        """Returns how many leading blocks of a request that holds some are published."""

    def usage(self): ...

    def contents(self, r):
        """Returns for each computed position of a request that holds blocks what is read back from
        the tensors: [K, V], which are [the token, the position], or None where nothing is kept."""

    # ---- the lines ------------------------------------------------------------------------------

    def greet(self, header):
        return {"error": missing} if (missing := self.missing()) else self.begin(header["config"])

    def begin(self, config):
        """@return what the engine says of itself; kvproof has build() called if it suits"""
        can = PLAIN | self.abilities
        if self.one_by_one:
            can["appends"] = "one"
        if self.whole_steps:
            can["advance"] = "whole"
        if self.always_hits or self.looks_up_within():
            can["without_lookup"] = False
        self.config, self.caching, self.requests = config, config["enable_caching"], {}
        self.size, self.usable = config["groups"][0]["block_size"], config["num_blocks"] - 1
        return {"level": "engine", "promises": self.promises, "block_ids": True,
                "operations": self.asked(), "traits": self.traits, "abilities": can,
                "contents": self.has("contents"),
                **({"capacity": self.capacity} if self.capacity else {})}

    def looks_up_within(self):
        return self.traits.get("lookup") == "within_allocate"

    def asked(self):
        """@return the operations that may be asked of it"""
        return [o for o in self.operations.split() if o != "lookup" or not self.looks_up_within()]

    def has(self, hook):
        """@return whether the adapter defines a hook"""
        return getattr(type(self), hook) is not getattr(EngineAdapter, hook)

    def missing(self):
        """@return which hooks the adapter lacks, and what they are for; empty if none"""
        out, classes = {}, type(self).__mro__
        asked = {"", *self.asked()}

        def defines(hook, before):
            return any(hook in vars(each) for each in classes[:before])

        for at, each in enumerate(classes):
            for name, hook in vars(each).items():
                if getattr(hook, "operation", None) not in asked or (
                        hook.unless and defines(hook.unless, at)):
                    continue
                if not defines(name, at) or not callable(getattr(self, name)):
                    text = " ".join(inspect.getdoc(hook).split()).rstrip(".")
                    out[name] = (f"the hook {name}{inspect.signature(hook.__get__(self))}, which "
                                 f"{text[0].lower()}{text[1:]}")
        lacks = "; ".join(out[name] for name in sorted(out))
        return f"class {type(self).__name__} lacks {lacks}" if out else ""

    def learn(self, facts):
        """Facts of requests, by name; None: it is forgotten."""
        for name, told in facts.items():
            if told is None:
                self.requests.pop(name, None)
            else:
                r = Request(name) if "extra" in told else self.requests[name]  # it is new
                self.requests[name] = r
                vars(r).update(told)
                r.tokens = r.tokens + vars(r).pop("more", [])

    def perform(self, line):
        """@return what the last hook of a line returns"""
        requests, given, out = [self.requests[name] for name in line["req"]], line.get("with"), None
        if "admit" in line["hooks"] and given[1] is not None:
            given[1] = [block - 1 + self.first_block for block in given[1]]
        for hook in line["hooks"]:
            out = getattr(self, hook)(*requests, *given or ())
            if hook == "lookup":
                requests[0].hit = out
                out = out | {"blocks": self.ids(out["blocks"])} if isinstance(
                    out, dict) else self.ids(out)
        if line["hooks"] in (["admit"], ["grow"]) and (out is None or out is False):
            return None
        self.learn(line.get("then", {}))
        if "admit" in line["hooks"] and given[1] is None:  # one token more is computed
            r, = requests
            r.granted, r.room = max(r.granted, out + 1), max(r.room, out + 1 + r.ahead)
        return out

    def answer(self, line):
        if "kvproof_trace" in line:
            return self.greet(line)
        self.learn(line["is"])
        last = self.requests[line["req"][-1]] if line["req"] else Request("")
        try:
            answer = {"out": self.perform(line)}
        except NotImplementedError as error:
            return {"unsupported": True, "reason": str(error)}
        except Exception as error:
            answer = {"out": {"error": described(error)}}
            if "build" in line["hooks"]:
                return answer  # there is nothing that could be shown
        if last.copies:
            answer["copies"], last.copies = [self.ids(pair) for pair in last.copies], []
        events = self.events(line)
        if events is not None:
            answer["events"] = events
        return answer | {"state": self.state(line)}

    # ---- the state ------------------------------------------------------------------------------

    def ids(self, blocks):
        """The engine's blocks in kvproof's numbers."""
        return [int(block) + 1 - self.first_block for block in blocks]

    def state(self, line):
        """What the engine shows; of hashes, those of requests whose tokens are told anew."""
        requests, queue, counts = self.requests, self.free_blocks(), self.counts()
        held = {name: r for name, r in requests.items() if r.holds}
        out = {"free": int(self.num_free()), "usage": self.usage(),
               "queue": None if queue is None else self.ids(queue),
               "ref": None if counts is None else [
                   [*self.ids([block]), int(count)] for block, count in counts if count > 0],
               "tables": {name: [self.ids(self.table(r)) if r.holds else []]
                          for name, r in requests.items()}}
        if self.has("contents"):
            out["contents"] = {name: self.contents(r) for name, r in held.items()}
        if self.caching:
            keys, index = self.keys(), self.index()
            out["key"] = None if keys is None else [
                [*self.ids([block]), key] for block, key in keys.items()]
            out["index"] = None if index is None else [
                [0, key, self.ids(blocks)] for key, blocks in index.items()]
            if self.has("hashes"):
                out["hashes"] = {name: self.hashes(requests[name])
                                 for name, told in line["is"].items() if name in requests
                                 and ("tokens" in told or "more" in told)}
            if self.has("progress"):
                out["progress"] = {name: [self.progress(r) if r.holds else None]
                                   for name, r in requests.items()}
        return {part: value for part, value in out.items() if value is not None}
