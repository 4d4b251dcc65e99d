# SPDX-License-Identifier: Apache-2.0
"""The program kvproof: where it is, and how it checks an adapter class."""

import inspect
import os
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def find_program():
    """@return the path of kvproof: by KVPROOF, on PATH, or beside the package, in a checkout or an
    installation; None where there is none"""
    beside = [os.path.join(HERE, *[os.pardir] * 4, "kvproof"),
              os.path.join(os.path.dirname(sys.executable), "kvproof")]
    for path in (os.environ.get("KVPROOF"), shutil.which("kvproof"), *beside):
        if path and os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.abspath(path)
    return None


def command_of(adapter):
    """@return the command that serves an adapter class, which stands in a file"""
    if not inspect.isclass(adapter):
        raise TypeError("expected an adapter class, as in kvproof_check(MyAdapter, "
                        f"'--operations=500'), found {adapter!r}")
    place = f"{os.path.abspath(inspect.getsourcefile(adapter))}:{adapter.__qualname__}"
    path = os.pathsep.join(filter(None, (os.path.dirname(HERE), os.environ.get("PYTHONPATH"))))
    return f"PYTHONPATH={shlex.quote(path)} {shlex.quote(sys.executable)} -m kvproof " \
        f"{shlex.quote(place)}"


def finding_of(output):
    """@return the part of a check's output that says what is broken, or its last lines"""
    lines = output.splitlines()
    start = next((at for at, line in enumerate(lines) if ", broken: " in line), None)
    return "\n".join(lines[-20:] if start is None else lines[start:start + 40])


def check(adapter, *options, program=None):
    """Runs `kvproof check` on an adapter class.

    @param options such as "--seed=7", "--operations=500"
    @return the exit code, and what it printed
    """
    program = program or find_program()
    verb = [] if os.path.basename(program) == "kvproof-check" else ["check"]
    done = subprocess.run(
        [program, *verb, f"--subject-command={command_of(adapter)}", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout
