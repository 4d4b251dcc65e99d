// SPDX-License-Identifier: Apache-2.0
// One history of a cache, frame by frame: what was asked, what was answered, what would have been
// right, and the state behind it.
//
// Sources: with_frames() makes frames of the operations that a subject performs, read_run() of the
//          events of a recorded run (shadow/README.md): the tables that its steps are ordered,
//          tokens, the keys that an index publishes, transfers. The free queue, references, and by
//          whose call a key left, are not told there.
// Model:   a request of a run is looked up when the run claims a hit of it, or else when its first
//          row starts at 0, after it has arrived, was preempted or has its next turn.
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

#include "properties/story/causes.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/request.h"
#include "reference/snapshot.h"
#include "reference/subject.h"

namespace kvproof::live {
struct Header;
}

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
  std::optional<Lookup> lookup = {};   // without what its reader keeps
  bool complete = true;                // false: the event goes on behind this lookup
  std::vector<IndexKey> entered = {};  // of the prefix index
  std::vector<IndexKey> left = {};
  std::vector<IndexKey> used = {};  // held or hit
  std::string left_for = {};        // by whose call keys left
  bool left_for_room = true;        // not because a call asked so
  std::uint64_t taken = 0;          // [blocks] that were handed out until then
};

using FrameReader = std::function<void(const Frame&)>;

/// A subject whose operations are read as frames. @param inner must be new
/// @param by_model it promises to answer as the model, which is asked beside it until they differ
[[nodiscard]] std::unique_ptr<Subject> with_frames(const CacheConfig& config,
                                                   std::unique_ptr<Subject> inner, FrameReader read,
                                                   bool by_model = false);

/// What the header of a run says of its cache.
[[nodiscard]] CacheConfig config_of(const live::Header& header);

/// @return whether the first line of the file is the header of a run
[[nodiscard]] bool is_run(const std::string& path);

/// Reads the frames of a run. @param open is given its header and the state before its first event
/// @return why events are missing from somewhere on; empty: none are @throws InputError
std::string read_run(const std::string& path,
                     const std::function<FrameReader(const live::Header&, const Snapshot&)>& open);

}  // namespace kvproof::properties
