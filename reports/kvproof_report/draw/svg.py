# SPDX-License-Identifier: Apache-2.0
"""A figure as part of a page (SVG) or beside it (PNG).

In the SVG each colour becomes a CSS variable, so that the page decides between light, dark and
paper; identifiers get a prefix, so that many drawings can live in one document.
"""

import io
import re

from matplotlib.figure import Figure

from kvproof_report.draw.drawing import COLOURS, PAPER

VARIABLES = {light: "currentColor" if role == "ink" else f"var(--{role})"
             for role, (light, _) in COLOURS.items()}


def to_png(figure: Figure) -> bytes:
    stream = io.BytesIO()
    figure.patch.set_visible(True)  # a picture may be shown on a background of any colour
    figure.savefig(stream, format="png", dpi=144, facecolor=PAPER, metadata={"Software": None})
    return stream.getvalue()


def as_file(figure: Figure) -> bytes:
    """The drawing as a file of its own, with its colours."""
    stream = io.BytesIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def short_coordinates(tag: str) -> str:
    """Shortens the coordinates of a tag; text between two tags keeps its digits."""
    return re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)


def to_svg(figure: Figure, prefix: str, name: str) -> str:
    """The drawing as an <svg> element for a page that defines --<role> for every colour."""
    text = as_file(figure).decode("utf-8")
    text = text[text.index("<svg"):].strip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"\s*<style.*?</style>", "", text, flags=re.S)
    text = re.sub(r"\s*<defs>\s*</defs>", "", text)
    head, body = text.split(">", 1)
    box = head[head.index('viewBox="'):]
    box = box[:box.index('"', 9) + 1]
    width = box.split()[2]
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    body = re.sub(r' id="([^"]*)"',
                  lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r'(href="#|url\(#)([^")]+)', lambda m: f"{m[1]}{prefix}-{m[2]}", body)
    body = re.sub(r"#[0-9a-f]{6}\b", lambda m: VARIABLES.get(m[0], m[0]), body)
    body = re.sub(r"font: ((?:\d{3} |bold )?)([\d.]+px) [^;\"]*",
                  lambda m: (f"font-weight: {m[1].strip()}; " if m[1] else "") +
                  f"font-size: {m[2]}", body)
    body = re.sub(r' transform="rotate\(-0 [^"]*"', "", body)
    body = re.sub(r"<[^>]*>", lambda tag: short_coordinates(tag[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    return (f'<svg class="plot" role="img" aria-label="{name}" {box} style="max-width:{width}px">'
            f"{body}")
