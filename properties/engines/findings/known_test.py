#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the known findings: rows, advisories and their index agree, and a row explains nothing
but what it names."""

import re
import sys
import tempfile
import unittest
from pathlib import Path

from kvproof_support import known
from kvproof_support.files import InputError
from kvproof_support.patches import patches

HERE = Path(__file__).resolve().parent
ROW = known.Row("K", "mine", "I9+I10", "r2 holds 3 blocks", "0.9", "0.33.0", where=("plain",))
SAID = {"engine": "mine", "release": "0.10.1", "law": "I9", "reason": "I9: r17 holds 41 blocks.",
        "where": "plain"}


class FilesTest(unittest.TestCase):
    def test_rows_advisories_and_index_have_the_same_ids(self):
        rows = known.read(known.OWN).rows
        pages = {path.name: re.findall(r"KVP-\d+-\d+", path.read_text(encoding="utf-8"))
                 for path in HERE.glob("*.md") if path.name != "README.md"}
        index = re.findall(r"^\| (KVP-\d+-\d+) .*?\]\((\S+?\.md)\)",
                           (HERE / "README.md").read_text(encoding="utf-8"), re.M)
        of_pages = {(row.id, row.page) for row in rows if row.page.endswith(".md")}
        self.assertEqual({(id, page) for page, ids in pages.items() for id in ids[:1]}, of_pages)
        self.assertEqual(sorted(index), sorted(of_pages))
        self.assertEqual(len(of_pages), len(pages), "an advisory has one id")
        self.assertEqual(sorted({row.id for row in rows}),
                         [f"KVP-2026-{n:02}" for n in range(1, len({row.id for row in rows}) + 1)])
        names = [row.name for row in rows if row.name]
        self.assertEqual(len(names), len({*names}))
        for row in rows:
            self.assertTrue(row.engine and row.first and row.last and row.what, row)
            self.assertTrue(row.page.startswith("https://") or row.name or row.page in pages, row)

    def test_a_bad_row_is_refused_by_its_line_and_field(self):
        for text, said in (
                ("3", "line 2: expected a JSON object, found 3"),
                ("[" * 100_000, "line 2: expected a JSON object, found [["),
                (r'{"id":"\ud800","law":"I9"}', "line 2: expected a JSON object, found {"),
                ('{"id":"","law":"I9"}', "line 2: field id: expected a value, found none"),
                ('{"id":"K"}', "line 2: field law: expected a value, found none"),
                ('{"law":"I9"}', "line 2: field id: expected a value, found none"),
                ('{"id":"K","law":"I9,I10"}', "field law: expected ids of laws joined by +"),
                ('{"id":"K","law":"I9","lnk":"l"}', "field lnk: expected one of id, engine, law"),
                ('{"id":"K","law":"I9","where":"plain"}', "field where: expected an array of"),
                ('{"id":"K","law":"I9","says":3}', "field says: expected a string, found 3")):
            with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
                file.write("\n" + text)
                file.flush()
                with self.assertRaisesRegex(InputError, re.escape(said)):
                    known.read(file.name)
        with self.assertRaisesRegex(InputError, "none.jsonl: cannot be read: No such file"):
            known.read("none.jsonl")
        with self.assertRaisesRegex(InputError, "/dev/zero: expected at most 16 MiB"):
            known.read("/dev/zero")
        with self.assertRaisesRegex(InputError, "line 1: expected UTF-8"):
            known.read(sys.executable)

    def test_a_check_is_given_rows_without_its_engine(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            known.write_rows(file.name, [ROW])
            (row,) = known.read_rows(file.name)
        self.assertEqual(row, ROW._replace(engine="", first="", last=""))
        self.assertEqual(known.row_of('{"finding":"I9","reason":"as reported","link":"l"}', ""),
                         known.Row("as reported", law="I9", page="l"))


class KnownTest(unittest.TestCase):
    def test_a_row_explains_what_it_names_and_nothing_else(self):
        told = known.Known([ROW])
        self.assertEqual(told.match(**SAID), ROW)
        for other in ({"engine": "another"}, {"release": "0.33.1"}, {"release": "0.33.0+mend"},
                      {"release": ""}, {"law": "I13"}, {"law": "I9+I13"}, {"where": "window"},
                      {"reason": "r17 hold 41 blocks"}):
            self.assertIsNone(told.match(**SAID | other), other)
        self.assertFalse(ROW._replace(first="9" * 5000).lives_in("0.10.1"))
        for other in ({"release": "0.9"}, {"release": "0.33.0"}, {"law": "I10+I9"}):
            self.assertEqual(told.match(**SAID | other), ROW, other)

    def test_what_explains_nothing_any_more_is_told(self):
        rows = [ROW, ROW._replace(id="gone", law="I5"), ROW._replace(id="a", engine="another"),
                ROW._replace(id="around", name="twice"), ROW._replace(id="read", law="")]
        told = known.Known(rows)
        self.assertEqual(told.match(**SAID), ROW)
        (row,) = told.stale()
        self.assertEqual(row["parameters"]["known"], "gone")

    def test_a_mend_has_an_advisory(self):
        mends = patches(str(HERE.parent / "scheduler"), "seeded.patches")
        MENDS = {name for row in mends for name in row.id.split()}
        told = known.read(known.OWN)
        self.assertTrue(all(map(told.of_page, MENDS)))
        self.assertIsNone(told.of_page("none"))


if __name__ == "__main__":
    unittest.main()
