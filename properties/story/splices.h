// SPDX-License-Identifier: Apache-2.0
// How one list of blocks becomes another: cuts and insertions, each in the result of those before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "reference/ids.h"

namespace kvproof::properties {

/// Of a free queue, whose ids occur once: in the order of the queue, each id that left and each
/// that came. A list that repeats an id is replaced.
/// @return JSON: [[at, how many go, [ids that come]], ...]
[[nodiscard]] std::string splices_of_queue(const std::vector<BlockId>& before,
                                           const std::vector<BlockId>& after);

/// Of a table: at most one, between what both begin and end with.
[[nodiscard]] std::string splices_of_table(const std::vector<BlockId>& before,
                                           const std::vector<BlockId>& after);

/// How many elements two lists begin with in common, and how many behind these they end with.
template <class List>
[[nodiscard]] std::pair<std::size_t, std::size_t> common_ends(const List& a, const List& b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t from = 0;
  while (from < most && a[from] == b[from]) ++from;
  std::size_t tail = 0;
  while (tail < most - from && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  return {from, tail};
}

/// "[3,1,2]"
[[nodiscard]] std::string ids_json(const std::vector<BlockId>& ids);

}  // namespace kvproof::properties
