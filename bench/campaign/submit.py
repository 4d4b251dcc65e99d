# SPDX-License-Identifier: Apache-2.0
"""Writes the one file with which a scheduler of jobs runs tasks, and hands it over."""

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

from plan import deal
from shard import keep_plan
from task import CHECKOUT, InputError

from kvproof_support.files import write

# A node is killed, a limit is met: what is missing is run again, and what is complete stays.
SLURM = """#!/bin/sh
# The tasks of {name} as an array of Slurm, and a merge when it has ended. Submit: sh {file}
set -eu
array=$(sbatch --parsable <<'JOB'
#!/bin/sh
#SBATCH --job-name=kvproof-{name}
#SBATCH --array=0-{last}
#SBATCH --requeue
#SBATCH --cpus-per-task=1
#SBATCH --mem={memory_mib}M
#SBATCH --time={minutes}
#SBATCH --output={output}/logs/shard-%a.txt
export KVPROOF_BIN={programs}
exec {campaign} run {output}/plan.json --output={output} --shards={shards}{only}
JOB
)
sbatch --dependency=afterany:"${{array%%;*}}" --job-name=kvproof-merge \\
  --output={output}/logs/merge.txt --wrap="exec {campaign} merge {output} \\
  --json={output}/merged.json --costs={output}/costs.json --junit={output}/junit.xml"
"""

# A finding (1) is no failure of the pod: merge tells it.
KUBERNETES = """# The tasks of {name} as an Indexed Job. Submit: kubectl apply -f {file}
# Afterwards, where the claim is mounted: kvproof campaign merge {output}
apiVersion: batch/v1
kind: Job
metadata:
  name: kvproof-{label}
spec:
  completionMode: Indexed
  completions: {shards}
  parallelism: {shards}
  backoffLimitPerIndex: 3
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: shard
          image: {image}
          command: [sh, -c]
          args:
            - {command}
          resources:
            requests: {{cpu: "1", memory: {memory_mib}Mi}}
            limits: {{memory: {memory_mib}Mi}}
          volumeMounts:
            - {{name: shared, mountPath: {mount}}}
      volumes:
        - name: shared
          persistentVolumeClaim: {{claimName: {claim}}}
"""
ENGINES = {"slurm": (SLURM, ["sh"], "campaign.sh"),
           "kubernetes": (KUBERNETES, ["kubectl", "apply", "-f"], "campaign.yaml")}


def submission(options, plan, programs):
    """@return the text of the file, and how many shards that is"""
    tasks = plan.only(options.only)
    shards = min(options.shards or plan.shards, len(tasks))
    output = Path(options.output).absolute()
    longest = max(load for load, _ in deal(tasks, shards))
    only = f" --only={options.only}" if options.only else ""
    run = (f"kvproof-campaign run {shlex.quote(str(output / 'plan.json'))} "
           f"--output={shlex.quote(str(output))} --shards={shards}{only} || [ $? = 1 ]")
    words = {
        "name": plan.name, "label": plan.name.lower()[:50], "shards": shards, "last": shards - 1,
        "only": only, "output": shlex.quote(str(output)), "mount": json.dumps(str(output)),
        "memory_mib": math.ceil(1024 * max(task.memory_gib for task in tasks.values())) + 256,
        # Twice what is expected, and time to start.
        "minutes": math.ceil(2 * longest / 60) + 10,
        "programs": shlex.quote(str(Path(programs).absolute())), "image": json.dumps(options.image),
        "claim": json.dumps(options.claim), "command": json.dumps(run),
        "campaign": f"python3 -B {shlex.quote(str(CHECKOUT / 'bench/campaign/main.py'))}",
        "file": output / ENGINES[options.engine][2]}
    return ENGINES[options.engine][0].format(**words), shards


def submit(options, plan, programs):
    text, shards = submission(options, plan, programs)
    _, command, file = ENGINES[options.engine]
    path = Path(options.output).absolute() / file
    if (options.shards or plan.shards) > shards:
        print(f"kvproof campaign: {shards} shards are enough for {shards} tasks", file=sys.stderr)
    if options.dry_run:
        sys.stdout.write(text)
        print(f"kvproof campaign: nothing was written; without --dry-run this is written to {path} "
              f"and handed to {' '.join(command)}", file=sys.stderr)
        return 0
    keep_plan(plan, options.output)
    write(path.parent / "logs" / "shards", f"{shards}\n".encode())  # Slurm makes no folder for logs
    write(path, text.encode())
    try:
        return 2 * bool(subprocess.run([*command, str(path)], check=False).returncode)
    except OSError as error:
        raise InputError(f"{command[0]}: {error.strerror}; {path} is written") from None
