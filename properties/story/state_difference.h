// SPDX-License-Identifier: Apache-2.0
// What differs between two states: the one model from which the letters of a failure
// (check/drawing.h) and the pages of the lens (story.h) are made. And how one list of blocks
// becomes another: cuts and insertions, each in the result of those before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "reference/snapshot.h"

namespace kvproof::properties {

struct PoolDifference {
  bool num_free = false;
  bool queue = false;
  bool backward = false;        // the same queue, walked from its tail
  std::vector<BlockId> blocks;  // with other references or keys, ascending

  [[nodiscard]] bool queues() const { return num_free || queue || backward; }
};

/// An element before and after; null: it was, or is, not there.
template <class Element>
using Sides = std::pair<const Element*, const Element*>;

/// Points into both states, which must outlive it.
struct StateDifference : PoolDifference {
  PoolDifference host;
  std::vector<Sides<RequestState>> requests;  // those that differ, by name
  std::vector<Sides<LeaseState>> leases;
  bool raw = false;
  bool copying = false;
};

[[nodiscard]] StateDifference difference_of(const Snapshot& before, const Snapshot& after);

/// All elements of two lists that are sorted by name, side by side.
template <class Element>
std::vector<Sides<Element>> side_by_side(const std::vector<Element>& before,
                                         const std::vector<Element>& after) {
  std::vector<Sides<Element>> out;
  auto was = before.begin();
  auto now = after.begin();
  while (was != before.end() || now != after.end()) {
    const bool old = was != before.end() && (now == after.end() || was->name <= now->name);
    const bool fresh = now != after.end() && (was == before.end() || now->name <= was->name);
    out.push_back({old ? &*was++ : nullptr, fresh ? &*now++ : nullptr});
  }
  return out;
}

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
