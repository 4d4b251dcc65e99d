# SPDX-License-Identifier: Apache-2.0
"""Paged decode: the share of the read ceiling and the price of paging, by block size and shape."""

from kvproof_report.common.result_files import Metric
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row, grouped
from kvproof_report.draw.lines import Axis, Lines, Series
from kvproof_report.draw.numbers import binary, count, digits, times
from kvproof_report.draw.plot import Number, Plot, plain_table
from kvproof_report.draw.sheet import Beside, Key, drawn

# Every other case differs from this one in one step.
BASE = {"type": "bf16", "layout": "hnd", "block_size": 16, "order": "shuffled", "ratio": 4,
        "threads": 1}
LAYOUT_LOOK = {"hnd": (d.BLUE, d.SOLID, "o"), "nhd": (d.GREEN, d.DASHED, "P")}
CONTIGUOUS_LOOK = (d.VERMILLION, d.DOTTED, "s")
READ, GATHER, PAGED = ("fraction_of_read_ceiling", "fraction_of_gather_ceiling",
                       "paged_over_contiguous")
CONTIGUOUS = "contiguous_fraction_of_read_ceiling"

# Published prices of paging, as time over the time with contiguous buffers: those of today, and
# those of the kernels of the first paper (Kwon et al., SOSP 2023).
PUBLISHED_PRICES = ((1.05, 1.10), (1.20, 1.26))


def main_case(results):
    """The case of BASE with four sequences, or the first case if there is none."""
    found = [r for r in results
             if all(r.get(name) == value for name, value in BASE.items()) and r["batch"] == 4]
    return (found or results)[0]


CASE = (*BASE, "implementation")


def differs(result, base):
    """The parameters in which two cases differ; context and batch go together."""
    found = [name for name in CASE if result.get(name) != base.get(name)]
    same = all(result.get(name) == base.get(name) for name in ("context", "batch"))
    return found if same else found + ["context"]


def by_block_size(results, layout):
    """Shuffled cases of one layout that differ in nothing but the block size, ascending."""
    base = main_case(results)
    same = [name for name in (*CASE, "context", "batch") if name not in ("layout", "block_size")]
    rows = [r for r in results
            if r.get("layout") == layout and all(r.get(n) == base.get(n) for n in same)]
    return sorted(rows, key=lambda r: r["block_size"])


def layouts(results):
    return [name for name in LAYOUT_LOOK if by_block_size(results, name)]


def sizes_of(results):
    return sorted({r["block_size"] for name in layouts(results)
                   for r in by_block_size(results, name)})


# ---- by block size ------------------------------------------------------------------------------

@drawn
def draw_blocks(results):
    sizes = sizes_of(results)
    at = 4 * sizes[-1]  # published prices stand right of all block sizes: their sources name none
    shares, prices = [], []
    for name in layouts(results):
        rows = by_block_size(results, name)
        reads, paged = ([(r["block_size"], r.metrics[metric]) for r in rows]
                        for metric in (READ, PAGED))
        contiguous = [(r["block_size"], r.value(CONTIGUOUS)) for r in rows]
        shares += [Series("", LAYOUT_LOOK[name], reads),
                   Series("", CONTIGUOUS_LOOK, contiguous, 1.2, 3)]
        prices.append(Series("", LAYOUT_LOOK[name], paged))
    prices.append(Series("", (d.INK, "", "D"), [
        (at, Metric((low + high) / 2, "ratio", low, high)) for low, high in PUBLISHED_PRICES],
        size=5.5, hollow=True))
    title = "tokens per block, log scale"
    panels = [Lines("bytes over time", Axis(title, 2, count, sizes),
                    Axis("share of the read ceiling; bars: 10 to 90 %", span=[0, 1]), shares),
              Lines("the price of paging", Axis(title, 2, lambda size: "published" if size == at
                                                else count(size), [*sizes, at], pad=1.6),
                    Axis("time over that of contiguous buffers", span=[0.9, 1.32]), prices,
                    [(1, "", (d.SOFT, d.SOLID, ""))])]
    return [Beside(panels, 300),
            Key([(f"{name.upper()} paged", LAYOUT_LOOK[name]) for name in layouts(results)] +
                [("contiguous, both layouts", CONTIGUOUS_LOOK)])]


def finding_blocks(results):
    base = main_case(results)
    return (f"Paged decode reads its cache at {digits(100 * base.value(READ), 2)} % of what this "
            f"machine's memory gives, and takes {digits(base.value(PAGED))} times as long as over "
            f"contiguous buffers ({base['layout'].upper()}, blocks of {base['block_size']} tokens)")


def number(results):
    base = main_case(results)
    share = base.metrics[READ]
    return Number(f"{digits(100 * share.value, 2)}\u202f%",
                  f"of this memory's read bandwidth reached by paged decode, {case_text(base)}",
                  f"contiguous buffers: {digits(100 * base.value(CONTIGUOUS), 2)}\u202f%; a bare "
                  f"gather of the same pieces: "
                  f"{digits(100 * share.value / base.value(GATHER), 2)}\u202f%" +
                  spread_text(share, lambda v: f"{digits(100 * v, 2)}"),
                  share, 1.0, "Ceiling 100\u202f%: the fastest plain read of the same bytes.")


def price(results):
    """How much longer paged takes than contiguous, in the same case."""
    base = main_case(results)
    factor = base.metrics[PAGED]
    return Number(times(factor.value), "the time of contiguous buffers is what paged decode takes, "
                  + case_text(base), "Published for paging: 1.05 to 1.10" +
                  spread_text(factor, digits), factor, 1.0,
                  "Floor 1\u202f×: the same kernel over contiguous buffers.", less=True)


def case_text(base):
    return (f"{base['layout'].upper()}, blocks of {base['block_size']} tokens, "
            f"{base['implementation']}")


def spread_text(metric, text):
    return (f"; 10 to 90\u202f% of the rounds: {text(metric.low)} to {text(metric.high)}"
            if metric.has_spread else "")


# ---- by shape -----------------------------------------------------------------------------------

NAMES = {"layout": "layout", "threads": "threads", "order": "block order", "context": "context",
         "type": "element type", "ratio": "query heads of a KV head", "": "the case above"}


def shape_rows(results):
    """Every case that is not of the block sweep."""
    base = main_case(results)
    groups = {}
    for result in results:
        names = differs(result, base)
        if "block_size" in names:
            continue
        key = "+".join(n for n in names if n != "layout") or "".join(names)
        groups.setdefault(key, []).append(result)
    return grouped({" and ".join(NAMES.get(n, n) for n in key.split("+")): [
        Row(label_of(r, key), [Dot(r.metrics[READ], LAYOUT_LOOK[r["layout"]][0]),
                               Dot(r.metrics[CONTIGUOUS], d.VERMILLION, hollow=True)])
        for r in groups.get(key, [])] for key in ["", *[k for k in groups if k]]})


def label_of(result, key):
    parts = [result["layout"].upper()]
    if "context" in key:
        parts.append(f"{result['batch']} × {binary(result['context'])}")
    for name in ("type", "order", "threads", "ratio", "implementation"):
        if name in key.split("+"):
            parts.append(f"{result[name]} threads" if name == "threads" else str(result[name]))
    if not key:
        parts.append(f"{result['batch']} × {binary(result['context'])} tokens")
    return ", ".join(parts)


@drawn
def draw_shapes(results):
    return [Dots(shape_rows(results), "share of the read ceiling; line: 10 to 90 %", mark=1,
                 spread=True),
            Key([("paged", (d.BLUE, "", "o")), ("paged, NHD", (d.GREEN, "", "o")),
                 ("contiguous", (d.VERMILLION, "", "o"))], fill={"contiguous": 0})]


def finding_shapes(results):
    base = main_case(results)
    shares = [(r.value(READ), r) for r in results if "block_size" not in differs(r, base)]
    low, high = min(shares, key=lambda s: s[0]), max(shares, key=lambda s: s[0])
    return (f"Over context, batch, type, ratio, threads and implementation the share lies between "
            f"{digits(low[0], 2)} ({words_of(low[1])}) and {digits(high[0], 2)} "
            f"({words_of(high[1])})")


def words_of(result):
    return (f"{result['type']}, {result['layout'].upper()}, {result['batch']} × "
            f"{binary(result['context'])} tokens, ratio {result['ratio']}, "
            f"{result['threads']} thread{'s' if result['threads'] > 1 else ''}, "
            f"{result['implementation']}")


MEASURED = ("Each round reads the same bytes, gathers the same pieces, and runs the contiguous and "
            "the paged kernel once, in turn; a share is of two times of one round, shown is the "
            "median with the 10th and 90th percentile. Outputs were compared bit by bit and with "
            "double precision on the same buffers first. 8 KV heads of 128 elements; huge pages.")
COMMAND = "kvproof bench --filter=paged_decode"

BLOCKS = Plot(
    "decode-block-size", "paged_decode", COMMAND, draw_blocks, finding_blocks,
    "Left, 1 is the fastest plain read of the same bytes; the dotted line is the same kernel over "
    "contiguous buffers. Right, 1 is a paging that costs nothing; "
    "hollow: published prices, 5 to 10 %, and 20 to 26 % for the kernels of the first paper.",
    MEASURED, lambda results: plain_table(
        [r for name in layouts(results) for r in by_block_size(results, name)]), number,
    section="Kernels", place=10, summary=10)
SHAPES = Plot(
    "decode-shapes", "paged_decode", COMMAND, draw_shapes, finding_shapes,
    "Each row is one case, one step away from the first; the hollow dot is the same kernel over "
    "contiguous buffers.",
    MEASURED, plain_table, price, section="Kernels", place=10, summary=20)
PLOTS = [BLOCKS, SHAPES]
