# SPDX-License-Identifier: Apache-2.0
"""Judges a stream of KV cache events by laws of the list (properties/laws/laws.h), and what a
router finds that follows it."""

from collections import Counter

from router import Router, leading


class Judge:
    """Folds events. vLLM announces each block of a hash; the hash goes with the last of them, as
    behind the filter of Dynamo's publisher."""

    def __init__(self, tree=None, unique=False):
        self.tree, self.unique, self.routers = tree, unique, {}
        self.asked, self.found, self.findings, self.counts = Counter(), Counter(), [], Counter()
        self.begin()

    def begin(self):
        """A new manager or stream: nothing is held."""
        for router in self.routers.values():
            router.leave()
        self.held, self.known, self.sizes, self.meanings, self.routers = {}, {}, {}, {}, {}
        self.last, self.numbers = None, {}  # the last event that stored, and the last batches

    def ask(self, law, good, where, text):
        """@param text what is wrong, a function"""
        self.asked[law] += 1
        if not good:
            self.found[law] += 1
            if self.found[law] <= 3:
                self.findings.append({"law": law, "where": where, "reason": text()})
        return good

    def batch(self, number, rank, events, where):
        if number is not None:
            last = self.numbers.get(rank, number - 1)
            self.numbers[rank] = number
            self.ask("sequence", number == last + 1, where, lambda: f"{number} follows {last}")
        for event in events:
            self.event(event)
            about = event if event.hashes else self.last
            if about and about.hashes:
                self.look_up(about._replace(where=event.where), self.chain(about))

    def event(self, event):
        self.counts["events"] += 1
        getattr(self, event.kind)(event)

    def of(self, event):
        return self.held.setdefault((event.rank, event.group, event.medium), Counter())

    def router(self, event):
        """@return the router that has the blocks of a main group on a device, if there is one"""
        return self.routers.get((event.rank, event.group)) if event.medium == "GPU" else None

    def stored(self, event):
        self.last, group = event, (event.rank, event.group)
        short, long = sorted((self.sizes.get(group, event.size), event.size))
        self.sizes[group] = long
        self.ask("size", long == event.size and long % short == 0 or long % event.size == 0
                 and len(event.hashes) == 1, event.where,
                 lambda: f"{event.size} tokens, where group {event.group} has blocks of {long}")
        missing = event.tokens - len(event.hashes) * event.size
        self.ask("tokens", not missing or missing > 0 == missing % event.size and not event.main,
                 event.where,
                 lambda: f"{event.tokens} tokens, {len(event.hashes)} blocks of {event.size}")
        known, parent = self.known.setdefault(group, set()), event.parent
        if event.main and parent is not None:
            self.ask("parent" if event.size == long else "tail", parent in known, event.where,
                     lambda: f"parent {parent!r:.40} was never stored")
        known.update(event.hashes)
        held = self.of(event)
        for name in event.hashes:
            if self.unique:
                self.ask("twice", not held[name], event.where, lambda: f"{name!r:.40} is there")
            held[name] += 1
        if missing:  # which tokens are whose, nobody can say
            self.counts["gaps"] += 1
            return
        for name, content in zip(event.hashes, event.contents):
            self.means(event, name, (parent, content))
            parent = name
        if event.main and event.medium == "GPU":
            router = self.routers.get(group) or self.routers.setdefault(group, Router(self.tree))
            router.stored(event.parent, [*zip(event.hashes, event.contents)])

    def means(self, event, name, now):
        before = self.meanings.setdefault((event.rank, event.group, event.size, name), now)
        self.ask("meaning", before == now, event.where, lambda: (
            f"{name!r:.40} was stored " + ("with other tokens" if before[0] == now[0] else
                                           f"behind {before[0]!r:.40}, now behind {now[0]!r:.40}")))

    def removed(self, event):
        held = self.of(event)
        for name in event.hashes:
            if self.ask("removed", held[name], event.where,
                        lambda: f"{name!r:.40} is not on {event.medium!r:.20}"):
                held[name] -= 1
                self.counts["copies"] += held[name] > 0
                if not held[name] and (router := self.router(event)):
                    router.removed(name)

    def cleared(self, event):
        for told in (self.held, self.known):
            for (rank, *_), names in told.items():
                if rank == event.rank:
                    names.clear()
        for (rank, _), router in self.routers.items():
            if rank == event.rank:
                router.cleared()

    def chain(self, event):
        """@return hash and content of each block from the first to the last of an event; nothing
        where events have not told them"""
        out, name, size = [], event.hashes[-1], self.sizes.get((event.rank, event.group))
        while name is not None and len(out) <= len(self.meanings):
            parent, content = self.meanings.get((event.rank, event.group, size, name), (None, None))
            if content is None:
                return []
            out.append((name, content))
            name = parent
        return out[::-1]

    def look_up(self, event, chain, shown=None):
        """Asks the router for a chain. @param shown whether the pool's own index has a hash"""
        router = self.router(event)
        if not chain or not router:
            return
        here = self.of(event).get
        told, held = leading(chain, here), leading(chain, shown or here)
        known, found = router.finds(chain)
        if known == found < told == held:
            self.counts["cut"] += 1  # its rules: a parent is unknown, or went first
        else:
            self.ask("lookup", found == held, event.where, lambda: (
                f"a router finds {found} of {len(chain)} blocks where {held} are held"))
