// SPDX-License-Identifier: Apache-2.0
// Running states: they move along with the sequence, and the one before the step is given back
// late. Included by layer_group_definitions.h alone.
#pragma once

#include <algorithm>
#include <utility>

#include "optimized/manager/layer_group.h"

namespace kvproof::optimized {

template <class Pool>
std::int64_t LayerGroup<Pool>::fresh_states(const GroupTable& table, std::int64_t start,
                                            const Demand& demand) const {
  const std::int64_t drafts = group_.speculative_blocks;
  const auto want = static_cast<std::int64_t>(wanted(demand));
  const std::int64_t held =
      demand.starts ? std::max(start, static_cast<std::int64_t>(loaded(demand))) : start;
  const std::int64_t external = held - start;
  if (want <= held) return external;
  return external + (table.has_states ? 1 : want - std::max(held, want - drafts - 1));
}

// See reference/layer_group.cpp: drafts' states move along with the sequence.
template <class Pool>
std::uint32_t LayerGroup<Pool>::allocate_states(GroupTable& table, std::uint64_t want,
                                                Pool& pool) const {
  const std::uint32_t drafts = group_.speculative_blocks;
  const std::uint32_t held = table.length;
  const bool moved = std::exchange(table.has_states, true);
  if (want <= held) return 0;
  if (moved) {
    table.last_state = held - 1 - drafts;
  } else if (held > 0) {
    table.last_state = held - 1;
  }
  const auto running = static_cast<std::uint32_t>(want) - drafts - 1;
  std::uint32_t end = held;
  while (end < running) table.blocks[end++] = kNullBlock;
  for (std::uint32_t i = held - drafts; moved && i < held && i < running; ++i) {
    pool.forget(table.blocks[i]);  // it will hold another state
    table.blocks[end++] = std::exchange(table.blocks[i], kNullBlock);
  }
  set_length(table, end);
  extend(table, want, pool);
  return table.length - end;
}

template <class Pool>
void LayerGroup<Pool>::recycle_last_state(GroupTable& table, std::uint64_t basis,
                                          Pool& pool) const {
  if (std::uint64_t{table.last_state} + 1 >= blocks_of(basis)) return;
  BlockId& state = table.blocks[table.last_state];
  if (state == kNullBlock) return;
  pool.release(std::span(&state, 1));
  state = kNullBlock;
}

}  // namespace kvproof::optimized
