// SPDX-License-Identifier: Apache-2.0
// Replays the prompts of a log through the cache manager of a hybrid model, one at a time, as
// replay_prompts.h does for full attention.
//
// Model:   a prompt is computed in chunks, since that decides what there is to keep: between two
//          chunks a window gives back what it has passed, and Mamba in mode align has a state only
//          at the end of a chunk. A request is alone, so nothing else shortens its chunks.
// Source:  vLLM v1 scheduler.py at 0.33 (_mamba_block_aligned_split).
// Leaves out: decoded tokens, drafts, checkpoints inside a chunk.
#pragma once

#include <cstdint>

#include "bench/hit_rate/replay_prompts.h"
#include "reference/config.h"

namespace kvproof::bench {

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
