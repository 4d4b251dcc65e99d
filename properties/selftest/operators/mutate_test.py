#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each class of operator mutants is found where it compiles and nowhere else, keeps its id, and
takes effect alone when its switch is on."""
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

SOURCE = """#include <optional>
namespace sample {
struct Explicit {
  int value;
  explicit operator bool() const { return value != 0; }
};
template <class T>
struct Box {
  static constexpr int kFixed = 3;
  int field = 5;
  bool less(T a, T b) const { return a < b; }
  static_assert(kFixed < 4);
};
int pair(int first, int second) { return 10 * first + second; }
int calls(int x) { return pair(x, 4); }
bool logic(bool a, bool b) { return a && !b; }
int deleted(int n) {
  for (int i = 0; i < 4; ++i) {
    if (i == 2) continue;
    n -= 1;
  }
  if (n < 0) return 7;
  return n;
}
void audit(int& n) { n += 1; }
void audited(int& n) { audit(n); }
int condition(Explicit e) {
  if constexpr (sizeof(int) == 4) {
    if (e) return 1;
  }
  return 0;
}
int chosen(int n) {
  switch (n) {
    case 8: return 80;
    default: return 0;
  }
}
int prefetch_two(const int* n) { return n[0] + n[1]; }
int ended(const int* n) {
  prefetch_two(n);
  int out = *n;
  switch (out) {
    case 9: out = 90; break;
    default: out = 70; break;
  }
  return out;
}
int sized() {
  int array[6] = {};
  return array[0];
}
template struct Box<int>;
template struct Box<std::optional<int>>;
}  // namespace sample
"""
MAIN = """#include <cstdlib>
#include <iostream>
#include "sample/a.cpp"
namespace kvproof::mutants {
std::uint32_t active = 0;
bool met[100];
}
int main(int, char** words) {
  kvproof::mutants::active = static_cast<std::uint32_t>(std::atoi(words[1]));
  std::cout << sample::calls(2) << ' ' << sample::logic(true, false) << sample::logic(true, true)
            << ' ' << sample::deleted(9) << ' ' << sample::condition({1}) << ' '
            << sample::Box<int>().field << ' ' << sample::Box<int>().less(1, 1) << '\\n';
}
"""


class Folder:
    """A folder of sources, and its mutated copy."""

    def __init__(self, path, source, name="a.cpp"):
        self.path = path
        (path / "sample").mkdir()
        (path / "sample" / name).write_text(source, encoding="utf-8")
        self.done = subprocess.run(
            [sys.executable, "-B", HERE / "mutate.py", "--clang=clang++", "--compiler=c++",
             "--namespace=sample", "--leave-out=other", path / "sample", path / "copy", "--",
             f"-I{ROOT}"], capture_output=True, text=True, check=False)

    def rows(self):
        """(class, change, text, id, number) of each mutant"""
        table = (self.path / "copy" / "sample" / "mutants.inc").read_text(encoding="utf-8")
        row = re.compile(r'\{(\d+), "(\w+)", "[^"]*", \d+, "[^"]*", "(\w+)", "([^"]*)", "(.*)", '
                         r'\d+\},')
        return [(m[3], m[4], m[5], m[2], int(m[1])) for m in row.finditer(table)]


class Mutate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Folder(Path(cls.scratch.name), SOURCE)
        cls.rows = cls.folder.rows() if cls.folder.done.returncode == 0 else []

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def changes(self, operator):
        return {(change, text) for found, change, text, _, _ in self.rows if found == operator}

    def test_it_says_how_many(self):
        self.assertEqual(self.folder.done.returncode, 0, self.folder.done.stderr)
        self.assertEqual(self.folder.done.stdout,
                         f"{len(self.rows)} operator mutants in 1 files; 0 more do not compile\n")

    def test_relational(self):
        self.assertEqual(self.changes("relational"), {
            ("!= to ==", "return value `!=` 0"), ("< to <=", "i `<` 4"), ("< to >=", "i `<` 4"),
            ("== to !=", "i `==` 2"), ("< to <=", "n `<` 0"), ("< to >=", "n `<` 0")},
            "`a < b` is left alone, because one instance compares classes")

    def test_arithmetic(self):
        self.assertEqual(self.changes("arithmetic"), {
            ("* to /", "return 10 `*` first + second"), ("+ to -", "return 10 * first `+` second"),
            ("-= to +=", "n `-=` 1")}, "neither the step of the loop nor audit()")

    def test_logical(self):
        self.assertEqual(self.changes("logical"), {
            ("&& to ||", "return a `&&` !b"), ("&& to its left side", "return `a && !b`"),
            ("&& to its right side", "return `a && !b`"), ("! removed", "return a && `!`b"),
            ("negated", "`e`")})

    def test_constants(self):
        constants = {change for change, _ in self.changes("constant")}
        self.assertLessEqual({"0 to 1", "4 to 5", "4 to 3", "10 to 11", "80 to 81", "5 to 6"},
                             constants)
        self.assertFalse({"8 to 9", "6 to 7", "3 to 4"} & constants,
                         "a label, the size of an array and a constexpr value are the compiler's")

    def test_statements(self):
        self.assertEqual(self.changes("statement"), {
            ("deleted", "`continue;`"), ("deleted", "`n -= 1;`"), ("deleted", "`return 7;`"),
            ("deleted", "`return 1;`"), ("deleted", "`out = 90;`"), ("deleted", "`break;`"),
            ("deleted", "`out = 70;`")},
            "not the last return and break, not audit(), and nothing that prefetches")
        self.assertEqual(sum("break" in row[2] for row in self.rows), 1)

    def test_arguments(self):
        self.assertEqual(self.changes("argument"), {("swapped", "return pair(`x, 4`)")})

    def test_each_switch_changes_what_it_says_alone(self):
        path = self.folder.path
        (path / "driver").mkdir()
        main = path / "driver" / "main.cpp"  # not beside the original
        main.write_text(MAIN, encoding="utf-8")
        program = path / "main"
        subprocess.run(["c++", "-std=c++20", "-w", f"-I{path / 'copy'}", f"-I{ROOT}",
                        main, "-o", program], check=True)

        def output(change, text):
            numbers = [n for _, c, t, _, n in self.rows if (c, t) == (change, text)]
            self.assertEqual(len(numbers), 1, (change, text))
            return subprocess.run([program, str(numbers[0])], capture_output=True, text=True,
                                  check=True).stdout
        none = subprocess.run([program, "0"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(none, "24 10 6 1 5 0\n")
        for change, text, said in (
                ("swapped", "return pair(`x, 4`)", "42 10 6 1 5 0\n"),
                ("+ to -", "return 10 * first `+` second", "16 10 6 1 5 0\n"),
                ("&& to its left side", "return `a && !b`", "24 11 6 1 5 0\n"),
                ("deleted", "`continue;`", "24 10 5 1 5 0\n"),
                ("negated", "`e`", "24 10 6 0 5 0\n"),
                ("5 to 6", "int field = `5`", "24 10 6 1 6 0\n")):
            self.assertEqual(output(change, text), said, (change, text))

    def test_ids_stay_while_other_text_changes(self):
        with tempfile.TemporaryDirectory() as scratch:
            again = Folder(Path(scratch), "// A remark.\nnamespace sample {\n"
                           "int more(int x) { return x * 3; }\n}\n" + SOURCE)
            ids = {row[3] for row in self.rows}
            self.assertEqual(len(ids), len(self.rows))
            self.assertLessEqual(ids, {row[3] for row in again.rows()})

    def test_what_does_not_compile_is_left_out_and_counted(self):
        with tempfile.TemporaryDirectory() as scratch:
            source = ("namespace sample {\nstruct Way {\n  int to;\n};\n"
                      "int walk(Way& from, const Way& by) { from = by; return from.to; }\n"
                      "int go(Way& a, const Way& b) { return walk(a, b); }\n}\n")
            folder = Folder(Path(scratch), source)
            self.assertEqual(folder.done.stdout,
                             "1 operator mutants in 1 files; 1 more do not compile\n",
                             folder.done.stderr)

    def test_it_refuses_in_one_line(self):
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                [sys.executable, "-B", HERE / "mutate.py", "--clang=no-such-clang",
                 "--compiler=c++", "--namespace=sample", scratch, scratch],
                capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn("no-such-clang is not here", done.stderr)


if __name__ == "__main__":
    if shutil.which("clang++") is None:
        print("skipped: the syntax trees need clang++, which is not here")
        sys.exit(77)
    unittest.main()
