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
with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "wb") as file, subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
    for line in sys.stdin.buffer:
        program.stdin.write(line)
        program.stdin.flush()
        if not (answer := program.stdout.readline()):
            sys.exit("the program has ended")
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        said, answer = json.loads(line), json.loads(answer)
        if "op" not in said:
            file.write(line)
        elif "state" in answer:
            file.write(json.dumps(said | answer).encode() + b"\n")
