// SPDX-License-Identifier: Apache-2.0
// The content oracle: every request must read its own bytes through the observed block tables.
//
// Model:   a shadow store outside the subject, one per tier. For each slot it knows which request
//          wrote which token of which prefix for which group; the contiguous cache holds the rows
//          that each request must read.
//          Blocks handed out are poisoned, copies are made, a grant writes its tokens, drafts write
//          garbage until they are accepted, a transfer moves rows when it lands.
// Reads:   attention reads the tokens that its group has not skipped (layer_rules.h); cross
//          attention reads all encoder rows; Mamba reads the states that a lookup hands over.
// States:  a grant writes the state of its last token into the block of that token, and of each
//          block that it completes where the kernel keeps those (mode all, or a token and its
//          drafts). A state that is published must be that of the tokens of its key. The running
//          state is read where its token lies, unless drafts are out: then no table says which.
// Leases:  what a block holds when a lease is given must stand there until it is returned.
// Leaves out: any knowledge of a subject. The oracle sees operations, outcomes and tables, so it
//          works for all subjects. It catches a stale hash, a double owner, a hit past a hole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/caller/prefix_digest.h"
#include "properties/caller/traits.h"
#include "properties/laws/extent.h"
#include "properties/shadow/contiguous_rows.h"
#include "properties/shadow/slots.h"
#include "reference/config.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// The caller's mistakes.
inline constexpr std::string_view kNeverComputed = "tokens that were never computed";
inline constexpr std::string_view kUnalignedChunk =
    "a chunk that leaves a block in which another one ended, with more than a token and its drafts";
inline constexpr std::string_view kStateMovedBack = "a chunk from a state that is gone";

class ContentOracle {
 public:
  /// @param traits whether a table may name the block of equal content that is published already,
  /// and whether a request may go on in the block in which its hit ends
  explicit ContentOracle(const CacheConfig& config, const Traits& traits = {});

  /// Follows one operation. @param book of the caller, with the operation folded
  /// @return what some request would read wrongly after it
  Finding follow(const Operation& operation, const Outcome& outcome, const Snapshot& before,
                 const Snapshot& after, const CallerBook& book);

  /// What the caller did wrong: from then on it is its fault what a request reads, and the oracle
  /// reports nothing. Empty = nothing.
  [[nodiscard]] std::string_view breach_of_caller() const { return breach_of_caller_; }

  /// The blocks that the last operation has handed out, with their tiers: 0 is the device.
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, BlockId>>& handed_out() const {
    return handed_out_;
  }
  /// The identities of its prefixes, one a token. @pre the request has tokens
  [[nodiscard]] const Identity* chain_of(const RequestRecord& r) const {
    return contiguous_.rows(r.name);
  }
  [[nodiscard]] bool has_states() const;

 private:
  using Tables = std::vector<std::vector<BlockId>>;
  using Slot = live::Slot;
  using TierSlots = live::TierSlots;

  using Request = RequestRecord;

  /// A block under a lease, and what its slots held when the lease was given.
  struct Leased {
    std::string lease;
    BlockId block = kNullBlock;
    std::vector<Slot> slots;
  };

  bool perform(const Operation& operation, const Result& result, const Snapshot& before,
               const Snapshot& after, const CallerBook& book);
  bool perform_own(const Request& r, const TokenCounts& old, const Operation& operation,
                   const Result& result, const Snapshot& before, const Snapshot& after);
  void arrive(const Request& r, const op::Arrive& o);
  void fork(const Request& parent, const Request& child);
  void append(const Request& r, const std::vector<TokenId>& tokens);
  void grant(const Request& r, const TokenCounts& old, const op::Allocate& allocate,
             const Granted& granted, const RequestState& was, const RequestState& now);
  void take(const Granted& granted, const Tables& was, const Tables& now, std::uint64_t hit_tokens);
  void copy(const Granted& granted);
  void hand_out(BlockId block, bool host = false);
  void note_kept(const Snapshot& before, const Snapshot& after);
  void advance(const Request& r, const TokenCounts& old, std::uint32_t computed,
               const RequestState& now);
  void complete(const TransferRecord& transfer);
  void pin(const op::Pin& o, const Snapshot& after);
  Finding check_leases() const;
  Finding check_published(const Request& r, const Outcome& outcome) const;
  void write_checkpoints(const Request& r, const Tables& was, const Tables& now, const Chunk& chunk,
                         bool had_states);
  void write_states(const Request& r, const Tables& tables, std::uint64_t from, std::uint64_t to);
  void judge_states(const Request& r, const TokenCounts& old, const Tables& tables,
                    std::uint64_t start, std::uint64_t end);
  void write(const Request& r, const RequestState& now, std::uint64_t from, std::uint64_t to,
             bool draft);
  void write_encoder_rows(const Request& r, const Tables& tables);
  template <class IdentityAt>
  void fill(TierSlots& tier, const Request& r, const std::vector<BlockId>& table,
            std::uint64_t block_size, std::uint64_t from, std::uint64_t to, IdentityAt identity_at);

  [[nodiscard]] const Tables& tables_of(const Request& r, const RequestState& state) const;
  [[nodiscard]] TierSlots& tier_of(const Request& r) { return r.reads_host() ? host_ : device_; }
  [[nodiscard]] Identity identity_of(const Request& r, GroupId group, std::uint64_t position) const;
  [[nodiscard]] Slot slot_of(const Request& r, GroupId group, std::uint64_t position);
  /// @return the slots of the block that an entry of a table names; empty = there is none
  template <class Tier>
  [[nodiscard]] static auto slots_of(Tier& tier, const std::vector<BlockId>& table,
                                     std::uint64_t entry) {
    const bool there = entry < table.size() && tier.has(table[entry]);
    return there ? tier.of(table[entry]) : decltype(tier.of(0)){};
  }
  [[nodiscard]] Identity draft() { return link(kUnjudged, ++drafts_); }
  [[nodiscard]] std::vector<Slot> held_by(BlockId block) const {
    const auto slots = device_.of(block);
    return {slots.begin(), slots.end()};
  }
  Finding check_request(const Request& r, const RequestState& state);
  Finding check_reads(const Request& r, GroupId group, const Progress& now,
                      const std::vector<BlockId>& table, const TierSlots& tier);
  Finding check_hit(const Request& r, const Hit& hit);
  Finding check_row(const Request& r, GroupId group, std::uint64_t position,
                    const std::vector<BlockId>& table, std::uint64_t offset, const TierSlots& tier);
  Finding check_range(const Request& r, GroupId group, std::uint64_t from, std::uint64_t to,
                      const std::vector<BlockId>& table, const TierSlots& tier);

  CacheConfig config_;
  Traits traits_;
  std::vector<std::uint8_t> kept_;  // shape [num_blocks]: the grant has taken it with its content
  TierSlots device_;
  TierSlots host_;
  std::vector<std::pair<std::uint32_t, BlockId>> handed_out_;
  std::uint64_t drafts_ = 0;  // whose tokens nobody knows yet: each is content of its own
  ContiguousRows contiguous_;
  std::vector<Leased> leased_;
  std::vector<std::string> names_;     // of all requests that ever arrived, by their number
  std::vector<PrefixDigest> digests_;  // of their tokens
  std::string_view breach_of_caller_;
};

}  // namespace kvproof::properties
