#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between `kvproof check` and a program, and records what both say, with all states in full.

    record.py FOLDER 'COMMAND'    each program that the check starts has a file of its own there
"""

import json
import os
import subprocess
import sys

folder, command = sys.argv[1:]
operations = None  # of the trace that is being written
with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "w", encoding="utf-8") as file, \
        subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE) as program:
    for line in sys.stdin.buffer:
        program.stdin.write(line)
        program.stdin.flush()
        if not (answer := program.stdout.readline()):
            sys.exit("the program has ended")
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        said, answer = json.loads(line), json.loads(answer)
        if "op" in said and "state" in answer:
            operations += 1
            print(json.dumps(said | answer), file=file)
        elif "op" not in said:
            if operations is not None:
                print(json.dumps({"op": "end", "ops": operations}), file=file)
            operations = 0
            print(json.dumps(said), file=file)
    if operations is not None:
        print(json.dumps({"op": "end", "ops": operations}), file=file)
