// SPDX-License-Identifier: Apache-2.0
// A live request as its caller knows it.
//
// Model:   the first part follows from operations and their answers alone: the book folds it. The
//          second part also needs the states that were shown: the history of the laws adds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/caller/prefix_digest.h"
#include "properties/caller/shared_value.h"
#include "reference/ids.h"
#include "reference/operations.h"
#include "reference/outcomes.h"

namespace kvproof::properties {

/// The prefix that the last lookup of a request found.
struct FoundPrefix {
  std::uint32_t tokens = 0;
  std::vector<std::vector<BlockId>> blocks;  // per group
  // Per group: the keys that the block then had inside of which the hit ends.
  std::vector<std::vector<std::uint64_t>> end_keys = {};
  [[nodiscard]] bool empty() const;
};

/// A block that holds a prefix which ends inside of it, and is copied before it is written.
struct SharedTail {
  std::size_t position = 0;
  BlockId block = kNullBlock;  // null: there is none
};

/// A block beside the running state that the chunk which ends a prefill writes.
struct Checkpoint {
  std::uint64_t tokens = 0;  // whose state it holds
  std::size_t position = 0;  // in the table
};

/// The tokens of a request, and the identity of each hash unit whose key is known.
struct Sequence {
  ExtraKeys extra;
  std::vector<TokenId> tokens;
  UnitDigest digest;
  std::vector<std::uint64_t> contents = {};  // shape [units]
};

/// How far a request has come since it was admitted last. [tokens]
struct TokenCounts {
  bool granted = false;  // it has had a grant
  std::uint32_t computed = 0;
  std::uint64_t scheduled_tokens = 0;  // computed + hit + external + new of the last grant
  std::uint64_t covered = 0;           // that some grant covers
  std::uint64_t published = 0;         // whose blocks may be published, or were loaded
  std::uint64_t written = 0;     // leading ones whose content lies in the granted slots: no drafts
  std::uint64_t reach = 0;       // of the longest grant, with drafts, whatever was cut since
  std::uint64_t processed = 0;   // that recycling took as computed: skipped for good
  std::uint64_t state_end = 0;   // of the longest Mamba state that was written
  std::uint64_t last_state = 0;  // of the one that was written last: the running one
};

struct RequestRecord : TokenCounts {
  RequestRecord(std::string its_name, Sequence its_sequence)
      : name(std::move(its_name)), sequence(std::move(its_sequence)) {}

  std::string name;
  std::uint32_t id = 0;       // requests are numbered in the order in which they arrive
  std::uint64_t encoder = 0;  // the request whose encoder rows it reads: its own, or a parent's
  std::uint32_t encoder_tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t num_tokens = 0;
  bool skip_lookup = false;
  RequestStatus status = RequestStatus::waiting;
  bool looked_up = false;      // there was a lookup since its arrival or preemption
  FoundPrefix hit;             // found by the last lookup
  std::uint64_t found_at = 0;  // the book's count of losses then, plus 1; 0: it found nothing
  std::string transfer;        // in flight; empty = none
  bool leaving = false;        // that one goes to the host
  bool on_host = false;        // its host tables list host blocks
  SharedValue<Sequence> sequence;

  // From here on: added by the history.
  bool looked_up_late = false;    // there was a lookup since it has blocks
  std::uint64_t parted_from = 0;  // [tokens] of the last lookup's hit
  std::uint64_t parted_to = 0;  // [tokens] of the longest prefix that some group may have had then

  // Since it was admitted last:
  std::vector<std::uint64_t> lengths;                  // [blocks] granted per group
  std::vector<SharedTail> tails;                       // of its own states, per group; empty: none
  std::vector<std::optional<Checkpoint>> checkpoints;  // of the last grant, per group
  std::vector<std::optional<Checkpoint>> passed;       // the last ones of earlier grants, per group
  std::uint64_t state_tokens = 0;  // known tokens up to the end of the last grant
  std::uint64_t in_flight = 0;     // [tokens] when the last grant was made
  std::uint64_t granted_from = 0;  // computed + hit + external when the last grant was made
  bool forked = false;             // shares unpublished blocks with a relative
  bool swapped = false;            // it was swapped out; keys evicted meanwhile may be missing
  bool decoding = false;           // a grant has ended inside a block of moving states
  bool ahead = false;              // granted more at once than moving states can follow (I15)
  bool on_device = true;           // its tables list device blocks

  [[nodiscard]] bool holds() const { return granted; }
  [[nodiscard]] bool resident() const { return transfer.empty() && !on_host; }
  /// Whether its rows are read in the host tier.
  [[nodiscard]] bool reads_host() const { return on_host && !leaving; }
};

/// A swap that has started and is not complete.
struct TransferRecord {
  std::string name;
  std::string req;
  bool out = false;  // to the host
  std::vector<Copy> copies = {};
};

}  // namespace kvproof::properties
