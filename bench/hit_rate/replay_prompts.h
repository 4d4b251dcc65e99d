// SPDX-License-Identifier: Apache-2.0
// Replays the prompts of a log through the cache manager, one at a time, and counts what the
// prefix cache saves.
//
// Model:   a request is instantaneous (arrive, lookup, allocate, finish); only prompts are cached;
//          nothing else is held. So this measures the eviction order alone, and an independent
//          simulator of leaf-first LRU gives the same numbers. The prompt of a hybrid is computed
//          in chunks, since that decides what there is to keep: between two chunks a window gives
//          back what it has passed, and Mamba in mode align has a state only at the end of a chunk.
//          A request is alone, so nothing else shortens its chunks.
// Source:  vLLM v1 scheduler.py at 0.33 (_mamba_block_aligned_split).
// Leaves out: time, batching and decoding, which the serving simulation has; drafts, checkpoints
//          inside a chunk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "bench/requests/request.h"
#include "bench/requests/tokens.h"
#include "optimized/subjects.h"
#include "reference/config.h"

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

/// The end of the chunk that starts behind `start` computed tokens of a prompt. [tokens]
/// @param budget [tokens] of one chunk, at least the block of a Mamba group
/// @param junction [tokens] where the last lookup saw the prompt part from others; 0 = nowhere new
[[nodiscard]] std::uint32_t chunk_end(const CacheConfig& config, std::uint32_t start,
                                      std::uint32_t prompt, std::uint32_t budget,
                                      std::uint32_t junction);

/// Replays all requests as recorded. `config` says all but the longest prompt: a pool of 0 blocks
/// stands for one in which nothing is ever lost. Chunks have config.max_in_flight_tokens.
/// @pre max_in_flight_tokens is at least the block of a Mamba group
[[nodiscard]] ReplayCounts replay_hybrid(const ReopenableSource& source, CacheConfig config);

}  // namespace kvproof::bench
