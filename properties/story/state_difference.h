// SPDX-License-Identifier: Apache-2.0
// What differs between two states: the one model from which the letters of a failure
// (check/drawing.h) and the pages of the lens (story.h) are made.
#pragma once

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

}  // namespace kvproof::properties
