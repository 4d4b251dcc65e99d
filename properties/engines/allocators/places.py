# SPDX-License-Identifier: Apache-2.0
"""Where an engine is: in an environment made by pip, in a checkout, or in a copy of either."""

import glob
import os
import subprocess

from kvproof_support.environments import Absent, environment, run, site_packages
from kvproof_support.patches import overlay
from kvproof_support.results import CHECKOUT, program


def checkout_of(row, folder):
    """@return the folder of a repository at the commit of a row. Throws Absent."""
    name = row.origin.split("/")[1]
    if folder:
        beside = os.path.join(folder, f"{name}-{row.commit}")
        if os.path.isdir(beside):
            return os.path.abspath(beside)
        head = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True,
                              text=True, check=False).stdout
        origin = subprocess.run(["git", "-C", folder, "remote", "get-url", "origin"], check=False,
                                capture_output=True, text=True).stdout.strip()
        if head.startswith(row.commit) and name in (
                os.path.basename(origin).removesuffix(".git"),
                os.path.basename(os.path.abspath(folder))):
            return os.path.abspath(folder)
    raise Absent(f"no checkout: https://github.com/{row.origin} at {row.commit}, in "
                 f"{os.path.join(folder or 'DIR', f'{name}-{row.commit}')} (--checkout=DIR)")


class Place:
    """How an engine is started. Throws Absent where it cannot be."""

    options = ()  # further ones of `kvproof check`

    def __init__(self, row, folder, checkouts):
        self.row, self.folder, self.argument = row, folder, ""
        self.work = os.path.join(folder, f"{row.name}-{row.revision}")
        self.paths = []
        if row.source == "own":
            return
        if row.source == "checkout":
            original = checkout_of(row, checkouts)
        shared = environment(folder, row.needs, row.shared)
        if row.source == "pypi":
            alone = () if row.whole else ("--no-deps",)
            name = f"{row.name}-{row.revision.split('+')[0]}"
            shared = environment(folder, name, [row.origin], *alone, beside=shared)
            original = os.path.join(site_packages(shared), row.package)
        self.environment, self.python = shared, os.path.join(shared, "bin", "python")
        self.original = original
        self.put(self.changed("mended", row.mend) if row.mend else original)

    def put(self, path):
        if self.row.source == "checkout":
            self.argument = path
        elif path != self.original:
            self.paths = [os.path.dirname(path)]

    def changed(self, name, faults):
        """@return the folder of a copy with faults"""
        top = os.path.join(self.folder, "copies", f"{self.row.name}-{self.row.revision}", name)
        copy = os.path.join(top, os.path.basename(self.original))
        overlay(self.original, copy, faults)
        return copy

    def with_fault(self, number, fault):
        """@return the place of a copy with this fault"""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.put(self.changed(str(number), (*self.row.mend, fault)))
        return out

    def subject(self, here):
        """@return the option of `kvproof check` that names the engine"""
        if self.row.source == "own":
            return f"--subject={self.row.origin}"
        adapter, *words = self.row.adapter.split()
        adapter = os.path.normpath(os.path.join(here, adapter))
        path = os.pathsep.join(self.paths)
        words = " ".join(f"'{word}'" for word in (*words, self.argument) if word)
        return f"--subject-command=PYTHONPATH='{path}' '{self.python}' -B '{adapter}' {words}"


class Compiled(Place):
    """An engine in C++: its adapter is compiled, with what it includes of a checkout, against the
    headers and the library of a wheel. A revision may end in +asan or +tsan."""

    INCLUDED = ("src/cpp/src", "src/cpp/include")
    SANITIZERS = {"asan": "address", "tsan": "thread"}

    def put(self, path):
        self.argument = os.path.join(self.work if path == self.original else path, "plugin.so")
        source = os.path.join(CHECKOUT, "properties", "engines", "allocators", self.row.adapter)
        self.compile(path, source, "-shared", "-fPIC")

    def compile(self, path, source, *options):
        """Makes the file `argument` of a source of ours and the engine at a path."""
        wheel = os.path.join(site_packages(self.environment), self.row.package)
        (library,) = glob.glob(os.path.join(glob.escape(wheel), "libs", "libopenvino.so.*"))
        folders = [*(os.path.join(path, part) for part in self.INCLUDED),
                   os.path.join(wheel, "include"), CHECKOUT]
        os.makedirs(os.path.dirname(self.argument), exist_ok=True)
        run("c++", "-std=c++20", "-w", *options,
            *(f"-fsanitize={self.SANITIZERS[name]}" for name in self.sanitizers()),
            *(f"-I{folder}" for folder in folders), "-o", self.argument, source,
            library, f"-Wl,-rpath,{os.path.dirname(library)}")

    @property
    def options(self):
        return ("--memory-limit-gib=65536",) if self.sanitizers() else ()  # they map the shadow

    def sanitizers(self):
        return [name for name in self.row.revision.split("+")[1:] if name in self.SANITIZERS]

    def subject(self, here):
        before = "".join(f"ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD='{path.strip()}' " for path in (
            run("c++", f"-print-file-name=lib{name}.so") for name in self.sanitizers()))
        return f"--subject-command={before}'{program('check')}' --serve='{self.argument}'"


def place_of(row, folder, checkouts):
    """@return the place of a row. Throws Absent."""
    kind = Compiled if row.adapter.endswith(".cpp") else Place
    return kind(row, folder, checkouts)
