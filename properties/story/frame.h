// SPDX-License-Identifier: Apache-2.0
// One history of a cache, frame by frame: what was asked, what was answered, what would have been
// right, and the state behind it.
//
// Sources: operation_frames.h makes frames of the operations that a subject performs,
//          event_frames.h of the events of a recorded run.
// Readers: lookups.h explains each lookup, story.h draws each state.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/cache_manager.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/request.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// What is known of a request beside its state.
struct FrameRequest {
  std::span<const TokenId> tokens;
  const ExtraKeys* extra = nullptr;  // of an operation
  std::string_view keys = {};        // of a run: what its keys cover beside tokens
  std::uint32_t number = 0;          // in the order of arrival
};
/// @return nothing if there is no such request
using FindRequest = std::function<std::optional<FrameRequest>(const std::string& name)>;

/// The blocks that a transfer in flight copies: device block, host block.
using Transfers = std::map<std::string, std::vector<std::pair<std::uint32_t, std::uint32_t>>>;

struct IndexKey {
  std::uint64_t key = 0;
  GroupId group = 0;
  auto operator<=>(const IndexKey&) const = default;
};

struct FrameLookup {
  std::string request;
  std::uint64_t limit = 0;  // [tokens] that may hit at most
  std::uint64_t hit = 0;    // [tokens]
  bool off = false;
  bool may_know_more = false;  // the hit may hold what no index was seen to hold
};

/// What the model answers, as long as the subject has answered the same.
struct Expected {
  const Outcome* outcome = nullptr;  // null: it is not known
  std::shared_ptr<const reference::CacheManager> model = {};
  std::optional<reference::Need> need = {};
  bool same = true;  // the subject answered this
};

struct Frame {
  const FindRequest& request;
  const Snapshot& state;  // behind it
  const Transfers& transfers;
  std::uint64_t number = 0;              // of the operation from 0; of the event its line
  const Operation* operation = nullptr;  // null: an event
  const Outcome* outcome = nullptr;      // null: an event, or it was not answered
  std::string_view event = {};           // JSON
  std::string_view raised = {};          // why it was not answered
  Expected expected = {};
  std::optional<FrameLookup> lookup = {};
  bool complete = true;                // false: the event goes on behind this lookup
  std::vector<IndexKey> entered = {};  // of the prefix index
  std::vector<IndexKey> left = {};
  std::vector<IndexKey> used = {};  // held or hit
  std::string left_for = {};        // by whose call keys left
  bool left_for_room = true;        // not because a call asked so
  std::uint64_t taken = 0;          // [blocks] that were handed out until then
};

using FrameReader = std::function<void(const Frame&)>;

}  // namespace kvproof::properties
