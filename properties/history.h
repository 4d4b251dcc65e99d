// SPDX-License-Identifier: Apache-2.0
// What one state cannot show: everything that laws and generators must remember of the operations
// so far.
//
// Model:   a fold. fold(before, operation, outcome, after) is called once per operation, then laws
//          read.
// Refuses: any knowledge of how a subject works; it sees operations, outcomes and snapshots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "properties/prefix_digest.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// One live request as its caller knows it.
struct RequestRecord {
  std::string name;
  bool skip_lookup = false;
  RequestStatus status = RequestStatus::waiting;
  bool looked_up = false;            // since arrival or preemption
  std::vector<BlockId> hit;          // of the last lookup
  std::uint64_t granted_tokens = 0;  // largest extent that slots were granted for, since admission
  std::uint64_t scheduled_tokens =
      0;  // computed + hit + external + new of the last grant: drafts too
  std::uint64_t content_tokens = 0;     // leading tokens whose content lies in the granted slots
  std::vector<std::uint64_t> contents;  // digest per complete hash unit, shape [num_tokens / unit]
  PrefixDigest digest;
};

/// How often each block is listed in each place. Out-of-range ids are counted apart.
struct Tally {
  std::vector<std::uint32_t> queued, tabled, sharers, raw, indexed;  // shape [num_blocks] each
  std::vector<std::uint32_t> entry;  // shape [num_blocks]: 1 + the last index entry that lists it
  struct Repeat {
    std::size_t request = 0;
    BlockId block = 0;
  };
  std::optional<Repeat> repeat;  // a non-null block twice in one request's tables
  struct Stray {
    const char* place = "";
    BlockId block = 0;
  };
  std::optional<Stray> stray;  // an id that the pool does not have

  void count(const Snapshot& state, std::uint32_t num_blocks);

 private:
  void count_tables(const Snapshot& state);
  void add(std::vector<std::uint32_t>& counts, BlockId block, const char* place);
  std::vector<std::uint32_t>
      last_holder_;  // shape [num_blocks]: 1 + the last request that lists it
};

/// The prefix index as someone sees it who hears only the events.
struct Mirror {
  struct Entry {
    bool present = false;
    std::uint64_t key = 0;
    std::uint32_t prefix_tokens = 0;
  };
  struct Fault {
    const char* what = "";
    BlockId block = 0;
    std::uint32_t prefix_tokens = 0;
  };
  std::vector<Entry> blocks;   // shape [num_blocks]
  std::optional<Fault> fault;  // the first announcement of this operation that cannot be followed
};

/// Which content each key was first seen with, and which key came before it in its chain.
struct KeyBook {
  struct Facts {
    std::uint64_t content = 0;
    std::uint64_t parent = 0;
    bool first = false;
  };
  struct Clash {
    std::size_t unit = 0;
    bool same_key = false;
  };
  std::unordered_map<std::uint64_t, Facts> of_key;
  std::unordered_map<std::uint64_t, std::uint64_t> key_of_content;
  std::optional<Clash> clash;  // found by this operation
};

struct History {
  explicit History(const CacheConfig& config);

  void fold(const Snapshot& before, const Operation& operation, const Outcome& outcome,
            const Snapshot& after);

  [[nodiscard]] const RequestRecord* find(std::string_view name) const;

  std::uint32_t num_blocks;
  std::uint32_t unit_tokens;
  std::uint64_t max_model_len;
  std::vector<RequestRecord> requests;  // sorted by name
  std::uint32_t arrivals = 0;
  std::string just_looked_up;         // the request of the last operation, if it was a lookup
  std::string just_refused;           // the request whose allocation was refused just now
  std::vector<std::uint8_t> evicted;  // shape [num_blocks]: an evict took its key; not reused yet
  bool queue_evicted = false;         // since the last reset, of a queued block
  bool chains_loose = false;          // since the last reset, evict or touch may break chains
  Mirror mirror;
  Tally tally;  // of the state after the last operation
  KeyBook keys;

 private:
  RequestRecord* record(std::string_view name);
  void fold_call(const Snapshot& before, const Operation& operation, const Result& result);
  void fold_grant(const RequestState& state, const AllocateArgs& args);
  void fold_evicted(const Snapshot& before, const Operation& operation, const Result& result,
                    const Snapshot& after);
  void fold_tokens(RequestRecord& r, const std::vector<TokenId>& tokens, const Snapshot& after);
  void fold_events(const Operation& operation, const Outcome& outcome, const Snapshot& after);
  void mirror_stored(const event::Stored& stored, const RequestState* request);
};

/// The first group's table: this version's managers have one group.
[[nodiscard]] inline const std::vector<BlockId>& table_of(const RequestState& request) {
  static const std::vector<BlockId> kNone;
  return request.tables.empty() ? kNone : request.tables.front();
}

[[nodiscard]] inline std::optional<std::uint32_t> progress_of(const RequestState& request) {
  return request.progress.empty() ? std::nullopt : request.progress.front();
}

}  // namespace kvproof::properties
