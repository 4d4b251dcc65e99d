# SPDX-License-Identifier: Apache-2.0
"""The source tree obeys its rules, and each rule refuses what it must."""
import re
import subprocess
import unittest
from pathlib import Path

import tidy

ROOT = Path(__file__).resolve().parents[1]
TREE = tidy.read_tree(ROOT)


class Tree(unittest.TestCase):
    def test_is_read(self):
        self.assertGreater(len(TREE), 300)
        for path in ("CMakeLists.txt", "kvproof", ".ci/run", ".cmake/targets.cmake",
                     "reference/ids.h", ".ci/tidy.py"):
            self.assertIn(path, TREE)

    def test_obeys(self):
        complaints = (tidy.check_includes(TREE) + tidy.check_rooms(TREE) +
                      tidy.check_imports(TREE) +
                      tidy.check_lengths(TREE) + tidy.check_no_dead_files(TREE) +
                      tidy.check_words(TREE) +
                      tidy.check_tiers(TREE) + tidy.check_named_programs(TREE) +
                      tidy.check_no_global_state(TREE, tidy.KEPT_STATE))
        self.assertEqual(complaints, [], "\n".join(complaints))

    def test_has_one_version(self):
        version = re.search(r"(?m)^set\(KVPROOF_VERSION (\S+)\)$", TREE["CMakeLists.txt"]).group(1)
        said = subprocess.run([str(ROOT / "kvproof"), "version"], capture_output=True, text=True,
                              check=True).stdout
        self.assertEqual(said, f"kvproof {version}\n")
        python = version.replace("-dev", ".dev0")  # PEP 440
        self.assertIn(f'\nversion = "{python}"', (ROOT / "pyproject.toml").read_text())
        self.assertIn(f"\n## {version.removesuffix('-dev')}", (ROOT / "CHANGELOG.md").read_text())


class Rules(unittest.TestCase):
    def refuses(self, check, what, files):
        self.assertRegex("\n".join(check(files)), what)

    def accepts(self, check, files):
        self.assertEqual(check(files), [])

    def test_includes(self):
        check = tidy.check_includes
        self.refuses(check, "reference/a.h:1: includes optimized/b.h",
                     {"reference/a.h": '#include "optimized/b.h"\n'})
        self.refuses(check, "kernels/op/a.cu:2: includes bench/b.h",
                     {"kernels/op/a.cu": "\n#  include <bench/b.h>\n"})
        self.refuses(check, "quotes b.h", {"bench/a.h": '#include "b.h"\n'})
        self.refuses(check, "quotes", {"bench/a.h": '#include "../reference/b.h"\n'})
        self.refuses(check, "none of the project's folders", {"utilities/a.h": ""})
        self.refuses(check, "optimized/part.h:1: an include of it leads back", {
            "optimized/whole.h": '#include "optimized/part.h"\n',
            "optimized/part.h": '#include "optimized/whole.h"\n'})
        self.accepts(check, {"optimized/a.cpp": '#include "optimized/b.h"\n#include <map>\n'
                                                '#include "reference/c.h"\n'})

    def test_rooms(self):
        check = tidy.check_rooms
        self.refuses(check, "laws/a.h:1: laws uses audit; ROOMS has no such arrow",
                     {"properties/laws/a.h": '#include "properties/audit/b.h"\n'})
        self.refuses(check, "story/c.py:2: story uses engines", {
            "properties/story/c.py": "import sys\nfrom recorder import Recorder\n",
            "properties/engines/kit/recorder.py": "import sys\n"})
        self.refuses(lambda files: tidy.check_rooms(files, {"x": {"a": "b", "b": ""}}),
                     "a may use b, which does not come before it", {})
        self.refuses(check, "attic is none of the ROOMS",
                     {"properties/attic/a.h": "int a;\n"})
        self.accepts(check, {"properties/laws/a_test.cpp": '#include "properties/check/b.h"\n',
                             "properties/check/a.h": '#include "properties/laws/laws.h"\n'})

        engines = "properties/engines/"
        self.refuses(check, "kit/a.h:1: kit uses live",
                     {f"{engines}kit/a.h": f'#include "{engines}live/b.h"\n'})
        self.refuses(check, "live/a.py:1: live uses scheduler", {
            f"{engines}live/a.py": "import drive\n", f"{engines}scheduler/drive.py": ""})
        self.refuses(check, "findings/a.py:1: findings uses kit", {
            f"{engines}findings/a.py": "from kvproof.live import hooks\n",
            f"{engines}kit/kvproof/__init__.py": ""})

        package = "reports/kvproof_report/"
        self.refuses(check, "a.py:2: draw uses page",
                     {f"{package}draw/a.py": "\n    from kvproof_report.page.c import d\n"})
        self.refuses(check, "a_test.py:1: draw uses figures",
                     {f"{package}draw/a_test.py": "from kvproof_report import (figures\n"})
        self.accepts(check, {f"{package}draw/a.py": "from kvproof_report.common.e import f\n"
                                                    "from kvproof_report.draw import b\n"})

    def test_imports(self):
        check = tidy.check_imports
        for change in (".append(folder)", ".insert(0, folder)", "[:0] = [folder]", " += [folder]"):
            self.refuses(check, "bench/a.py:2: changes where", {
                "bench/a.py": f"\nsys.path{change}\n"})
        self.refuses(check, "bench/a.py:1: an import of it leads back", {
            "bench/a.py": "import b\n", "bench/b.py": "def f():\n    from a import g\n"})
        self.refuses(check, "kit/p/q.py:1: an import of it leads back", {
            "kit/p/__init__.py": "", "kit/p/q.py": "from p import os, r\n",
            "kit/p/r.py": "import p.q\n"})
        self.accepts(check, {"kit/p/__init__.py": "", "kit/p/q.py": "import q\n"})
        self.accepts(check, {"bench/a.py": "import b\n", "bench/b.py": "import os, c\n",
                             "kernels/c.py": "import b\nassert 'c' not in sys.path\n"})

    def test_lengths(self):
        check = tidy.check_lengths
        self.refuses(check, "a.py:2: 101 columns", {"bench/a.py": "\n" + "x" * 101})
        self.accepts(check, {"bench/a.py": "\u00e9" * 100, "bench/a.h": "\n" * 2000})
        body = "  step();\n" * 58
        self.accepts(check, {"bench/a.cpp": "int f(int a) {\n" + body + "}\n"})
        for head in ("int f(int a) {\n", "TEST(A, B) {\n",
                     "template <class T>\nint C<T>::f(T a,\n  T b) {\n",
                     "static auto f()\n    -> int {\n", "C::C(int a)\n    : a_(a), b_({1}) {\n"):
            self.refuses(check, "a.cpp:1: a function of 6",
                         {"bench/a.cpp": head + body + "  step();\n}\n"})
        self.refuses(check, "a.h:3: a function of 61", {
            "bench/a.h": "class A {\n public:\n  int f() {\n" + "    g();\n" * 59 + "  }\n};\n"})
        for head in ("namespace a {\n", "struct A {\n", "class A : public B<int()> {\n",
                     "template <class T>\nstruct A {\n", "constexpr A kRows[] = {\n"):
            self.accepts(check, {"bench/a.h": head + "  int a = f(1);\n" * 80 + "};\n"})

    def test_dead_files(self):
        check = tidy.check_no_dead_files
        build = {"bench/CMakeLists.txt": "x(a.cpp sub/c.cpp)"}
        self.accepts(check, {**build, "bench/a.cpp": "", "bench/sub/c.cpp": ""})
        glob = {"bench/CMakeLists.txt": "file(GLOB suites *_bench.cpp)"}
        self.accepts(check, {**glob, "bench/sub/a_bench.cpp": ""})
        self.refuses(check, "bench/a.cpp", {**glob, "bench/a.cpp": ""})
        for path in ("bench/b.cpp", "bench/c.cpp", "bench/sub/a.cpp", "optimized/a.cpp"):
            self.refuses(check, path, {**build, path: ""})
        self.refuses(check, "included by no file", {"bench/a.h": ""})
        self.refuses(check, "bench/a.py", {"bench/a.py": "a.py", "CMakeLists.txt": "data.py"})
        self.accepts(check, {"bench/a.h": "", "bench/b.cpp": '#include "bench/a.h"',
                             "bench/a.py": "", "bench/CMakeLists.txt": "b.cpp a.py"})

    def test_words(self):
        for words in ("// TO" "DO: it", "int a;  // FIX" "ME", "good for" " now.", "a st" "ub.",
                      "not" " implemented", "#if " "0"):
            self.refuses(tidy.check_words, "a.h:2:", {"bench/a.h": "\n" + words + "\n"})
        self.accepts(tidy.check_words, {"bench/a.h": "mkstemp(XXXXXX), stubborn, for nowhere"})

    def test_tiers(self):
        self.refuses(tidy.check_tiers, "bench/CMakeLists.txt:1:",
                     {"bench/CMakeLists.txt": "  add_test(NAME a COMMAND a)\n"})
        self.accepts(tidy.check_tiers, {"bench/CMakeLists.txt": "kvproof_test(a SOURCES a.cpp)",
                                        ".cmake/targets.cmake": "  add_test(NAME ${name})"})

    def test_named_programs(self):
        check = tidy.check_named_programs
        build = {"bench/CMakeLists.txt": "kvproof_test(a" "_test"}
        self.refuses(check, "a.cpp:1:", {"a.cpp": 'say("repeat: gone' '_test")', **build})
        self.accepts(check, {"a.cpp": 'say("repeat: a' '_test"); // gone' '_test.cpp', **build})

    def test_global_state(self):
        check = tidy.check_no_global_state
        for text in ("int count = 0;", "inline Meter meter;", "extern bool on;",
                     "static std::vector<int> all;", "  static Machine self;",
                     "  static inline int made = 0;", "thread_local std::size_t at = 0;"):
            self.assertRegex("\n".join(check({"bench/a.cpp": text}, {})), "a.cpp:1: keeps state")
        for text in ("constexpr int kMost = 1;", "static const std::regex kWord(x);",
                     "  int a = 0;", "inline constexpr Row kRows[] = {", "using A = B;",
                     "  static int make(int a);", "int f(int a);", "template class A<B>;",
                     "  static constexpr int kB = 2;"):
            self.assertEqual(check({"bench/a.cpp": text}, {}), [], text)
        self.assertRegex(check({}, {"bench/a.cpp": "why"})[0], "keeps no state")


if __name__ == "__main__":
    unittest.main()
