# SPDX-License-Identifier: Apache-2.0
"""One number of several machines: a bar with its spread, and the best value possible there."""

from kvproof_report.draw import drawing as d

STEP, HEAD, FOOT = 46, 20, 44  # [px]
PERCENT = 100


def draw(numbers, width):
    """@param numbers of (machine, Number with a metric), one or more of one unit"""
    entries = key_of(numbers)
    key = HEAD + STEP * len(numbers) + FOOT
    figure = d.new_figure(width, key + d.key_height(entries, width - 24))
    axes = d.place(figure, 12, HEAD, width - 12 - 24, STEP * len(numbers))
    scale = PERCENT if is_share(numbers) else 1
    # Room for the words at the right; a single bad repetition does not set the scale.
    values = [edge for _, n in numbers for edge in (
        n.metric.value, n.ceiling or 0, min(n.metric.high, 1.5 * n.metric.value))]
    axes.set_xlim(0, max(values) * scale * (1.4 if width < 500 else 1.2) or 1)
    axes.set_ylim(len(numbers) - 0.35, -0.65)
    for index, (machine, number) in enumerate(numbers):
        draw_bar(axes, index, machine, number, scale)
    d.row_axis(axes)
    d.x_title(axes, axis_text(numbers))
    d.draw_key(figure, entries, 12, key, width - 24)
    return figure


def key_of(numbers):
    spread = any(number.metric.has_spread for _, number in numbers)
    entries = [("measured" + ("; line: its spread" if spread else ""), (d.BLUE, "", "s"))]
    if any(number.ceiling for _, number in numbers):
        kind = "floor, less is better" if numbers[0][1].less else "ceiling, more is better"
        entries.append((kind, (d.VERMILLION, d.DASHED, "")))
    return entries


def is_share(numbers):
    """Whether the numbers are shares, which are shown in percent and cannot exceed 100."""
    return all(n.metric.unit in ("ratio", "share") and not n.less for _, n in numbers)


def axis_text(numbers):
    if is_share(numbers):
        return "%"
    unit = numbers[0][1].metric.unit
    return "times (×)" if unit == "ratio" else unit


def draw_bar(axes, index, machine, number, scale):
    metric = number.metric
    axes.annotate(machine, (0, index - 0.22), va="bottom", color=d.INK)
    axes.barh(index, metric.value * scale, height=0.34, color=d.BLUE, alpha=0.4, linewidth=0)
    axes.plot([metric.value * scale] * 2, [index - 0.17, index + 0.17], color=d.BLUE, linewidth=2.5)
    if metric.has_spread:
        most = axes.get_xlim()[1]
        axes.plot([metric.low * scale, min(metric.high * scale, most)], [index, index],
                  color=d.INK, linewidth=1.2, marker="|", markersize=8, clip_on=False, zorder=4)
    if number.ceiling:
        best = number.ceiling * scale
        axes.plot([best, best], [index - 0.2, index + 0.24], color=d.VERMILLION, linewidth=1.5,
                  linestyle=d.DASHED, zorder=5)
    axes.annotate(number.text, (1, index), xycoords=("axes fraction", "data"), va="center",
                  ha="right", color=d.INK, weight="bold")
