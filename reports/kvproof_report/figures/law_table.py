# SPDX-License-Identifier: Apache-2.0
"""Law by law: how often it was evaluated on each subject, and the verdict."""

from kvproof_report.common.experiments import words
from kvproof_report.draw import drawing as d
from kvproof_report.draw.numbers import count, short
from kvproof_report.draw.plot import Plot, Table, groups
from kvproof_report.figures.kill_counts import law_order

STEP = 20  # [px] from one law to the next


def is_broken(result):
    return result["verdict"] == "broken"


def is_vacuous(result):
    """Whether the law was promised and never evaluated."""
    return result["verdict"] == "cannot_tell"


def is_bad(result):
    return is_broken(result) or is_vacuous(result)


def holds(result):
    return result["verdict"] == "holds"


def laws_of(results):
    """law -> results, one for each subject."""
    found = groups(results, "law")
    return {law: found[law] for law in sorted(found, key=law_order)}


def looks_of(results):
    return {subject: d.SERIES_LOOK[i % len(d.SERIES_LOOK)]
            for i, subject in enumerate(groups(results, "subject"))}


def draw(results, width):
    narrow = width < 500
    laws, looks = laws_of(results), looks_of(results)
    left = 166 if narrow else 218
    names = [(d.shorten(subject), (colour, "None", marker))
             for subject, (colour, _, marker) in looks.items()]
    key = d.key_height(names, width - left - 8)
    height = STEP * len(laws)
    figure = d.new_figure(width, key + 6 + height + 48)
    d.draw_key(figure, names, left, 0, width - left - 8)
    axes = d.place(figure, left, key + 6, width - left - 20, height)
    set_scale(axes, [r.value("evaluated") for r in results], 4 if narrow else 8)
    axes.set_ylim(len(laws) - 0.5, -0.5)
    for index, (law, rows) in enumerate(laws.items()):
        draw_law(axes, index, law, rows, looks, narrow)
    d.row_axis(axes)
    d.x_title(axes, "times that the law was evaluated, log scale")
    return figure


def set_scale(axes, values, most_marks):
    """The axis begins at 0 only if a law was never evaluated."""
    least, most = min(values), max(1, *values)
    if least > 0:
        axes.set_xscale("log")
        axes.set_xlim(least / 2, most * 2)
        marks = d.log_marks(least / 2, most * 2, most_marks)
    else:
        axes.set_xscale("symlog", linthresh=1, linscale=0.5)
        axes.set_xlim(0, most * 2)
        marks = [0] + d.powers(1, most * 2)
    d.ticks(axes.xaxis, d.thin(marks, most_marks), short)


def draw_law(axes, index, law, rows, looks, narrow):
    bad = any(is_bad(r) for r in rows)
    axes.axhline(index, color=d.GRID, linewidth=0.8, zorder=0)
    for shift, text, weight in ((-(158 if narrow else 206), law, "bold"),
                                (-(130 if narrow else 176),
                                 d.shorten(rows[0]["name"], 19 if narrow else 28), "normal")):
        d.write(axes, text, (0, index), (shift, 0), d.RED if bad else d.INK, on="row",
                weight=weight, size=10.5)
    order = list(looks)
    for row in rows:
        colour, _, marker = looks[row["subject"]]
        # Subjects stand a little apart, so that equal counts do not hide each other.
        y = index + 0.6 * (order.index(row["subject"]) + 0.5) / len(order) - 0.3
        colour = d.RED if is_bad(row) else colour
        axes.plot([row.value("evaluated")], [y], color=colour, marker=marker,
                  markersize=8 if is_bad(row) else 5, markeredgewidth=1.3,
                  markerfacecolor=colour if holds(row) or is_bad(row) else d.PAPER,
                  clip_on=False, zorder=4 if is_bad(row) else 3)


# ---- in words -----------------------------------------------------------------------------------

def said(result):
    """The verdict, and the reason if there is one."""
    return ": ".join(filter(None, (words(result["verdict"]), result.get("reason"))))


def finding(results):
    laws, subjects = laws_of(results), groups(results, "subject")
    bad = [r for r in results if is_bad(r)]
    if bad:
        named = "; ".join(f"{r['law']} of {r['subject']} ({words(r['verdict'])})" for r in bad[:5])
        return f"{len(bad)} of {len(results)} verdicts are not what they should be: {named}"
    asked = [r for r in results if holds(r)]
    if not asked:
        return f"{len(laws)} laws, and none was evaluated"
    least = min(asked, key=lambda r: r.value("evaluated"))
    whom = next(iter(subjects)) if len(subjects) == 1 else f"{len(subjects)} subjects"
    return (f"{len(groups(asked, 'law'))} laws were evaluated on {whom} "
            f"{count(sum(r.value('evaluated') for r in asked))} times and none was broken; the one "
            f"evaluated least, {least['law']} ({least['name']}) of {least['subject']}, "
            f"{count(least.value('evaluated'))} times")


def table(results):
    """A row for each law, with the verdicts on all subjects side by side."""
    subjects = list(groups(results, "subject"))
    columns = [("law", False), ("name", False)]
    for subject in subjects:
        columns += [(f"{subject}: evaluated", True), ("suspended", True), ("verdict", False)]
    rows = []
    for number, (law, found) in enumerate(laws_of(results).items()):
        row = [(law, number), (found[0]["name"], found[0]["name"])]
        by_subject = {r["subject"]: r for r in found}
        for subject in subjects:
            result = by_subject.get(subject)
            row += [(count(result.value(name)), result.value(name)) if result else ("", "")
                    for name in ("evaluated", "suspended")]
            row.append((said(result),) * 2 if result else ("", ""))
        rows.append(row)
    return Table(columns, rows)


PLOT = Plot(
    "law-table", "check_law", "kvproof check --json=check.json", draw, finding,
    "A law that was never evaluated proves nothing: every filled mark is a law that holds and was "
    "evaluated so often. Hollow: not demanded of this subject, with the reason in the table. Red: "
    "broken, or promised and never evaluated.",
    "Random operations on every configuration that the subject can run, boundary lengths and small "
    "pools preferred, all laws after each operation; suspended are the times at which the law "
    "was set aside by an operation that it names.",
    table, optional=True, section="Correctness", place=20)
