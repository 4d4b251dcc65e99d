#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plan runs as an array of a real Slurm on three nodes, of which one dies in the middle; what is
merged has the bytes of one machine. Ends with 77 where Slurm cannot be run.

The nodes are slurmd in namespaces of their own (process ids, host name) on this machine, so that
a dead node is one whose first process is killed. Needs root, slurmctld, slurmd and munged (Debian:
slurm-wlm, munge).
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import main

LIMIT_SECONDS = 3600  # a hang
SHARDS = 9
CONF = """ClusterName=kvproof
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthInfo=socket={work}/munge.socket
CredType=cred/munge
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool-%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=5
ReturnToService=0
MailProg=/bin/true
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    def __init__(self, work):
        self.work, self.daemons = work, {}
        ports = free_ports(4)
        (work / "state").mkdir()
        nodes = "\n".join(f"NodeName=node{n} NodeAddr=127.0.0.1 Port={ports[n]} CPUs=1 "
                          "RealMemory=8000" for n in (1, 2, 3))
        (work / "slurm.conf").write_text(CONF.format(work=work, ports=ports, nodes=nodes))
        self.environment = dict(os.environ, SLURM_CONF=str(work / "slurm.conf"))
        (work / "munge.key").write_bytes(os.urandom(128))
        (work / "munge.key").chmod(0o400)
        self.start("munged", "munged", "--foreground", "--force",
                   *(f"--{name}-file={work}/munge.{name}"
                     for name in ("key", "pid", "log", "seed")),
                   f"--socket={work}/munge.socket")
        self.wait("munged", lambda: (work / "munge.socket").exists())
        self.start("slurmctld", "slurmctld", "-D")
        for n in (1, 2, 3):
            self.start(f"node{n}", "unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                       "--uts", "sh", "-c", f"hostname node{n} && exec slurmd -D")
        self.wait("nodes", lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D") == "3")

    def start(self, name, *command):
        with open(self.work / f"{name}.log", "w", encoding="utf-8") as log:
            self.daemons[name] = subprocess.Popen(command, env=self.environment, stdout=log,
                                                  stderr=log)

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, capture_output=True, text=True,
                              check=False).stdout.strip()

    def wait(self, what, holds):
        end = time.monotonic() + LIMIT_SECONDS
        while not holds():
            if time.monotonic() > end:
                logs = "".join(path.read_text()[-2000:] for path in self.work.glob("*.log"))
                sys.exit(f"waited for {what}\n{self.ask('scontrol', 'show', 'job')}\n"
                         f"{self.ask('sinfo')}\n{logs}")
            time.sleep(0.1)

    def end(self):
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()


def campaign(cluster, *words):
    environment = dict(cluster.environment if cluster else os.environ)
    done = subprocess.run([sys.executable, "-B", main.__file__, *map(str, words)], check=False,
                          env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check(work):
    plan, shared = work / "plan.json", work / "shared"
    campaign(None, "tasks", "--built-in=smoke", f"--shards={SHARDS}", f"--output={plan}")
    campaign(None, "run", plan, f"--output={work}/one")
    campaign(None, "merge", f"{work}/one", f"--json={work}/one.json")
    cluster = Cluster(work)
    try:
        campaign(cluster, "submit", plan, "--engine=slurm", f"--output={shared}")
        running = ("squeue", "-h", "-r", "-t", "R", "-w", "node2", "-o", "%K")
        cluster.wait("a shard on node2", lambda: cluster.ask(*running) and
                     len(list(shared.glob("results/*.json"))) > 4)
        lost = cluster.ask(*running)
        cluster.daemons["node2"].kill()
        cluster.wait("the merge", lambda: (shared / "junit.xml").exists())
        print(f"killed node2 while it ran shard {lost}")
        states = cluster.ask("scontrol", "show", "job")
    finally:
        cluster.end()
    assert lost, "node2 was idle when it was killed"
    assert "Restarts=1" in states, states
    merged, one = (path.read_bytes() for path in (shared / "merged.json", work / "one.json"))
    assert merged == one, "the merged results differ from those of one machine"
    rows = json.loads((shared / "costs.json").read_text())["results"]
    hosts = {row["parameters"]["host"]: row["metrics"]["tasks"]["value"] for row in rows
             if row["experiment"] == "campaign_machine"}
    tasks = len(json.loads(plan.read_text())["tasks"])
    assert len(hosts) == 3 and sum(hosts.values()) <= tasks + 1, hosts
    print(f"{tasks} tasks in {SHARDS} shards: {hosts}; the same {len(one)} bytes as on one machine")


if __name__ == "__main__":
    lacking = [name for name in ("slurmctld", "slurmd", "munged", "unshare")
               if not shutil.which(name)]
    if lacking or os.getuid() != 0:
        print(f"it needs root, and lacks {', '.join(lacking) or 'nothing else'} (Debian: "
              "slurm-wlm, munge)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
        check(Path(made))
