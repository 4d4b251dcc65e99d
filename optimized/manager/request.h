// SPDX-License-Identifier: Apache-2.0
// What goes into the cache manager and comes out of it, besides reference/operations.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "optimized/pool/victims.h"
#include "reference/ids.h"
#include "reference/operations.h"

namespace kvproof::optimized {

using RequestId = std::uint32_t;  // valid from arrive() to finish()

/// What a manager is sized for. Going beyond it is a Breach::capacity, and changes nothing.
struct Capacity {
  std::uint32_t max_requests = 256;
  std::uint32_t event_records = 0;  // see EventLog; 0 = no events
  bool residency = false;           // see Residency
  bool exact_hits = false;          // see ExactContents
  VictimPolicy* victims = nullptr;  // outlives the manager; nullptr = the head of the free queue
};

struct Arrival {
  std::span<const TokenId> tokens;   // the prompt
  const ExtraKeys* extra = nullptr;  // copied; nullptr = none
  bool skip_lookup = false;          // never reuse a prefix, e.g. because prompt logits are wanted
  std::uint32_t max_tokens = 0;      // [tokens] the request may reach; 0 = max_model_len
  std::uint32_t encoder_tokens = 0;  // what cross attention reads
};

/// One copy, made at arrival, that forks and published blocks share; nullptr = none.
using SharedExtraKeys = std::shared_ptr<const ExtraKeys>;

/// The bytes of `from` go to `to` before the step that was admitted runs.
struct BlockCopy {
  GroupId group = 0;
  BlockId from = 0;
  BlockId to = 0;
};

using LeaseId = std::uint32_t;  // valid from pin() to unpin()

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

/// Where the blocks of a request lie. The two in between are transfers in flight.
enum class Place : std::uint8_t { device, leaving, host, returning };

/// What a decode step reads of a request: one cache line.
template <class Key>
struct alignas(64) RequestState {
  TokenId* tokens = nullptr;  // shape [capacity]
  Key* hashes = nullptr;      // shape [capacity / hash unit]
  std::uint32_t num_tokens = 0;
  std::uint32_t capacity = 0;       // [tokens]
  std::uint32_t next_unit_end = 0;  // [tokens] at which the next hash is due
  std::uint32_t computed = 0;       // [tokens]
  std::uint32_t quiet_until = 0;    // [tokens] up to which a step takes and publishes nothing
  bool live = false;
  bool plain = false;  // step() will do: nothing shared or away, no moving states
  bool skip_lookup = false;
  bool has_extra = false;
  bool may_share = false;  // an unpublished block of it may have another holder
  bool forked = false;     // it has, or had, relatives that started with its blocks
  Place place = Place::device;
  std::uint32_t num_hashes = 0;
  std::uint32_t hit_tokens = 0;  // of the last lookup
  std::uint32_t hit_epoch = 0;   // BlockPool::num_forgotten() at that time
  std::uint32_t prompt_tokens = 0;
  std::uint32_t encoder_tokens = 0;
};

using BlockTables = std::vector<std::vector<BlockId>>;  // per group

/// What arrive() makes and the hot path does not read.
struct RequestStorage {
  SharedExtraKeys extra;
  std::unique_ptr<std::byte[]> buffer;  // what a request and its tables point into
  std::size_t bytes = 0;
  BlockTables host;                          // while there are blocks on the host
  std::vector<std::uint32_t> host_progress;  // per group: what published was, while away
};

}  // namespace kvproof::optimized
