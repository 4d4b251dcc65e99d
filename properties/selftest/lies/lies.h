// SPDX-License-Identifier: Apache-2.0
// The list of lies: ways in which an allocator may answer one call wrongly, told by a sound one.
//
// Source:  ours. A bug of the museum breaks the allocator; a lie breaks the answer, so that the
//          oracles are seen to judge each field of it.
#pragma once

#include <span>
#include <string_view>

#include "properties/caller/promises.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// One call that is about to be answered with a lie.
struct Telling {
  const CacheConfig& config;
  reference::CacheManager& sound;
  const Operation& operation;
  const Snapshot& before;         // the state as it was shown last
  const Outcome* call_before;     // the answer to the last call of this operation; nullptr = none
  std::vector<Event>& kept_back;  // events that the next call announces
};

/// A lie in the answer has tell(), which does something else to the sound allocator and returns the
/// false answer. A lie in the state has show(), which falsifies what is shown. The truth has
/// neither.
struct Lie {
  std::string_view name;
  std::string_view sentence;
  Outcome (*tell)(Telling& telling) = nullptr;
  void (*show)(const Telling& telling, Snapshot& state) = nullptr;
  OperationSet (*about)() = all_operations;  // the operations about which it can be told
  bool is_a_code = false;                    // told only where codes are compared
};

[[nodiscard]] std::span<const Lie> all_lies();

}  // namespace kvproof::properties
