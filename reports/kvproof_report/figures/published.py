# SPDX-License-Identifier: Apache-2.0
"""Published claims beside the results of a simulation of the same case: one figure each."""

from dataclasses import dataclass
from functools import partial

from kvproof_report.common.experiments import STORAGES
from kvproof_report.draw import drawing as d
from kvproof_report.draw.dots import Dot, Dots, Row
from kvproof_report.draw.numbers import NARROW_SPACE, count, digits, percent, short
from kvproof_report.draw.plot import Plot, groups, plain_table
from kvproof_report.draw.sheet import Key, drawn

NEAR = 1.1  # a published value agrees if it lies in our range, or beyond it by this factor
LOG_SPAN = 20  # from this ratio of the largest to the smallest value the axis is logarithmic


# ---- drawing ------------------------------------------------------------------------------------

def text_of(value, unit):
    if unit == "ratio":
        return percent(value)
    if unit in ("ms", "s"):
        return f"{digits(value)}{NARROW_SPACE}{unit}"
    return count(value) if value >= 1000 or float(value).is_integer() else digits(value)


def range_text(metric):
    """Both bounds with the unit once: '10 to 15 %'."""
    low, high = (text_of(bound, metric.unit) for bound in (metric.low, metric.high))
    if not metric.has_spread:
        return high
    return f"{low.partition(NARROW_SPACE)[0].removesuffix('.0')} to {high.replace('.0', '')}"


# The title of the axis, for claims whose rows are cases of one quantity.
QUANTITIES = {"watermark": "preemptions", "first_token": "time to the first token",
              "block_size": "unused tokens of a last block"}


def common_of(rows):
    """The beginning that all cases share, up to a comma; the whole case if there is only one."""
    cases = list(groups(rows, "at"))
    if len(cases) == 1:
        return cases[0]
    first = cases[0].partition(", ")[0]
    return first if all(case.startswith(first + ", ") for case in cases) else ""


def label_of(row, rows):
    """The label that tells a row from the others: its series, its case, or both."""
    series = STORAGES.get(row["series"], row["series"])
    case = row["at"].removeprefix(common_of(rows)).removeprefix(", ")
    if not case:
        return series
    return f"{series}: {case}" if len(groups(rows, "series")) > 1 else case


@drawn
def draw(results):
    """Our value with its range, the published one hollow; each unit has an axis of its own."""
    units = {}
    for row in results:
        units.setdefault(row.metrics["here"].unit, []).append(row)
    return [Key([("here, and over what is unknown", (d.GREY, d.SOLID, "o")),
                 ("published", (d.INK, "None", "D"))], 0, {"published": 0})] + [
        panel(rows, unit) for unit, rows in units.items()]


def panel(rows, unit):
    metrics = [r.metrics[name] for r in rows for name in ("here", "published") if name in r.metrics]
    values = [bound for metric in metrics for bound in (metric.low, metric.high)]
    is_log = max(values) > LOG_SPAN * min(values) > 0
    return Dots([row_of(row, label_of(row, rows)) for row in rows],
                axis_text(rows, unit) + ", log scale" * is_log, log=is_log, step=28,
                ticks=partial(tick_text, unit), heads=[("here", d.INK), ("published", d.SOFT)])


def row_of(row, label):
    here, there = row.metrics["here"], row.metrics.get("published")
    colour, _, marker = d.STORAGE_LOOK.get(row["series"], d.SERIES_LOOK[0])
    dots = [Dot(here, colour, marker, size=7, broad=True)]
    texts = [(text_of(here.value, here.unit), colour)]
    if there:
        dots.insert(0, Dot(there, d.INK, "D", hollow=True, size=9))
        texts.append((range_text(there), d.SOFT))
    return Row(label, dots, texts=texts)


def tick_text(unit, value):
    return f"{100 * value:.3g} %" if unit == "ratio" else short(value)


def axis_text(rows, unit):
    text = QUANTITIES.get(rows[0]["claim"]) or common_of(rows)
    if unit in ("ratio", "count") or unit in text:
        return text
    return f"{text} ({unit})" if text else unit


# ---- in words -----------------------------------------------------------------------------------

@dataclass(frozen=True)
class Claim:
    key: str
    rows: tuple  # (series, at) of each row that the words name
    words: str   # the title, with {0.here}, {0.published} and {0.range} of these rows
    see: str     # where the published values and ours differ, and why
    measured: str


class Texts:
    """The texts of a row that a title may contain."""

    def __init__(self, result):
        here, there = result.metrics["here"], result.metrics.get("published")
        self.here = text_of(here.value, here.unit)
        self.range = range_text(here)
        self.published = range_text(there) if there else "unknown"


def agrees(row):
    here, there = row.metrics["here"], row.metrics["published"]
    return there.low <= here.high * NEAR and there.high >= here.low / NEAR


def finding(claim, results):
    by_case = {(r["series"], r["at"]): r for r in results}
    if not all(case in by_case for case in claim.rows):
        return f"What is published as {claim.key.replace('_', ' ')}, and what a simulation gives"
    text = claim.words.format(*(Texts(by_case[case]) for case in claim.rows))
    known = [r for r in results if "published" in r.metrics]
    met = sum(agrees(r) for r in known)
    return f"{text}; {met} of {len(known)} published values lie in our range or within 10 % of it"


def table(results):
    return plain_table(results, ["source", "series", "at"], ["here", "published"])


MAX_LENGTH, PAGED = "contiguous_max_length", "paged"
HELD, AT_ONCE, OUTPUT = ("share of memory that holds tokens", "requests that run at once",
                         "output throughput")
FAMILY = ("Each of these claims was simulated with what its source states, fixed before anything "
          "ran and fitted to nothing.")

CLAIMS = (
    Claim(
        "effective_memory",
        ((PAGED, HELD), (MAX_LENGTH, HELD), ("contiguous_power_of_two", HELD),
         ("contiguous_oracle", HELD)),
        "Tokens fill {0.here} of the memory with pages (published {0.published}) and {1.here} with "
        "max-length buffers ({1.published}), {2.here} with powers of two ({2.published}) and "
        "{3.here} with known lengths ({3.published})",
        "Pages and max-length buffers are the same rule here and there. The other two waste less "
        "here: they are placed first fit, by buddies in the source, and a power of two is that of "
        "the tokens which are there now, not of the final length.",
        "OPT 13B on an A100 of 40 GB, a saturated engine. Range: the spread of the "
        "lengths, of which the source gives the means. Published: Kwon et al., SOSP 2023, "
        "figure 2."),
    Claim(
        "mixed_lengths",
        ((PAGED, "share of static buffers, each request once"),
         (PAGED, "share of static buffers, as they are served")),
        "Pages hold {0.here} of what static buffers take when each request counts once, and "
        "{1.here} as they are served (published {0.published})",
        "The published range lies between two ways to count. Long requests stay longer, so "
        "that in service a request is on average a longer one; counted once, each has the "
        "same weight.",
        "Half of the requests have up to 128 tokens, 30 % up to 512, 15 % up to "
        "2,048, 5 % up to 8,192; buffers have 8,192. Range: 16 to 256 requests at once."),
    Claim(
        "concurrency_8b",
        ((MAX_LENGTH, AT_ONCE), (PAGED, AT_ONCE), (PAGED, OUTPUT)),
        "In 60 GB {0.here} static buffers run at once (published {0.published}), and with pages "
        "{1.here} requests ({1.range}; published {1.published}) give {2.here} tokens a second "
        "({2.range}; published {2.published})",
        "As many buffers of 32,768 tokens run as fit, whatever is in them. How many requests pages "
        "hold is decided by their lengths, which the source leaves out: a range as wide "
        "as this cannot confirm its values.",
        "Qwen3 8B on one H100, 60 GB of cache. Range: 2,048 to 8,192 tokens a request "
        "on average, a quarter to three quarters of them output, 60 to 100 % of the card's rates."),
    Claim(
        "concurrency_70b",
        ((MAX_LENGTH, AT_ONCE), (PAGED, AT_ONCE)),
        "In 45 GB {0.here} static buffers of a 70B model run at once (published {0.published}), "
        "and with pages {1.here} requests ({1.range}; published {1.published})",
        "As before: the buffers that fit are a matter of division, and what pages hold depends "
        "on lengths that the source leaves out.",
        "Llama 3 70B, buffers of 32,768 tokens. The weights need more than one card, "
        "so that no times are compared. Range: 512 to 2,048 tokens a request on average."),
    Claim(
        "watermark",
        ((PAGED, "watermark 0.00"), (PAGED, "watermark 0.05"), (PAGED, "watermark 0.15")),
        "Blocks kept free at admission cut the preemptions from {0.here} to {1.here} at a "
        "watermark of 0.05 and {2.here} at 0.15 (published {0.published}, {1.published}, "
        "{2.published})",
        "The fall and its bend are the same. The published count no longer falls beyond 0.10, "
        "ours does; the source counted on a real engine, whose steps differ in length from the "
        "simulated ones.",
        "Qwen2.5 7B on one GB200, 299,584 tokens of cache, 450 requests of 1,000 "
        "tokens in and 5,000 out, 20 % more or less, 128 clients. Range: three seeds; theirs is "
        "not stated. Published: vLLM pull request 44594."),
    Claim(
        "system_prompt",
        ((PAGED, "hit rate by tokens"),),
        "Where every prompt begins with the same 500 tokens, {0.here} of the prompt tokens are "
        "found ({0.range}; published {0.published})",
        "The hit rate is the system prompt's share of a prompt: it is set by what follows, "
        "which the source leaves out.",
        "Range: 128 to 512 tokens on average behind the system prompt."),
    Claim(
        "first_token",
        ((PAGED, "500 tokens computed"), (PAGED, "500 tokens cached"), (PAGED, "under load"),
         (MAX_LENGTH, "under load")),
        "A pass over 500 tokens takes {0.here} and {1.here} once they are cached (published "
        "{0.published} and {1.published}); under load a first token takes {2.here} with pages and "
        "{3.here} with static buffers (published {2.published} and {3.published})",
        "A step reads all weights: 16 GB at 3.35 TB/s are 4.8 ms, so that 1 ms cannot include a "
        "pass of an 8B model on one card. What falls is the prefix's own share, from about 8.4 to "
        "under 0.1 ms. Where memory does not limit, pages and buffers start equally soon.",
        "The sources name no model, card or load: Llama 3 8B on an H100, 60 GB of "
        "cache. Range: 1 to 5 prompts of 1,000 to 3,000 tokens a second under load, else the "
        "cards A100, H100 and H200."),
    Claim(
        "block_size",
        ((PAGED, "block size 16"), (PAGED, "block size 32"), (PAGED, "block size 64")),
        "The last block of a request leaves {0.here} tokens unused in blocks of 16, {1.here} in "
        "blocks of 32 and {2.here} in blocks of 64 (published {0.published}, {1.published}, "
        "{2.published})",
        "Nothing differs: a last block holds any number of tokens equally often, and lacks "
        "(block size \u2212 1) / 2 of them on average.",
        "The built-in chat workload, counted over all steps. Published: SGLang pull "
        "request 35635."),
)

PLOTS = [
    Plot("published-" + claim.key.replace("_", "-"), "published", "kvproof-study published", draw,
         partial(finding, claim), claim.see, claim.measured, table, case=("claim", claim.key),
         family=FAMILY, optional=True, section="Serving", place=30)
    for claim in CLAIMS]
