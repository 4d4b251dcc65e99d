# SPDX-License-Identifier: Apache-2.0
"""Releases of vLLM V1 under the laws: which defect lived from which release to which.

The adapter goes around all that is known (vllm_known.py). A release is checked so, and then once
more for each defect with the calls that meet it: what is broken then, that defect breaks.
"""

import os

from places import Place
from rows import DEFECTS, HISTORY

from kvproof_support import results
from kvproof_support.tasks import runner

PROBE = ("--findings=1", "--shrink-seconds=5")
OPERATIONS = {"output-key": 60000}  # in each configuration, where 4000 do not meet it


def probed(checker, row, defect, options, experiment="engine_history"):
    """@return the row of a release and a defect, which is broken if the defect is found where it
    is not expected, or the other way round"""
    name = f"{row.revision}-{defect.name}"
    count = os.path.join(checker.work, f"{name}.count")
    met = row._replace(adapter=f"{row.adapter} --meet={defect.name} --count={count}")
    ended, rows = checker.run(Place(met, options.folder, options.checkout), name, *PROBE,
                              f"--operations={OPERATIONS.get(defect.name, 4000)}",
                              *(f"--configuration={c}" for c in defect.where))
    times, expected = 0, defect.lives_in(row.revision)
    if os.path.exists(count):
        with open(count, encoding="ascii") as file:
            times = int(file.read())
    if finding := next(iter(results.of(rows, "check_finding")), None):
        law, said = (finding["parameters"][key] for key in ("law", "reason"))
        verdict, reason = "known" if expected else "broken", f"{law}: {said}"[:300]
    elif ended.exit_code not in (0, 3):
        verdict, reason = "not_evaluated", ended.last_line()
    elif not times:
        verdict, reason = "not_evaluated", "no call that could meet it can be made"
    else:
        verdict = "broken" if expected else "holds"
        reason = "it is expected, and was not found" if expected else ""
    operations = sum(results.value(each, "operations") for each in results.of(rows, "check"))
    return results.row(experiment, {
        "engine": row.name, "revision": row.revision, "source": row.source, "defect": defect.name,
        "what": defect.what, "link": defect.page, "verdict": verdict, "reason": reason,
        "known": defect.id if verdict == "known" else "",
        "expected": "yes" if expected else "no"}, {"met": times, "operations": operations})


def history(options, checker, examine):
    """@return the outcome of each release, with the rows of its defects where it can be had"""
    def both(row):
        outcome = examine(row, options, checker)
        if outcome.code not in (2, 77):
            outcome.rows += [probed(checker, row, defect, options) for defect in DEFECTS]
        return outcome
    return [*runner().each(both, HISTORY, os.cpu_count())]


def defects_of(outcomes, options, checker):
    """Looks for what the checked releases are listed to have, with the calls that meet it."""
    for o in outcomes:
        if o.row.name == HISTORY[0].name and o.code == 0:
            its = [probed(checker, o.row, defect, options, "engine_known") for defect in DEFECTS
                   if defect.lives_in(o.row.revision)]
            o.rows[0]["metrics"]["findings_known"]["value"] += sum(
                each["parameters"]["verdict"] == "known" for each in its)
            o.rows += its
