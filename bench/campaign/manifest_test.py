#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifest for Kubernetes is one by the schemas that the package kubernetes-validate brings.
Ends with 77 where the package cannot be had. No cluster is needed, and none runs the manifest."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import main

from kvproof_support.environments import Absent, environment


def is_manifest(validator, path, text):
    path.write_text(text)
    return subprocess.run([validator, "--strict", "-k", "1.37", str(path)], check=False,
                          stdout=subprocess.DEVNULL).returncode == 0


def check(validator, work):
    for words in (["tasks", "--built-in=smoke", "--shards=9", "--output=tasks.json"],
                  ["submit", "tasks.json", "--engine=kubernetes", "--dry-run", "--output=shared"]):
        text = subprocess.run([sys.executable, "-B", main.__file__, *words], check=True, cwd=work,
                              capture_output=True, text=True).stdout
    assert is_manifest(validator, work / "job.yaml", text), text
    for good, bad in (("Indexed", "3"), ("backoffLimitPerIndex", "backoffLimit_per_index"),
                      ("completions: 9", "completions: many")):
        assert good in text and not is_manifest(validator, work / "job.yaml",
                                                text.replace(good, bad)), bad
    print("the manifest is one of Kubernetes 1.37")


if __name__ == "__main__":
    try:
        place = environment(str(main.CHECKOUT / "build" / "engines"), "kubernetes-validate-1.37.0",
                            ["kubernetes-validate==1.37.0"])
    except Absent as error:
        print(error)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as made:
        check(os.path.join(place, "bin", "kubernetes-validate"), Path(made))
