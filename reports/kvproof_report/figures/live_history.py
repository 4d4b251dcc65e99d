# SPDX-License-Identifier: Apache-2.0
"""Laws of runs by releases: what the judge found in whole engines that ran."""

from kvproof_report.common.experiments import COUNT, TEXT, Experiment, one_of
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.figures.engine_history import draw_grid
from kvproof_report.figures.engines import many

# state -> its words, its look
LOOKS = {
    "new": ("found something new", (d.RED, "None", "X")),
    "known": ("found what has an advisory", (d.AMBER, "None", "X")),
    "held": ("evaluated, found nothing", (d.BLUE, "None", "s")),
    "silent": ("not evaluated", (d.GREY, "None", ".")),
    "no run": ("no run: the table says why", (d.GREY, "None", "X")),
}


def draw(results, width):
    return draw_grid(results, width, "law", "version", LOOKS, "new", 160)


# ---- in words -----------------------------------------------------------------------------------

def finding(results):
    releases = groups(results, "version")
    ran = [name for name, laws in releases.items() if laws[0]["state"] != "no run"]
    early = [name for name in ran if any(r["why"] != "-" for r in releases[name]
                                         if r["state"] in ("held", "silent"))]
    parts = [f"{count(len(ran))} of {many(len(releases), 'release')} of {results[0]['engine']} ran"]
    for state, words in (("new", "something new"), ("known", "what is known")):
        found = [r for r in results if r["state"] == state]
        if found or state == "new":
            where = ", ".join(f"{r['law']} in {r['version']}" for r in found[:3])
            parts.append(f"{words}: {where}{', ...' * (len(found) > 3)}" if found
                         else "nothing new")
    silent = [name for name, laws in groups(results, "law").items()
              if all(r["state"] in ("silent", "no run") for r in laws)]
    parts += [f"{', '.join(early)} ended early"] * bool(early)
    return "; ".join(parts + [f"{', '.join(silent)} not evaluated"] * bool(silent))


def table(results):
    order = list(LOOKS)
    names = ("law", "version", "model", "mode", "why")
    metrics = {"spoke": "evaluated", "findings": "findings"}
    return Table(
        [(name, False) for name in ("state", *names)] + [(t, True) for t in metrics.values()],
        [[(r["state"], order.index(r["state"]))] + [(r[n], r[n]) for n in names] +
         [(count(r.value(n)), r.value(n)) for n in metrics]
         for r in sorted(results, key=lambda r: order.index(r["state"]))])


EXPERIMENTS = {
    "live_history": Experiment(
        {"engine": TEXT, "version": TEXT, "model": TEXT, "mode": TEXT, "law": TEXT, "what": TEXT,
         "state": one_of(LOOKS), "why": TEXT}, {"spoke": COUNT, "findings": COUNT}, {}, most=2000,
        most_names=200),
}

PLOT = Plot(
    "live-history", "live_history",
    "kvproof live --engine=vllm-cpu --history --json=results/live_history.json", draw, finding,
    "Red is a finding that no advisory explains; a dot is a law that was not evaluated, which "
    "proves nothing.",
    "Each release of the whole engine served a tiny random model on this machine's CPU, and what "
    "its scheduler and its model runner did was judged while it ran.",
    table, optional=True, section="Correctness", place=30)
