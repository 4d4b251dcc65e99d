# SPDX-License-Identifier: Apache-2.0
"""Documents, help and printed text keep the rules for words, and each rule rejects what it must."""
import unittest
from pathlib import Path

import words

TREE = words.read_tree(Path(__file__).resolve().parents[1])


class Tree(unittest.TestCase):
    def test_is_read(self):
        for path in ("README.md", "kvproof", "bench/verbs/check_report.cpp", "CONTRIBUTING.md",
                     "reports/kvproof_report/figures/engines.py", "properties/sources/fuzz/run.sh"):
            self.assertIn(path, TREE)

    def test_obeys(self):
        found = words.check_forbidden(TREE) + words.check_pages(TREE) + words.check_lengths(TREE)
        self.assertEqual(found, [], "\n".join(found))


class Rules(unittest.TestCase):
    """In these texts ~ stands for nothing, so that this file does not say them itself."""

    def rejects(self, path, text, line=1):
        found = words.check_forbidden({path: text.replace("~", "")})
        self.assertRegex("\n".join(found), f"^{path}:{line}: says ", text)

    def accepts(self, path, text):
        self.assertEqual(words.check_forbidden({path: text.replace("~", "")}), [], text)

    def test_markdown(self):
        for text in ("12 laws had~ a say", "it has~ no say.", "as word~ed there", "in~ turns",
                     "7 laws sp~oke", "it had~\na say", "`12 laws sp~oke`", "```\nit sp~oke\n```"):
            self.rejects("a.md", "\n" + text, 3 if text[0:3] == "```" else 2)
        self.accepts("a.md", "hard say, reworded, in turn, spokes, bespoke, `sp~oke`, laws_sp~oke")
        self.accepts("a.md", '```json\n{"sp~oke":2}\n```\n')

    def test_cxx(self):
        a = "bench/a.cpp"
        self.rejects(a, '\nout << "x" << " had~ a say";', 2)
        self.rejects(a, 'f("it had"  // why\n  " a~ say");')
        self.rejects(a, 'f(R"(\n12 laws sp~oke)");', 2)
        self.rejects(a, "char q = '\"'; f(1'000, \"in~ turns\");")
        self.accepts(a, '// had~ a say\n/* in~ turns */ j["sp~oke"]; f("had", " a~ say");')
        self.accepts(a, '"{\\"sp~oke\\":{}}"; R"({"sp~oke": 1})";')

    def test_python(self):
        self.rejects("a.py", '\nx = f"{n} laws sp~oke"', 2)
        self.rejects("a.py", 'x = ("it had"\n     " a~ say")')
        self.rejects("a.py", '"""Had: laws in~ turns."""\nf(__doc__)')
        self.accepts("a.py", '"""Laws in~ turns."""\nx = {"sp~oke": 1}  # had~ a say')

    def test_others(self):
        self.rejects("kvproof", "x\ncat <<END\nbench|measured in~ turns\nEND", 3)
        self.accepts("properties/a.sh", "x\n# in~ turns\ny  # had~ a say")
        self.rejects("properties/a.js", "say('laws sp~oke');  // in~ turns")

    def of(self, text):
        return [len(found) for _, found in words.sentences(text)]

    def test_sentences(self):
        self.assertEqual(self.of("One two. Three four five.\nSix"), [2, 3, 1])
        self.assertEqual(self.of("one of 0.33.0, e.g. two; and: three! four"), [7, 1])
        self.assertEqual(self.of("# One\ntwo\nthree\n\n- four five\n  six\n- seven"), [1, 2, 3, 1])
        self.assertEqual(self.of("| a b | c. d |\n|---|---:|\n| `x | y` e | f |"),
                         [2, 1, 1, 2, 1])
        self.assertEqual(self.of("`a. b c` is = 5 % ![of](a.png) [`b`, c d](http://e.f/g.h)."), [7])
        self.assertEqual(self.of("```\na b c\n```\nd"), [1])
        self.assertEqual([line for line, _ in words.sentences("\na b\nc. d\ne.\n\nf")], [2, 3, 6])

    def test_lengths(self):
        """Ten sentences of 36 words may stand; the eleventh may not. Only READMEs are asked."""
        ten = {"a/README.md": "a " * 36 + ".\n\n", "README.md": ("a " * 36 + ". ") * 9}
        for path, text in (("b.md", "a " * 36), ("b/README.md", "a " * 35)):
            self.assertEqual(words.check_lengths({**ten, path: text}), [])
        found = words.check_lengths({**ten, "b/README.md": "\n" + "a " * 36})
        self.assertIn("b/README.md:2: 36 words: a a", "\n".join(found))

    def test_pages(self):
        for text in ("Twelve defects stand on 8 pages.", "Each page has a finding.",
                     "A finding is known\nif it has a page in `findings/`."):
            for path in ("README.md", "properties/shadow/README.md",
                         "properties/engines/allocators/vllm.md"):
                self.assertTrue(words.check_pages({path: text}), text)
            self.assertEqual(words.check_pages({"kernels/a.md": text}), [])
        found = words.check_pages({"properties/shadow/a.py": "\nf('1 a finding without a page')"})
        self.assertIn("properties/shadow/a.py:2: ", found[0])
        for text in ("A page has 16 tokens. A finding has an advisory.",
                     "For each finding it draws a lens page."):
            self.assertEqual(words.check_pages({"README.md": text}), [], text)


if __name__ == "__main__":
    unittest.main()
