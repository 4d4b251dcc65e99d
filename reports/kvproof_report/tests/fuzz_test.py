# SPDX-License-Identifier: Apache-2.0
"""Result files changed at random: each is drawn, or refused in one line; nothing else may happen.

    python3 -m kvproof_report.tests.fuzz_test [SECONDS [SEED]]    # 15 seconds of seed 1
"""

import contextlib
import copy
import gzip
import json
import os
import random
import sys
import tempfile
import time
import traceback
import unittest
import warnings
from typing import Any
from unittest import mock

from kvproof_report.common.result_files import load, paths_in
from kvproof_support.files import InputError
from kvproof_report.draw import drawing
from kvproof_report.page import page
from kvproof_report.page.programs import pngs_of
from kvproof_report.tests import sample_results
from kvproof_report.tests.support import machines_of_the_gallery

SECONDS, SEED = 15, 1
MOST_SECONDS = 20  # of the processor, for one page
MOST_ROWS = 40  # of one file: a page of many takes long

NUMBERS = (0, 1, 2, 3, 7, 16, 1000, 65536, -1, -0.5, 0.5, 1 / 3, 0.999999, 1.0, 100.0, 1e-9, 1e-40,
           1e-99, 1e-101, 1e-300, 5e-324, 1e9, 1e15, 1e19, 1e20, 1e300, 10 ** 400,
           2 ** 31, 2 ** 53, 2 ** 53 + 1, 2 ** 63, 2 ** 64, 2 ** 64 + 1)
TEXTS = ("", "a", "-", " ", "x" * 40, "x" * 999, "x" * 1001, "$x$", "$\\frac{", "a_b^c", "\\$",
         "<b>&\"'", "%s {0}", "a\nb", "\x00", "\x1b[31m", "\ud800", "\ufffe", "\u202e",
         "\u65e5\u672c", "\U0001f642" * 30, "e\u0301",
         "I1", "I1 I2", "I", "A", "optimized/", "broken", "BROKEN", "VACUOUS: x", "holds", "naive",
         "survived", "expected", "other_law", "crash", "worse", "cannot_tell", "xxh3-128", "hnd",
         "paged", "infinite", "lru", "optimum", "mooncake_conversation")
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [1], {"a": 1}, [[[]]])


def documents():
    """Of the samples and of the gallery, by name."""
    found = {name: sample_results.document(name) for name in sample_results.MADE}
    for folder in machines_of_the_gallery():
        for path in paths_in(folder):
            with gzip.open(path, "rb") as stream:
                found[os.path.relpath(path, os.path.dirname(folder))] = json.load(stream)
    return found


class Changer:
    """Changes a document here and there."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self):
        kind = self.random.random()
        if kind < 0.6:
            return self.random.choice(NUMBERS)
        return copy.deepcopy(self.random.choice(TEXTS if kind < 0.9 else OTHERS))

    def near(self, value):
        """A value of the same type: most others are refused at once."""
        if isinstance(value, str):
            return self.random.choice(TEXTS)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.random.choice((*NUMBERS, value * 2, value // 3, -value, value + 1))
        return self.value()

    def change(self, document):
        rows = document["results"]
        self.random.shuffle(rows)
        del rows[self.random.choice((1, 2, 5, MOST_ROWS)):]
        for _ in range(self.random.choice((0, 1, 1, 2, 3, 8))):
            row = self.random.choice(rows)
            change = self.random.choice((
                self.change_metric, self.change_metric, self.change_metrics, self.change_all,
                self.change_parameter, self.change_parameter, self.change_environment,
                self.change_rows, self.change_names))
            with contextlib.suppress(AttributeError, KeyError, TypeError):
                change(document, row)  # of what an earlier change has left there

    def change_metric(self, document, row):
        name, metric = self.random.choice(list(row["metrics"].items()) or [("", {})])
        field = self.random.choice(("value", "value", "value", "unit", "min", "max"))
        if field == "value" and self.random.random() < 0.5:
            metric.pop("min", None)
            metric.pop("max", None)
        if metric:
            metric[field] = self.near(metric.get(field, metric["value"]))

    def change_metrics(self, document, row):
        """One metric of all results of an experiment."""
        name = self.random.choice(list(row["metrics"]) or [""])
        value = self.near(row["metrics"].get(name, {}).get("value"))
        for other in document["results"]:
            if other["experiment"] == row["experiment"] and name in other["metrics"]:
                other["metrics"][name] = {"value": value, "unit": "count"}

    def change_all(self, document, row):
        """All metrics that are there, to numbers that most of them may have."""
        numbers = self.random.sample((0, 1e-100, 1e-9, 0.5, 1, 3, 1e9, 2 ** 53), 2)
        for other in document["results"]:
            for metric in other["metrics"].values():
                values = sorted(self.random.choice(numbers) for _ in range(3))
                metric.update(zip(("min", "value", "max"), values))

    def change_parameter(self, document, row):
        name = self.random.choice([*row["parameters"], self.random.choice(TEXTS)])
        row["parameters"][name] = self.near(row["parameters"].get(name))

    def change_environment(self, document, row):
        name = self.random.choice([*document["environment"], self.random.choice(TEXTS)])
        document["environment"][name] = self.near(document["environment"].get(name))

    def change_rows(self, document, row):
        rows = document["results"]
        if self.random.random() < 0.5 and len(rows) > 1:
            rows.remove(row)
        else:
            rows.append(copy.deepcopy(row))
            self.change_parameter(document, rows[-1])

    def change_names(self, document, row):
        names = self.random.choice((row["metrics"], row["parameters"], row))
        name = self.random.choice(list(names) or [""])
        kept = names.pop(name, None)
        if self.random.random() < 0.5:
            names[self.random.choice((*TEXTS, *row["metrics"]))] = kept


def fault_of(document, folder, with_pictures):
    """What went wrong with a page of the document; None if it was drawn or refused in one line."""
    path = os.path.join(folder, "a.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(document, stream)
    begin, said, absent = time.process_time(), [], {}
    try:
        with mock.patch("traceback.print_exc", lambda: said.append(traceback.format_exc())), \
                warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            drawing.use_style()
            results = load([path])
            page.render(results, absent).encode("utf-8")
            if with_pictures:
                pngs_of(results, absent, folder)
    except InputError as error:
        if not str(error).isprintable() or len(str(error)) > 1000:
            return f"not a line: {str(error)[:1000]!r}"
    except Exception:
        return traceback.format_exc()
    else:
        if said or warned:
            return "".join(said) or f"warned: {warned[0].message}"
    took = time.process_time() - begin
    return f"took {took:.0f} s" if took > MOST_SECONDS else None


class FuzzTest(unittest.TestCase):
    def test_changed_files_are_drawn_or_refused_in_one_line(self):
        originals = documents()
        names = sorted(originals)
        end = time.monotonic() + SECONDS
        rounds = 0
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < end:
                seed = SEED * 1_000_000 + rounds
                document = copy.deepcopy(originals[names[rounds % len(names)]])
                Changer(seed).change(document)
                fault = fault_of(document, folder, with_pictures=rounds % 8 == 0)
                self.assertIsNone(fault, f"{names[rounds % len(names)]}, seed {seed}:\n{fault}\n"
                                  f"{json.dumps(document)[:2000]}")
                rounds += 1
        print(f"{rounds} pages")


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:3]]
    SECONDS, SEED = given + [SECONDS, SEED][len(given):]
    unittest.main(argv=sys.argv[:1])
