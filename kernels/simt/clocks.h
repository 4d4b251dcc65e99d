// SPDX-License-Identifier: Apache-2.0
// Vector clocks: what of the other threads' past a thread of a block can rely on.
//
// Model:   Every thread counts its releases (arrivals at a barrier), from 1 on. A clock has, for
//          each thread, the newest count whose events came before; for each barrier of arrivals and
//          bytes, how many of its phases are known to have ended. An event of thread t at count n
//          came before whatever has a clock with at least n for t.
// Source:  Mattern, "Virtual Time and Global States of Distributed Systems" (1989).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvproof::simt {

class Clock {
 public:
  Clock() = default;
  explicit Clock(std::size_t size) : counts_(size) {}

  [[nodiscard]] std::uint32_t& operator[](std::size_t i) { return counts_[i]; }
  [[nodiscard]] std::uint32_t operator[](std::size_t i) const { return counts_[i]; }
  [[nodiscard]] bool empty() const { return counts_.empty(); }
  void clear() { counts_.clear(); }

  /// What came before either now comes before this.
  void join(const Clock& other) {
    if (other.empty()) return;
    counts_.resize(other.counts_.size());
    std::uint32_t* const mine = counts_.data();
    const std::uint32_t* const theirs = other.counts_.data();
    for (std::size_t i = 0; i < counts_.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
  }

 private:
  std::vector<std::uint32_t> counts_;
};

}  // namespace kvproof::simt
