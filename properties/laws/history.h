// SPDX-License-Identifier: Apache-2.0
// The history of a run: facts about the operations so far that one state cannot show, and that laws
// and generators need.
//
// Model:   a fold. fold(before, operation, outcome, after) is called once per operation; laws read
//          the result. The book of the caller is a part of it, and is folded with it.
// Leaves out: any knowledge of how a subject works. It sees operations, outcomes and snapshots.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/caller/promises.h"
#include "properties/caller/shared_value.h"
#include "properties/laws/extent.h"
#include "properties/laws/occasion.h"
#include "properties/laws/same_state.h"
#include "properties/laws/tally.h"
#include "reference/config.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// The prefix index, rebuilt from the events alone.
struct Mirror {
  struct Entry {
    GroupId group = 0;
    std::uint64_t key = 0;
    std::uint32_t prefix_tokens = 0;
  };
  struct Fault {
    const char* what = "";
    BlockId block = 0;
    std::uint32_t prefix_tokens = 0;
  };
  std::vector<std::vector<Entry>> blocks;  // shape [num_blocks]; the keys of each
  std::optional<Fault> fault;  // the first announcement of this operation that cannot be followed
};

/// For each key: the content that it was first seen with, and the key before it in its chain.
struct KeyBook {
  struct Facts {
    std::uint64_t content = 0;
    std::uint64_t parent = 0;
    std::size_t unit = 0;  // of its sequence
  };
  struct Clash {
    std::size_t unit = 0;
    bool same_key = false;
  };
  [[nodiscard]] bool knows(std::uint64_t key, std::uint64_t content) const {
    const auto by_key = of_key.find(key);
    const auto by_content = key_of_content.find(content);
    return by_key != of_key.end() && by_key->second.content == content &&
           by_content != key_of_content.end() && by_content->second == key;
  }
  std::unordered_map<std::uint64_t, Facts> of_key;
  std::unordered_map<std::uint64_t, std::uint64_t> key_of_content;
};

/// Facts that follow from the configuration of a group alone.
struct GroupFacts {
  CacheMask mask;
  std::size_t units_per_block = 1;  // hash units
};

/// Where a request stands in lists that are sorted by name.
struct Places {
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);
  std::size_t before = kAbsent;  // in the state before this operation
  std::size_t after = kAbsent;   // in the state after it
  std::size_t record = kAbsent;  // in the book's requests
};

/// What the three calls of each request of a batch have done to another subject of the same kind.
struct ThreeCalls {
  Outcome outcome;  // Decoded, or the rejection of one of them
  const Snapshot* state = nullptr;
  ComparedParts compared = {};
};

struct History {
  explicit History(const CacheConfig& its_config, Promises its_promises = {});

  void fold(const Snapshot& before, const Operation& operation, const Outcome& outcome,
            const Snapshot& after);

  [[nodiscard]] const RequestRecord* find(std::string_view name) const { return book.find(name); }
  /// Whether the block at this position keeps a checkpoint: a state that does not end there.
  [[nodiscard]] bool holds_checkpoint(const RequestRecord& r, GroupId group,
                                      std::size_t position) const;
  /// Whether the mask of a group keeps this position of a request for the prefix cache, wherever
  /// its prompt parted from those of others.
  [[nodiscard]] bool keeps(const RequestRecord& r, GroupId group, std::size_t position) const;
  /// Whether the state at this position is that of the prompt, from which others may go on.
  [[nodiscard]] bool ends_prompt(const RequestRecord& r, GroupId group, std::size_t position) const;
  /// Whether a group may keep this position: because the mask keeps it, because the prompt ends
  /// there, or because another prompt may have parted from it there.
  [[nodiscard]] bool may_keep(const RequestRecord& r, GroupId group, std::size_t position) const;

  SharedValue<CacheConfig> config;
  SharedValue<Promises> promises;  // of the subject
  CallerBook book;
  std::uint32_t num_blocks;
  std::uint32_t unit_tokens;
  Resumption resumption;                  // resumption_of(config)
  bool moves_states = false;              // in some group
  std::vector<GroupFacts> groups;         // shape [groups]
  std::optional<ThreeCalls> three_calls;  // of this operation, if it is a decode step
  std::string just_looked_up;             // the request of the last operation, if it was a lookup
  std::string just_refused;               // the request whose allocation was refused just now
  Occasions occasions = on::any;          // of this operation
  std::optional<Extent> asked;            // of this operation, if it is an allocation
  // Of this operation: the copy of the block inside of which a shared prefix ends, per group.
  std::vector<std::optional<Copy>> tail_copies;
  std::vector<Copy> moved_keys;               // those of them that took the keys along
  std::vector<std::vector<BlockId>> copying;  // held until the next step, per group
  std::vector<BlockId> copied;                // held until this operation, which is a step
  std::vector<Places> places;                 // of the requests in the state after this operation
  Places own;                                 // of the request that this operation is about
  std::vector<std::uint8_t> evicted;          // shape [num_blocks]: evicted, and not reused since
  std::vector<std::uint8_t> forked;           // shape [num_blocks]: shared by a fork; still held
  // Shape [num_blocks], or empty unless one copy alone keeps the key: another one has it.
  std::vector<std::uint8_t> superseded;
  std::vector<std::pair<GroupId, std::uint64_t>> new_states;  // Mamba keys published in this step
  bool queue_evicted = false;  // since the last reset, of a queued block
  bool chains_loose = false;   // since the last reset, something may have broken chains
  Mirror mirror;
  Tally tally;  // of the state after the last operation
  SharedValue<KeyBook> keys;
  std::optional<KeyBook::Clash> clash;  // this operation has shown it

 private:
  bool begun_ = false;  // an operation was folded

  void fold_call(const Snapshot& before, const Operation& operation, const Result& result,
                 const Snapshot& after);
  [[nodiscard]] bool hits_new_state(const RequestState& state, const FoundPrefix& hit) const;
  void fold_lookup(RequestRecord& r, const Snapshot& after);
  void fold_fork(const op::Fork& fork, const Result& result, const Snapshot& before);
  void fold_grant(RequestRecord& r, const RequestState& state, const Snapshot& after);
  void fold_tail_copies(RequestRecord& r, const Granted& granted, const Snapshot& after);
  void fold_state_tails(RequestRecord& r, std::uint64_t tokens, const Snapshot& before,
                        const Snapshot& after);
  void fold_superseded(const Snapshot& before, const Snapshot& after);
  void fold_outdone(const Snapshot& before, const Snapshot& after);
  void fold_truncate(RequestRecord& r, std::uint32_t tokens);
  void fold_free(RequestRecord& r);
  void fold_complete(const op::Complete& complete);
  void fold_evicted(const Snapshot& before, const Operation& operation, const Result& result,
                    const Snapshot& after);
  void fold_keys(const RequestRecord& r, std::size_t known, const Snapshot& after);
  void fold_events(const Snapshot& before, const Operation& operation, const Outcome& outcome,
                   const Snapshot& after);
  void list_places(const Snapshot& before, const Snapshot& after);
  void fold_places(const Snapshot& before, const Operation& operation, const Snapshot& after);
  void forget_state(std::size_t older_states, const Mirror::Entry& key);
  void mirror_moves();
  void mirror_stored(const event::Stored& stored, const RequestState* request,
                     const RequestState* landed, const Snapshot& before);
  /// Whether a block is known to carry the key.
  [[nodiscard]] bool mirrors(GroupId group, std::uint64_t key) const;
  void renew_states(const event::Stored& stored, const RequestState* request);
  void mirror_block(const event::Stored& stored, const StoredBlock& block,
                    std::optional<std::uint64_t> key);
};

}  // namespace kvproof::properties
