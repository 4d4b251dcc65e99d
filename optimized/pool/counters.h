// SPDX-License-Identifier: Apache-2.0
// Counts the work of a pool and its manager, and how long blocks lived and lay idle.
//
// Model:   counts are always kept. Histograms need two words per block and are made on request;
//          time is the number of scheduling steps, because the allocator has no clock.
// Source:  vLLM v1 prefix-cache statistics and KV-cache residency metrics.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "reference/ids.h"
#include "reference/snapshot.h"

namespace kvproof::optimized {

/// Since construction.
struct Counters {
  std::uint64_t lookups = 0;        // those that admissions used; resumed requests do not count
  std::uint64_t lookup_tokens = 0;  // tokens that could have hit
  std::uint64_t hit_tokens = 0;
  std::uint64_t taken = 0;      // [blocks] handed out
  std::uint64_t evictions = 0;  // [blocks] that lost their content when they were handed out
  std::uint64_t revivals = 0;   // [blocks] that were held again while they waited in the queue
  std::uint64_t refusals = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t copies = 0;  // [blocks] copied because they had another holder
};

class StepHistogram {
 public:
  void add(std::uint32_t steps) { ++buckets_[std::bit_width(steps)]; }
  [[nodiscard]] const StepBuckets& buckets() const { return buckets_; }

 private:
  StepBuckets buckets_{};
};

/// When each block was handed out and last held, and histograms of these times at its eviction.
class Residency {
 public:
  /// @param num_blocks 0 switches it off
  explicit Residency(std::uint32_t num_blocks) : spans_(num_blocks) {}

  [[nodiscard]] bool enabled() const { return !spans_.empty(); }
  void taken(BlockId block, std::uint32_t step, bool evicted) {
    if (!enabled()) return;
    Span& span = spans_[block];
    if (evicted) {
      lifetime_.add(step - span.born);
      idle_.add(step - span.last_held);
    }
    span = {step, step};
  }
  void released(BlockId block, std::uint32_t step) {
    if (enabled()) spans_[block].last_held = step;
  }

  /// From being handed out to losing the content. [steps]
  [[nodiscard]] const StepHistogram& lifetime() const { return lifetime_; }
  /// From the last release to losing the content. [steps]
  [[nodiscard]] const StepHistogram& idle() const { return idle_; }
  [[nodiscard]] std::uint64_t bytes() const { return spans_.size() * sizeof(Span); }

 private:
  struct Span {
    std::uint32_t born;
    std::uint32_t last_held;
  };
  std::vector<Span> spans_;  // shape [num_blocks], empty when off
  StepHistogram lifetime_;
  StepHistogram idle_;
};

}  // namespace kvproof::optimized
