// SPDX-License-Identifier: Apache-2.0
// Replays the prompts of a log through the cache manager, one at a time, and counts what the
// prefix cache saves.
//
// Model:   a request is instantaneous (arrive, lookup, allocate, finish); only prompts are cached;
//          nothing else is held. So this measures the eviction order alone, and an independent
//          simulator of leaf-first LRU gives the same numbers.
// Leaves out: time, batching and decoding, which the serving simulation has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "bench/requests/request.h"
#include "bench/requests/tokens.h"
#include "optimized/subjects.h"

namespace kvproof::bench {

struct EvictionPolicy;  // policies.h

/// A prompt that was just served, before it gives its blocks back.
struct ServedPrompt {
  const Request& request;
  std::span<const TokenId> tokens;
  std::span<const std::uint64_t> keys;  // fingerprints, one per complete block
  std::span<const BlockId> blocks;      // its table; empty if it was refused
  std::uint32_t hit = 0;                // [tokens] of its lookup
};

struct ReplayOptions {
  std::uint32_t block_size = 16;  // [tokens]
  /// [usable blocks]; nullopt = so many that nothing is lost
  std::optional<std::uint32_t> capacity_blocks;
  TokenMode tokens = TokenMode::as_recorded;
  /// A row with a cache manager.
  const optimized::SubjectRow* manager = &optimized::subject_of(optimized::Role::standard);
  const EvictionPolicy* policy = nullptr;   // nullptr = the allocator's own LRU, else under XXH3
  std::function<void(double)> on_progress;  // fraction done, 0 to 1
  std::function<void(const ServedPrompt&)> on_served = {};
};

struct ReplayCounts {
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;  // requests larger than the whole cache; all their blocks are misses
  std::uint64_t input_tokens = 0;
  std::uint64_t hit_tokens = 0;     // at most the input tokens of each request
  std::uint64_t prompt_blocks = 0;  // complete blocks of all prompts
  std::uint64_t hit_blocks = 0;
  std::uint64_t evictions = 0;
  std::uint64_t kept_blocks = 0;      // that have content in the end
  std::uint64_t capacity_blocks = 0;  // usable
  std::uint64_t pool_bytes = 0;       // records and index
  LeftOut left_out;                   // by the filters of the source
  double wall_seconds = 0;            // of the replay proper

  [[nodiscard]] double hit_rate_tokens() const {
    return input_tokens == 0 ? 0
                             : static_cast<double>(hit_tokens) / static_cast<double>(input_tokens);
  }
  [[nodiscard]] double hit_rate_blocks() const {
    return prompt_blocks == 0
               ? 0
               : static_cast<double>(hit_blocks) / static_cast<double>(prompt_blocks);
  }
};

/// Replays all requests of a source, which is opened twice: once to learn its size. Throws
/// std::invalid_argument for options that fit no pool, InputError for malformed input.
[[nodiscard]] ReplayCounts replay_prompts(const ReopenableSource& source,
                                          const ReplayOptions& options);

}  // namespace kvproof::bench
