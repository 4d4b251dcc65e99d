# SPDX-License-Identifier: Apache-2.0
"""The figures of the page: every module of this folder that has a PLOT or PLOTS.

A new figure is one new module. Its PLOT says in which section of the page it stands, and where
there; its EXPERIMENTS say what the results must hold that it draws.
"""

from importlib import import_module
from pkgutil import iter_modules

from experiments import REPORT

MODULES = [import_module(f"figures.{name}")
           for name in sorted(found.name for found in iter_modules(__path__))]

EXPERIMENTS = {name: experiment for module in MODULES
               for name, experiment in getattr(module, "EXPERIMENTS", {}).items()} | REPORT


def plots_of(module):
    return getattr(module, "PLOTS", [module.PLOT] if hasattr(module, "PLOT") else [])


# The sections in the order of the page; a section that is not named here follows behind these.
SECTIONS = {name: [] for name in ("Correctness", "Memory", "Prefix cache", "Serving", "Allocator",
                                  "Kernels")}
for found in sorted((plot for module in MODULES for plot in plots_of(module)),
                    key=lambda plot: plot.place):
    SECTIONS.setdefault(found.section, []).append(found)

PLOTS = [plot for plots in SECTIONS.values() for plot in plots]

# The figures whose numbers stand at the top of the page and in the comparison of machines.
SUMMARY = sorted((plot for plot in PLOTS if plot.summary), key=lambda plot: plot.summary)
