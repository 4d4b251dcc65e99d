#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a copy of a folder of C++ sources with every operator mutant of it behind a switch.

    mutate.py --clang=PATH --compiler=PATH --namespace=NAME [--leave-out=PREFIX]...
              [--only=FILE]... [--first=N] FROM TO -- FLAG...

FROM is the folder, TO gets its copy under the same name, with mutants.inc in it: one row a mutant,
with the number of its switch, from N on. FLAG... are what both compilers need, for example
-I FOLDER. Mutants that do not compile are left out; their number is printed.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mutants
import syntax

SWITCH = "::kvproof::mutants::on"
HEADER = '#include "properties/selftest/operators/active_mutant.h"\n'
STANDARD = ["-std=c++20", "-w", "-Wno-narrowing"]
MOST_ROUNDS = 20  # of compiling and leaving out


def fail(message):
    sys.exit(f"mutate.py: {message}")


def mutated_text(text, found):
    """@param found the mutants of this text @return it with all of them behind their switches"""
    schemata = {}
    for mutant in found:
        key = (mutant.schema_begin, -mutant.schema_end, not mutant.deletes)
        schemata.setdefault(key, []).append(mutant)
    out, _ = rendered(text, sorted(schemata.items()), 0, 0, len(text))
    return HEADER + out


def rendered(text, schemata, first, begin, end):
    """The bytes [begin, end) with the schemata from `first` on that lie inside of them. @return the
    text, and the index of the first schema that does not"""
    out, at = [], begin
    while first < len(schemata) and schemata[first][0][0] < end:
        (own_begin, negative_end, _), group = schemata[first]
        if own_begin < at or -negative_end > end:
            raise ValueError(f"schemata overlap at byte {own_begin}")
        inner, first = rendered(text, schemata, first + 1, own_begin, -negative_end)
        out += [text[at:own_begin], schema(text, group, inner)]
        at = -negative_end
    return "".join(out) + text[at:end], first


def schema(text, group, inner):
    """Only one mutant is in force at a time, so that its text needs no switches inside. Each starts
    a line of its own, by which the complaint of a compiler finds it."""
    if group[0].deletes:
        return f"{{\nif (!{SWITCH}({group[0].number})) {{ {inner}\n}} }}"
    cast = "static_cast<bool>" if any(m.as_bool for m in group) else ""
    out = "("
    for m in group:
        changed = text[m.schema_begin:m.begin] + m.text + text[m.end:m.schema_end]
        out += f"\n{SWITCH}({m.number}) ? {cast}({changed}\n) : "
    return out + f"{cast}(\n{inner}))"


def rows(found):
    """The table of the mutants, to be included in C++."""
    def quoted(words):
        return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "".join(
        f"{{{m.number}, {quoted(m.id)}, {quoted(m.file)}, {m.line}, {quoted(m.function)}, "
        f"{quoted(m.operator)}, {quoted(m.change)}, {quoted(m.shown)}, {m.ordinal}}},\n"
        for m in found)


class Copy:
    """A copy of a folder, in which sources that are compiled together have their mutants."""

    def __init__(self, source, target, options):
        self.source, self.options = source, options
        self.folder = target / source.name
        self.texts = {}
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            wanted = not options.only or name in options.only
            if path.suffix in (".h", ".cpp") and wanted and \
                    not name.startswith(tuple(options.leave_out)):
                self.texts[name] = path.read_bytes().decode("latin-1")

    def unit(self, folder):
        return "".join(f'#include "{folder / name}"\n' for name in self.texts
                       if name.endswith(".cpp"))

    def find(self):
        """The mutants of the texts, by clang's trees of them."""
        with tempfile.TemporaryDirectory() as scratch:
            unit = Path(scratch, "unit.cpp")
            unit.write_text(self.unit(self.source), encoding="utf-8")
            prefix = self.source.as_posix() + "/"
            arguments = [*STANDARD, f"-I{self.source.parent}", *self.options.flags, str(unit)]
            trees = list(syntax.trees_of(self.options.clang, arguments, self.options.namespace))
        for tree in trees:
            shorten(tree, prefix)
        return mutants.find(trees, self.texts, self.options.first)

    def write(self, found):
        for name, text in self.texts.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mutated_text(text, [m for m in found if m.file == name])
                             .encode("latin-1"))

    def broken(self):
        """The numbers of the mutants at which the compiler stumbles."""
        with tempfile.TemporaryDirectory() as scratch:
            unit = Path(scratch, "unit.cpp")
            unit.write_text(self.unit(self.folder), encoding="utf-8")
            done = subprocess.run(
                [self.options.compiler, "-fsyntax-only", *STANDARD, f"-I{self.folder.parent}",
                 f"-I{self.source.parent}", *self.options.flags, str(unit)],
                capture_output=True, check=False)
        if done.returncode == 0:
            return set()
        said = done.stderr.decode(errors="replace")
        out = set()
        for name, line in places_of_errors(said, self.folder):
            out |= at_line((self.folder / name).read_bytes().decode("latin-1").split("\n"), line)
        if not out:
            fail(f"the copy does not compile:\n{said[:2000]}")
        return out


def places_of_errors(said, folder):
    """The place in a folder of each error that a compiler has said. That of an error in another
    folder's template is where the template is used: g++ says so before it, clang behind it."""
    used, waits, out = None, False, []
    for line in said.split("\n"):
        place = re.match(rf"{re.escape(str(folder))}/(\S+?):(\d+):\d+:(.*)", line)
        here = place and (place[1], int(place[2]))
        if "In instantiation of" in line or "In substitution of" in line:
            used = None
        elif here and re.match(r"\s+required (from|by)", place[3]):
            used = used or here
        elif "error:" in line:
            out += [here or used] if here or used else []
            waits, used = not here and not used, None
        elif here and waits and "note: in instantiation of" in place[3]:
            out.append(here)
            waits = False
    return out


def at_line(lines, line):
    """The mutant whose switch is nearest, on that line or above it."""
    for text in reversed(lines[:line]):
        switch = re.search(re.escape(SWITCH) + r"\((\d+)\)", text)
        if switch:
            return {int(switch[1])}
    return set()


def shorten(tree, prefix):
    """Names the files of a tree by their paths below the folder."""
    tree.file = tree.file.removeprefix(prefix)
    for child in tree.children:
        shorten(child, prefix)


def write_sound(copy):
    """Writes a copy without the mutants that do not compile."""
    try:
        found = copy.find()
    except RuntimeError as error:
        fail(f"clang cannot read {copy.source}:\n{error}")
    whole = len(found)
    for _ in range(MOST_ROUNDS):
        copy.write(found)
        broken = copy.broken()
        if not broken:
            break
        found = [m for m in found if m.number not in broken]
    else:
        fail(f"after {MOST_ROUNDS} rounds mutants are left that do not compile")
    (copy.folder / "mutants.inc").write_text(rows(found), encoding="latin-1")
    print(f"{len(found)} operator mutants in {len(copy.texts)} files; "
          f"{whole - len(found)} more do not compile")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--clang", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--leave-out", action="append", default=[])
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    if shutil.which(options.clang) is None:
        fail(f"{options.clang} is not here; its syntax trees are needed (Debian: clang)")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Copy(options.source.resolve(), Path(scratch), options)
        write_sound(copy)
        # What stays as it was keeps its time, so that nothing is compiled anew for it.
        for path in copy.folder.rglob("*.*"):
            target = options.target / path.relative_to(scratch)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != path.read_bytes():
                shutil.copyfile(path, target)


if __name__ == "__main__":
    main()
