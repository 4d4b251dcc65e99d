# SPDX-License-Identifier: Apache-2.0
"""Tests of the figures of the serving simulation."""

from kvproof_support.files import InputError
from kvproof_report.draw import drawing
from kvproof_report.draw.plot import rows_of
from kvproof_report.draw.sheet import Words
from kvproof_report.figures import published, serving, serving_memory
from kvproof_report.tests import sample_results
from kvproof_report.tests.page_support import FigureTest

class ServingTest(FigureTest):
    def test_serving_compares_pages_with_max_length_buffers(self):
        text = self.finding(serving.PLOT, self.samples("serving"))
        self.assertEqual(text, (
            "The same 2.10\u202fGB serve 4.00 times as many requests at once with pages as with "
            "max-length buffers (chat: 40.0 against 10.0), 8.00\u202f× with shared prefixes; of "
            "mooncake conversation trace, max-length buffers serve none"))

        def faster(row):
            if row["experiment"] == "serving_run" and row["parameters"]["storage"] == "paged":
                row["metrics"]["running_mean"]["value"] = 25
                row["parameters"]["model"] = "unheard-of"
        text = self.finding(serving.PLOT, self.samples("serving", change=faster))
        self.assertIn("The same 16,000 tokens of memory serve 2.50 times", text)
        without = self.samples("serving", keep=lambda r: r["parameters"]["storage"] != "paged")
        self.assertNotRegex(self.finding(serving.PLOT, without), r"\d")

    def test_a_storage_that_refuses_everything_says_so(self):
        parts = serving.draw.__wrapped__(rows_of(serving.PLOT, self.samples("serving")))
        texts = [part.text for part in parts if isinstance(part, Words)]
        self.assertEqual(texts, [
            "mooncake conversation trace", "Of 2,000 requests so many are refused, as they could "
            "not run even alone: 2,000 (max length)", "chat"])
        _, *others = sample_results.SERVING_STORAGES.values()
        for row, running in zip(parts[1].rows, (0, *others)):
            bar = row.bars[0]
            self.assertEqual((bar.end, bar.text[0][0]),
                             (running, str(running)) if running else (0, "refuses all"))

    def test_memory_is_told_apart_by_cause(self):
        results = self.samples("serving")
        self.assertEqual(self.finding(serving_memory.PLOT, results), (
            "Tokens fill 40\u202f% of the memory with pages, whose partial tails take "
            "1.0\u202f%, and 10\u202f% with max-length buffers, where 45\u202f% is reserved and "
            "not used (chat, mean over time)"))
        rows = rows_of(serving_memory.PLOT, results)
        table = serving_memory.table(rows)
        longest = next(row for row in table.rows if row[1][0] == "contiguous, max length")
        self.assertEqual([text for text, _ in longest[3:]], ["10.0", "0.0", "45.0", "22.5", "22.5"])
        for row in table.rows:
            self.assertAlmostEqual(sum(value for _, value in row[3:]), 1)

    def test_published_titles_state_both_values_and_how_many_agree(self):
        results = self.samples("published")
        found = {plot.key: self.finding(plot, results) for plot in published.PLOTS}
        for key, words in {
                "published-effective-memory": "Tokens fill 96.0\u202f% of the memory with pages "
                "(published 96.3\u202f%)",
                "published-watermark": "from 1,095 to 194 at a watermark of 0.05 and 153 at 0.15",
                "published-concurrency-8b": "with pages 124 requests (52.4 to 309; published 64)",
                "published-first-token": "3 of 4 published values lie in our range or within 10",
                "published-block-size": "3 of 3 published values"}.items():
            self.assertIn(words, found[key])
        self.assertEqual(len(set(found.values())), 8)

    def test_published_value_agrees_up_to_a_tenth_beyond_our_range(self):
        here = self.samples("published").of("published")
        ours = next(row for row in here if row["claim"] == "system_prompt").metrics["here"]
        for value, met in ((ours.low / 1.09, 1), (ours.low / 1.11, 0), (ours.high * 1.09, 1),
                           (ours.high * 1.11, 0)):
            def change(row, value=value):
                row["metrics"]["published"] = {"value": value, "unit": "ratio"}
            text = self.finding(published.PLOTS[5], self.samples("published", change=change))
            self.assertIn(f"; {met} of 1 published", text)

    def test_published_value_may_be_unknown(self):
        results = self.samples("published", change=lambda row: row["metrics"].pop("published"))
        for plot in published.PLOTS:
            plot.draw(rows_of(plot, results), drawing.WIDE)
            self.assertIn("unknown", self.finding(plot, results))

    def test_axis_is_logarithmic_where_values_are_far_apart(self):
        for far, scale in ((30, "log"), (5, "linear")):
            def change(row, far=far):
                row["metrics"]["here"] = {"value": 1, "unit": "count", "max": far}
                row["metrics"].pop("published")
            plot = published.PLOTS[3]
            figure = plot.draw(rows_of(plot, self.samples("published", change=change)), 760)
            self.assertIn(scale, [axes.get_xscale() for axes in figure.axes[1:]])
            self.assertEqual(figure.axes[1].get_xscale(), scale)

    def test_publications_keep_their_names(self):
        rows = self.samples("published").of("published")
        self.assertIn("SGLang pull request 35635: (page - 1) / 2 tokens",
                      {row["source"] for row in rows})

    def test_wrong_file_is_refused_with_its_field(self):
        cases = [
            ("serving", lambda r: r["parameters"].update(storage="shelf"),
             "results[0].parameters.storage: expected one of contiguous_max_length"),
            ("serving", lambda r: r["metrics"].pop("running_mean", None),
             "results[0].metrics.running_mean: expected this metric"),
            ("serving", lambda r: r["metrics"].get("hit_rate_tokens", {}).update(value=2),
             "results[0].metrics.hit_rate_tokens.value: expected a number from 0 to 1"),
            ("published", lambda r: r["metrics"]["published"].update(value=-1),
             "results[0].metrics.published.value: expected a number of 0 or more"),
        ]
        for name, change, expected in cases:
            with self.assertRaises(InputError) as refused:
                self.samples(name, change=change)
            self.assertIn(expected, str(refused.exception))

    def page(self, results, *arguments):
        return self.draw(*(self.path(file.name) for file in results.files), *arguments)

    def test_absent_claim_leaves_the_others(self):
        results = self.samples("published",
                               keep=lambda r: r["parameters"]["claim"] != "watermark")
        code, said, page = self.page(results)
        self.assertEqual(code, 1)
        self.assertIn("published", said)
        self.assertIn('<article id="published-watermark" class="absent">', page)
        self.assertEqual(page.count('<article id="published-'), 8)
        self.assertEqual(page.count("<svg"), 2 * 7)

    def test_what_is_said_of_all_claims_is_said_once(self):
        page = self.page(self.samples("published"))[2]
        for words in (published.FAMILY, ">--json=published.json</span>"):
            self.assertEqual(page[:page.index('id="sources"')].count(words), 1, words)
        other = self.samples("paged_decode")
        for arguments, words in (([], "Published: not part of this run"),
                                 (["--absent=published=why"], "missing: not measured: why")):
            page = self.page(other, *arguments)[2]
            self.assertEqual((page.count(words), page.count('id="published-')), (1, 1))

    def test_failed_part_explains_both_figures_that_it_makes(self):
        _, _, page = self.page(self.samples("published"), "--absent=serving=it ended early")
        self.assertEqual(page.count("missing: not measured: it ended early"), 2)
