# SPDX-License-Identifier: Apache-2.0
"""Makes events of what the plugin of vLLM has seen (vllm.py), in a process of its own."""

import hashlib
import itertools

from kvproof.live.recorder import Masked
from kvproof.live.translate import serve


class Told:
    """What has been told of an engine."""

    def __init__(self):
        self.tokens, self.names, self.given, self.arrived = Masked(), {}, set(), itertools.count()
        self.ahead = False  # steps know not what they feed
        self.newest = {}  # token of a request
        self.rows = {}  # names of the requests of each step in flight
        self.claims, self.untold = {}, []  # of the index: by block; those that wait for their step
        self.held = None  # events that wait until the answers are told

    def __call__(self, record):
        what, *rest = record
        return getattr(self, what)(*rest)

    def begins(self, header, ahead):
        self.ahead = ahead
        return [header]

    def arrives(self, request, tokens, keys):
        name = request if request not in self.given else f"{request}#{next(self.arrived)}"
        self.given.add(request)
        self.names[request] = name
        event = {"op": "request", "req": name, "tokens": self.tokens.of(tokens)}
        if keys:
            event["keys"] = hashlib.blake2b(
                keys.encode(), digest_size=8, key=self.tokens.key).hexdigest()
        return [event]

    def goes_on(self, request, length, tokens):
        """The next turn of a session. Of the tokens behind its length other keys are meant now."""
        name = self.names[request]
        for block, claims in self.claims.items():
            self.claims[block] = [claim for claim in claims if claim["req"] != name]
        return [{"op": "tokens", "req": name, "length": length, "append": self.tokens.of(tokens)}]

    def leaves(self, request, way):
        if request not in self.names:
            return []
        event = {"op": way, "req": self.names[request]}
        self.newest.pop(request, None)
        if way != "preempt":
            del self.names[request]
        if self.held is None:
            return [event]
        self.held.append(event)
        return []

    # A step.

    def ordered(self, step, counts, new, cached, resumed, drafts, copies):
        """A step is given to the worker; its rows are in the order in which they were scheduled."""
        given = {request: (start, "tables", blocks) for request, start, blocks in new}
        given |= {request: (start, "tables" if request in resumed else "more", blocks)
                  for request, start, blocks in zip(*cached)}
        self.rows[step] = {request: self.names[request] for request in counts}
        events, rows = [], []
        for request, count in counts.items():
            start, told, blocks = given[request]
            row = {"req": self.names[request], "start": start, "n": count}
            if blocks:
                row[told] = blocks
            if request in drafts:
                row["drafts"] = drafts[request]
            if told == "tables" and start:
                events.append({"op": "hit", "req": row["req"], "tokens": start})
            rows.append(row)
        event = {"op": "dispatch", "step": step, "rows": rows}
        if copies:
            event["copies"] = copies
        return [*events, event, *self.claimed()]

    def ran(self, step, seen):
        """What the runner saw of it is told, but for the tokens that are known to be fed."""
        if "lost" in seen:
            return [{"op": "lost", "what": seen["lost"]}]
        names, inputs, end = self.rows[step], {}, 0
        fed = seen.get("fed")
        for request, count, beyond in zip(*fed[:3]) if fed else ():
            end += count
            tokens = fed[3][end - count:end]
            if beyond and (self.ahead or tokens != [self.newest.get(request)]):
                inputs[names[request]] = self.tokens.of(tokens)
        event = {"op": "run", "step": step, "inputs": inputs, "copies": seen["copies"]}
        for what in ("tables", "slots"):
            event[what] = {names[request]: each for request, each in seen[what].items()}
        return [{what: each for what, each in event.items() if each or what == "step"}]

    def answering(self):
        self.held = []
        return []

    def answered(self, step, sampled, taken):
        """@param sampled, taken tokens by request"""
        names, kept = self.rows.pop(step), set()
        for request, tokens in taken.items():
            self.newest[request] = tokens[-1]
            kept.add(names[request])
        told = {names[request]: self.tokens.of(tokens) for request, tokens in sampled.items()
                if request in names}
        held, self.held = self.held or [], None
        return [{"op": "retire", "step": step, "sampled": told,
                 "discarded": [name for name in told if name not in kept]},
                *({"op": "tokens", "req": names[request], "append": self.tokens.of(tokens)}
                  for request, tokens in taken.items()), *self.claimed(), *held]

    # What the prefix index claims. It claims while it schedules, before a step is given to the
    # worker; so the claims are told behind the step that they are about.

    def publishes(self, request, blocks, size, group):
        """@param blocks pairs of a number in the table, and an id"""
        for number, block in blocks if request in self.names else ():
            claim = {"tier": 0, "block": block, "group": group, "req": self.names[request],
                     "to": (number + 1) * size}
            self.claims.setdefault(block, []).append(claim)
            self.untold.append({"op": "publish"} | claim)
        return []

    def withdraws(self, block):
        self.untold += ({"op": "unpublish"} | claim for claim in self.claims.pop(block, ()))
        return []

    def claimed(self):
        untold, self.untold = self.untold, []
        return untold

    def reset(self):
        self.claims.clear()
        return [*self.claimed(), {"op": "reset", "tiers": [0]}]


if __name__ == "__main__":
    serve(Told())
