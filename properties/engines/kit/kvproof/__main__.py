# SPDX-License-Identifier: Apache-2.0
"""python3 -m kvproof FILE:CLASS serves an adapter class of a file, for --subject-command."""

import importlib.util
import os
import sys


def load(place):
    """@return the class that FILE:CLASS names"""
    path, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("kvproof_subject", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or ":" not in sys.argv[1]:
        sys.exit("kvproof: expected one FILE:CLASS, as in adapter.py:Mine")
    folder = os.path.dirname(os.path.abspath(sys.argv[1].rpartition(":")[0]))
    if folder not in sys.path:  # what lies beside the file is found, as where it is a script
        paths = filter(None, (folder, os.environ.get("PYTHONPATH")))
        os.execve(sys.executable, [sys.executable, "-m", "kvproof", sys.argv[1]],
                  os.environ | {"PYTHONPATH": os.pathsep.join(paths)})
    load(sys.argv[1])().serve()
