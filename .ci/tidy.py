# SPDX-License-Identifier: Apache-2.0
"""The rules for sources and words that no compiler checks.

    python3 -B .ci/tidy.py   # prints what breaks a rule, and each long sentence of a README

A check takes a dict from path to text and returns complaints "path:line: what is wrong". It reads
no disk, so that tests can hand it files that it must refuse. It scans lines and knows this
project's layout (clang-format's); it does not parse C++.

A sentence of Markdown ends at a ".", "!" or "?" before a space, except behind an abbreviation, and
at the end of its paragraph, heading, list item or table cell. Colons and semicolons end none. A
word holds a letter or a digit. A code span is one word, a link ends one; code blocks are none.
"""
import os
import re
import sys
from fnmatch import translate
from functools import cache
from pathlib import Path

# The rooms of four folders, and the rooms that the headers and modules of each may use, which come
# before it: no arrow leads back. Tests of properties/ and bench/ use any.
ROOMS = {
    "properties/": {
        "caller": "", "laws": "caller", "shadow": "caller laws", "audit": "caller laws shadow",
        "story": "caller laws shadow audit", "sources": "caller laws shadow audit story",
        "engines": "caller laws", "check": "caller laws audit story sources engines",
        "selftest": "caller audit sources check", "kernels": "caller selftest",
        "allocators": "sources", "facts": "allocators"},
    "properties/engines/": {
        "kit": "", "allocators": "kit", "live": "kit", "scheduler": "kit", "findings": ""},
    "bench/": {
        "results": "", "instruments": "results", "suites.h": "results", "requests": "",
        "storage": "",
        "serving": "instruments requests results storage suites.h",
        "hit_rate": "instruments requests",
        "studies": "hit_rate requests results serving storage",
        "kernels": "instruments requests suites.h", "live": "instruments suites.h",
        "allocator": "instruments results suites.h",
        "gate": "instruments results serving storage", "peers": "kernels", "campaign": "",
        "verbs": "gate hit_rate instruments requests results serving studies suites.h"},
    "reports/kvproof_report/": {
        "common": "", "draw": "common", "figures": "common draw", "page": "common draw figures",
        "run": "common page", "device": "common draw", "__init__": "", "__main__": "common",
        "tests": "common draw figures page"}}
LAYERS = ["reference", "optimized", "kernels", "properties", "bench", "reports"]
CXX = (".h", ".cuh", ".cpp", ".cu")
INCLUDE = re.compile(r' *# *include (["<])([^">]*)[">]')

BUILD = r".*\.cmake|(.*/)?CMakeLists\.txt"
CODE = rf".*\.(h|cuh|cpp|cu|py|sh|patches)|kvproof|\.ci/(run|bare|lines)|{BUILD}"
TEXT = CODE + r"|.*\.(md|js|html)"
# (which files are asked, what is in no line of theirs, what is wrong with it). No pattern matches
# its own text.
LINE_RULES = (
    (CODE, r".{101}", "over 100 columns"),
    (CODE, r"\b(TOD[O]|FIXM[E]|XX[X]|HAC[K]|TB[D]|WI[P]|stu[b]|for no[w]|(not (yet )?|un)"
           r"implemente[d])\b|^#if [0]", "unfinished work"),
    (r".*\.py", r"\bsys\.path(\.\w+\(|\[[^]]*\] *\+?=|  *\+?= )",
     "changes where Python looks for modules, in the place of a link to a package"),
    (rf"(?!\.cmake/targets\.cmake)({BUILD})", r"^\s*(add_test|gtest_discover_tests)\(",
     "a test without a tier (kvproof_test, kvproof_script_test)"))
# And what is nowhere in a text but as a name in quotes, like a column of earlier files.
WORD_RULES = (
    (TEXT, r"\bha[dsv]e?\s+(a|no)\s+sa[y]\b", "write 'evaluated'"),
    (TEXT, r"\bworde[d]\b(?!\\n)", "write 'exempted by a trait'"),
    (TEXT, r"\bin\s+turn[s]\b(?!\()", "write 'interleaved'"),
    (TEXT, r"\bspok[e]\b", "write 'evaluated'"))
LONGEST, MANY = 35, 10  # words of a sentence of a README; longer ones in all READMEs together
NAME = re.compile(r"""(["'`])\w+\1""")
# Where advisories describe findings, "page" is a block of tokens or HTML.
ADVISED = re.compile(r"properties/(engines|shadow)/.*\.md|README\.md")
ADVISORY = re.compile(r"\b(findings?|defects?|advisor(y|ies)|reported)\b", re.I)
PAGE = re.compile(r"(?<!HTML )(?<!lens )\bpages?\b(?! (size|of (figures|HTML)))", re.I)
SPAN = re.compile(r"(`+)(.+?)\1", re.S)
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|approx)\.$", re.I)
BULLET = re.compile(r"\s*([-*+]|\d+\.|#+)\s")

# Files with state that no object owns, and why.
KEPT_STATE = {
    "bench/gate/heap_use.cpp": "malloc is replaced for the whole process",
    "bench/verbs/mutation_score_test.cpp": "mutated sources ask it wherever they are",
    "bench/instruments/allocation_count.cpp": "malloc is replaced for the whole process",
    "kernels/simt/runtime.cpp": "threadIdx and its kin are global in CUDA",
    "properties/allocators/allocations_test.cpp": "malloc is replaced for the whole process",
    "properties/allocators/allocation_failure_test.cpp": "malloc is replaced for the whole process",
    "properties/sources/exhaustive/arena.cpp": "operator new has no argument for its arena",
    "optimized/concurrent/checks/race_point.h": "the tested pool is a template without arguments",
    "properties/engines/kit/broken_plugin.cpp": "the library that it breaks has no place for it",
    "reference/support/interrupt.cpp": "a signal handler reads it",
    "properties/sources/fuzz/fuzz_target.h": "libFuzzer calls a function without context",
    "properties/kernels/armed_fault.h": "which seeded fault the checks put in force",
    "properties/selftest/active_patch.h": "patched sources ask it wherever they are",
    "properties/selftest/operators/active_mutant.h": "mutated sources ask it wherever they are",
    "properties/selftest/operators/operator_mutants.cpp": "mutated sources ask it everywhere",
    "properties/sources/random/state_machine_test.cpp": "one sentence about the seed per process",
}


def read_tree(root):
    """Every source, script, build file and document below a folder, build folders left out."""
    skipped = re.compile(r"build|results|install|__pycache__|\.(?!cmake$|ci$).*")
    files = {}
    for path in sorted(Path(root).rglob("*")):
        name = path.relative_to(root)
        if any(skipped.fullmatch(part) for part in name.parts[:-1]) or not path.is_file():
            continue
        if re.fullmatch(TEXT, name.as_posix()):
            files[name.as_posix()] = path.read_text(encoding="utf-8")
    return files


def kind(path):
    if path.endswith(CXX):
        return "header" if path.endswith((".h", ".cuh")) else "source"
    if re.fullmatch(BUILD, path):
        return "build"
    return "script" if path.endswith((".py", ".sh")) else ""


def lines(files, suffixes=""):
    for path, text in files.items():
        if path.endswith(suffixes):
            yield from ((path, number, line) for number, line in enumerate(text.split("\n"), 1))


def layer(path):
    folder = path.split("/")[0]
    return LAYERS.index(folder) if folder in LAYERS else -1


def check_rooms(files, folders=None):
    """A room uses itself and the rooms that ROOMS names."""
    complaints = []
    for top, rooms in (folders or ROOMS).items():
        order = list(rooms)
        complaints += [f"ROOMS: {room} may use {other}, which does not come before it"
                       for room in rooms for other in rooms[room].split()
                       if other not in order[:order.index(room)]]
        below = {path: path.removeprefix(top).partition("/")[0].removesuffix(".py")
                 for path in files if path.startswith(top) and path.endswith((*CXX, ".py"))}
        complaints += [f"{path}:1: {room} is none of the ROOMS of {top}"
                       for path, room in below.items() if room not in rooms]
        modules = {}  # the rooms of each name that Python may import
        for path, room in below.items():
            if path.endswith(".py"):
                name = Path(path.removesuffix("/__init__.py")).stem
                modules.setdefault(name, set()).add(room)
        for path, number, line in lines({path: files[path] for path in below}):
            others, room = used(top, modules, path, line), below[path]
            if others and room not in others and not others & set(rooms.get(room, "").split()):
                complaints += [
                    f"{path}:{number}: {room} uses {min(others)}; ROOMS has no such arrow"]
    return complaints


def used(top, modules, path, line):
    """The rooms of which a line uses one."""
    if not top.startswith("reports/") and path.endswith(("_test.cpp", "_test.py")):
        return set()
    if not path.endswith(".py"):
        match = INCLUDE.match(line)
        return ({match[2].removeprefix(top).split("/")[0]}
                if match and match[2].startswith(top) else set())
    if match := re.match(rf" *from {Path(top).name}(?:\.| import \(?)(\w+)", line):
        return {match[1]}
    match = re.match(r" *(?:import|from) (\w+)", line)
    return modules.get(match[1], set()) if match and top.startswith("properties/") else set()


def check_includes(files):
    """A folder includes itself and folders to its left, and no include leads back to its file."""
    complaints, includes = [], {}
    for path, number, line in lines(files, CXX):
        if path[0] == ".":
            continue
        if number == 1 and layer(path) < 0:
            complaints.append(f"{path}:1: lies in none of the project's folders")
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, other = match.groups()
        includes.setdefault(path, []).append(other)
        if layer(other) > layer(path):
            complaints.append(f"{path}:{number}: includes {other}, which lies above it")
        elif layer(other) < 0 and quote == '"':
            complaints.append(f"{path}:{number}: quotes {other}, not a path from the root")
    return complaints + leading_back(includes, "include")


def leading_back(edges, what):
    """@param edges from a file to those that it includes or imports"""
    complaints = []
    for path in edges:
        seen, ahead = set(), list(edges[path])
        while ahead and path not in seen:
            seen.add(other := ahead.pop())
            ahead += [after for after in edges.get(other, []) if after not in seen]
        if path in seen:
            complaints.append(f"{path}:1: an {what} of it leads back to it")
    return complaints


def check_imports(files):
    """No import leads back to its file."""
    imports, folders = {}, {path.rpartition("/")[0] for path in files}
    packages = {folder for folder in folders if f"{folder}/__init__.py" in files}
    roots = {folder.rpartition("/")[0] for folder in packages} - packages
    for path, _, line in lines(files, ".py"):
        match = re.match(r" *(?:from ([\w.]+) )?import \(?([\w., ]+)", line)
        for name in re.findall(r"[\w.]+", match[2]) if match else ():
            whole = [match[1], f"{match[1]}.{name}"] if match[1] else [name]
            found = [f"{root}/{each}{end}" for root in {path.rpartition("/")[0], *roots} - packages
                     for each in (one.replace(".", "/") for one in whole)
                     for end in (".py", "/__init__.py")]
            imports.setdefault(path, []).extend(each for each in found if each in files)
    return leading_back(imports, "import")


def check_functions(files):
    """A function has at most 60 lines."""
    return [f"{path}:{start}: a function of {length} lines"
            for path, text in files.items() if path.endswith(CXX)
            for start, length in functions(text.split("\n")) if length > 60]


def functions(code):
    """The first line and the length of each function at indent 0 or 2."""
    other = re.compile(r" *(template\s*<.*>\s*)?(namespace|class|struct|enum|union|extern)\b|"
                       r" *(if|for|while|switch|else|do|try|catch|return|public|private)\b|"
                       r".*([=\]]\s*\{$|=\s*\[|[^)]\s*\{\s*\{)")
    at = 0
    while at < len(code):
        start, at = at, at + 1
        if not re.match(r"( {2})?[A-Za-z\[~]", code[start]):
            continue
        end = next((i for i in range(start, min(start + 12, len(code)))
                    if not code[i] or code[i][-1] in ";{"), None)
        head = "" if end is None else " ".join(code[start:end + 1])
        if not head.endswith("{") or "(" not in head or other.match(head):
            continue
        closing = re.match(" *", code[start]).group() + "}"
        at = next((i for i in range(end + 1, len(code)) if code[i].startswith(closing)), len(code))
        yield start + 1, at - start + 1


def has_token(text, word, also=""):
    return word in text and re.search(
        rf"(?<![\w{also}-]){re.escape(word)}(?![\w{also}-])", text) is not None


@cache
def patterns(text):
    """What a text says of many files, "*_bench.cpp", as regular expressions; * crosses folders."""
    return [re.compile(translate("*/" + pattern.lstrip("/"))) for pattern in set(
        re.findall(r"[\w/]*\*\w*\.c\w+|[\w/]*\*\w+\.\w+", text))]


def check_no_dead_files(files):
    """A build file names every source; another file includes every header, names every script."""
    included = {match.group(2) for _, _, line in lines(files, CXX)
                if (match := INCLUDE.match(line))}
    included |= {line.removeprefix("needs: ") for _, _, line in lines(files, ".patches")}

    files = {path: text for path, text in files.items() if re.fullmatch(CODE, path)}
    builds = [path for path in files if kind(path) == "build"]

    def globbed(text, path):
        return any(pattern.match("/" + path) for pattern in patterns(text))

    def built(path):  # by a build file of its folder, or of one around it
        return any(path.startswith(folder := build.rpartition("/")[0] + "/")
                   and (has_token(files[build], name := path[len(folder):], "./")
                        or globbed(files[build], name)) for build in builds)

    def named(path):
        folder, _, name = path.rpartition("/")
        if "iter_modules(__path__)" in files.get(folder + "/__init__.py", ""):
            return True  # a package that walks its own modules
        return any(other != path and (has_token(text, name) or globbed(text, path) or (
            other.endswith(".py") and has_token(text, name.removesuffix(".py"))))
            for other, text in files.items())

    complaints = []
    for path in files:
        if kind(path) == "header" and path not in included:
            complaints.append(f"{path}:1: is included by no file")
        if kind(path) == "source" and path[0] != "." and not built(path):
            complaints.append(f"{path}:1: is built by no build file of its folder")
        if kind(path) == "script" and path[0] != "." and not named(path):
            complaints.append(f"{path}:1: is named by no other file")
    return complaints


def check_line_rules(files):
    """Lines keep LINE_RULES, and texts WORD_RULES."""
    complaints = []
    for path, text in files.items():
        # What is between the parts of a literal goes, but for the ends of lines.
        whole = re.sub(r'"[^\S\n]*(\n?)[^\S\n]*"', r"\1", NAME.sub("", text))
        for rules, whole in ((LINE_RULES, text), (WORD_RULES, whole)):
            complaints += [
                f"{path}:{whole.count(chr(10), 0, match.start()) + 1}: {what}: {match[0].strip()}"
                for asked, pattern, what in rules if re.fullmatch(asked, path)
                for match in re.finditer(pattern, whole, re.M)]
    return complaints


def blocks(text):
    """Paragraphs, headings, items and cells: lists of lines with their numbers."""
    out, fenced = [[]], False
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r"\s*```", line):
            fenced = not fenced
        if fenced or re.match(r"\s*```|[\s|:-]*$", line):
            out.append([])
        elif re.match(r"\s*\|", line):
            line = SPAN.sub(lambda span: span[0].replace("|", "/"), line)
            out += [[(number, cell)] for cell in line.split("|")] + [[]]
        elif BULLET.match(line):
            out += [[(number, BULLET.sub("", line, count=1))]] + [[]] * (line[0] == "#")
        else:
            out[-1].append((number, line))
    return out


def sentences(text):
    """The words of each sentence, with its line."""
    for block in blocks(text):
        whole, starts = "", []
        for number, line in block:
            starts.append((len(whole), number))
            whole += line.strip() + " "
        whole = SPAN.sub(lambda span: re.sub(r"[\s.?!]", "_", span[0]), whole)
        begin = 0
        for match in re.finditer(r"[.?!][)\"'*]*\s+|$", whole):
            if ABBREVIATED.search(whole[begin:match.start() + 1]):
                continue
            found = [word for word in whole[begin:match.end()].split() if re.search(r"\w", word)]
            if found:
                yield max(number for start, number in starts if start <= begin), found
            begin = match.end()


def long_sentences(files):
    return [f"{path}:{line}: {len(found)} words: {' '.join(found[:6])} ..."
            for path, text in files.items() if path.endswith("README.md")
            for line, found in sentences(text) if len(found) > LONGEST]


def check_sentences(files):
    """At most MANY sentences of all READMEs are longer than LONGEST. A finding is described by an
    advisory, not by a page."""
    found = long_sentences(files)
    return (found if len(found) > MANY else []) + [
        f"{path}:{line}: says 'page' of a finding: {' '.join(words)[:60]}"
        for path, text in files.items() if ADVISED.fullmatch(path)
        for line, words in sentences(text)
        if PAGE.search(" ".join(words)) and ADVISORY.search(" ".join(words))]


def links_of(path, text):
    """(text of a link, the path from the root that it leads to), without links to other hosts."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if not re.match(r"[a-z]+:", link):
            yield link, os.path.normpath(os.path.join(os.path.dirname(path), link))


def check_named_programs(files):
    """A test program that a source or a script names, as in the command that repeats a failure, is
    there. A file's name (a_test.cpp) is none."""
    builds = "\n".join(text for path, text in files.items() if kind(path) == "build")
    there = {"add_test", "kvproof_test", "kvproof_script_test",
             *re.findall(r"(?:kvproof_test|kvproof_script_test|add_executable)\(([\w.]+)", builds)}
    name = re.compile(r"(?<![\w./])([a-z]\w*_test)\b(?![.\w])")
    return [f"{path}:{number}: names {word}, which no build file declares"
            for path, number, line in lines(files) if kind(path) != "build"
            for word in name.findall(line) if word not in there]


def check_no_global_state(files, kept=None):
    """No variable of a namespace, a class or a function outlives its calls and changes."""
    variable = re.compile(
        r"((inline|static|extern|thread_local|constinit|volatile) )*[A-Za-z_][\w:<>, *&]* "
        r"\w+(\[\w*\])*(;| = .*|\{.*\};)$| +(static|thread_local) [^()]*\w(;| = .*|\{.*)$")
    constant = re.compile(
        r"\bconst\b|constexpr|static_assert|\boperator\b|^ *(extern )?(__extension__ )?(using|"
        r"typedef|template|struct|class|enum|union|concept|return|friend|namespace|case)\b|Check<")
    stateful = {path: f"{path}:{number}: keeps state that nobody owns: {line.strip()}"
                for path, number, line in lines(files, CXX)
                if variable.match(line) and not constant.search(line)}
    kept = KEPT_STATE if kept is None else kept
    return ([stateful[path] for path in stateful if path not in kept] +
            [f"{path}:1: keeps no state, and is excused for it" for path in kept
             if path not in stateful])


CHECKS = (check_includes, check_rooms, check_imports, check_line_rules, check_functions,
          check_no_dead_files, check_named_programs, check_no_global_state, check_sentences)


def main():
    files = read_tree(Path(__file__).resolve().parents[1])
    found = [line for check in CHECKS for line in check(files)]
    print("\n".join([*found, *long_sentences(files)]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
