# SPDX-License-Identifier: Apache-2.0
"""The tree obeys its rules and keeps its limits of lines, and each rule refuses what it must."""
import re
import runpy
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

import tidy

ROOT = Path(__file__).resolve().parents[1]
TREE = tidy.read_tree(ROOT)
IS_CHECKOUT = shutil.which("git") and (ROOT / ".git").exists()
GALLERY = "reports/gallery/"
LINES = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci/lines")))


class Tree(unittest.TestCase):
    def test_is_read(self):
        self.assertGreater(len(TREE), 300)
        for path in ("CMakeLists.txt", "kvproof", ".ci/run", ".cmake/targets.cmake", "README.md",
                     "reference/ids.h", ".ci/tidy.py", "properties/selftest/reference.patches"):
            self.assertIn(path, TREE)

    def test_obeys(self):
        for check in tidy.CHECKS:
            with self.subTest(check.__name__):
                complaints = check(TREE)
                self.assertEqual(complaints, [], "\n".join(complaints))

    def test_has_one_version(self):
        version = re.search(r"(?m)^set\(KVPROOF_VERSION (\S+)\)$", TREE["CMakeLists.txt"]).group(1)
        said = subprocess.run([str(ROOT / "kvproof"), "version"], capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual(said, f"kvproof {version}\n")
        python = version.replace("-dev", ".dev0")  # PEP 440
        self.assertIn(f'\nversion = "{python}"', (ROOT / "pyproject.toml").read_text())
        self.assertIn(f"\n## {version.removesuffix('-dev')}", TREE["CHANGELOG.md"])

    @unittest.skipUnless(IS_CHECKOUT, "this is no checkout")
    def test_its_rooms_keep_their_limits(self):
        limits = LINES.read_limits((ROOT / LINES.LIMITS).read_text(encoding="utf-8"))
        self.assertEqual(LINES.complaints(LINES.count(LINES.files("")), limits), [])
        self.assertIn(LINES.table(limits), TREE["CONTRIBUTING.md"],
                      "`.ci/lines --write` makes this table")
        self.assertFalse(any(others for *_, others in LINES.raises()), "see .ci/lines --raises")

    @unittest.skipUnless(IS_CHECKOUT, "this is no checkout")
    def test_is_small_and_keeps_no_page_and_no_picture_that_nothing_shows(self):
        sizes = {path: (ROOT / path).stat().st_size
                 for path in LINES.git("ls-files", "-z").decode().split("\0")
                 if (ROOT / path).is_file()}
        gallery = {path: size for path, size in sizes.items() if path.startswith(GALLERY)}
        self.assertLess(sum(sizes.values()), 10_800_000)
        self.assertLess(sum(gallery.values()), 4_000_000)
        self.assertEqual([path for path, size in sizes.items() if size >= 2_000_000], [])
        self.assertEqual([path for path in gallery if path.endswith(".html")], [])
        shown = {target for path, text in TREE.items() if path.endswith(".md")
                 for _, target in tidy.links_of(path, text)}
        self.assertEqual({path for path in gallery if path.endswith(".png")} - shown, set())

    def test_its_links_lead_somewhere(self):
        self.assertEqual([(path, link) for path, text in TREE.items() if path.endswith(".md")
                          for link, target in tidy.links_of(path, text)
                          if not (ROOT / target).exists()], [])


# In these texts ~ stands for nothing, so that this file does not say them itself.
PAGE, ENGINES = "reports/kvproof_report/", "properties/engines/"
BODY = "  step();\n" * 58
REFUSED = (  # (a check, files, what it says of them)
    (tidy.check_includes, "reference/a.h:1: includes optimized/b.h",
     {"reference/a.h": '#include "optimized/b.h"\n'}),
    (tidy.check_includes, "kernels/op/a.cu:2: includes bench/b.h",
     {"kernels/op/a.cu": "\n#  include <bench/b.h>\n"}),
    (tidy.check_includes, "quotes b.h", {"bench/a.h": '#include "b.h"\n'}),
    (tidy.check_includes, "quotes", {"bench/a.h": '#include "../reference/b.h"\n'}),
    (tidy.check_includes, "none of the project's folders", {"utilities/a.h": ""}),
    (tidy.check_includes, "optimized/part.h:1: an include of it leads back", {
        "optimized/whole.h": '#include "optimized/part.h"\n',
        "optimized/part.h": '#include "optimized/whole.h"\n'}),
    (tidy.check_rooms, "laws/a.h:1: laws uses audit; ROOMS has no such arrow",
     {"properties/laws/a.h": '#include "properties/audit/b.h"\n'}),
    (tidy.check_rooms, "story/c.py:2: story uses engines", {
        "properties/story/c.py": "import sys\nfrom recorder import Recorder\n",
        "properties/engines/kit/recorder.py": "import sys\n"}),
    (lambda files: tidy.check_rooms({}, files), "a may use b, which does not come before it",
     {"x": {"a": "b", "b": ""}}),
    (tidy.check_rooms, "attic is none of the ROOMS", {"properties/attic/a.h": "int a;\n"}),
    (tidy.check_rooms, "bench/storage/a.h:1: storage uses serving",
     {"bench/storage/a.h": '#include "bench/serving/engine.h"\n'}),
    (tidy.check_rooms, "kit/a.h:1: kit uses live",
     {f"{ENGINES}kit/a.h": f'#include "{ENGINES}live/b.h"\n'}),
    (tidy.check_rooms, "live/a.py:1: live uses scheduler", {
        f"{ENGINES}live/a.py": "import drive\n", f"{ENGINES}scheduler/drive.py": ""}),
    (tidy.check_rooms, "findings/a.py:1: findings uses kit", {
        f"{ENGINES}findings/a.py": "from kvproof.live import hooks\n",
        f"{ENGINES}kit/kvproof/__init__.py": ""}),
    (tidy.check_imports, "bench/a.py:1: an import of it leads back", {
        "bench/a.py": "import b\n", "bench/b.py": "def f():\n    from a import g\n"}),
    (tidy.check_imports, "kit/p/q.py:1: an import of it leads back", {
        "kit/p/__init__.py": "", "kit/p/q.py": "from p import os, r\n",
        "kit/p/r.py": "import p.q\n"}),
    *((tidy.check_line_rules, "bench/a.py:2: changes where",
       {"bench/a.py": f"\nsys.p~ath{change}\n"})
      for change in (".append(folder)", ".insert(0, folder)", "[:0] = [folder]", " += [folder]")),
    (tidy.check_rooms, "a.py:2: draw uses page",
     {f"{PAGE}draw/a.py": "\n    from kvproof_report.page.c import d\n"}),
    (tidy.check_rooms, "a_test.py:1: draw uses figures",
     {f"{PAGE}draw/a_test.py": "from kvproof_report import (figures\n"}),
    *((tidy.check_functions, "a.cpp:1: a function of 6",
       {"bench/a.cpp": head + BODY + "  step();\n}\n"})
      for head in ("int f(int a) {\n", "TEST(A, B) {\n",
                   "template <class T>\nint C<T>::f(T a,\n  T b) {\n",
                   "static auto f()\n    -> int {\n", "C::C(int a)\n    : a_(a), b_({1}) {\n")),
    (tidy.check_functions, "a.h:3: a function of 61",
     {"bench/a.h": "class A {\n public:\n  int f() {\n" + "    g();\n" * 59 + "  }\n};\n"}),
    *((tidy.check_no_dead_files, path, {"bench/CMakeLists.txt": "x(a.cpp sub/c.cpp)", path: ""})
      for path in ("bench/b.cpp", "bench/c.cpp", "bench/sub/a.cpp", "optimized/a.cpp")),
    (tidy.check_no_dead_files, "bench/a.cpp",
     {"bench/CMakeLists.txt": "file(GLOB suites *_bench.cpp)", "bench/a.cpp": ""}),
    (tidy.check_no_dead_files, "included by no file", {"bench/a.h": ""}),
    (tidy.check_no_dead_files, "bench/a.py",
     {"bench/a.py": "a.py", "CMakeLists.txt": "data.py", "README.md": "a.py"}),
    (tidy.check_named_programs, "a.cpp:1:", {
        "a.cpp": 'say("repeat: gone' '_test")', "bench/CMakeLists.txt": "kvproof_test(a" "_test"}),
    *((lambda files: tidy.check_no_global_state(files, {}), "a.cpp:1: keeps state",
       {"bench/a.cpp": text})
      for text in ("int count = 0;", "inline Meter meter;", "extern bool on;",
                   "static std::vector<int> all;", "  static Machine self;",
                   "  static inline int made = 0;", "thread_local std::size_t at = 0;")),
    (lambda kept: tidy.check_no_global_state({}, kept), "keeps no state", {"bench/a.cpp": "why"}),
    (tidy.check_line_rules, "a.py:2: over 100 columns", {"bench/a.py": "\n" + "x" * 101}),
    (tidy.check_line_rules, "bench/CMakeLists.txt:1: a test without a tier",
     {"bench/CMakeLists.txt": "  add_test(NAME a COMMAND a)\n"}),
    *((tidy.check_line_rules, "a.h:2: unfinished work", {"bench/a.h": "\n" + text + "\n"})
      for text in ("// TO~DO: it", "int a;  // FIX~ME", "good for~ now.", "a st~ub.",
                   "not~ implemented", "#if ~0")),
    *((tidy.check_line_rules, f"{path}:2: write '", {path: "\n" + text}) for path, text in (
        ("a.md", "12 laws had~ a say"), ("a.md", "it has~ no say."), ("a.md", "as word~ed there"),
        ("a.md", "in~ turns"), ("a.md", "it had~\na say"), ("a.md", "`12 laws sp~oke`"),
        ("bench/a.cpp", 'f("it had"\n  " a~ say");'), ("a.py", 'f"{n} laws sp~oke"'),
        ("kvproof", "bench|measured in~ turns"), ("properties/a.js", "say('laws sp~oke');"))),
    *((tidy.check_sentences, "says 'page' of a finding", {path: text})
      for path in ("README.md", "properties/shadow/README.md", "properties/engines/vllm.md")
      for text in ("Twelve defects stand on 8 pages.", "Each page has a finding.",
                   "A finding is known\nif it has a page in `findings/`.")),
)
TEN = {"a/README.md": "a " * 36 + ".\n\n", "README.md": ("a " * 36 + ". ") * 9}  # they may stand
ACCEPTED = (
    (tidy.check_includes, {"optimized/a.cpp": '#include "optimized/b.h"\n#include <map>\n'
                                              '#include "reference/c.h"\n'}),
    (tidy.check_rooms, {"properties/laws/a_test.cpp": '#include "properties/check/b.h"\n',
                        "properties/check/a.h": '#include "properties/laws/laws.h"\n',
                        f"{PAGE}draw/a.py": "from kvproof_report.common.e import f\n"
                                            "from kvproof_report.draw import b\n"}),
    (tidy.check_imports, {"kit/p/__init__.py": "", "kit/p/q.py": "import q\n"}),
    (tidy.check_imports, {"bench/a.py": "import b\n", "bench/b.py": "import os, c\n",
                          "kernels/c.py": "import b\n"}),
    (tidy.check_functions, {"bench/a.h": "\n" * 2000,
                            "bench/a.cpp": "int f(int a) {\n" + BODY + "}\n"}),
    *((tidy.check_functions, {"bench/a.h": head + "  int a = f(1);\n" * 80 + "};\n"})
      for head in ("namespace a {\n", "struct A {\n", "class A : public B<int()> {\n",
                   "template <class T>\nstruct A {\n", "constexpr A kRows[] = {\n")),
    (tidy.check_no_dead_files, {"bench/CMakeLists.txt": "x(a.cpp sub/c.cpp a.py)",
                                "bench/a.cpp": '#include "bench/a.h"', "bench/sub/c.cpp": "",
                                "bench/a.h": "", "bench/a.py": ""}),
    (tidy.check_no_dead_files, {"bench/CMakeLists.txt": "file(GLOB suites *_bench.cpp)",
                                "bench/sub/a_bench.cpp": ""}),
    (tidy.check_named_programs, {"a.cpp": 'say("repeat: a' '_test"); // gone' '_test.cpp',
                                 "bench/CMakeLists.txt": "kvproof_test(a" "_test"}),
    *((lambda files: tidy.check_no_global_state(files, {}), {"bench/a.cpp": text})
      for text in ("constexpr int kMost = 1;", "static const std::regex kWord(x);",
                   "  int a = 0;", "inline constexpr Row kRows[] = {", "using A = B;",
                   "  static int make(int a);", "int f(int a);", "template class A<B>;",
                   "  static constexpr int kB = 2;")),
    (tidy.check_line_rules, {
        "bench/a.py": "\u00e9" * 100 + "\nassert 'c' not in sys.path",
        "bench/CMakeLists.txt": "kvproof_test(a SOURCES a.cpp)",
        ".cmake/targets.cmake": "  add_test(NAME ${name})",
        "bench/a.h": "mkstemp(XXXXXX), stubborn, for nowhere",
        "a.md": 'hard say, reworded, in turn, spokes, bespoke, `sp~oke`, {"sp~oke":2}',
        "bench/a.cpp": 'j["sp~oke"]; f("had", " a~ say");'}),
    *((tidy.check_sentences, {path: text}) for path, text in (
        ("kernels/a.md", "Each page has a finding."),
        ("README.md", "A page has 16 tokens. A finding has an advisory."),
        ("README.md", "For each finding it draws a lens page."))),
    *((tidy.check_sentences, {**TEN, path: text})
      for path, text in (("b.md", "a " * 36), ("b/README.md", "a " * 35))),
)


class Rules(unittest.TestCase):
    def test_refuse(self):
        for check, what, files in REFUSED:
            plain = {path: text.replace("~", "") if isinstance(text, str) else text
                     for path, text in files.items()}
            self.assertRegex("\n".join(check(plain)), re.escape(what), files)

    def test_accept(self):
        for check, files in ACCEPTED:
            plain = {path: text.replace("~", "") for path, text in files.items()}
            self.assertEqual(check(plain), [], files)

    def test_an_eleventh_long_sentence_of_the_readmes_is_one_too_many(self):
        found = tidy.check_sentences({**TEN, "b/README.md": "\n" + "a " * 36})
        self.assertEqual(len(found), 11)
        self.assertIn("b/README.md:2: 36 words: a a", "\n".join(found))

    def test_sentences(self):
        for text, lengths in (
                ("One two. Three four five.\nSix", [2, 3, 1]),
                ("one of 0.33.0, e.g. two; and: three! four", [7, 1]),
                ("# One\ntwo\nthree\n\n- four five\n  six\n- seven", [1, 2, 3, 1]),
                ("| a b | c. d |\n|---|---:|\n| `x | y` e | f |", [2, 1, 1, 2, 1]),
                ("`a. b c` is = 5 % ![of](a.png) [`b`, c d](http://e.f/g.h).", [7]),
                ("```\na b c\n```\nd", [1])):
            self.assertEqual([len(found) for _, found in tidy.sentences(text)], lengths, text)
        self.assertEqual([line for line, _ in tidy.sentences("\na b\nc. d\ne.\n\nf")], [2, 3, 6])

    def test_links(self):
        text = "[a](b.md#c) [d](https://e) [f](../g)\n```\n[h](i)\n```\n[j](#k)"
        self.assertEqual(list(tidy.links_of("x/y.md", text)),
                         [("b.md", "x/b.md"), ("../g", "g")])


class Lines(unittest.TestCase):
    def test_counts_what_people_write(self):
        code = b"a\n\nb\n"
        found = [("bench/gate/a.cpp", code), ("bench/gate/a_test.cpp", code), ("kvproof", code),
                 ("bench/gate/faults.jsonl", code), ("bench/README.md", code), ("LICENSE", code),
                 ("properties/sources/traces/vectors/a.jsonl", code),
                 ("bench/gate/deep/bugs.tsv", b"x\ty"),
                 ("properties/engines/findings/a.md", b"Why:\n\n```\none\ntwo\n```\nprose\n")]
        self.assertEqual(LINES.count(found), {"bench/gate": [7, 3], ".": [3, 0],
                                              "properties/engines": [2, 0]})

    def test_names_the_room_the_lines_and_the_limit(self):
        limits = LINES.rounded({"a/b": [51, 50], "c": [1, 0]})
        self.assertEqual(limits, {"a/b": [100, 50], "c": [50, 0], "sum": [200]})
        self.assertEqual(LINES.complaints({"a/b": [100, 50], "c": [50, 0]}, limits), [])
        over = {"a/b": [100, 51], "new": [1, 0]}
        self.assertEqual(LINES.complaints(over, {**limits, "sum": [9]}),
                         [".ci/rooms.tsv: a/b: 51 lines of tests, at most 50",
                          ".ci/rooms.tsv: new: 1 lines of product, at most 0",
                          ".ci/rooms.tsv: sum: the rooms have 200 lines, at most 9"])

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_lists_the_commits_that_raised_the_sum(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".ci").mkdir()
            LINES.git("init", "-q", root=root)
            for subject, most, all_most in (("first", 50, 50), ("raise", 50, 100),
                                            ("use", 100, 100), ("both", 150, 150)):
                (root / LINES.LIMITS).write_text(
                    f"room\tproduct\ttests\na\t{most}\t0\nsum\t{all_most}\n", encoding="utf-8")
                LINES.git("add", "-A", root=root)
                LINES.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", subject,
                          root=root)
            found = [(commit.split()[1], *rest) for commit, *rest in LINES.raises(root)]
            self.assertEqual(found, [("both", 100, 150, True), ("raise", 50, 100, False)])
            (root / "more.py").write_text("x\n" * 200, encoding="utf-8")
            (root / "CONTRIBUTING.md").write_text("", encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "the sum would rise from 150 to 200"):
                LINES.write(root)


if __name__ == "__main__":
    unittest.main()
