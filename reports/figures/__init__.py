# SPDX-License-Identifier: Apache-2.0
"""THE LIST of figures, in the order of the page. Adding one is its module and one row here."""

from figures import (blocks, decode, exhaustive, gate, kill_matrix, law_table, life_cycle, live,
                     models, movement, one_request, pool, prefix, utilisation)

SECTIONS = [
    ("Correctness", [kill_matrix.PLOT, law_table.PLOT, exhaustive.PLOT]),
    ("Memory", [one_request.PLOT, models.PLOT, utilisation.PLOT, blocks.PLOT, live.PLOT]),
    ("Prefix cache", [prefix.PLOT]),
    ("Allocator", [life_cycle.PLOT, pool.PLOT, gate.PLOT]),
    ("Kernels", [decode.BLOCKS, decode.SHAPES, movement.PLOT]),
]

PLOTS = [plot for _, plots in SECTIONS for plot in plots]
