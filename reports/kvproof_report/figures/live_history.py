# SPDX-License-Identifier: Apache-2.0
"""Laws of runs by releases: what the judge found in whole engines that ran."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.draw.sheet import drawn
from kvproof_report.figures.engine_history import parts_of
from kvproof_report.figures.engines import many

# verdict -> its words, its look
LOOKS = {
    "broken": ("found something new", (d.RED, "None", "X")),
    "known": ("found what has an advisory", (d.AMBER, "None", "X")),
    "holds": ("evaluated, found nothing", (d.BLUE, "None", "s")),
    "not_evaluated": ("not evaluated", (d.GREY, "None", ".")),
    "skipped": ("no run: the table says why", (d.GREY, "None", "X")),
}


@drawn
def draw(results):
    return parts_of(results, "law", "version", LOOKS, "broken")


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    releases = groups(results, "version")
    ran = [name for name, laws in releases.items() if laws[0]["verdict"] != "skipped"]
    early = [name for name in ran if any(r.get("reason") not in (None, "", "-")
                                         for r in releases[name]
                                         if r["verdict"] in ("holds", "not_evaluated"))]
    parts = [f"{count(len(ran))} of {many(len(releases), 'release')} of {results[0]['engine']} ran"]
    for verdict, what in (("broken", "something new"), ("known", "what is known")):
        found = [r for r in results if r["verdict"] == verdict]
        if found or verdict == "broken":
            where = ", ".join(f"{r['law']} in {r['version']}" for r in found[:3])
            parts.append(f"{what}: {where}{', ...' * (len(found) > 3)}" if found
                         else "nothing new")
    silent = [name for name, laws in groups(results, "law").items()
              if all(r["verdict"] in ("not_evaluated", "skipped") for r in laws)]
    parts += [f"{', '.join(early)} ended early"] * bool(early)
    return "; ".join(parts + [f"{', '.join(silent)} not evaluated"] * bool(silent))


def table(results):
    order = list(LOOKS)
    names = ("law", "version", "model", "mode", "reason")
    metrics = ("evaluated", "findings")
    return Table(
        [(name, False) for name in ("verdict", *names)] + [(name, True) for name in metrics],
        [[(words(r["verdict"]), order.index(r["verdict"]))] +
         [(r.get(n) or "-",) * 2 for n in names] +
         [(count(r.value(n)), r.value(n)) for n in metrics]
         for r in sorted(results, key=lambda r: order.index(r["verdict"]))])


PLOT = Plot(
    "live-history", "live_history",
    "kvproof live --engine=vllm-cpu --history --json=results/live_history.json", draw, finding,
    "Red is a finding that no advisory explains; a dot is a law that was not evaluated, which "
    "proves nothing.",
    "Each release of the whole engine served a tiny random model on this machine's CPU, and what "
    "its scheduler and its model runner did was judged while it ran.",
    table, optional=True, section="Correctness", place=30)
