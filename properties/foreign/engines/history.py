# SPDX-License-Identifier: Apache-2.0
"""Releases of vLLM V1 under the laws: which defect lived from which release to which.

The adapter goes around all that is known (../vllm_known.py). A release is checked so, and then once
more for each defect with the calls that meet it: what is broken then, that defect breaks.
"""

import concurrent.futures
import os

from places import Place
from rows import DEFECTS, HISTORY

MARKS = {"found": "X", "not found": ".", "unknown": "?"}
PROBE = ("--findings=1", "--shrink-seconds=5")


def probed(checker, row, defect, options):
    """@return the result of a release and a defect"""
    name = f"{row.revision}-{defect.name}"
    count = os.path.join(checker.work, f"{name}.count")
    met = row._replace(adapter=f"{row.adapter} --meet={defect.name} --count={count}")
    code, results, output = checker.run(Place(met, options.folder, options.checkout), name, *PROBE,
                                        f"--operations={defect.operations}",
                                        *(f"--configuration={c}" for c in defect.configurations))
    times = 0
    if os.path.exists(count):
        with open(count, encoding="ascii") as file:
            times = int(file.read())
    check = next((r for r in results if r["experiment"] == "check"), {"metrics": {}})
    finding = next((r["parameters"] for r in results if r["experiment"] == "check_finding"), None)
    if finding:
        state, why = "found", f"{finding['finding']}: {finding['text']}"[:300]
    elif code not in (0, 3):
        state, why = "unknown", (output.strip().splitlines() or ["no output"])[-1]
    elif not times:
        state, why = "unknown", "no call that could meet it can be made"
    else:
        state, why = "not found", "-"
    metrics = {"met": times,
               "operations": check["metrics"].get("operations", {"value": 0})["value"]}
    return {"experiment": "engine_history",
            "parameters": {"engine": row.name, "revision": row.revision, "source": row.source,
                           "defect": defect.name, "what": defect.what, "link": defect.link or "-",
                           "state": state, "why": why,
                           "expected": "yes" if defect.expected(row.revision) else "no"},
            "metrics": {name: {"value": int(value), "unit": "count"}
                        for name, value in metrics.items()}}


def history(options, checker, examine):
    """@return the outcome of each release, and the results of its defects where it can be had"""
    def both(row):
        outcome = examine(row, options, checker)
        return outcome, [] if outcome.skipped else [
            probed(checker, row, defect, options) for defect in DEFECTS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [*pool.map(both, HISTORY)]
    return [outcome for outcome, _ in found], [result for _, part in found for result in part]


def known(outcomes, options, checker):
    """Looks for what the checked releases are listed to have, with the calls that meet it.
    @return the results"""
    found = []
    for o in outcomes:
        if o.row.name == HISTORY[0].name and o.verdict == "holds":
            its = [probed(checker, o.row, defect, options) for defect in DEFECTS
                   if defect.expected(o.row.revision)]
            o.counts["findings_known"] += sum(r["parameters"]["state"] == "found" for r in its)
            found += its
    return found


def differs(result):
    """@return whether a defect was found where it is not expected, or the other way round"""
    state = result["parameters"]["state"]
    return state != "unknown" and (state == "found") != (result["parameters"]["expected"] == "yes")


def print_grid(results):
    """Prints which defect was found in which release."""
    states = {(r["parameters"]["defect"], r["parameters"]["revision"]): r["parameters"]["state"]
              for r in results}
    revisions = list(dict.fromkeys(revision for _, revision in states))
    print("  ".join(["defect".ljust(14), *revisions]))
    for defect in dict.fromkeys(name for name, _ in states):
        marks = (MARKS[states[defect, revision]].ljust(len(revision)) for revision in revisions)
        print("  ".join([defect.ljust(14), *marks]).rstrip())
    print("X: found, .: not found, ?: no call that meets it can be made")
    print_differences(results)


def print_known(results):
    """Prints what was found that is listed."""
    for p in (r["parameters"] for r in results if r["parameters"]["state"] == "found"):
        said = p["why"].partition(": ")[2].partition(";")[0]
        print(f"known: {p['engine']} {p['revision']}: {p['defect']}: {p['what']} ({p['link']}); "
              f"{said}")
    print_differences(results)


def print_differences(results):
    for result in filter(differs, results):
        p = result["parameters"]
        print(f"not as expected: {p['defect']} in {p['revision']}: {p['state']}; {p['why']}")
