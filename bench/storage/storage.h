// SPDX-License-Identifier: Apache-2.0
// The memory that requests are served from, and the list of its six kinds. The simulated engine and
// the studies know allocators only by this interface.
//
// Model:   a request arrives with its prompt, starts (is admitted), grows step by step, may be
//          preempted, and finishes. Each implementation is the allocator itself, paged or
//          contiguous; nothing is estimated.
// Leaves out: the decision when a request starts, grows or ends (serving/engine.h, studies/play.h).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "optimized/subjects.h"
#include "reference/config.h"
#include "reference/contiguous_cache.h"
#include "reference/ids.h"

namespace kvproof::properties {
struct Candidate;
}

namespace kvproof::bench {

using KvHandle = RequestId;  // valid from arrive() to finish()

/// The demand of a request when it is admitted, in tokens.
struct Start {
  std::uint32_t new_tokens = 0;  // to compute in this step
  std::uint32_t lookahead = 0;   // slots beyond them, for drafts
  bool resumed = false;          // after a preemption
  bool has_scheduled = false;    // others run in this step: the watermark applies
};

/// Memory by cause at one moment, in tokens; a shared block counts once.
struct MemoryUse {
  std::uint64_t tokens = 0;    // slots whose K and V exist and belong to a live request
  std::uint64_t tail = 0;      // slots of a last block beyond its tokens
  std::uint64_t reserved = 0;  // slots held for tokens that may come: drafts, a reservation; or
                               // held because a step may still write them
  std::uint64_t free = 0;      // the rest
  // Beside the causes: the tokens of the requests, where a shared token counts for each of them;
  // the blocks in block tables; and the longest run of free slots, if that is the limit.
  std::uint64_t known = 0;
  std::uint64_t table_entries = 0;
  std::optional<std::uint64_t> largest_free_run = {};

  [[nodiscard]] std::uint64_t held() const { return tokens + tail + reserved; }
  /// 1 - largest free run / all free slots; 0 if any free block will do, or no slot is free.
  [[nodiscard]] double external_fragmentation() const {
    if (!largest_free_run || free == 0) return 0;
    return 1.0 - static_cast<double>(*largest_free_run) / static_cast<double>(free);
  }
};

class KvMemory {
 public:
  virtual ~KvMemory() = default;

  /// Announces a request; no memory is reserved yet. @param most_tokens that the request can have
  /// at its end, drafts included
  [[nodiscard]] virtual KvHandle arrive(std::span<const TokenId> prompt,
                                        std::uint32_t most_tokens) = 0;

  /// The next step will be granted: starts and growths follow.
  virtual void begin_step() = 0;

  /// The leading tokens that start() would find computed already.
  [[nodiscard]] virtual std::uint32_t cached_prefix(KvHandle request) = 0;

  /// Admits a request, with the prefix that cached_prefix() has just found.
  /// @return false, with nothing changed, when there is no room
  [[nodiscard]] virtual bool start(KvHandle request, const Start& ask) = 0;

  /// Makes room for more tokens of an admitted request, as start(). @param in_flight of the
  /// computed tokens, those of steps that still run
  [[nodiscard]] virtual bool grow(KvHandle request, std::uint32_t new_tokens,
                                  std::uint32_t lookahead, std::uint32_t in_flight) = 0;

  /// A step is over, or was granted: the request has these tokens more, and `computed` of all are
  /// in the cache, or will be when the steps in flight are over.
  virtual void advance(KvHandle request, std::span<const TokenId> generated,
                       std::uint32_t computed) = 0;
  /// Offers the blocks that these tokens complete to other requests, before the next grant does.
  virtual void publish(KvHandle request, std::uint32_t computed) = 0;

  /// Takes the memory of an admitted request away; its tokens stay known.
  virtual void preempt(KvHandle request) = 0;
  /// Takes its memory away and forgets it.
  virtual void finish(KvHandle request) = 0;

  /// The block table of a request, until the next call; empty if there are no blocks.
  [[nodiscard]] virtual std::span<const BlockId> table(KvHandle request) const = 0;

  /// Whether a request of that many tokens fits when it is alone.
  [[nodiscard]] virtual bool could_hold(std::uint32_t most_tokens) const = 0;
  [[nodiscard]] virtual std::uint64_t capacity_tokens() const = 0;
  [[nodiscard]] virtual std::uint64_t free_tokens() const = 0;
  [[nodiscard]] virtual MemoryUse use() const = 0;
  /// Whether requests can have blocks in common.
  [[nodiscard]] virtual bool shares() const = 0;
  /// Copied so far because a request had to move. [tokens]
  [[nodiscard]] virtual std::uint64_t moved_tokens() const = 0;
  /// The capacity that would have been enough so far. [tokens]
  [[nodiscard]] virtual std::uint64_t top_tokens() const = 0;

  // Preemption that keeps the computed tokens in the memory of the host. A transfer takes one step.
  [[nodiscard]] virtual bool has_host() const { return false; }
  /// @return false, without any change, if there is no room on the other side
  [[nodiscard]] virtual bool swap_out(KvHandle /*request*/) { return false; }
  [[nodiscard]] virtual bool swap_in(KvHandle /*request*/) { return false; }
  /// The transfer that was started last for this request has landed.
  virtual void settle(KvHandle /*request*/) {}

  // Requests that end while a step in flight may still write into their blocks.
  [[nodiscard]] virtual bool has_leases() const { return false; }
  /// Keeps the blocks of a request from others until let_go(), though it may be finished before.
  virtual void hold(KvHandle /*request*/) {}
  /// Gives back all that is held, request by request, in the order of hold().
  virtual void let_go() {}
};

struct MemoryOptions {
  std::uint32_t block_size = 16;      // [tokens]
  std::uint64_t capacity_tokens = 0;  // of the arena, or of the pool, where it is rounded up
  std::uint32_t host_blocks = 0;      // of the host tier, for swaps
  std::uint32_t max_tokens = 0;       // a request can have at most so many, drafts included
  std::uint32_t max_requests = 0;     // known at one time
  /// [tokens] that contiguous_max_length reserves, where that is more than max_tokens
  std::uint32_t reserved_tokens = 0;
  bool whole_sequence_must_fit = true;  // an admission asks for room for all known tokens
  double watermark = 0;                 // share of the blocks that an admission leaves free
  Profile profile = kDefaultProfile;    // of the paged storages
  /// Of the paged storages, a row with a cache manager.
  const optimized::SubjectRow* manager = &optimized::subject_of(optimized::Role::standard);
  /// If given: this allocator in place of the optimized one, with every operation audited by the
  /// laws and by all that it promises. It is slow: the cost grows with the size of the pool.
  const properties::Candidate* audited = nullptr;
  /// If given: every operation on the audited allocator as a trace, with its result and the state.
  std::ostream* recording = nullptr;
};

struct StorageRow {
  std::string_view name;
  std::string_view sentence;
  bool contiguous;
  bool needs_ids;  // it shares prefixes, so it needs requests that say what they share
  /// @throws std::invalid_argument if an audited allocator cannot be built like that
  std::unique_ptr<KvMemory> (*make)(const MemoryOptions& options);
};

/// The paged allocator. @param share equal prefixes: the prefix cache is on
[[nodiscard]] std::unique_ptr<KvMemory> make_paged_memory(const MemoryOptions& options, bool share);

/// One buffer per request in the same memory.
[[nodiscard]] std::unique_ptr<KvMemory> make_contiguous_memory(const MemoryOptions& options,
                                                               reference::Reservation policy);

template <reference::Reservation policy>
[[nodiscard]] std::unique_ptr<KvMemory> contiguous_memory(const MemoryOptions& options) {
  return make_contiguous_memory(options, policy);
}

inline constexpr StorageRow kStorages[] = {
    {"contiguous_max_length", "every request reserves the longest length", true, false,
     &contiguous_memory<reference::Reservation::max_length>},
    {"contiguous_power_of_two", "the next power of two; doubles and moves when outgrown", true,
     false, &contiguous_memory<reference::Reservation::power_of_two>},
    {"contiguous_oracle", "exactly the final length, as if it were known", true, false,
     &contiguous_memory<reference::Reservation::oracle>},
    {"contiguous_grow_and_copy", "exactly what is there; moves whenever it cannot grow", true,
     false, &contiguous_memory<reference::Reservation::grow_and_copy>},
    {"paged", "whole blocks, nothing shared: the prefix cache is off", false, false,
     [](const MemoryOptions& options) { return make_paged_memory(options, false); }},
    {"paged_shared", "whole blocks, equal prefixes shared: the prefix cache is on", false, true,
     [](const MemoryOptions& options) { return make_paged_memory(options, true); }},
};

[[nodiscard]] constexpr const StorageRow* find_storage(std::string_view name) {
  for (const StorageRow& row : kStorages) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace kvproof::bench
