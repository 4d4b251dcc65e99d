# SPDX-License-Identifier: Apache-2.0
"""The figures of the page: every module of this folder that has a PLOT or PLOTS.

A new figure is one new module. Its PLOT says in which section of the page it stands, and where
there; what it draws is listed in bench/results/experiments.cpp.
"""

from pkgutil import iter_modules

NAMES = sorted(found.name for found in iter_modules(__path__))
