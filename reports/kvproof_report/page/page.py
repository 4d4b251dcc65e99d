# SPDX-License-Identifier: Apache-2.0
"""Puts figures, words and tables together into one HTML file that needs nothing else."""

from __future__ import annotations

import os
import re
import traceback
from html import escape
from string import Template
from typing import Any, Callable, Iterator, Sequence

from matplotlib.figure import Figure

from kvproof_report.common.experiments import words
from kvproof_report.common.result_files import Result, ResultFile, Results
from kvproof_report.draw import drawing, svg
from kvproof_report.draw.numbers import bytes_text, count
from kvproof_report.draw.plot import (Cell, Number, Plot, Table, label_cell, number_cell,
                                      plain_table, rows_of)
from kvproof_report.page.sections import DRAWN, SECTIONS, SUMMARY
from kvproof_report.page.verdict import verdict_of

HERE = os.path.dirname(os.path.abspath(__file__))

# What the header says about the machine, and what may differ between the files of one run.
HEADLINE = ("cpu", "cores", "memory_bytes")
PER_FILE = ("command", "date", "seed", "options", "programs")
MOST_NUMBERS = 5  # in the summary
MOST_ROWS = 80  # the page shows so many rows of a table; the rest is in the file


def render(results: Results, absent: dict[str, str], lenses: Sequence[tuple[str, str]] = ()) -> str:
    """@param absent: experiment -> why it has no result, where that is known. An experiment whose
    figure fails here is added to it.
    @param lenses: (path from the page, title) of pages that show a law as it breaks"""
    sections = []
    shown = [(name, plots) for name, plots in SECTIONS.items()
             if any(is_due(plot, results, absent) for plot in plots)]
    for name, plots in shown:
        sections.append(f'<section id="{anchor(name)}">\n<h2>{escape(name)}</h2>\n' +
                        (links(lenses) if name == "Correctness" and lenses else "") +
                        "\n".join(articles(plots, results, absent)) + "\n</section>")
    further = [name for name in results.experiments()
               if name not in DRAWN and not name.endswith("_note")]
    if further:
        sections.append('<section id="further">\n<h2>Further results</h2>\n' + "\n".join(
            f"<details><summary>{escape(words(name).capitalize())}</summary>\n"
            f"{html_table(plain_table(results.of(name)))}</details>"
            for name in further) + "\n</section>")
    template = Template(read("page.html"))
    return template.substitute(
        title=escape(page_title(results)), style=read("page.css") + colours(),
        script=read("page.js"), headline=headline(results), warnings=warnings(results),
        verdict=verdict(results),
        numbers=numbers(results, absent), contents=contents(shown), machine=machine(results),
        sections="\n".join(sections), sources=sources(results), took=what_it_took(results))


def links(lenses: Sequence[tuple[str, str]]) -> str:
    said = "; ".join(f'<a href="{escape(path)}">{escape(title.rstrip("."))}</a>'
                     for path, title in lenses)
    return f'<p class="how">A law as it breaks, step by step: {said}.</p>\n'


def read(name: str) -> str:
    with open(os.path.join(HERE, name), encoding="utf-8") as stream:
        return stream.read()


def anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def colours() -> str:
    """The palette of the figures as CSS variables: light, dark, and light again on paper."""
    light, dark = ("".join(f"--{role}:{pair[side]};" for role, pair in drawing.COLOURS.items())
                   for side in (0, 1))
    return (f":root{{{light}}}\n"
            f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n")


# ---- header and summary -------------------------------------------------------------------------

def known(environment: dict[str, Any], name: str) -> Any:
    value = environment.get(name)
    if name == "profile" and "compiler" in environment:  # older files are of the default of then
        value = value or "vllm-0.24"
    return None if value in (None, "", "unknown") else value


def common(results: Results, name: str) -> list[Any]:
    """The values of one environment key over all files, each once."""
    values = []
    for environment in results.environments():
        value = known(environment, name)
        if value is not None and value not in values:
            values.append(value)
    return values


LABELS = {"cpu": "processor", "page_bytes": "page size", "cache_l1d_bytes": "L1 data cache",
          "cache_l2_bytes": "L2 cache", "cache_l3_bytes": "L3 cache",
          "transparent_huge_pages": "huge pages"}


def value_text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if name == "memory_bytes":
        return f"{value / 2 ** 30:.1f}\u202fGiB"
    if name.endswith("_bytes"):
        binary = value % 1024 == 0
        return (f"{count(value / 1024)}\u202fKiB" if binary and value < 2 ** 23 else
                f"{value / 2 ** 20:,.0f}\u202fMiB" if binary else bytes_text(value))
    return count(value) if float(value).is_integer() else str(value)


def page_title(results: Results) -> str:
    cpus = common(results, "cpu")
    return "kvproof report" + (f": {cpus[0]}" if len(cpus) == 1 else "")


def headline(results: Results) -> str:
    parts = []
    for name in HEADLINE:
        for value in common(results, name):
            text = value_text(name, value)
            parts.append(text if name == "cpu" else
                         f"{text} {'memory' if name == 'memory_bytes' else words(name)}")
    for value in common(results, "commit"):
        commit, *rest = str(value).split(" ")  # "<hash> with changes"
        parts.append(" ".join([f"commit {commit[:12]}", *rest]))
    days = sorted({str(value)[:10] for value in common(results, "date")})
    if days:
        parts.append(days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")
    return "".join(f"<span>{escape(part)}</span>" for part in parts)


def warnings(results: Results) -> str:
    """The page says so when it mixes numbers of different builds or machines."""
    lines = []
    for name in ("commit", "cpu", "compiler", "flags", "profile"):
        values = common(results, name)
        if len(values) > 1:
            lines.append(f"Results that differ in their {LABELS.get(name, words(name))} share this "
                         "page: " + "; ".join(str(value) for value in values) + ".")
    if any(str(known(e, "build_type") or "Release") != "Release" for e in results.environments()):
        lines.append("Some of these results come from a build without optimisation.")
    if any("--smoke" in str(e.get("command", "")).split() for e in results.environments()):
        lines.append("A smoke run: small inputs, made to see that everything works, "
                     "not to be quoted.")
    return "".join(f'<p class="warning">{escape(line)}</p>' for line in lines)


def verdict(results: Results) -> str:
    """Says whether the results are right, before the page says how fast anything is."""
    kind, title, lines = verdict_of(results)
    said = " ".join(f"<span>{escape(line)}</span>" for line in lines)
    return (f'<p class="verdict {kind}"><b>{escape(title)}</b> {said}</p>')


def numbers(results: Results, absent: dict[str, str]) -> str:
    """Shows the first numbers of SUMMARY; a number without results is left out."""
    cards: list[str] = []
    for plot in SUMMARY:
        rows = rows_of(plot, results)
        if rows and plot.experiment not in absent and len(cards) < MOST_NUMBERS:
            number = plot.number(rows) if plot.number else None
            if number:
                cards.append(card(plot, number))
    return "\n".join(cards)


def card(plot: Plot, number: Number) -> str:
    share = number.share()
    bar = "" if share is None else (
        f'<i class="bar"><i style="width:{100 * share:.1f}%"></i></i>')
    ceiling = f"<em>{escape(number.ceiling_text)}</em> " if number.ceiling_text else ""
    return (f'<li><a href="#{plot.key}"><b>{escape(number.text)}</b> '
            f"<span>{escape(number.what)}</span> {bar}"
            f"<small>{ceiling}{escape(capital(number.context))}</small></a></li>")


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def machine(results: Results) -> str:
    rows = []
    names = list(dict.fromkeys(name for e in results.environments() for name in e))
    for name in names:
        if name in PER_FILE:
            continue
        texts = [value_text(name, value) for value in common(results, name)] or ["unknown"]
        label = LABELS.get(name, words(name.removesuffix("_bytes")))
        rows.append(f"<div><dt>{escape(label)}</dt><dd>{escape('; '.join(texts))}</dd></div>")
    return "\n".join(rows)


def contents(sections: list[tuple[str, list[Plot]]]) -> str:
    return " ".join(f'<a href="#{anchor(name)}">{escape(name)}</a>' for name, _ in sections)


def is_due(plot: Plot, results: Results, absent: dict[str, str]) -> bool:
    """Whether the page has to say that the figure is missing."""
    return (not plot.optional or plot.experiment in absent
            or any(results.of(name) for name in plot.experiments))


# ---- one figure ---------------------------------------------------------------------------------

def why_absent(plot: Plot, rows: list[Result], absent: dict[str, str]) -> str:
    if plot.experiment in absent:
        return f"not measured: {absent[plot.experiment]}"
    if not rows:
        return f"not measured: no result of {plot.experiment} in the given files"
    return "the results lack a case that this number compares"


def articles(plots: list[Plot], results: Results, absent: dict[str, str]) -> Iterator[str]:
    """The figures of a section; what several of them have in common stands once, above them."""
    said = set()
    for plot in plots:
        if plot.family and plot.family not in said:
            said.add(plot.family)
            yield preface(plot, results, absent)
        if not plot.family or results.of(plot.experiment):
            yield article(plot, results, absent)


def preface(plot: Plot, results: Results, absent: dict[str, str]) -> str:
    """The words of a family of figures; where none of them can be drawn, why."""
    if results.of(plot.experiment):
        return (f'<div class="family"><p class="how">{escape(plot.family or "")}</p>\n'
                f"{made_by(plot, results)}</div>")
    return gap(plot, why_absent(plot, [], absent), not is_due(plot, results, absent))


def article(plot: Plot, results: Results, absent: dict[str, str]) -> str:
    rows = rows_of(plot, results)
    if not rows:
        return gap(plot, why_absent(plot, rows, absent), not is_due(plot, results, absent))
    try:
        title, table = plot.finding(rows), table_of(plot, rows, results)
        drawings = drawings_of(lambda width: plot.draw(rows, width), plot.key, title)
    except Exception as error:  # a mistake in one figure must not take the others away
        traceback.print_exc()
        absent[plot.experiment] = f"the figure could not be drawn ({type(error).__name__}: {error})"
        return gap(plot, absent[plot.experiment], False)
    return (f'<article id="{plot.key}">\n<h3>{escape(title)}</h3>\n'
            f'<div class="body">\n<figure>{drawings}</figure>\n<div class="notes">\n'
            f"<p>{escape(plot.see)}</p>\n"
            f'<p class="how">{escape(plot.measured)}</p>\n'
            f"{'' if plot.family else made_by(plot, results)}\n</div>\n</div>\n"
            f"<details><summary>The numbers</summary>\n{html_table(table)}\n</details>\n"
            "</article>")


def drawings_of(draw: Callable[[int], Figure], key: str, title: str) -> str:
    """What is drawn for a desk and for a phone."""
    return "\n".join(
        f'<div class="{kind}">{svg.to_svg(draw(width), f"{key}-{kind}", escape(title))}</div>'
        for kind, width in (("wide", drawing.WIDE), ("narrow", drawing.NARROW)))


def table_of(plot: Plot, rows: list[Result], results: Results) -> Table:
    totals = results.of(plot.totals) if plot.totals else []
    return plain_table(totals) if totals else plot.table(rows)


def gap(plot: Plot, reason: str, of_another_run: bool) -> str:
    """Stands in the place of a figure that is missing."""
    name = escape(words(plot.experiment).capitalize())
    made = f"<code>{html_words(plot.command)}</code>"
    if of_another_run:
        name = capital(words(plot.experiment if plot.family else plot.key.replace("-", " ")))
        return (f'<p id="{plot.key}" class="absent">{name}: not part of this run; {made} adds it.'
                "</p>")
    return (f'<article id="{plot.key}" class="absent">\n<h3>{name}</h3>\n'
            f"<p>This figure is missing: {escape(reason)}.</p>\n"
            f"<p>Made by {made}.</p>\n</article>")


def made_by(plot: Plot, results: Results) -> str:
    files = [file for file in results.files
             if any(row.experiment in plot.experiments for row in file.results)]
    lines = []
    for file in files:
        command = plain_command(file.environment.get("command")) or plot.command
        seconds = looked(file, results)
        took = f"<dt>looked</dt><dd>{seconds:.3g} s</dd>" if seconds is not None else ""
        lines.append(f'<dl class="made"><dt>command</dt><dd><code>{html_words(command)}</code></dd>'
                     f"<dt>file</dt><dd><code>{escape(file.name)}</code></dd>{took}</dl>")
    return "\n".join(lines)


def looked(file: ResultFile, results: Results) -> float | None:
    """How many seconds went into this file, where the run that wrote it says so; else None."""
    part = os.path.basename(file.name).removesuffix(".json")
    return next((row.value("seconds") for row in results.of("report_part") if row["part"] == part),
                None)


def html_words(command: str) -> str:
    """The command as HTML that breaks lines only between its words."""
    return " ".join(f'<span class="word">{escape(word)}</span>' for word in command.split(" "))


def plain_command(command: Any) -> str | None:
    """The command without the folders of the machine on which it ran."""
    if not isinstance(command, str) or not command:
        return None
    return " ".join(re.sub(r"^(--[a-z-]+=)?('?)[^='\s]*/", r"\1\2", word)
                    for word in command.split(" "))


def html_table(table: Table) -> str:
    kinds = ["number" if is_number else "text" for _, is_number in table.columns]
    head = "".join(f'<th scope="col" class="{kind}">{escape(name)}</th>'
                   for kind, (name, _) in zip(kinds, table.columns))
    body = []
    for row in table.rows[:MOST_ROWS]:
        cells = "".join(f'<td class="{kind}" data-key="{escape(str(key))}">{cell(text)}</td>'
                        for kind, (text, key) in zip(kinds, row))
        body.append(f"<tr>{cells}</tr>")
    more = len(table.rows) - MOST_ROWS
    note = f"<p>{count(more)} further rows are in the file.</p>" if more > 0 else ""
    return ('<div class="scroll"><table class="sortable">\n<thead><tr>' + head +
            "</tr></thead>\n<tbody>\n" + "\n".join(body) + f"\n</tbody></table></div>{note}")


def cell(text: str) -> str:
    """The text; an address alone becomes a link, which is fetched only when a reader follows it."""
    shown = escape(text)
    return f'<a href="{shown}">{shown}</a>' if re.fullmatch(r"https://[!-~]+", text) else shown


def sources(results: Results) -> str:
    rows = []
    for file in results.files:
        environment = file.environment
        held = ", ".join(sorted({row.experiment for row in file.results})) or "nothing"
        cells = [f"<code>{escape(file.name)}</code>", escape(held), count(len(file.results)),
                 escape(str(environment.get("date", ""))), escape(str(environment.get("seed", "")))]
        rows.append("<tr>" + "".join(
            f'<td class="{kind}">{cell}</td>'
            for kind, cell in zip(("text", "text", "number", "text", "number"), cells)) + "</tr>")
    return "\n".join(rows)


def seconds_cell(part: Result, name: str) -> Cell:
    return (f"{part.value(name):.1f}", part.value(name))


def what_it_took(results: Results) -> str:
    """The time and memory that the run took, if its run.json is among the files."""
    parts = results.of("report_part")
    if not parts:
        return ""
    seconds = sum(part.value("seconds") for part in parts)
    most = max(parts, key=lambda part: part.value("peak_rss_bytes"))
    cpu_seconds = sum(part.value("cpu_seconds") for part in parts)
    return (f"<p>Measuring took {count(seconds)}\u202fs, {count(cpu_seconds)}\u202fs of them on a "
            "core. The part that held most memory is "
            f"{escape(words(most['part']))}, {bytes_text(most.value('peak_rss_bytes'))} (resident "
            "set at its peak, with its child processes).</p>\n" + html_table(Table(
                [("part", False), ("time (s)", True), ("on a core (s)", True),
                 ("peak memory", True)],
                [[label_cell(words(part["part"])), seconds_cell(part, "seconds"),
                  seconds_cell(part, "cpu_seconds"),
                  number_cell(part.value("peak_rss_bytes"), "bytes")] for part in parts])))
