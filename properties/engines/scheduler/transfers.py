# SPDX-License-Identifier: Apache-2.0
"""Transfers of blocks, and what the workers of all connectors share. Copies happen when whoever
drives has drawn that they do; what has ended is reported when the next step is launched."""


class Transfer:
    def __init__(self, name, job, step, after, items):
        self.name, self.job, self.step, self.left = name, job, step, list(range(len(items)))
        self.after = after  # a step that must run before, or none
        self.targets = [item[-1] for item in items]
        self.failed, self.late = [], 0

    def ready(self):
        return self.step.launched and (self.after is None or self.after.ran)

    def settled(self):
        line = {"op": "settle", "transfer": self.name, "outcome": "done"}
        return line | ({"outcome": "failed", "failed": sorted(self.failed)} if self.failed else {})


class Worker:
    """What moves. Transfers of one queue go one after the other, those that are loose as they like.
    A job has a transfer of each group, and is done when they are."""

    may_fail = True

    def __init__(self, run):
        self.run, self.queues, self.loose, self.done = run, {}, [], []
        self.started, self.waiting = 0, {}

    def name(self, kind):
        self.started += 1
        return f"{kind}{self.started - 1}"

    def start(self, job, step, items, after=None, queue=None, **said):
        """@return a transfer that has begun"""
        kind = job[0]
        transfer = Transfer(self.name(kind), job, step, after, items)
        transfer.fails = self.may_fail and kind in ("load", "receive")
        self.waiting[job] = self.waiting.get(job, 0) + 1
        if after and kind in ("store", "send"):
            said["after"] = after.number
        self.run.emit({"op": "start", "transfer": transfer.name, "kind": kind} | said)
        transfer.queue = self.queues.get(kind, self.loose) if queue is None else queue
        transfer.queue.append(transfer)
        return transfer

    def movable(self):
        heads = [queue[0] for queue in self.queues.values() if queue]
        return [each for each in self.loose + heads
                if each.ready() and (self.run.quiet or each.late <= self.run.worker.steps)]

    def move(self, transfer, most):
        """Some of its blocks are copied, in any order."""
        run, moved = self.run, []
        while transfer.left and len(moved) < most:
            moved.append(transfer.left.pop(run.draw.randrange(len(transfer.left))))
        if transfer.fails and not run.quiet:
            transfer.failed += [index for index in moved if run.chance(run.options.failing)]
        if moved:
            run.emit({"op": "move", "transfer": transfer.name, "pairs": moved})
        if not transfer.left:
            transfer.queue.remove(transfer)
            self.done.append(transfer)

    def flush(self, step, meta):
        """What must be over before any connector begins what the step brings."""

    def tick(self):
        movable = self.movable()
        if movable:
            self.move(self.run.draw.choice(movable), self.run.draw.randint(1, 3))

    def end(self, transfers):
        """These move to their ends, and so do the steps that they wait for."""
        for transfer in transfers:
            while transfer.after is not None and not transfer.after.ran:
                self.run.execute()
            self.move(transfer, len(transfer.left))

    def settled(self, step):
        """@return of the jobs that this step reports: whether one is done, and the targets of its
        transfers that failed"""
        done, self.done, reported = self.done, [], []
        for transfer in done:
            step.settled.append(transfer.settled())
            self.waiting[transfer.job] -= 1
            reported.append((transfer.job, not self.waiting[transfer.job],
                             [transfer.targets[index] for index in transfer.failed]))
        return reported
