# SPDX-License-Identifier: Apache-2.0
"""Transfers beside the steps: a connector of our own through vLLM's public interface, which loads
and keeps what it likes, and the workers of it and of vLLM's connectors. Copies happen when whoever
drives has drawn that they do; what has ended is reported when the next step is launched."""

from types import SimpleNamespace

import stand_in

from vllm.distributed.kv_transfer.kv_connector.v1 import base, multi_connector
from vllm.distributed.kv_transfer.kv_connector.v1 import simple_cpu_offload_connector as simple
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import RequestStatus
from vllm.v1.simple_kv_offload.metadata import SimpleCPUOffloadWorkerMetadata

LAST = (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)


class Generic(base.KVConnectorBase_V1, base.SupportsHMA):
    """Says of any request that it has some blocks behind those that are cached, and asks for those
    of some that end."""

    run = None  # whose options and draws it takes

    def __init__(self, *args):
        super().__init__(*args)
        self.found, self.loads, self.sends = {}, [], []

    def get_num_new_matched_tokens(self, request, computed):
        o, draw, size = self.run.options, self.run.draw, self.run.options.block_size
        self.found[request.request_id] = computed, False
        most = (request.num_tokens - 1) // size - computed // size
        if most <= 0 or self.run.quiet or draw.random() < 0.5:
            return 0, False
        if draw.random() < 0.1:
            return None, False
        late = draw.choice(o.loads.split()) == "async"
        self.found[request.request_id] = computed, late
        return draw.randint(1, most) * size, late

    def update_state_after_alloc(self, request, blocks, external):
        if external:
            computed, late = self.found[request.request_id]
            self.loads.append(SimpleNamespace(
                req=request.request_id, late=late, first=computed, tokens=external,
                tables=blocks.get_block_ids()))

    def build_connector_meta(self, _):
        meta = SimpleNamespace(loads=self.loads, sends=self.sends)
        self.loads, self.sends = [], []
        return meta

    def request_finished_all_groups(self, request, block_ids):
        size = self.run.options.block_size
        known = (request.num_tokens - 1) // size
        held = [(group, block) for group, ids in enumerate(block_ids)
                for block in ids[:known] if block]
        keeps = request.status in LAST and self.run.draw.random() < self.run.options.keeps
        if not held or not keeps:
            return False, None
        self.sends.append((request.request_id, held))
        return True, None

    def request_finished(self, request, block_ids):
        return self.request_finished_all_groups(request, (block_ids,))

    def start_load_kv(self, *_, **__):
        pass

    wait_for_layer_load = save_kv_layer = wait_for_save = start_load_kv


class Transfer:
    def __init__(self, name, count, after=None, req=None):
        self.name, self.left, self.after, self.req = name, list(range(count)), after, req
        self.failed, self.blocks, self.event, self.lost = [], (), None, False


class Worker:
    """What moves. Transfers of one queue go one after the other, those of `loose` as they like."""

    def __init__(self, run):
        self.run, self.queues, self.loose, self.done = run, {}, [], []
        self.started = 0

    def name(self, kind):
        self.started += 1
        return f"{kind}{self.started - 1}"

    def start(self, kind, count, after=None, **said):
        """@return a transfer that has begun"""
        transfer = Transfer(self.name(kind), count, after, said.get("req"))
        line = {"op": "start", "transfer": transfer.name, "kind": kind} | said
        self.run.emit(line | ({} if after is None else {"after": after.number}))
        return transfer

    def fails(self):
        chance = 0 if self.run.quiet else self.run.options.failing
        return bool(chance) and self.run.draw.random() < chance

    def movable(self):
        return [each for each in self.loose + [queue[0] for queue in self.queues.values() if queue]
                if each.after is None or each.after.ran]

    def move(self, transfer, most):
        """Some of its blocks are copied, in any order."""
        moved = []
        while transfer.left and len(moved) < most:
            moved.append(transfer.left.pop(self.run.draw.randrange(len(transfer.left))))
        transfer.failed += [index for index in moved if transfer.blocks and self.fails()]
        if moved:
            self.run.emit({"op": "move", "transfer": transfer.name, "pairs": moved})
        if not transfer.left:
            if transfer in self.loose:
                self.loose.remove(transfer)
            for queue in self.queues.values():
                if queue and queue[0] is transfer:
                    queue.pop(0)
            self.done.append(transfer)

    def tick(self):
        draw, movable = self.run.draw, self.movable()
        movable = [each for each in movable if not each.lost or self.run.quiet]
        if movable:
            self.move(draw.choice(movable), draw.randint(1, 3))

    def flush(self):
        """All that was started ends, and the steps that it waits for."""
        for transfer in [*self.loose, *(each for queue in self.queues.values() for each in queue)]:
            while transfer.after is not None and not transfer.after.ran:
                self.run.execute()
            self.move(transfer, len(transfer.left))

    @staticmethod
    def outcome(transfer):
        if not transfer.failed:
            return {"op": "settle", "transfer": transfer.name, "outcome": "done"}
        return {"op": "settle", "transfer": transfer.name, "outcome": "failed",
                "failed": sorted(transfer.failed)}

    def settled(self, step):
        """@return the transfers that ended, which this step reports"""
        done, self.done = self.done, []
        step.settled += map(self.outcome, done)
        return done


class GenericWorker(Worker):
    def launched(self, step, meta):
        report = KVConnectorOutput(finished_sending=set(), finished_recving=set())
        several = len(self.run.options.windows) > 1
        for load in meta.loads:
            self.load(step, load)
        for req, held in meta.sends:
            self.loose.append(self.start("send", len(held), step, req=req,
                                         blocks=[[0, block] for _, block in held]))
        for transfer in self.settled(step):
            if transfer.name.startswith("send"):
                report.finished_sending.add(transfer.req)
                continue
            if transfer.late:
                report.finished_recving.add(transfer.req)
            if transfer.failed and several:
                report.failed_recving.add(transfer.req)
            elif transfer.failed:
                report.invalid_block_ids.update(transfer.blocks[i] for i in transfer.failed)
        return report

    def load(self, step, load):
        size, said = self.run.options.block_size, {"carries": [load.req, load.first]}
        first, end = load.first // size, (load.first + load.tokens) // size
        tables = [[block for block in ids[first:end]] for ids in load.tables]
        blocks = [block for ids in tables for block in ids if block]
        if len(tables) > 1:
            said["tables"] = tables
        transfer = self.start("receive", len(blocks), req=load.req,
                              blocks=[[0, block] for block in blocks], **said)
        transfer.blocks, transfer.late = blocks, load.late
        self.loose.append(transfer)
        if not load.late:  # it ends before the step begins
            self.move(transfer, len(blocks))
        transfer.lost = load.late and self.run.draw.random() < 0.02


class SimpleWorker(Worker):
    """The worker of SimpleCPUOffload: loads and stores go in order of their events, each queue by
    itself; a store waits for the step that it was launched with."""

    def __init__(self, run):
        super().__init__(run)
        self.queues = {"load": [], "store": []}
        self.waiting = {}  # by kind and event: how many transfers it has yet

    def launched(self, step, meta):
        if meta.need_flush:
            self.flush()
        self.begin("load", meta.load_event, None,
                   [(1, c, 0, g) for c, g in zip(meta.load_cpu_blocks, meta.load_gpu_blocks)])
        self.begin("store", meta.store_event, step,
                   [(0, g, 1, c) for g, c in zip(meta.store_gpu_blocks, meta.store_cpu_blocks)])
        report, stored = KVConnectorOutput(finished_recving=set()), {}
        for transfer in self.settled(step):
            report.invalid_block_ids.update(transfer.blocks[i] for i in transfer.failed)
            self.waiting[transfer.event] -= 1
            kind, event = transfer.event
            if self.waiting[transfer.event]:
                continue
            if kind == "load":
                report.finished_recving.update(meta.load_event_to_reqs.get(event, ()))
            else:
                stored[event] = 1
        if stored:
            report.kv_connector_worker_meta = SimpleCPUOffloadWorkerMetadata(stored)
        return report

    def begin(self, kind, event, after, pairs):
        """Of each group a transfer."""
        groups = {}
        for pair in pairs:
            groups.setdefault(self.run.group_of(pair), []).append(pair)
        for group, of_group in sorted(groups.items()):
            transfer = self.start(kind, len(of_group), after, pairs=[*map(list, of_group)],
                                  group=group)
            transfer.event = kind, event
            transfer.blocks = [pair[3] for pair in of_group] if kind == "load" else ()
            self.waiting[transfer.event] = self.waiting.get(transfer.event, 0) + 1
            self.queues[kind].append(transfer)


class MultiWorker:
    """The workers of MultiConnector's children, whose reports it joins."""

    def __init__(self, workers):
        self.workers, self.more_saves = workers, {}

    def launched(self, step, meta):
        self.more_saves.update(meta.extra_async_saves or {})
        whole = KVConnectorOutput(finished_sending=set(), finished_recving=set())
        metas = []
        for worker, part in zip(self.workers, meta.metadata):
            report = worker.launched(step, part)
            whole.finished_recving |= report.finished_recving
            whole.failed_recving |= report.failed_recving
            whole.invalid_block_ids |= report.invalid_block_ids
            metas.append(report.kv_connector_worker_meta)
            for req in report.finished_sending or ():
                if self.more_saves.get(req, 0) > 0:
                    self.more_saves[req] -= 1
                else:
                    whole.finished_sending.add(req)
        if any(metas):
            whole.kv_connector_worker_meta = multi_connector.MultiKVConnectorWorkerMetadata(
                metadata=tuple(metas))
        return whole

    def tick(self):
        self.workers[0].run.draw.choice(self.workers).tick()


WORKERS = {"generic": GenericWorker, "simple": SimpleWorker}


def workers(run):
    """@return what moves the transfers of a run; None without a connector"""
    Generic.run = run
    stand_in.Factory.known = {"generic": Generic, "simple": simple.SimpleCPUOffloadConnector,
                              "multi": multi_connector.MultiConnector}
    made = [WORKERS[name](run) for name in run.options.connector.split()]
    for i, each in enumerate(made[1:], 1):  # names of transfers are of one run
        each.name = made[0].name
    return made[0] if len(made) == 1 else MultiWorker(made) if made else None
