# SPDX-License-Identifier: Apache-2.0
"""The sections of the page: the figures of every module in figures/, and what they must be given.
"""

from importlib import import_module
from types import ModuleType

from kvproof_report import figures
from kvproof_report.draw.plot import Plot

MODULES = [import_module(f"{figures.__name__}.{name}") for name in figures.NAMES]

def plots_of(module: ModuleType) -> list[Plot]:
    return getattr(module, "PLOTS", [module.PLOT] if hasattr(module, "PLOT") else [])


# The sections in the order of the page; a section that is not named here follows behind these.
SECTIONS: dict[str, list[Plot]] = {name: [] for name in (
    "Correctness", "Memory", "Prefix cache", "Serving", "Allocator", "Kernels")}
for found in sorted((plot for module in MODULES for plot in plots_of(module)),
                    key=lambda plot: plot.place):
    SECTIONS.setdefault(found.section, []).append(found)

PLOTS = [plot for plots in SECTIONS.values() for plot in plots]

# The experiments that have a figure, or a place of their own on the page.
DRAWN = {name for plot in PLOTS for name in (*plot.experiments, plot.totals, plot.sums)
         if name} | {
    "report_part"}

# The figures whose numbers stand at the top of the page and in the comparison of machines.
SUMMARY = sorted((plot for plot in PLOTS if plot.summary), key=lambda plot: plot.summary or 0)
