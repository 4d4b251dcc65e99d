// SPDX-License-Identifier: Apache-2.0
// What requests read from real tensors, for a subject that reads it back.
//
// Model:   at each computed position the subject has written the id of the token as K and the
//          position as V. Whatever it does with blocks, each request must read its own there.
// Skips:   a position may be gone if every group has skipped its token for good (layer_rules.h),
//          but for the sinks that the subject says it keeps. Groups that keep states or encoder
//          rows have no tokens.
// Leaves out: any knowledge of blocks. It judges what is read, wherever that lies.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/laws/violation.h"
#include "reference/config.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {

class ContentReadback {
 public:
  /// @param sinks [tokens] so many leading ones are never skipped
  ContentReadback(const CacheConfig& config, std::uint32_t sinks)
      : config_(config), sinks_(sinks) {}

  /// @return what some request reads wrongly in this state
  Finding read(const Snapshot& state, const CallerBook& book);

  [[nodiscard]] std::uint64_t compared() const { return compared_; }  // [positions]

 private:
  Finding read(const RequestState& r, const RequestRecord* known,
               const std::vector<ReadBack>& contents);
  [[nodiscard]] bool may_skip(const RequestRecord& r, std::uint64_t position,
                              std::uint64_t computed) const;

  CacheConfig config_;
  std::uint32_t sinks_;
  std::uint64_t compared_ = 0;
};

}  // namespace kvproof::properties
