// SPDX-License-Identifier: Apache-2.0
// The memory that a simulated engine serves from: the seam between the scheduler and a real
// allocator.
//
// Model:   a request arrives with its prompt, starts (is admitted), grows step by step, may be
//          preempted, and finishes. Each implementation is the allocator itself, paged or
//          contiguous; nothing is estimated.
// Refuses: when to do what (engine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "reference/contiguous_cache.h"
#include "reference/ids.h"

namespace kvproof::properties {
struct Candidate;
}

namespace kvproof::bench {

using KvHandle = RequestId;  // valid from arrive() to finish()

/// What a request asks for when it is admitted. All in tokens.
struct Start {
  std::uint32_t new_tokens = 0;  // to compute in this step
  std::uint32_t lookahead = 0;   // slots beyond them, for drafts
  bool resumed = false;          // after a preemption
  bool has_scheduled = false;    // others run in this step: the watermark applies
};

/// Memory by cause at one moment. All in tokens; a shared block counts once.
struct MemoryUse {
  std::uint64_t tokens = 0;    // slots whose K and V exist and belong to a live request
  std::uint64_t tail = 0;      // slots of a last block beyond its tokens
  std::uint64_t reserved = 0;  // slots held for tokens that may come: drafts, a reservation
  std::uint64_t free = 0;      // the rest

  [[nodiscard]] std::uint64_t held() const { return tokens + tail + reserved; }
};

/// Preemption that keeps what was computed, in the host's memory. A transfer takes one step.
class KvSwapper {
 public:
  virtual ~KvSwapper() = default;
  /// @return false, with nothing changed, if there is no room on the other side
  [[nodiscard]] virtual bool swap_out(KvHandle request) = 0;
  [[nodiscard]] virtual bool swap_in(KvHandle request) = 0;
  /// The transfer that was started last for this request has landed.
  virtual void settle(KvHandle request) = 0;
};

class KvMemory {
 public:
  virtual ~KvMemory() = default;

  /// Nothing is reserved yet. @param most_tokens that the request can have at its end, drafts
  /// included
  [[nodiscard]] virtual KvHandle arrive(std::span<const TokenId> prompt,
                                        std::uint32_t most_tokens) = 0;

  /// Leading tokens that start() would find computed already. [tokens]
  [[nodiscard]] virtual std::uint32_t cached_prefix(KvHandle request) = 0;

  /// Admits a request, with the prefix that cached_prefix() has just found.
  /// @return false, with nothing changed, when there is no room
  [[nodiscard]] virtual bool start(KvHandle request, const Start& ask) = 0;

  /// Makes room for more tokens of an admitted request, as start().
  [[nodiscard]] virtual bool grow(KvHandle request, std::uint32_t new_tokens,
                                  std::uint32_t lookahead) = 0;

  /// A step is over: the request has these tokens more, and `computed` of all are in the cache.
  virtual void advance(KvHandle request, std::span<const TokenId> generated,
                       std::uint32_t computed) = 0;

  /// Takes the memory of an admitted request away; its tokens stay known.
  virtual void preempt(KvHandle request) = 0;
  /// Takes its memory away and forgets it.
  virtual void finish(KvHandle request) = 0;

  /// Whether a request of that many tokens fits when it is alone.
  [[nodiscard]] virtual bool could_hold(std::uint32_t most_tokens) const = 0;
  [[nodiscard]] virtual std::uint64_t capacity_tokens() const = 0;
  [[nodiscard]] virtual std::uint64_t free_tokens() const = 0;
  [[nodiscard]] virtual MemoryUse use() const = 0;
  /// Whether requests can have blocks in common.
  [[nodiscard]] virtual bool shares() const = 0;
  /// Copied so far because a request had to move. [tokens]
  [[nodiscard]] virtual std::uint64_t moved_tokens() const = 0;
  /// nullptr where nothing can be swapped.
  [[nodiscard]] virtual KvSwapper* swapper() = 0;
};

/// What a memory is built for.
struct MemoryOptions {
  std::uint32_t block_size = 16;      // [tokens]
  std::uint32_t capacity_blocks = 0;  // usable
  std::uint32_t host_blocks = 0;      // of the host tier, for swaps
  std::uint32_t max_tokens = 0;       // that a request can come to have, drafts included
  std::uint32_t max_requests = 0;     // known at one time
  bool prefix_caching = true;
  bool whole_sequence_must_fit = true;  // an admission asks for room for all known tokens
  double watermark = 0;                 // share of the blocks that an admission leaves free
};

/// The paged allocator. @param sha256 block hashes instead of XXH3
[[nodiscard]] std::unique_ptr<KvMemory> make_paged_memory(const MemoryOptions& options,
                                                          bool sha256 = false);

/// Any allocator that can be checked, every operation audited by the laws and by whatever else it
/// promises to satisfy. Slow: cost grows with the size of the pool.
/// Throws std::invalid_argument if it cannot be built like that, properties::Violation at the first
/// operation that breaks a law.
[[nodiscard]] std::unique_ptr<KvMemory> make_audited_memory(const MemoryOptions& options,
                                                            const properties::Candidate& candidate);

/// One buffer per request in the same memory. @param reserved_tokens that Reservation::max_length
/// reserves for each
[[nodiscard]] std::unique_ptr<KvMemory> make_contiguous_memory(const MemoryOptions& options,
                                                               reference::Reservation policy,
                                                               std::uint32_t reserved_tokens);

}  // namespace kvproof::bench
