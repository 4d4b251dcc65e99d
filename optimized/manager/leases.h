// SPDX-License-Identifier: Apache-2.0
// Leases: blocks that are held under a number instead of by a request, e.g. for a transfer.
//
// Leaves out: the references themselves; the caller takes them from the pool and gives them back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "reference/contract.h"
#include "reference/ids.h"

namespace kvproof::optimized {

class Leases {
 public:
  /// Lists blocks under a new number. Memory may be refused; then nothing has changed.
  LeaseId keep(std::span<const BlockId> blocks) {
    if (unused_.empty()) {
      const std::size_t given = leases_.size();
      // Room for every lease: drop() cannot fail, and no lease is lost between the two lists.
      if (unused_.capacity() == given) unused_.reserve(2 * given + 1);
      leases_.emplace_back();
      unused_.push_back(static_cast<LeaseId>(given));
    }
    const LeaseId lease = unused_.back();
    leases_[lease].assign(blocks.begin(), blocks.end());
    unused_.pop_back();
    return lease;
  }

  /// @pre the lease is kept (Breach::unknown_lease)
  [[nodiscard]] std::span<const BlockId> blocks(LeaseId lease) const {
    expects(lease < leases_.size() && std::ranges::count(unused_, lease) == 0,
            Breach::unknown_lease, "no lease of that number is kept");
    return leases_[lease];
  }

  /// @pre the lease is kept
  void drop(LeaseId lease) {
    leases_[lease].clear();
    unused_.push_back(lease);
  }

 private:
  std::vector<std::vector<BlockId>> leases_;
  std::vector<LeaseId> unused_;
};

}  // namespace kvproof::optimized
