# SPDX-License-Identifier: Apache-2.0
"""THE LIST of figures, in the order of the page. Adding one is its module and one row here."""

from figures import (blocks, decode, eviction, exhaustive, gate, kill_matrix, law_table, life_cycle,
                     live, models, movement, one_request, pool, prefix, published, serving,
                     serving_cost, serving_memory, utilisation)

SECTIONS = [
    ("Correctness", [kill_matrix.PLOT, law_table.PLOT, exhaustive.PLOT]),
    ("Memory", [one_request.PLOT, models.PLOT, utilisation.PLOT, blocks.PLOT, live.PLOT]),
    ("Prefix cache", [prefix.PLOT, eviction.PLOT]),
    ("Serving", [serving.PLOT, serving_memory.PLOT, *published.PLOTS, serving_cost.PLOT]),
    ("Allocator", [life_cycle.PLOT, pool.PLOT, gate.PLOT]),
    ("Kernels", [decode.BLOCKS, decode.SHAPES, movement.PLOT]),
]

# The numbers at the top of the page and of the comparison of machines, the first ones first.
SUMMARY = [decode.BLOCKS, decode.SHAPES, utilisation.PLOT, eviction.PLOT, life_cycle.PLOT,
           prefix.PLOT, live.PLOT]

PLOTS = [plot for _, plots in SECTIONS for plot in plots]
