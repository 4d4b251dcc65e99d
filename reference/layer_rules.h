// SPDX-License-Identifier: Apache-2.0
// Which tokens each kind of layer still reads, may keep and may need: arithmetic without a pool.
//
// Model:   after n computed tokens a kind never reads some leading tokens again. Blocks that hold
//          only such tokens are null in the table, a hit need not have them, and an admission need
//          not pay for them.
// Source:  vLLM v1 single_type_kv_cache_manager.py and kv_cache_interface.py, at 0.22 and 0.24.
// Leaves out: retention intervals, context parallelism, sinks.
#pragma once

#include <cstdint>
#include <optional>

#include "reference/config.h"

namespace kvproof {

/// Leading tokens [tokens] that no later token of the group reads once `computed` ones are cached:
/// full 0; window max(0, n-w+1), which counts the token about to be computed; chunked n/c*c; Mamba
/// n-1, as only the last state matters.
[[nodiscard]] std::uint64_t skipped_tokens(const GroupConfig& group, std::uint64_t computed);

/// As skipped_tokens, counted from recycling_basis().
[[nodiscard]] std::uint64_t recyclable_tokens(const Profile& profile, const GroupConfig& group,
                                              std::uint64_t computed);

/// The tokens that count as computed for recycling: Mamba may hold back its drafts. [tokens]
[[nodiscard]] std::uint64_t recycle_basis(const Profile& profile, const GroupConfig& group,
                                          std::uint64_t computed);

/// The most blocks that one request can hold at once, if recycling bounds them. [blocks]
[[nodiscard]] std::optional<std::uint64_t> admission_cap(const CacheConfig& config,
                                                         const GroupConfig& group);

/// Contiguous blocks that a window must find in the cache to start behind them, the EAGLE block
/// included. [blocks]
[[nodiscard]] std::uint32_t window_run(const GroupConfig& group);

/// Which full blocks of a group may enter the prefix cache: the last `run` of every `period`
/// positions, counted from `shift`. All of them when run >= period.
struct CacheMask {
  std::uint32_t period = 1;
  std::uint32_t run = 1;
  std::uint32_t shift = 0;

  [[nodiscard]] bool keeps(std::uint32_t position) const {
    return run >= period || (position >= shift && (position - shift) % period >= period - run);
  }
};
[[nodiscard]] CacheMask cache_mask(const CacheConfig& config, const GroupConfig& group);

/// How many of `tokens` computed tokens may be published now: several groups publish together, on
/// multiples of their alignment. [tokens]
/// @param align alignment(config)
[[nodiscard]] std::uint64_t publishable_tokens(const Profile& profile, const GroupConfig& group,
                                               std::uint64_t align, std::uint64_t tokens);

/// The slots that an allocation makes: those of tokens, and further ones for states of drafts.
[[nodiscard]] std::uint64_t slots_with_drafts(const GroupConfig& group, std::uint64_t tokens);

/// Whether the running state moves from block to block: Mamba in mode align.
[[nodiscard]] constexpr bool moves_state(const GroupConfig& group) {
  return group.kind == LayerKind::mamba && group.mode == MambaMode::align;
}

}  // namespace kvproof
