# SPDX-License-Identifier: Apache-2.0
"""The rules for the words of documents, help texts and printed text.

    python3 -B .ci/words.py [FOLDER]   # prints each place; exit code 1 if it must go

Read are all *.md; the string literals of C++ and Python (a docstring only at the top of a file that
prints its `__doc__`); and shell, JavaScript and HTML. Not read are comments and names of members: a
literal or a code span that is one identifier, and the key of a JSON object.

A sentence of Markdown ends at a ".", "!" or "?" before a space, except behind an abbreviation, and
at the end of its paragraph, heading, list item or table cell. Colons and semicolons end none. A
word holds a letter or a digit. A code span is one word; code blocks and targets of links are none.
"""
import ast
import re
import sys
from pathlib import Path

LONGEST, MANY = 35, 10  # words of a sentence of a README; longer ones in all READMEs together
FORBIDDEN = (  # (a pattern that does not match its own text, what to write)
    (r"\bha[dsv]e?\s(a|no)\ssa[y]\b", "evaluated"),
    (r"\bworde[d]\b", "exempted by a trait"),
    (r"\bin\sturn[s]\b", "interleaved"),
    (r"\bspok[e]\b", "evaluated"),
)
# Where advisories describe findings, "page" is a block of tokens or HTML.
ADVISED = re.compile(r"properties/(engines|shadow)/.*|README\.md")
ADVISORY = re.compile(r"\b(findings?|defects?|advisor(y|ies)|reported)\b", re.I)
PAGE = re.compile(r"(?<!HTML )(?<!lens )\bpages?\b(?! (size|of (figures|HTML)))", re.I)

SKIPPED = re.compile(r"build|results|install|__pycache__|\.(?!cmake$|ci$).*")
KEY = re.compile(r'"\w+"(?=\s*:)')
SPAN = re.compile(r"(`+)(.+?)\1", re.S)
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|approx)\.$", re.I)
LINK = re.compile(r"(!?\[)((?:[^][]|\[[^]]*\])*)\]\([^)\s]*\)")
BULLET = re.compile(r"\s*([-*+]|\d+\.|#+)\s")
CXX = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)|(?<!\w)'(?:\\.|[^'\\\n])+'|"""
                 r"""R"(?P<fence>[^("\n]*)\((?P<raw>.*?)\)(?P=fence)"|"""
                 r""""(?P<text>(?:\\.|[^"\\\n])*)"|[^\s"'/R]+|\S""", re.S)


def read_tree(root):
    """The text of each file that is read, by its path. Build folders are left out."""
    return {name.as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(Path(root).rglob("*")) for name in [path.relative_to(root)]
            if not any(SKIPPED.fullmatch(part) for part in name.parts[:-1]) and path.is_file()
            and reader(name.as_posix())}


def reader(path):
    """What takes the printed texts out of a file, each with its first line; None if nothing."""
    if path in ("kvproof", ".ci/run", ".ci/bare"):
        return script_texts
    return {".md": markdown_texts, ".py": python_texts, ".sh": script_texts, ".js": browser_texts,
            ".html": browser_texts, ".h": cxx_texts, ".cpp": cxx_texts, ".cu": cxx_texts,
            ".cuh": cxx_texts}.get(Path(path).suffix)


def markdown_texts(text):
    """Code is read, too: it shows what is printed."""
    yield 1, SPAN.sub(lambda span: "" if re.fullmatch(r"\w+", span[2]) else span[0], text)


def python_texts(text):
    tree = ast.parse(text)
    bodies = [node.body for node in ast.walk(tree) if isinstance(
        node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    docstrings = [body[0].value for body in bodies if body and isinstance(body[0], ast.Expr)
                  and not (body is tree.body and "__doc__" in text)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) \
                and node not in docstrings:
            yield node.lineno, node.value


def cxx_texts(text):
    """Literals with nothing but comments between them are one."""
    line, at, first, whole = 1, 0, 1, ""
    text = re.sub(r"(?m)^ *# *include .*", "", text)
    for match in CXX.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        literal = match["text"] if match["raw"] is None else match["raw"]
        if literal is not None:
            first = first if whole else line
            whole += literal.replace("\\n", " ").replace('\\"', '"')
        elif not match["comment"]:
            yield first, whole
            whole = ""
    yield first, whole


def script_texts(text):
    yield 1, re.sub(r"(?m)(^|\s)#\s.*", r"\1", text)


def browser_texts(text):
    yield 1, re.sub(r"(?m)(^|\s)(//|/\*|\*\s|<!--).*", r"\1", text)


def check_forbidden(files):
    """No word of FORBIDDEN in documents, help and printed text."""
    complaints = []
    for path, content in files.items():
        for first, text in reader(path)(content):
            text = "" if re.fullmatch(r"\w+", text) else KEY.sub("", text)
            complaints += [(path, first + text.count("\n", 0, match.start()),
                            f"says '{match[0]}', not '{instead}'")
                           for pattern, instead in FORBIDDEN
                           for match in re.finditer(pattern, text)]
    return [f"{path}:{line}: {what}" for path, line, what in sorted(complaints)]


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
        # What shows of a link, and code in one word; both as long as they were.
        whole = LINK.sub(lambda link: link[2].ljust(len(link[0])), whole)
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


def check_lengths(files):
    """At most MANY sentences of all READMEs are longer than LONGEST."""
    found = long_sentences(files)
    return found if len(found) > MANY else []


def check_pages(files):
    """A finding is described by an advisory, not by a page."""
    return [f"{path}:{first + line - 1}: says 'page' of a finding: {' '.join(found)[:60]}"
            for path, content in files.items() if ADVISED.fullmatch(path)
            for first, text in ([(1, content)] if path.endswith(".md") else reader(path)(content))
            for line, found in sentences(text)
            if PAGE.search(" ".join(found)) and ADVISORY.search(" ".join(found))]


def main(root=Path(__file__).resolve().parents[1]):
    files = read_tree(root)
    found = check_forbidden(files) + check_pages(files)
    print("\n".join(found + long_sentences(files)))
    return 1 if found or check_lengths(files) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
