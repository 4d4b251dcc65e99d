# SPDX-License-Identifier: Apache-2.0
"""Tests of peers.py without a GPU; those that need PyTorch (its CPU build will do) skip without."""
import contextlib
import importlib.util
import io
import math
import types
import unittest

import peers

MLA = peers.Case("mla", 2, 64, heads=16, kv_heads=1)
WRITE = peers.Case("write", 2, 32, new=32)


class RowsTest(unittest.TestCase):
    def test_every_round_has_everything_once_and_begins_with_another(self):
        rounds = peers.turns(["a", "b", "c"], 4)
        self.assertEqual(["abc", "bca", "cab", "abc"], ["".join(names) for names in rounds])

    def test_cases_have_names_of_their_own(self):
        names = [case.name for case in peers.cases(smoke=False)]
        self.assertEqual(len(names), len(set(names)))

    def test_the_fastest_form_counts_and_being_behind_is_explained(self):
        times = {("kvproof", "cuda/wgmma"): [90, 90, 90], ("kvproof", "cuda/mma"): [20, 40, 30],
                 ("PyTorch", "slow"): [50, 60, 70], ("PyTorch", "fast"): [10, 10, 20],
                 ("FlashInfer", "x"): [1, 1, 1]}
        cycles = {key: [1000 * us for us in found] for key, found in times.items()}
        row = peers.result_of(MLA, "PyTorch", "2", times, ["a: gone", "b: too"], 100, cycles)
        self.assertEqual(["fast", peers.WGMMA, "a: gone; b: too"],
                         [row["parameters"][name] for name in ("form", "binds", "without")])
        self.assertEqual({"value": 2, "unit": "ratio", "min": 1.5, "max": 4},
                         row["metrics"]["ours_over_peer"])
        self.assertEqual((30, 10), tuple(row["metrics"][name]["value"]
                                         for name in ("time", "peer_time")))
        self.assertEqual((90, 30, 30000, 10000), tuple(
            row["metrics"][name]["value"]
            for name in ("wgmma_time", "mma_time", "cycles", "peer_cycles")))
        self.assertEqual("cuda/mma", row["parameters"]["our_form"])
        times["kvproof", "cuda/wgmma"] = [15, 15, 15]
        row = peers.result_of(MLA, "PyTorch", "2", times, [], 100)
        self.assertEqual("cuda/wgmma", row["parameters"]["our_form"])
        self.assertNotIn("binds", row["parameters"])  # what is said of warps is not said of groups
        share = 2 * 64 * 576 * 2 / 10 / 100  # of a copy: bytes over time
        self.assertAlmostEqual(
            share, row["metrics"]["peer_fraction_of_copy_bandwidth"]["value"])

    def test_a_clock_is_a_median_over_the_processors_that_were_stamped_twice(self):
        before = [[100, 1000], [0, 0], [700, 1000], [9, 9], [50, 1000]]
        after = [[3100, 3000], [9, 9], [2700, 2000], [0, 0], [5050, 3000]]
        self.assertEqual(2000, peers.clock_of(before, after))  # of 1.5, 2 and 2.5 GHz
        self.assertEqual(0, peers.clock_of(before, before))

    def test_ours_are_the_rows_of_the_operation(self):
        for case, rows in ((MLA, peers.ROWS), (WRITE, ("cuda/vector",)),
                           (peers.Case("decode", 1), ("cuda/mma",)),
                           (peers.Case("prefill", 1, new=32), peers.ROWS)):
            t = types.SimpleNamespace(case=case)
            self.assertEqual(rows, tuple(peers.our_forms(t, None)))

    def test_without_a_peer_the_reason_stands_beside_our_time(self):
        row = peers.result_of(MLA, "PyTorch", "2", {("kvproof", "cuda"): [3]}, ["a", "b"], 100)
        self.assertEqual("a; b", row["parameters"]["not_comparable"])
        self.assertEqual({"time", "fraction_of_copy_bandwidth"}, set(row["metrics"]))


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class TorchTest(unittest.TestCase):
    def tensors(self, case):
        import torch
        return torch, peers.Tensors(torch, case, "cpu")

    def test_the_reference_is_a_loop_over_tokens(self):
        torch, t = self.tensors(peers.Case("prefill", 1, 16, heads=4, kv_heads=2, new=3))
        key, value = (t.gather(cache, t.tables) for cache in (t.key, t.value))
        out, _ = peers.reference(torch, t.query, key, value, torch.tensor([14, 15, 16]), 0.1)
        for row in range(3):
            for head in range(4):
                score = [0.1 * sum(a * b for a, b in zip(t.query[row, head].tolist(),
                                                         key[i, head // 2].tolist()))
                         for i in range(14 + row)]
                weights = [math.exp(s) / sum(map(math.exp, score)) for s in score]
                for at in (0, 127):
                    self.assertAlmostEqual(float(out[row, head, at]), sum(
                        w * float(value[i, head // 2, at]) for i, w in enumerate(weights)))

    def test_forms_are_checked_and_timed_in_turns_and_wrong_ones_say_why(self):
        for case in (peers.Case("decode", 3, 64), MLA, WRITE,
                     peers.Case("prefill", 1, 96, new=32)):
            _, t = self.tensors(case)

            def broken(of):  # it writes nothing, and zeros are no attention
                return {"off": lambda: lambda: of.output().zero_()}

            class Once:
                def time(self, launches, rounds):
                    return dict.fromkeys(launches, [rounds])
            with contextlib.redirect_stderr(io.StringIO()):
                times, reasons = peers.measure(
                    t, Once(), {"PyTorch": peers.torch_forms, "broken": broken,
                                "cuDNN": lambda of: peers.torch_forms(of, cudnn=True)}, 5)
            self.assertEqual({"PyTorch"}, {name for name, _ in times}, reasons)
            self.assertTrue(reasons["cuDNN"], "there is no cuDNN on a CPU")
            said = [reason.split(":")[0] for reason in reasons.get("PyTorch", [])]
            self.assertEqual(sorted(peers.torch_forms(t)),
                             sorted([*said, *(form for _, form in times)]))
            self.assertRegex(reasons["broken"][0], "off: ValueError: ")


if __name__ == "__main__":
    unittest.main()
