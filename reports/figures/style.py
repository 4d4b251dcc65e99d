# SPDX-License-Identifier: Apache-2.0
"""How every figure looks, as matplotlib settings.

One point is one CSS pixel: figures are drawn at 72 dpi and shown 1:1.
"""

STYLE = {
    "figure.dpi": 72,
    "font.family": "DejaVu Sans",
    "font.size": 11.5,
    "text.color": "#1b1f24",
    "text.parse_math": False,  # a name may hold a $
    "axes.labelcolor": "#57606a",
    "axes.labelsize": 11.5,
    "axes.titlesize": 11.5,
    "axes.edgecolor": "#57606a",
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.unicode_minus": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.8,
    "xtick.color": "#57606a",
    "ytick.color": "#57606a",
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "xtick.major.size": 3.5,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "xtick.major.width": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "lines.solid_capstyle": "round",
    "path.simplify": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "kvproof",
}
