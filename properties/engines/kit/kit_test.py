#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the package kvproof: what it makes of the little that an adapter says.

KVPROOF names the program that checks the pools of this file; without it that part is skipped.
KVPROOF_PYTEST names an interpreter that has pytest; default: this one. Where there is none, the
fixture is not tested, and the test says so.
"""

import contextlib
import io
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


class InsideOut(EngineAdapter):
    """Looks a prefix up while it allocates, and finds block 3 always."""

    traits = {"lookup": "within_allocate"}

    def build(self):
        self.tables = {}

    def admit(self, r, end, hit):
        self.tables[r.name] = [3, 0]
        return 4

    def grow(self, r, end):
        self.tables[r.name] += [1]
        r.copies = [(0, 1)]
        return True

    def release(self, r):
        self.tables[r.name] = []

    def table(self, r):
        return self.tables.get(r.name, [])

    def free_blocks(self):
        return [1, 2]


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


class KitTest(unittest.TestCase):
    def test_a_hook_is_called_and_the_engine_is_shown(self):
        pool = LastOut()
        self.assertEqual(pool.answer(header())["level"], "engine")
        pool = built(pool)
        answer = pool.answer(admit("a", 3))
        self.assertEqual(answer["out"], 0)
        self.assertEqual(answer["state"]["queue"], [3, 4, 5], "behind the null block")
        self.assertEqual(answer["state"]["ref"], [[1, 1], [2, 1]])
        self.assertEqual(answer["state"]["tables"], {"a": [[1, 2]]})

    def test_a_published_block_is_found_and_shared(self):
        pool = built(LastOut())
        for each in (admit("a", 3), line("advance", of="a", told={"a": {"computed": 3}}),
                     line(of="b", told={"b": {"extra": {}, "tokens": [1, 2, 4]}})):
            pool.answer(each)
        self.assertEqual(pool.answer(line("lookup", of="b"))["out"], [1])
        state = pool.answer(admit("b", 3, [1]))["state"]
        self.assertEqual(state["tables"], {"a": [[1, 2]], "b": [[1, 3]]})
        self.assertIn([1, 2], state["ref"])
        key = chain([1, 2], 2, [])[0]
        self.assertEqual((state["key"], state["index"]), ([[1, key]], [[0, key, [1]]]))

    def test_hashes_are_shown_when_tokens_are_told(self):
        pool = built(LastOut())
        told = {"a": {"tokens": [1, 2, 3, 4]}}
        self.assertEqual(pool.answer(line(of="a", told=told))["state"]["hashes"],
                         {"a": chain([1, 2, 3, 4], 2, [])})
        self.assertEqual(pool.answer(line(of="a"))["state"]["hashes"], {})

    def test_a_refused_admission_leaves_nothing(self):
        pool = built(LastOut(), num_blocks=2)
        answer = pool.answer(admit("a", 3))
        self.assertEqual((answer["out"], answer["state"]["tables"]), (None, {"a": [[]]}))
        self.assertEqual(answer["state"]["queue"], [1])

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

    def test_an_error_of_the_engine_is_its_answer(self):
        pool = built(LastOut())
        pool.publish = None
        pool.answer(admit("a", 3))
        answer = pool.answer(line("advance", of="a", told={"a": {"computed": 3}}))
        self.assertRegex(answer["out"]["error"], r"^TypeError: .* callable$")

    def test_an_error_says_where_it_was_raised_and_shows_its_traceback_once(self):
        told = io.StringIO()
        with contextlib.redirect_stderr(told):
            for _ in range(3):
                error = built(Half()).answer(admit("a", 3))["out"]["error"]
        self.assertRegex(error, r"^KeyError: 'no room' \(kit_test.py:\d+ in pop, called from "
                                r"kit_test.py:\d+ take\)$")
        self.assertEqual(told.getvalue().count("KeyError: 'no room'\n"), 1)

    def test_a_hook_that_is_missing_is_named(self):
        error = Forgets().answer(header())["error"]
        self.assertRegex(error, r"^class Forgets lacks the hook free_blocks\(\), which returns ")
        self.assertIn("; the hook grow(r, end), which makes room for the first `end` tokens", error)
        self.assertNotIn("num_free", error)

    def test_what_an_admission_finds_by_itself_is_granted_with_one_token_more(self):
        engine = built(InsideOut())
        self.assertEqual(engine.answer(admit("a", 3, None))["out"], 4)
        self.assertEqual((engine.requests["a"].granted, engine.requests["a"].room), (5, 5))

    def test_copies_are_told(self):
        engine = built(InsideOut())
        engine.answer(admit("a", 3, None))
        grow = line("grow", of="a", given=[6])
        self.assertEqual(engine.answer(grow)["copies"], [[1, 2]])
        self.assertEqual(engine.requests["a"].copies, [])

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


@unittest.skipUnless(os.environ.get("KVPROOF"), "KVPROOF names no program")
class CheckTest(unittest.TestCase):
    def checked(self, command, *options):
        done = subprocess.run(
            [os.environ["KVPROOF"], f"--subject-command={command}", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            env=os.environ | {"PYTHONPATH": HERE})
        return done.returncode, done.stdout

    def test_the_examples_hold_as_their_first_lines_start_them(self):
        for name in ("kit_pool.py", "kit_engine.py", "adapter.py"):
            example = os.path.join(HERE, "examples", name)
            code, said = self.checked(f"python3 -B {example}", "--operations=200")
            self.assertEqual(code, 0, program.finding_of(said))
            self.assertIn("HOLDS: ", said)

    def test_a_missing_hook_is_one_line_and_exit_code_2(self):
        code, said = self.checked(f"python3 -B -m kvproof {os.path.abspath(__file__)}:Forgets")
        self.assertEqual(code, 2, said)
        self.assertIn("class Forgets lacks the hook free_blocks(), which returns the blocks",
                      said.strip().splitlines()[-1])

    def test_the_adapter_of_the_readme_holds_and_does_not_if_it_keeps_a_block(self):
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            source = file.read().split("```python\n")[1].split("```")[0]
        for kept, expected in (("r.own", 0), ("r.own[1:]", 1)):
            with tempfile.TemporaryDirectory() as work:
                with open(os.path.join(work, "mine.py"), "w", encoding="utf-8") as file:
                    file.write(source.replace("self.free += r.own", f"self.free += {kept}"))
                done = subprocess.run(
                    [os.environ["KVPROOF"], "--subject-command=python3 -B mine.py",
                     "--operations=200"],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                    cwd=work, env=os.environ | {"PYTHONPATH": HERE})
            self.assertEqual(done.returncode, expected, program.finding_of(done.stdout))

    def test_a_sound_pool_holds(self):
        code, output = program.check(LastOut, "--operations=200")
        self.assertEqual(code, 0, program.finding_of(output))

    def test_a_broken_pool_is_reported_with_its_trace(self):
        code, output = program.check(StaleKey, "--operations=200")
        self.assertEqual(code, 1)
        self.assertIn('{"op":"arrive"', program.finding_of(output))

    def test_one_bug_is_one_finding_and_each_trace_breaks_what_is_said_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            program_of = f"python3 -B -m kvproof {os.path.abspath(__file__)}:OverCommits"
            run = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True,
                   "check": False, "cwd": folder, "env": os.environ | {"PYTHONPATH": HERE}}
            done = subprocess.run([os.environ["KVPROOF"], f"--subject-command={program_of}",
                                   "--operations=600"], **run)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, "BROKEN: 1 finding, [1-9][0-9]* more that may follow")
            told = re.findall(r"(?:broken: (.*)|times?, (.*) may follow: .*)\n"
                              r"(?:.*\n)*?run it again: .*? replay (.*)\n", done.stdout)
            self.assertGreater(len(told), 1)
            for first, behind, options in told:
                replay = os.path.join(os.path.dirname(os.environ["KVPROOF"]), "kvproof-replay")
                again = subprocess.run(f"{replay} {options}", shell=True, **run).stdout
                broken = re.findall(r"^ *([IC][0-9]+|content)(?: .*)?: ", again, re.MULTILINE)
                self.assertEqual(set(broken), set(re.split("[, +]+", first or behind)), again)

    def test_an_exception_is_shown_with_its_place_and_its_traceback(self):
        code, output = program.check(Half, "--operations=200")
        self.assertEqual(code, 1)
        self.assertRegex(program.finding_of(output), r"error: KeyError: 'no room' \(kit_test.py:")
        self.assertEqual(output.count("Traceback (most recent call last):"), 1, output)
        code, output = program.check(Dies, "--operations=200")
        self.assertEqual(code, 1)
        self.assertRegex(output, r"its last words:(\n    .*){9}\n    KeyError: 'no room'\n")

    def test_arrays_are_read_back(self):
        code, output = program.check(Arrays, "--operations=200")
        self.assertEqual(code, 0, program.finding_of(output))
        self.assertRegex(output, r"content +holds; [0-9,]{4,} positions were read back")
        for broken, expected in (
                (WrongSlot, r"reads \[[0-9]+, -1\] at position 5 of the tensors, expected "
                            r"\[[0-9]+, 5\]; -1: its elements do not agree"),
                (WrongCopy, r"request r[0-9]+ reads \[-?[0-9]+, -?[0-9]+\] at position"),
                (NoCopy, r"request r[0-9]+ reads \[-?[0-9]+, -?[0-9]+\] at position"),
                (Hides, r"shows the contents of [0-9]+ positions; [0-9]+ are computed")):
            code, output = program.check(broken, "--operations=200")
            self.assertEqual(code, 1, broken)
            self.assertRegex(output, "content: .*" + expected)

    def test_a_fork_may_copy_at_once_and_says_so(self):
        code, output = program.check(CopiesAtFork, "--operations=400")
        self.assertEqual(code, 0, program.finding_of(output))
        self.assertRegex(output, "C2 +fork shares .* holds")
        for broken, expected in (
                (ConcealsACopy, "C2 fork shares: .*; 0 copies are answered"),
                (CopiesAnother, "content: request r[0-9]+ reads .* of the tensors")):
            code, output = program.check(broken, "--operations=400")
            self.assertEqual(code, 1, broken)
            self.assertRegex(output, expected)


PLUGINS = os.environ.get("KVPROOF_PLUGINS")


@unittest.skipUnless(PLUGINS, "KVPROOF_PLUGINS names no folder of plugins")
class PluginTest(unittest.TestCase):
    """The examples over the kits in C++, as they are and with a fault."""

    def check(self, name):
        done = subprocess.run(
            [os.environ["KVPROOF"], f"--subject={os.path.join(PLUGINS, name)}.so",
             "--operations=300"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        return done.returncode, done.stdout

    def test_a_sound_pool_holds(self):
        code, output = self.check("kit_pool")
        self.assertEqual(code, 0, program.finding_of(output))
        self.assertRegex(output, "I9 +index matches blocks")

    def test_a_stale_key_is_reported(self):
        code, output = self.check("kit_pool_seeded")
        self.assertEqual(code, 1, output)
        self.assertIn("which holds position", output)

    def test_an_engine_over_kvproof_engine_is_judged(self):
        code, output = self.check("kit_engine")
        self.assertEqual(code, 0, program.finding_of(output))
        self.assertIn("HOLDS: 20 of", output)
        code, output = self.check("kit_engine_seeded")
        self.assertEqual(code, 1, output)
        self.assertIn("the index lists block", output)


HERE = os.path.dirname(os.path.abspath(__file__))
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
