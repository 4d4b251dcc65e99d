#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens lenses in a browser, and reads and uses them as people do.

    page_test.py [name of a test ...]

It needs Playwright for Python (PyPI: playwright) and a Chromium (Debian: chromium; CHROMIUM names
another), and exits with 77 and the reason without. KVPROOF_BIN is the folder of the programs;
KVPROOF_PICTURES is one that gets pictures. Types are checked where there is tsc (node-typescript).

A step may cost 16 ms and opening 2 s of the page's main thread. Its own time is counted, which
other work on the machine lengthens less than time on the wall; a slow or busy machine gets
KVPROOF_SLOWER times as much, 5 unless it is set.
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
BIN = pathlib.Path(os.environ.get("KVPROOF_BIN", CHECKOUT / "build" / "release" / "bin"))
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
SLOWER = float(os.environ.get("KVPROOF_SLOWER", "5"))
SCENES = ["life", "sharing", "eviction", "hybrid", "contiguous"]
CONFIG = {"num_blocks": 12, "enable_caching": True, "max_model_len": 64, "hash_block_size": 4,
          "scheduler_block_size": 4, "watermark": 0.0, "max_in_flight_tokens": None,
          "groups": [{"kind": "full", "block_size": 4, "eagle": False}]}
DOUBLE_FREE = [{"op": "take", "n": 3}, {"op": "touch", "blocks": [2]},
               {"op": "release", "blocks": [2, 2]}]
TWO_OWNERS = [line for name in "ab" for line in (
    {"op": "arrive", "req": name, "tokens": list(range(ord(name), ord(name) + 6))},
    {"op": "allocate", "req": name, "new_tokens": 6, "use_lookup": False, "lookahead": 0,
     "external": 0, "delay_cache": False, "full_sequence_must_fit": False, "has_scheduled": False,
     "reserved": 0, "status": "waiting"})]

TOO_WIDE = """() => [document.documentElement, ...document.querySelectorAll(
    'body > *, section, .columns > div, .bar, .cells, .cell, .slot, .request, .arena, table')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
  .map(e => `${e.tagName} ${e.className}: ${e.scrollWidth} > ${e.clientWidth}`)"""
LOW_CONTRAST = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).slice(0, 3)
      .map(part => colour.startsWith('color(') ? Number(part) : part / 255);
  const light = colour => parts(colour)
      .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
      .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    const colour = e ? getComputedStyle(e).backgroundColor : 'rgb(255, 255, 255)';
    return /, 0\\)$|transparent/.test(colour) ? behind(e.parentElement) : colour;
  };
  const texts = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() &&
    !e.matches('script, :disabled') &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
  return texts.map(e => {
    const pair = [light(getComputedStyle(e).color), light(behind(e))].sort((a, b) => b - a);
    return [(pair[0] + 0.05) / (pair[1] + 0.05), e.tagName, e.className, e.textContent];
  }).filter(row => row[0] < 4.5);
}"""


def read(page, what):
    return page.locator(what).first.inner_text()


def wait_at(page, n):
    said = "document.getElementById('position').textContent"
    page.wait_for_function(f"/^(Operation {n}|Line {n + 2}) /.test({said})")


def at(page):
    found = re.search(r"Operation (\d+)", read(page, "#position"))
    return int(found[1]) if found else -1


def program(name, *arguments, codes=(0, 1), **environment):
    end = subprocess.run([str(BIN / f"kvproof-{name}"), *map(str, arguments)], text=True,
                         capture_output=True, env={**os.environ, **environment}, cwd=CHECKOUT)
    assert end.returncode in codes, f"{name} {arguments}: {end.returncode}\n{end.stderr}"
    return end.stdout


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="kvproof-lens-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        driver = sync_playwright().start()
        cls.addClassCleanup(driver.stop)
        cls.browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.addClassCleanup(cls.browser.close)

    def lens(self, *arguments, **environment):
        path = self.folder / f"{abs(hash(arguments + tuple(environment)))}.html"
        if not path.exists():
            program("lens", *arguments, f"--output={path}", **environment)
        return path

    def trace(self, operations, subject="", config=None, name="made"):
        path = self.folder / f"{name}.jsonl"
        head = {"kvproof_trace": 1, "recorded_from": "kvproof", "profile": "vllm-0.24", "seed": 1,
                "family": "failure", "name": name, "later_than_0.24": [],
                "config": config or CONFIG, **({"subject": subject} if subject else {})}
        lines = [head, *operations, {"op": "end", "ops": len(operations)}]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def open(self, path, at="", width=1280, scheme="light", picture=""):
        page = self.browser.new_page(viewport={"width": width, "height": 900},
                                     color_scheme=scheme, reduced_motion="reduce")
        self.addCleanup(page.close)
        page.set_default_timeout(600_000)  # [ms] a hang
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"file://{path}{f'#op={at}' if at != '' else ''}")
        page.evaluate("kvproofLens.ready")
        folder = os.environ.get("KVPROOF_PICTURES")
        if folder and picture:
            page.screenshot(path=f"{folder}/{picture}-{width}-{scheme}.png", full_page=True)
        return page

    def setUp(self):
        self.errors = []
        self.addCleanup(lambda: self.assertEqual(self.errors, []))

    def big(self, operations, blocks, live, longest):
        """A lens of random requests, which share beginnings."""
        draw, lines, at_work, names = random.Random(3), [], {}, 0
        while len(lines) < operations:
            if len(at_work) < live:
                name, names = f"r{names}", names + 1
                at_work[name] = draw.randrange(4, longest)
                prompt = [draw.randrange(2) * 9 + n for n in range(at_work[name])]
                lines += [{"op": "arrive", "req": name, "tokens": prompt},
                          {"op": "lookup", "req": name},
                          {**TWO_OWNERS[1], "req": name, "new_tokens": 4, "use_lookup": True}]
            else:
                name = draw.choice(sorted(at_work))
                if draw.random() < 0.2:
                    del at_work[name]
                lines += [{"op": "append", "req": name, "tokens": [draw.randrange(9)]},
                          {"op": "finish" if name not in at_work else "common_prefix", "req": name}]
        return self.trace(lines, config={**CONFIG, "num_blocks": blocks, "max_model_len": 4096},
                          name=f"big-{operations}-{blocks}")

    # ---- What is drawn

    def check_fits(self, page, what):
        self.assertEqual(page.evaluate(TOO_WIDE), [], what)

    def test_scenes_fit_on_desks_and_phones_in_both_themes(self):
        for scene in SCENES:
            path = self.lens(f"--scene={scene}")
            steps = self.open(path).evaluate("kvproofLens.steps")
            self.assertTrue(12 <= steps <= 40, scene)
            for width, scheme in ((1280, "light"), (390, "dark"), (390, "light"), (1280, "dark")):
                page = self.open(path, steps * 2 // 3, width, scheme, scene)
                self.check_fits(page, f"{scene}, {width}, {scheme}")
                for n in range(steps):
                    page.evaluate("n => kvproofLens.goto(n)", n)
                    self.check_fits(page, f"{scene}, operation {n}, {width}")
                    self.assertGreaterEqual(len(read(page, "#words")), 20)
                for panel in ("pool", "queue", "requests", "index"):
                    self.assertTrue(page.locator(f"#{panel} h2").is_visible(), (scene, panel))

    def test_captions_are_sentences(self):
        for scene in SCENES:
            lines = [json.loads(line) for line in
                     (HERE / "scenes" / f"{scene}.jsonl").read_text().splitlines()]
            captions = [line["say"] for line in lines if "say" in line]
            self.assertGreater(len(captions), 12, scene)
            for caption in captions:
                self.assertRegex(caption, r"^[A-Z].*[.]$")

    def test_contrast(self):
        for scheme in ("light", "dark"):
            page = self.open(self.lens("--scene=sharing"), 13, scheme=scheme)
            low = page.evaluate(LOW_CONTRAST)
            self.assertEqual(low, [], scheme)

    def test_text_is_that_of_replay(self):
        compared, draw = 0, random.Random(1)
        for path in [*sorted((HERE / "scenes").glob("*.jsonl")), self.big(1500, 40, 6, 30),
                     *sorted((CHECKOUT / "properties/sources/regressions").glob("*.jsonl"))]:
            told = program("replay", path, "--draw")
            drawn = dict(re.findall(r"^operation (\d+)\n((?:    ?.*\n)*)", told, re.M))
            page = self.open(self.lens(path))
            for n in draw.sample(sorted(drawn), min(800, len(drawn))):
                self.assertEqual(page.evaluate("n => kvproofLens.text(n)", int(n)) + "\n", drawn[n],
                                 f"{path.name}, operation {n}")
                compared += 1
        self.assertGreaterEqual(compared, 1000)

    # ---- What people read

    def test_reading_a_double_free(self):
        plugin = BIN.parent / "plugins" / "broken_plugin.so"
        owners = self.lens(self.trace(TWO_OWNERS, name="owners"), f"--subject={plugin}",
                           KVPROOF_BREAK="double_hand_out")
        freed = self.lens(self.trace(DOUBLE_FREE, "B002", name="double-free"))
        for path, block in ((freed, "2"), (owners, "1")):
            page = self.open(path, picture=path.stem)
            verdict = read(page, ".verdict")
            self.assertRegex(verdict, r"^[IC]\d+: ")
            self.assertIn(f"block {block} before", verdict)
            self.assertIn(f"block {block} after", verdict)
            self.assertIn("replay", read(page, "#verdicts code"))
            marked = page.locator("#pool .accused")
            self.assertIn(f"! {block}", marked.first.inner_text())
            page.keyboard.press("b")
            self.assertTrue(marked.first.is_visible())
            self.check_fits(self.open(path, width=390), path.name)

    def test_reading_what_is_evicted_next(self):
        page = self.open(self.lens("--scene=eviction"), 11)
        said = re.search(r"Evicted next: block (\d+) with key", read(page, "#queue"))
        self.assertIn("given back", read(page, "#queue"))
        page.keyboard.press("e")  # the next eviction is that of this block
        self.assertIn(f"content of block {said[1]} removed", read(page, "#answer"))
        self.assertIn("Operation 12", read(page, "#position"))

    def test_reading_why_the_third_request_did_not_hit(self):
        page = self.open(self.lens("--scene=eviction"), 22)
        self.assertIn("prefix of c", read(page, "#words"))
        self.assertRegex(read(page, ".why"), r"c: 0 of 17 tokens hit; evicted: block 0 \(tokens 0 "
                         r"to 3\) at operation 18 for \w+, \d+ blocks after its last use")
        page.evaluate("kvproofLens.goto(18)")
        self.assertIn("content of block 1 removed", read(page, "#answer"))
        page.evaluate("kvproofLens.goto(27)")
        self.assertIn("last-token rule: no more than", read(page, ".why"))

    def test_reading_what_would_have_been_right(self):
        page = self.open(self.lens("--scene=eviction"), 28)
        answer = read(page, "#answer")
        self.assertIn("granted, with block 8; 5 blocks are needed, 8 are free", answer)
        self.assertIn("Right: the model answers the same", answer)
        long = [{**TWO_OWNERS[0], "tokens": list(range(48))}, {**TWO_OWNERS[1], "new_tokens": 48}]
        refused = self.open(self.lens(self.trace(long, name="refused")), 1)
        self.assertIn("refused: too few blocks are free; 12 blocks are needed, 11 are free",
                      read(refused, "#answer"))
        self.assertEqual(page.locator(".differs").count(), 0)
        path = self.lens("properties/sources/regressions/stale-hit.jsonl")
        for width, scheme in ((1280, "light"), (390, "dark")):
            page = self.open(path, width=width, scheme=scheme, picture="right")
            self.assertIn("Right would be", read(page, ".differs"))

    def test_list_of_operations(self):
        page = self.open(self.lens("--scene=eviction"), 20, picture="list")
        rows = page.locator("#list [role=option]")
        self.assertTrue(page.locator("#row20[aria-selected=true]").is_visible())
        self.assertTrue(4 <= rows.count() <= 12, rows.count())
        page.locator("#list").evaluate("e => { e.scrollTop = 0; }")
        page.locator("#row2").click()
        self.assertEqual(at(page), 2)
        page.locator("#list").focus()
        for key, want in (("ArrowDown", 3), ("ArrowUp", 2), ("PageDown", 8), ("End", 29)):
            page.keyboard.press(key)
            self.assertEqual(at(page), want, key)
            chosen = page.locator(f"#row{want}")
            self.assertEqual(chosen.get_attribute("aria-selected"), "true", key)
            self.assertTrue(chosen.is_visible(), key)
        page = self.open(self.lens("--scene=eviction"), 20, 390, "dark", "list")
        self.assertFalse(page.locator("#list").is_visible())
        page.locator("#operations summary").click()
        page.locator("#row20").wait_for()  # it is drawn when the list has opened
        self.check_fits(page, "list")

    def test_other_runs(self):
        page = self.open(self.lens("properties/shadow/runs/sound.jsonl"), 20, 390, picture="live")
        self.assertIn("does not show the free queue", read(page, "#hidden"))
        self.assertIn("Line 22 of 101", read(page, "#position"))  # of the file, as in a finding
        self.assertNotIn("refs", page.evaluate("kvproofLens.text(20)"))
        self.assertFalse(page.locator("#queue").is_visible())
        self.check_fits(page, "live")
        recording = "properties/sources/traces/engines/convolutions.jsonl.zst"
        page = self.open(self.lens(recording), picture="recording")
        verdict = read(page, ".verdict")
        self.assertIn("recorded", verdict)
        self.assertIn("ours", verdict)
        self.assertTrue(page.locator(".differs").is_visible())
        self.check_fits(page, "recording")
        for path in sorted((CHECKOUT / "properties" / "sources" / "regressions").glob("*.jsonl")):
            for width in (390, 1280):
                page = self.open(self.lens(path), width=width, picture=path.stem)
                self.check_fits(page, path.name)

    def test_large_pools_are_summed_up(self):
        page = self.open(self.lens(self.big(300, 5000, 30, 200)), picture="large")
        self.assertIn("A cell stands for 5 blocks", read(page, "#pool .note"))
        self.assertEqual(page.locator("#pool .cell").count(), 1000)
        self.check_fits(page, "large")

    # ---- What people do

    def test_keyboard(self):
        page = self.open(self.lens("--scene=eviction"))
        page.keyboard.press("Home")
        self.assertEqual(at(page), -1)
        for key, want in (("ArrowRight", 0), ("Shift+ArrowRight", 10), ("ArrowLeft", 9), ("e", 12),
                          ("E", 6), ("h", 28), ("H", 28), ("r", 28), ("End", 29)):
            page.keyboard.press(key)
            self.assertEqual(at(page), want, key)
        page.wait_for_function("location.hash === '#op=29'")
        page.evaluate("location.hash = 'op=6'")
        wait_at(page, 6)
        page.locator("#pool .cells").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
            page.keyboard.press(key)
        self.assertEqual(page.locator("#pool .chosen").get_attribute("data-block"), "4")
        self.assertEqual(at(page), 6)
        for key, want in (("c", 9), ("c", 20), ("C", 9)):
            page.keyboard.press(key)
            self.assertEqual(at(page), want, key)
        page.keyboard.press("Escape")
        self.assertEqual(page.locator(".chosen").count(), 0)
        page.locator("body").press("?")
        self.assertTrue(page.locator("#help").is_visible())
        page.keyboard.press("Escape")
        page.select_option("#speed", "30")
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(" ")
        wait_at(page, 29)
        page.wait_for_function("document.getElementById('play').textContent === 'Play'")

    def test_before_and_after_and_the_text(self):
        page = self.open(self.lens("--scene=life"), 12)
        page.locator("#text summary").click()
        text = page.locator("#text pre")
        self.assertEqual(text.inner_text(), page.evaluate("kvproofLens.text(12)"))
        self.assertEqual(page.locator("#pool .changed").count(), 3)
        page.locator("#before").click()
        self.assertEqual(text.inner_text(), page.evaluate("kvproofLens.text(11)"))
        self.assertIn("state before", read(page, "#position"))
        page.locator("[data-request=b]").click()
        page.locator("[aria-label='next change of request b']").click()
        self.assertIn("Operation 13", read(page, "#position"))
        page.emulate_media(media="print")
        self.assertFalse(page.locator("#controls").is_visible())

    # ---- What it costs

    def cost(self, page, action):
        """@return milliseconds of the page's thread"""
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        spent = lambda: {row["name"]: row["value"] for row in session.send(
            "Performance.getMetrics")["metrics"]}["TaskDuration"]
        start = spent()
        action()
        return 1000 * (spent() - start)

    def test_speed(self):
        for operations, blocks in ((100000, 64), (3000, 2000)):
            path = self.lens(self.big(operations, blocks, 8, 60))
            self.assertLess(path.stat().st_size, 8e6)
            page = self.browser.new_page(viewport={"width": 1280, "height": 900})
            self.addCleanup(page.close)
            page.set_default_timeout(600_000)
            opened = self.cost(page, lambda: (page.goto(f"file://{path}"),
                                              page.evaluate("kvproofLens.ready")))
            go = "n => { kvproofLens.goto(n); document.body.offsetHeight; }"
            costs = []
            for way in (1, -1):
                costs.append(sorted(self.cost(page, lambda: page.evaluate(
                    go, operations // 2 + way * n)) for n in range(40))[20])
            print(f"{operations} operations, {blocks} blocks: {path.stat().st_size} bytes, opened "
                  f"in {opened:.0f} ms, a step {costs[0]:.1f} ms on and {costs[1]:.1f} ms back")
            self.assertLess(opened, 2000 * SLOWER)
            self.assertLess(max(costs), 16 * SLOWER)

    def test_types(self):
        if not shutil.which("tsc"):
            self.skipTest("no tsc")
        options = "--noEmit --allowJs --checkJs --strict --noImplicitAny false --target es2022"
        end = subprocess.run(["tsc", *options.split(), "--lib", "es2022,dom,dom.iterable",
                              str(HERE / "page" / "lens.js")], capture_output=True, text=True)
        self.assertEqual(end.stdout, "")
        size = sum(path.stat().st_size for path in (HERE / "page").iterdir())
        self.assertLess(size, 60000)


if __name__ == "__main__":
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("skipped: no Playwright here: python3 -m pip install playwright")
        sys.exit(77)
    if not CHROMIUM:
        print("skipped: no chromium here: apt-get install chromium")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *(f"PageTest.{name}" for name in sys.argv[1:])])
