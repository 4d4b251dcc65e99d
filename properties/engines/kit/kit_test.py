#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the package kvproof: what it makes of the little that an adapter says.

KVPROOF names the program that checks the pools of this file; without it that part is skipped.
KVPROOF_PYTEST names an interpreter that has pytest; default: this one. Where there is none, the
fixture is not tested, and the test says so.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from arrays_engine import (Arrays, ConcealsACopy, CopiesAnother, CopiesAtFork, Hides, NoCopy,
                           WrongCopy, WrongSlot)
from examples.kit_pool import LastOut
from kvproof import EngineAdapter, PageAdapter, RadixAdapter, program
from kvproof.requests import chain

HERE = os.path.dirname(os.path.abspath(__file__))
PLUGINS = os.environ.get("KVPROOF_PLUGINS")


def header(block_size=2, num_blocks=6, **other):
    return {"kvproof_trace": 1, "config": {
        "num_blocks": num_blocks, "enable_caching": True, "max_model_len": 32,
        "hash_block_size": block_size, "groups": [
            {"kind": "full", "block_size": block_size, "eagle": False}], **other}}


def line(*hooks, of=(), told=None, given=(), then=None):
    """A line of kvproof: hooks to call with requests, of which facts are told."""
    return {"hooks": [*hooks], "req": [*of], "is": told or {}, "with": [*given],
            "then": then or {}}


def built(adapter, **other):
    """@return an adapter with an engine, and a request `a` of three tokens"""
    adapter.answer(header(**other))
    adapter.answer(line("build"))
    adapter.answer(line(of="a", told={"a": {"extra": {}, "tokens": [1, 2, 3]}}))
    return adapter


def admit(name, end, hit=(), **facts):
    return line("admit", of=name, told={name: facts}, given=(end, hit),
                then={name: {"holds": True, "granted": end, "room": end}})


class StaleKey(LastOut):
    """Hands blocks out with their keys."""

    def take(self, count):
        if count > len(self.free):
            return None
        out, self.free = self.free[:count], self.free[count:]
        self.refs.update(dict.fromkeys(out, 1))
        return out


class OverCommits(LastOut):
    """Counts the blocks of a hit as free for what comes behind it, and fails when half is done."""

    room = 0

    def hold(self, r, hit):
        self.room, half_done = len(self.free), list(r.own or ())
        found = super().hold(r, hit)
        r.own = half_done + r.own
        return found

    def release(self, r):
        super().release(r)
        r.own = []

    def take(self, count):
        room, self.room = max(self.room, len(self.free)), 0
        return None if count > room else [super(OverCommits, self).take(1)[0]
                                          for _ in range(count)]


class Tree(RadixAdapter):
    """A tree of two levels, and three pages that are not in it."""

    class Item:
        def __init__(self, tokens, slots, lock, *children):
            self.tokens, self.slots, self.lock = tokens, slots, lock
            self.children = dict(enumerate(children))

    def build(self):
        self.root = self.Item([], [], 1, self.Item(
            [5, 6], [2, 3], 2, self.Item([7, 8], [4, 5], 1), self.Item([9, 9], [0, 1], 0)))

    def roots(self):
        return [self.root]

    def shown(self, node):
        return node.tokens, self.pages(node.slots), node.lock

    def unused(self):
        return [4]

    def table(self, r):
        return []

    lookup = hold = grow = release = table


class Half(LastOut):
    """Whatever is taken is an exception two calls deep."""

    def take(self, count):
        return self.pop(count)

    def pop(self, count):
        raise KeyError("no room")


class Dies(Half):
    """Nobody catches what its state raises."""

    def counts(self):
        return self.requests and self.pop(0)


class Forgets(EngineAdapter):
    build = release = lookup = admit = lambda self, *_: None


class Forks(LastOut):
    operations = LastOut.operations + " fork"


class Leaf(RadixAdapter):
    build = lookup = hold = grow = release = table = unused = lambda self, *_: None


class Seven(LastOut):
    take = 7


class NoBuild(LastOut):
    def build(self):
        raise KeyError("no GPU")


class KitTest(unittest.TestCase):
    def test_a_hook_may_decline(self):
        pool = built(LastOut())
        pool.grow = lambda r, end: pool.decline("not on a Sunday")
        self.assertEqual(pool.answer(admit("a", 3)),
                         {"unsupported": True, "reason": "not on a Sunday"})

    def test_a_request_without_facts_is_forgotten(self):
        pool = built(LastOut())
        pool.answer(admit("a", 3))
        pool.answer(line("release", "finish", of="a", then={"a": None}))
        self.assertEqual(pool.requests, {})

    def test_what_an_admission_finds_by_itself_is_granted_with_one_token_more(self):
        pool = built(LastOut())
        pool.admit, pool.table = lambda r, end, hit: 4, lambda r: []
        pool.answer(admit("a", 3, None))
        self.assertEqual((pool.requests["a"].granted, pool.requests["a"].room), (5, 5))

    def test_a_check_asks_for_a_class(self):
        for wrong in ("kit_test.py:LastOut", LastOut()):
            with self.assertRaisesRegex(TypeError, r"kvproof_check\(MyAdapter, .*, found "):
                program.command_of(wrong)

    def test_a_page_is_whole(self):
        engine = PageAdapter()
        engine.size = 2
        self.assertEqual(engine.pages([4, 5, 2]), [2, 1])
        for slots in ([5, 4], [4, 7], [3, 4]):
            with self.assertRaises(ValueError):
                engine.pages(slots)

    def test_a_tree_is_shown_as_keys_and_references(self):
        tree = built(Tree(), num_blocks=6)
        self.assertEqual([*tree.counts()], [(2, 1), (0, 0), (1, 2), (3, 1)])
        self.assertEqual(tree.free_blocks(), [4, 0])
        first, below = chain([5, 6, 7, 8], 2)
        self.assertEqual(tree.keys(), {2: below, 0: chain([5, 6, 9, 9], 2)[1], 1: first})
        self.assertEqual(tree.index()[first], [1])

    def test_keys_differ_where_content_does(self):
        self.assertEqual(chain([1, 2, 3, 4], 2)[:1], chain([1, 2, 9], 2))
        self.assertNotEqual(chain([1, 2, 3, 4], 2)[1], chain([9, 2, 3, 4], 2)[1])
        self.assertNotEqual(chain([1, 2], 2), chain([1, 2], 2, "salt"))
        self.assertNotEqual(chain([12, 3], 2), chain([1, 23], 2))


def run(command, cwd=None):
    """@return the exit code of a command for the shell, and what it printed"""
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, cwd=cwd, env=os.environ | {"PYTHONPATH": HERE})
    return done.returncode, done.stdout


def checked(command, options="--operations=200", cwd=None):
    """As run, for a check of the adapter that a command serves."""
    return run(f"'{os.environ['KVPROOF']}' --subject-command='python3 -B {command}' {options}", cwd)


@unittest.skipUnless(os.environ.get("KVPROOF"), "KVPROOF names no program")
class CheckTest(unittest.TestCase):
    def test_the_examples_hold_as_their_first_lines_start_them(self):
        for name, laws in (("kit_pool.py", "20 of"), ("kit_engine.py", "20 of"),
                           ("adapter.py", "")):
            code, said = checked(os.path.join(HERE, "examples", name))
            self.assertEqual(code, 0, program.finding_of(said))
            self.assertIn(f"HOLDS: {laws}", said)

    @unittest.skipUnless(PLUGINS, "KVPROOF_PLUGINS names no folder of plugins")
    def test_the_examples_over_the_kits_in_c_plus_plus_hold_and_do_not_with_a_fault(self):
        for name, expected, text in (
                ("kit_pool", 0, "I9 +index matches blocks"), ("kit_engine", 0, "HOLDS: 20 of"),
                ("kit_pool_seeded", 1, "which holds position"),
                ("kit_engine_seeded", 1, "the index lists block")):
            code, said = run(f"'{os.environ['KVPROOF']}' --subject={PLUGINS}/{name}.so "
                             "--operations=300")
            self.assertEqual(code, expected, program.finding_of(said))
            self.assertRegex(said, text)

    def test_a_missing_hook_is_one_line_and_exit_code_2(self):
        for wrong, text in (("Forgets", r"class Forgets lacks the hook free_blocks\(\), which .*; "
                                        r"the hook grow\(r, end\), which makes room for"),
                            ("Forks", r"lacks the hook fork\(r, child\), which has a child begin"),
                            ("Leaf", r"lacks the hook shown\(node\), which returns the tokens"),
                            ("Seven", r"lacks the hook take\(count\), which returns so many"),
                            ("NoBuild", r"KeyError: 'no GPU' \(kit_test.py:[0-9]+ in build\)")):
            code, said = checked(f"-m kvproof {os.path.abspath(__file__)}:{wrong}")
            self.assertEqual(code, 2, said)
            self.assertRegex(said, rf"^seed 1\n\nkvproof check: .*{text}.*\n$")
            self.assertNotIn("num_free", said)

    def test_the_adapter_of_the_readme_holds_and_does_not_if_it_keeps_a_block(self):
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            source = file.read().split("```python\n")[1].split("```")[0]
        for kept, expected in (("r.own", 0), ("r.own[1:]", 1)):
            with tempfile.TemporaryDirectory() as work:
                with open(os.path.join(work, "mine.py"), "w", encoding="utf-8") as file:
                    file.write(source.replace("self.free += r.own", f"self.free += {kept}"))
                code, said = checked("mine.py", cwd=work)
            self.assertEqual(code, expected, program.finding_of(said))

    def test_a_broken_pool_is_reported_with_its_trace(self):
        code, output = program.check(StaleKey, "--operations=200")
        self.assertEqual(code, 1)
        self.assertIn('{"op":"arrive"', program.finding_of(output))

    def test_one_bug_is_one_finding_and_each_trace_breaks_what_is_said_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said = checked(f"-m kvproof {os.path.abspath(__file__)}:OverCommits",
                                 "--operations=600", folder)
            self.assertEqual(code, 1, said)
            self.assertRegex(said, "BROKEN: 1 finding, [1-9][0-9]* more that may follow")
            told = re.findall(r"(?:broken: (.*)|times?, (.*) may follow: .*)\n"
                              r"(?:.*\n)*?run it again: .*? replay (.*)\n", said)
            self.assertGreater(len(told), 1)
            for first, behind, options in told:
                replay = os.path.join(os.path.dirname(os.environ["KVPROOF"]), "kvproof-replay")
                _, again = run(f"'{replay}' {options}", folder)
                broken = re.findall(r"^ *([IC][0-9]+|content)(?: .*)?: ", again, re.MULTILINE)
                self.assertEqual(set(broken), set(re.split("[, +]+", first or behind)), again)

    def test_an_exception_is_shown_with_its_place_and_its_traceback(self):
        code, output = program.check(Half, "--operations=200")
        self.assertEqual(code, 1)
        self.assertRegex(program.finding_of(output),
                         r"error: KeyError: 'no room' \(kit_test.py:\d+ in pop, called from "
                         r"kit_test.py:\d+ take\)")
        self.assertEqual(output.count("Traceback (most recent call last):"), 1, output)
        code, output = program.check(Dies, "--operations=200")
        self.assertEqual(code, 1)
        self.assertRegex(output, r"its last words:(\n    .*){9}\n    KeyError: 'no room'\n")

    def test_arrays_are_read_back_and_copies_are_told(self):
        reads = r"content: request r[0-9]+ reads \[-?[0-9]+, -?[0-9]+\] at position"
        for adapter, expected, text in (
                (Arrays, 0, r"content +holds; [0-9,]{4,} positions were read back"),
                (WrongSlot, 1, r"content: .*reads \[[0-9]+, -1\] at position 5 of the tensors, "
                               r"expected \[[0-9]+, 5\]; -1: its elements do not agree"),
                (WrongCopy, 1, reads), (NoCopy, 1, reads),
                (Hides, 1, r"content: .*contents of [0-9]+ positions; [0-9]+ are computed"),
                (CopiesAtFork, 0, "C2 +fork shares .* holds"),
                (ConcealsACopy, 1, "C2 fork shares: .*; 0 copies are answered"),
                (CopiesAnother, 1, reads)):
            code, output = program.check(adapter, "--operations=400")
            self.assertEqual(code, expected, program.finding_of(output))
            self.assertRegex(output, text)


PYTEST = os.environ.get("KVPROOF_PYTEST") or sys.executable
WITH_FIXTURE = f"""
from {os.path.basename(__file__).removesuffix('.py')} import LastOut, StaleKey

def test_sound(kvproof_check):
    kvproof_check(LastOut, "--operations=100")

def test_broken(kvproof_check):
    kvproof_check(StaleKey, "--operations=100")
"""


def has_pytest():
    done = subprocess.run([PYTEST, "-c", "import pytest"], capture_output=True, check=False)
    return done.returncode == 0


@unittest.skipUnless(has_pytest(), f"{PYTEST} has no pytest (KVPROOF_PYTEST names one that has)")
class FixtureTest(unittest.TestCase):
    def pytest(self, **surroundings):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "test_pools.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(WITH_FIXTURE)
            done = subprocess.run(
                [PYTEST, "-B", "-m", "pytest", "-rsf", "-p", "kvproof.pytest_plugin",
                 "-p", "no:cacheprovider", path], cwd=folder, check=False, text=True,
                env=os.environ | {"PYTHONPATH": HERE} | surroundings, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    @unittest.skipUnless(os.environ.get("KVPROOF"), "KVPROOF names no program")
    def test_a_broken_pool_fails_with_its_finding(self):
        code, output = self.pytest()
        self.assertEqual(code, 1, output)
        self.assertIn("1 failed, 1 passed", output)
        self.assertIn("broken: ", output)
        self.assertIn('{"op":"arrive"', output)

    def test_without_a_program_it_is_skipped_with_a_reason(self):
        hidden = "from kvproof import program\nprogram.find_program = lambda: None\n"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "hides.py"), "w", encoding="utf-8") as file:
                file.write(hidden)
            code, output = self.pytest(PYTHONPATH=f"{folder}{os.pathsep}{HERE}",
                                       PYTEST_PLUGINS="hides")
        self.assertEqual(code, 0, output)
        self.assertIn("2 skipped", output)
        self.assertIn("no program kvproof", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
