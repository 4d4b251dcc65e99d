# SPDX-License-Identifier: Apache-2.0
"""The syntax trees of C++ sources as clang dumps them, with the bytes that each node covers.

Of a template there are several trees, the pattern and its instances, over the same bytes. Types are
known in the instances only.
"""
import json
import subprocess
import sys
from dataclasses import dataclass, field

sys.setrecursionlimit(20_000)  # a tree is as deep as its expressions


@dataclass
class Node:
    kind: str
    file: str = ""
    begin: int = -1  # the first byte, and the one behind the last; -1: it is not in the text
    end: int = -1
    fields: dict = field(default_factory=dict)
    children: list = field(default_factory=list)

    @property
    def in_text(self):
        return 0 <= self.begin < self.end

    @property
    def type(self):
        """The type without aliases, references and const; "" if it has none."""
        names = self.fields.get("type", {})
        name = names.get("desugaredQualType", names.get("qualType", ""))
        return name.removeprefix("const ").rstrip("&").rstrip().removesuffix("const").rstrip()

    @property
    def name(self):
        return self.fields.get("name", "")


class Places:
    """Clang names a file only where it differs from that of the place before."""

    def __init__(self):
        self.file = ""

    def of(self, place):
        """@return the file, the offset and the length of a token; no file if it is a macro's"""
        if "spellingLoc" in place or "expansionLoc" in place:
            for part in ("spellingLoc", "expansionLoc"):
                self.of(place.get(part, {}))
            return "", -1, 0
        self.file = place.get("file", self.file)
        return self.file, place.get("offset", -1), place.get("tokLen", 0)


def tree(dump, places):
    places.of(dump.get("loc", {}))
    extent = dump.get("range", {})
    file, begin, _ = places.of(extent.get("begin", {}))
    last_file, last, length = places.of(extent.get("end", {}))
    node = Node(dump.get("kind", ""), file, begin, last + length if last >= 0 else -1)
    if not file or file != last_file:
        node.begin = node.end = -1
    node.fields = {key: value for key, value in dump.items()
                   if key not in ("inner", "loc", "range", "id")}
    node.children = [tree(child, places) for child in dump.get("inner", [])]
    return node


def trees_of(clang, arguments, namespace):
    """@return the trees of everything in a namespace. @throws RuntimeError with clang's words"""
    done = subprocess.run([clang, "-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang",
                           f"-ast-dump-filter={namespace}", *arguments],
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    text, decoder, at = done.stdout.decode("latin-1"), json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        dump, at = decoder.raw_decode(text, at)
        yield tree(dump, Places())
