// SPDX-License-Identifier: Apache-2.0
// What goes into the cache manager and comes out of it, besides reference/operations.h.
#pragma once

#include <cstdint>
#include <span>

#include "reference/ids.h"
#include "reference/operations.h"

namespace kvproof::optimized {

using RequestId = std::uint32_t;  // valid from arrive() to finish()

/// What a manager is sized for. Going beyond it is a Breach::capacity, and changes nothing.
struct Capacity {
  std::uint32_t max_requests = 256;
  std::uint32_t event_records = 0;  // see EventLog; 0 = no events
};

struct Arrival {
  std::span<const TokenId> tokens;   // the prompt
  const ExtraKeys* extra = nullptr;  // copied; nullptr = none
  bool skip_lookup = false;          // never reuse a prefix, e.g. because prompt logits are wanted
  std::uint32_t max_tokens = 0;      // [tokens] the request may reach; 0 = max_model_len
};

/// How many blocks an admission took, or that it was refused. One word: an optional of 32 bits is
/// assembled in memory, and reading it back stalls every decode step.
class Admission {
 public:
  constexpr Admission(std::uint32_t num_taken) : num_taken_(num_taken) {}  // NOLINT: a count is one
  [[nodiscard]] static constexpr Admission refused() { return {kRefused}; }
  [[nodiscard]] constexpr explicit operator bool() const { return num_taken_ != kRefused; }
  /// [blocks] @pre granted
  [[nodiscard]] constexpr std::uint32_t operator*() const { return num_taken_; }

 private:
  static constexpr std::uint32_t kRefused = 0xffffffffU;  // more than any pool has
  std::uint32_t num_taken_;
};

}  // namespace kvproof::optimized
