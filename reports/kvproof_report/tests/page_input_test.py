# SPDX-License-Identifier: Apache-2.0
"""Tests of the page with results that are missing, mixed, at their edges, or malformed."""

import copy
import gzip
import json
import os
from collections import Counter

from kvproof_report.common.result_files import load
from kvproof_report.page.sections import PLOTS
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import DocumentTest, run
from kvproof_report.tests.support import machines_of_the_gallery
from kvproof_support import earlier, results, verdicts


class OtherResultsTest(DocumentTest):
    def page_of(self, *contents):
        return self.draw(*self.write_all(*contents))[2]

    def test_missing_result_is_named_and_the_rest_is_drawn(self):
        files = sample_results.write_all(self.folder, without=("utilisation", "life_cycle"))
        code, said, page = self.draw(
            *files, "--absent=life_cycle=it ended with exit code 7: no <clock>")
        self.assertEqual(code, 1)
        self.assertEqual(said.strip(), "make_page: the page lacks utilisation, life_cycle")
        self.assertIn("This figure is missing: not measured: it ended with exit code 7: no "
                      "&lt;clock&gt;.", page)
        self.assertTrue("no result of utilisation in the given files" in page)
        self.assertEqual(page.count("<svg"), 2 * (len(PLOTS) - 2))

    def test_different_builds_on_one_page_are_pointed_out(self):
        first = sample_results.document("life_cycle")
        second = copy.deepcopy(sample_results.document("utilisation"))
        second["environment"]["commit"] = "fedcba"
        second["environment"]["profile"] = "vllm-0.33"  # the other file is older than this field
        second["environment"]["command"] += " --smoke"
        page = self.page_of(first, second)
        self.assertTrue("differ in their commit share this page: 0123456789abcdef; fedcba." in page)
        self.assertTrue("differ in their profile share this page: vllm-0.24; vllm-0.33." in page)
        self.assertTrue("A smoke run" in page)

    def test_further_experiments_become_tables(self):
        document = sample_results.document("life_cycle")
        document["results"] += [sample_results.result("brand_new", {"case": "a<b"},
                                                      speed=(3.5, "m/s"))]
        page = self.page_of(document)
        self.assertTrue("<summary>Brand new</summary>" in page)
        self.assertTrue("a&lt;b" in page)
        self.assertTrue("speed (m/s)" in page)

    def test_results_at_their_edges_are_drawn(self):
        """One row of each experiment, and rows of zeros: no figure may fail on either."""
        for name in sample_results.NAMES:
            document = sample_results.document(name)
            single = {**document, "results": [
                row for row in document["results"] if row["experiment"] == name][-1:]}
            zeros = copy.deepcopy(document)
            for row in zeros["results"]:
                for name in ("live_tokens", "hit_rate_tokens", "mean_waste_tokens", "waste_share",
                             "used_bytes", "utilisation", "external_fragmentation"):
                    if name in row["metrics"]:
                        row["metrics"][name]["value"] = 0
            for case in (single, zeros):
                code, said, _ = self.draw(*self.write_all(case))
                self.assertEqual((code, said.count("\n")), (1, 1), f"{name}: {said}")

    def test_rows_of_version_0_1_0_are_read_as_they_are_written_today(self):
        if not machines_of_the_gallery():
            self.skipTest("an installation has no gallery")
        found = load([os.path.join(machines_of_the_gallery()[0], "check.json.gz")])
        for experiment, told in (
                ("check", {"holds": 6}), ("check_run", {"holds": 506, "skipped": 180}),
                ("check_law", {"holds": 242, "not_evaluated": 14, "not_applicable": 2})):
            self.assertEqual(Counter(row["verdict"] for row in found.of(experiment)), told)
        reasons = Counter(row.get("reason") for row in found.of("check_law"))
        self.assertEqual(reasons["in part not demanded: it does not show keys, the index, hashes"],
                         2)
        for said, verdict, reason in (
                ("BROKEN", "broken", ""), ("broken, as is known", "known", ""),
                ("VACUOUS: never evaluated", "cannot_tell", "never evaluated"),
                ("holds, 3 times exempted by a trait", "holds", "3 times exempted by a trait"),
                ("not evaluated: no run was about it", "not_evaluated", "no run was about it")):
            row = earlier.present({"experiment": "check_law", "parameters": {"verdict": said},
                                   "metrics": {"checked": 5, "worded": 3}})
            self.assertEqual(row, {"experiment": "check_law", "metrics": {
                "evaluated": 5, "exempted": 3}, "parameters": {
                    "reason": reason, "verdict": verdict}})
            self.assertEqual(earlier.present(row), row)
        row = {"experiment": "check", "parameters": {}, "metrics": {"verdict": {"value": []}}}
        self.assertEqual(earlier.present(row), row, "the reader names the mistake")

    def test_verdicts_are_the_same_in_both_languages(self):
        self.assertEqual([*results.describe()["verdicts"].items()],
                         [*verdicts.EXIT_CODES.items()])

    def test_byte_order_mark_and_ends_of_lines_of_another_system_are_accepted(self):
        document = json.dumps(sample_results.document("life_cycle"), indent=1)
        content = b"\xef\xbb\xbf" + document.replace("\n", "\r\n").encode()
        self.assertEqual(self.page_of(content), self.page_of(document))

    def test_malformed_files_are_named_with_field_and_expectation(self):
        good = sample_results.document("life_cycle")

        def broken(change):
            document = copy.deepcopy(good)
            change(document)
            return document

        def metric(document):
            return document["results"][0]["metrics"]["ns_per_block"]

        cases = [
            ("", "line 1, column 1: expected JSON"),
            ('{"schema":1,\n "environment"', "line 2, column 15: expected JSON"),
            ('{"schema": NaN}', "NaN"),
            ("[" * 100_000, "expected less nesting"),
            (b'{"schema": 1,\n "environment": {"cpu": "\xff"}', "line 2: expected UTF-8"),
            ('{"schema": 1, "environment": {"cpu": "\0"}}', "line 1, column 39: expected JSON"),
            ("\0", "line 1, column 1: expected JSON"),
            ('{"schema":1,"environment":{},"results":[' + "9" * 5000 + "]}", "expected JSON"),
            ([], "the document: expected an object"),
            (broken(lambda d: d.update(schema=2)), "schema: expected 1"),
            (broken(lambda d: d.update(schema=True)), "schema: expected 1"),
            (broken(lambda d: d.pop("environment")), "environment: expected an object"),
            (broken(lambda d: d["environment"].update(memory_bytes=10 ** 400)),
             "environment.memory_bytes: expected a text"),
            (broken(lambda d: d["environment"].update(cpu="\ud800")),
             "environment.cpu: expected a text of at most 100000 printable characters"),
            (broken(lambda d: d["environment"].update(cpu=[[]])), "environment.cpu: expected"),
            (broken(lambda d: d["environment"].update({"a\nb": 1})),
             "environment.a?b: expected a name of printable characters"),
            (broken(lambda d: d.update(results={})), "results: expected a list"),
            (broken(lambda d: d["results"].append(3)), "results[8]: expected an object"),
            (broken(lambda d: d["results"][0].pop("experiment")),
             "results[0].experiment: expected a name"),
            (broken(lambda d: d["results"][0].update(parameters=[])),
             "results[0].parameters: expected an object"),
            (broken(lambda d: d["results"][0]["parameters"].update(x=[1])),
             "results[0].parameters.x: expected a text"),
            (broken(lambda d: d["results"][0]["parameters"].update(x="\ud800")),
             "results[0].parameters.x: expected a text"),
            (broken(lambda d: d["results"][0]["parameters"].update(x="\0")),
             "results[0].parameters.x: expected a text"),
            (broken(lambda d: d["results"][0]["parameters"].update(x=2 ** 64 + 1)),
             "results[0].parameters.x: expected a text of at most 1000 printable characters, a "
             "finite number, at most 2^64 in size"),
            (broken(lambda d: d["results"][0]["parameters"].update(num_blocks=2 ** 64)),
             "results[0].parameters.num_blocks: expected a whole number above 0, at most 2^53"),
            (broken(lambda d: d["results"][0].update(experiment="\ud800")),
             "results[0].experiment: expected a name"),
            (broken(lambda d: metric(d).update(unit="\ud800")),
             "results[0].metrics.ns_per_block.unit: expected a text"),
            (broken(lambda d: metric(d).update(min=-1)),
             "results[0].metrics.ns_per_block.min: expected a number above 0"),
            (broken(lambda d: d["results"][0]["metrics"].update(
                {f"m{n}": metric(d) for n in range(201)})),
             "expected at most 200 different names of parameters and metrics of life_cycle"),
            (broken(lambda d: metric(d).update(value="4")),
             "results[0].metrics.ns_per_block.value: expected a finite number"),
            (broken(lambda d: metric(d).update(value=10 ** 400)),
             "results[0].metrics.ns_per_block.value: expected a finite number"),
            (broken(lambda d: metric(d).update(value=-1)),
             "results[0].metrics.ns_per_block.value: expected a number above 0"),
            (broken(lambda d: metric(d).pop("unit")),
             "results[0].metrics.ns_per_block.unit: expected a text"),
            (broken(lambda d: metric(d).update(min=600)),
             "results[0].metrics.ns_per_block.min: expected at most the max"),
            (broken(lambda d: d["results"][0]["metrics"].pop("ns_per_block")),
             "results[0].metrics.ns_per_block: expected this metric"),
        ]
        for content, expected in cases:
            path = self.write("a.json", content)
            code, said, page = self.draw(path)
            self.assertEqual((code, said.count("\n"), page), (2, 1, ""), said)
            self.assertIn(path, said)
            self.assertIn(expected, said)

    def test_packed_file_that_is_not_gzip_is_named(self):
        whole = gzip.compress(json.dumps(sample_results.document("life_cycle")).encode())
        for content in (b"{}", whole[:-9], whole[:20] + b"\xff" * 40 + whole[60:]):
            path = self.write("a.json.gz", content)
            code, said, _ = self.draw(path)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn(f"{path}: the file: expected gzip", said)

    def test_a_case_that_is_there_twice_is_named(self):
        document = sample_results.document("life_cycle")
        first, second = self.write_all(document, document)
        code, said, _ = self.draw(first, second)
        self.assertEqual((code, said), (2, f"make_page: {second}: results[0]: expected one result "
                                        f"per case; {first} has this one too\n"))

    def test_more_than_a_page_can_show_is_refused(self):
        document = sample_results.document("utilisation")
        row = document["results"][0]
        document["results"] = [{**row, "parameters": {**row["parameters"], "requests": n}}
                               for n in range(1, 40)]
        self.assertIn("results[32]: expected at most 32 results of utilisation",
                      self.draw(*self.write_all(document))[1])
        document = sample_results.document("waste_against_block_size")
        row = document["results"][0]
        document["results"] = [{**row, "parameters": {"block_size": 1, "workload": f"w{n}"}}
                               for n in range(40)]
        self.assertIn("results[32].parameters.workload: expected at most 32",
                      self.draw(*self.write_all(document))[1])

    def test_wrong_parameters_of_each_experiment_are_named(self):
        for experiment, parameter, value in (
                ("memory_of_one_request", "tokens", -1), ("memory_of_models", "context_tokens", 0),
                ("utilisation", "storage", "elastic"),
                ("waste_against_block_size", "block_size", 0), ("live_memory", "seconds", "soon"),
                ("prefix_hit_rate", "source", ""), ("pool_operation", "num_blocks", None),
                ("mutant", "fate", "noticed"), ("mutant", "laws", ""),
                ("mutant", "where", None), ("exhaustive", "space", 3),
                ("check_law", "verdict", "")):
            document = sample_results.document(experiment)
            document["results"][0]["parameters"][parameter] = value
            code, said, _ = self.draw(*self.write_all(document))
            self.assertEqual(code, 2)
            self.assertIn(f"results[0].parameters.{parameter}: expected", said)

    def test_usage_errors_are_one_line(self):
        good, = self.write_all(sample_results.document("life_cycle"))
        for arguments, expected in (
                ([], "expected at least one result file"), (["--bogus"], "unrecognized"),
                ([self.path("absent.json")], "cannot be read"),
                ([good, "--output=/proc/no/page.html"], "/proc/no/page.html: cannot be written"),
                ([good, "--output="], "--output: expected a value"),
                ([good, "--output=a", "--output=b"], "--output is given twice"),
                ([good, "--outp=a"], "unrecognized arguments: --outp=a"),
                ([good, "--absent=nothing=why"], "--absent=nothing: expected one of live_memory"),
                ([good, "--absent=check"], "--absent=check: expected PART=REASON"),
                ([good, "--png", "--output=/dev/stdout"], "--png writes beside the page")):
            code, said = run(*arguments)
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn(expected, said)
