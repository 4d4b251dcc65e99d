# SPDX-License-Identifier: Apache-2.0
"""What OffloadingConnector has beside its scheduler: a worker that moves what the release's
OffloadingConnectorWorker and its handlers would move, a view of the host's chunks, and a secondary
tier for the manager of several tiers."""

from types import SimpleNamespace

from transfers import Worker

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
from vllm.v1.kv_offload import base
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager
from vllm.v1.outputs import KVConnectorOutput

HOST, STORAGE = 1, 2


class Chunks:
    """The chunks of a CPUOffloadingManager as a pool of blocks, of which block 0 is none. The key
    of a chunk is that of its last block."""

    def __init__(self, manager, of_chunk):
        self.manager, self.of_chunk = manager, of_chunk
        self.known = [SimpleNamespace(block_id=i, block_hash=None)
                      for i in range(1 + manager._num_chunks * of_chunk)]

    @property
    def blocks(self):
        policy = self.manager._policy
        for block in self.known:
            block.block_hash = None
        for table in (policy.chunks,) if hasattr(policy, "chunks") else (policy.t1, policy.t2):
            for key, chunk in table.items():
                if chunk.is_ready:
                    self.known[(chunk.chunk_id + 1) * self.of_chunk].block_hash = key
        return self.known

    def get_num_free_blocks(self):
        of = self.manager
        return self.of_chunk * (of._get_num_free_chunks() + of._num_evictable_cache_chunks)


class Storage(SecondaryTierManager):
    """A secondary tier with room for three times the host's blocks: transfers end late, in any
    order, and those to the host may fail."""

    run = None  # whose draws it takes

    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self.mover, self.jobs, self.ended = Worker(self.run), {}, []
        self.keys, self.users = {}, {}  # by key: its block, and how many transfers use it
        self.blocks = [SimpleNamespace(block_id=i, block_hash=None)
                       for i in range(3 * self.run.options.host + 1)]

    def lookup(self, key, _):
        if key not in self.keys:
            return base.LookupResult.MISS
        late = self.keys[key].block_hash is None or self.run.draw.random() < 0.2
        return base.LookupResult.RETRY if late else base.LookupResult.HIT

    def on_new_request(self, _):
        whole = self.run.draw.random() < 0.3
        return base.RequestOffloadingContext(
            base.OffloadPolicy.REQUEST_LEVEL if whole else base.OffloadPolicy.CHUNK_LEVEL)

    def room(self):
        """@return a block for a new key, whose old one is forgotten; None if all are in use"""
        taken = {block.block_id for block in self.keys.values()}
        for block in self.blocks[1:]:
            if block.block_id not in taken:
                return block
        old = next((key for key in self.keys if not self.users.get(key)), None)
        if old is None:
            return None
        block = self.keys.pop(old)
        block.block_hash = None
        return block

    def submit_store(self, job):
        pairs = {}
        for key, chunk in zip(job.keys, job.chunk_ids.tolist()):
            block = None if key in self.keys else self.room()
            if block is not None:
                self.keys[key] = block
                pairs[key] = [HOST, chunk + 1, STORAGE, block.block_id]
        self.start("store", job, pairs)

    def submit_load(self, job):
        self.start("load", job, {
            key: [STORAGE, self.keys[key].block_id, HOST, chunk + 1]
            for key, chunk in zip(job.keys, job.chunk_ids.tolist()) if key in self.keys})

    def start(self, kind, job, pairs):
        """What is not among the pairs fails if it was to be loaded."""
        self.jobs[job.job_id] = job, list(pairs), set(job.keys) - set(pairs)
        if not pairs:
            self.ended.append((kind, job.job_id))
        for key in pairs:
            self.users[key] = self.users.get(key, 0) + 1
        for group in sorted({base.get_offload_group_idx(key) for key in pairs}):
            keys = [key for key in pairs if base.get_offload_group_idx(key) == group]
            transfer = self.mover.start(
                (kind, job.job_id), SimpleNamespace(launched=True),
                [(key,) for key in keys], pairs=[pairs[key] for key in keys], group=group)
            transfer.late = self.run.worker.steps + self.run.draw.choice((0, 0, 0, 30))

    def get_finished_jobs(self):
        step = SimpleNamespace(settled=[])
        for (kind, number), done, failed in self.mover.settled(step):
            self.jobs[number][2].update(failed)
            if done:
                self.ended.append((kind, number))
        for line in step.settled:
            self.run.emit(line)
        ended, self.ended = self.ended, []
        return [self.result(*each) for each in ended]

    def result(self, kind, number):
        job, keys, failed = self.jobs.pop(number)
        for key in keys:
            self.users[key] -= 1
            if kind == "store":
                self.keys[key].block_hash = key
        if kind == "store" or not failed:
            return JobResult(number, True)
        return JobResult(number, False, [key for key in job.keys if key not in failed] or None)

    def drain_jobs(self):
        self.mover.end(list(self.mover.loose))

    def get_num_free_blocks(self):
        return len(self.blocks) - 1 - sum(map(bool, self.users.values()))


def pairs_of(job, of_chunk):
    """@return by group the device's and the host's blocks, in the order in which
    SingleDirectionOffloadingHandler.transfer_async copies them"""
    stores = hasattr(job.src_spec, "group_sizes")
    device, host = (job.src_spec, job.dst_spec) if stores else (job.dst_spec, job.src_spec)
    blocks, chunks, out = device.block_ids.tolist(), host.block_ids.tolist(), {}
    for group, (size, index) in enumerate(zip(device.group_sizes, device.block_indices)):
        skipped = index % of_chunk
        count = -(-(size + skipped) // of_chunk) if size else 0
        parts = [1 + chunk * of_chunk + i for chunk in chunks[:count] for i in range(of_chunk)]
        if size:
            out[group] = list(zip(blocks[:size], parts[skipped:skipped + size]))
        del blocks[:size], chunks[:count]
    assert out and not blocks and not chunks
    return out


class OffloadWorker(Worker):
    """Stores and loads each go in the order of their submission; loads that their step waits for
    go by themselves. A store is submitted, and said to start, when the step behind its own is
    launched, or before its own if that must flush it; a load behind its own step, or before it if
    the step waits for loads. What is submitted waits for the steps launched before."""

    may_fail = False  # a job that fails ends the release's worker

    def __init__(self, run):
        super().__init__(run)
        self.queues, self.unsubmitted = {"load": [], "store": []}, {}
        self.jobs, self.storage = {}, None
        self.last = None  # the step before

    def pools(self, manager):
        """@return those of the tiers behind the device"""
        self.storage = next(iter(getattr(manager, "secondary_tiers", ())), None)
        pools = [Chunks(getattr(manager, "primary_tier", manager), self.run.options.chunk)]
        if self.storage:
            self.storage.mover.name = self.name
            pools.append(self.storage)
        return pools

    def begin(self, kind, number, job, step, after, queue=None, **said):
        self.jobs[number] = job
        for group, pairs in pairs_of(job, self.run.options.chunk).items():
            copied = [[0, d, HOST, h] if kind == "store" else [HOST, h, 0, d] for d, h in pairs]
            transfer = self.start((kind, number), step, copied, after, queue,
                                  pairs=copied, group=group, **said)
            if self.run.draw.random() < 0.03:
                transfer.late = self.run.worker.steps + self.run.draw.randint(5, 60)
        return transfer

    def before(self, step, meta):
        """@return by request the load that its first rows need"""
        step.previous, self.last = self.last, step
        return {job.req_id: self.begin("load", number, job, step, step.previous, self.loose,
                                       req=job.req_id).name
                for number, job in meta.load_jobs.items() if job.sync}

    def behind(self, step, meta):
        after = step.previous if step.out.has_sync_kv_loads else step
        for number, job in meta.load_jobs.items():
            if not job.sync:
                self.begin("load", number, job, step, after, req=job.req_id)

    def flush(self, step, meta):
        flushed = meta.jobs_to_flush or ()
        jobs = dict(meta.store_jobs)
        urgent = {number: jobs.pop(number) for number in flushed if number in jobs}
        for number, job in (self.unsubmitted | urgent).items():
            self.begin("store", number, job, step, step.previous)
        self.unsubmitted = jobs
        for queue in self.queues.values():
            waits = [i for i, each in enumerate(queue) if each.job[1] in flushed]
            self.end(queue[:waits[-1] + 1] if waits else ())

    def launched(self, step, _):
        self.end([each for each in self.loose if each.step is step])
        report, ended = KVConnectorOutput(finished_recving=set()), OffloadingWorkerMetadata()
        for (kind, number), done, _ in self.settled(step):
            if not done:
                continue
            ended.mark_completed(number)
            job = self.jobs.pop(number)
            if kind == "load" and not job.sync:
                report.finished_recving.add(job.req_id)
        report.kv_connector_worker_meta = ended if ended.completed_jobs else None
        return report

    def tick(self):
        self.run.draw.choice([super(), self.storage.mover] if self.storage else [super()]).tick()
