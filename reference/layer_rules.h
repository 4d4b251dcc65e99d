// SPDX-License-Identifier: Apache-2.0
// Which tokens each kind of layer still reads, may keep and may need: arithmetic without a pool.
//
// Model:   after n computed tokens a kind never reads some leading tokens again. Blocks that hold
//          only such tokens are null in the table, a hit need not have them, and an admission need
//          not pay for them.
// Source:  vLLM v1 single_type_kv_cache_manager.py and kv_cache_interface.py, at 0.22, 0.24 and
//          0.33.
// Leaves out: context parallelism.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "reference/config.h"

namespace kvproof {

/// Leading tokens [tokens] that no later token of the group reads once `computed` ones are cached:
/// full 0; window max(0, n-w+1), which counts the token about to be computed; chunked n/c*c; Mamba
/// n-1, as only the last state matters.
[[nodiscard]] std::uint64_t skipped_tokens(const GroupConfig& group, std::uint64_t computed);

/// How far a request is. [tokens]
struct Progress {
  std::uint64_t computed = 0;  // what is skipped behind them is skipped for good
  std::uint64_t cached = 0;    // that lie in slots
  std::uint64_t prompt = 0;
  std::uint64_t encoder = 0;  // whose rows lie in slots
  std::uint64_t sinks = 0;    // leading ones that are never skipped
};

/// What is read of one request in the slots of one group: positions [0, kept) and [from, to). Of
/// states only the last is, that of the first `to` tokens. Cross attention counts encoder rows.
/// @pre kept <= to
struct Reads {
  std::uint64_t kept = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;

  [[nodiscard]] constexpr bool has(std::uint64_t position) const {
    return position < kept || (position >= from && position < to);
  }
};

/// R-SWA reads the prompt, and a window behind it. A ring is read by its own request alone.
[[nodiscard]] inline Reads reads_of(const GroupConfig& group, const Progress& now) {
  switch (group.kind) {
    case LayerKind::full:
    case LayerKind::mla: return {0, 0, now.cached};
    case LayerKind::cross: return {0, 0, now.encoder};
    case LayerKind::ring: return {};
    case LayerKind::mamba: return {0, skipped_tokens(group, now.cached), now.cached};
    case LayerKind::rswa: {
      const std::uint64_t kept = std::min(now.prompt, now.cached);
      return {kept,
              std::max(kept, now.computed - std::min<std::uint64_t>(now.computed, group.window)),
              now.cached};
    }
    default: return {now.sinks, skipped_tokens(group, now.computed), now.cached};
  }
}

/// As skipped_tokens(), but counted from recycle_basis().
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

/// Whether hits may end inside blocks: Mamba in mode align has blocks longer than a hash unit, and
/// every group can be searched by hash units.
[[nodiscard]] bool hits_inside_blocks(const CacheConfig& config);

/// Hits of several groups end on multiples of it. [tokens]
[[nodiscard]] std::uint64_t hit_alignment(const CacheConfig& config);

/// What decides where a request can go on from another's blocks.
struct Resumption {
  bool drops = false;           // some group drops the last block of its hit
  std::uint64_t align = 1;      // [tokens] alignment(config)
  std::uint64_t hit_align = 1;  // [tokens] hit_alignment(config)
  std::uint32_t unit = 1;       // [tokens] per hash
  std::uint32_t lookahead = 0;  // [tokens] behind a unit that its key covers
};
[[nodiscard]] Resumption resumption_of(const CacheConfig& config);

/// The positions of one request from which others will go on, so that retention keeps what a hit
/// there reads. [tokens] Below 0: none.
struct Boundaries {
  std::array<std::int64_t, 4> at = {-1, -1, -1, -1};
};
/// The end of the prompt, and where the prompt was found to part from those of others.
/// @param junction [tokens] of the last lookup: the longest prefix that any group had; 0 = the hit
[[nodiscard]] Boundaries boundaries_of(const Resumption& rules, const GroupConfig& group,
                                       std::uint64_t prompt_tokens, std::uint64_t junction);

/// Which full blocks of a group may enter the prefix cache: the last `run` of every `period`
/// positions, counted from `shift` (all of them when run >= period), and the `tail` before each
/// boundary of the request.
struct CacheMask {
  std::uint32_t period = 1;
  std::uint32_t run = 1;
  std::uint32_t shift = 0;
  std::uint32_t tail = 0;        // [blocks]
  std::uint64_t align = 1;       // [tokens] boundaries are rounded down to it
  std::uint32_t block_size = 1;  // [tokens]

  [[nodiscard]] bool keeps_all() const { return run >= period; }
  /// Whether it keeps the position for every request.
  [[nodiscard]] bool keeps(std::uint32_t position) const {
    return keeps_all() || (position >= shift && (position - shift) % period >= period - run);
  }
  [[nodiscard]] bool keeps(std::uint32_t position, const Boundaries& boundaries) const;
};
[[nodiscard]] CacheMask cache_mask(const CacheConfig& config, const GroupConfig& group);

/// Several groups publish together, on multiples of it. [tokens]
[[nodiscard]] std::uint64_t publish_alignment(const CacheConfig& config);

/// How many of `tokens` computed tokens may be published now. [tokens]
/// @param align publish_alignment(config)
[[nodiscard]] std::uint64_t publishable_tokens(const Profile& profile, const GroupConfig& group,
                                               std::uint64_t align, std::uint64_t tokens);

/// The prefix of a prompt that gives the block in which it ends a second key. [tokens] 0 = none
/// @param hashed_tokens [tokens] whose keys are known
[[nodiscard]] std::uint64_t prompt_tail(PromptTail rule, std::uint32_t unit,
                                        const GroupConfig& group, std::uint64_t prompt_tokens,
                                        std::uint64_t hashed_tokens);

/// The last multiple of `align` at which a state serves whoever sends these tokens again. [tokens]
[[nodiscard]] std::uint64_t state_boundary(const Resumption& rules, std::uint64_t tokens,
                                           std::uint64_t align);

/// The slots that an allocation makes: those of tokens, and further ones for states of drafts.
[[nodiscard]] std::uint64_t slots_with_drafts(const GroupConfig& group, std::uint64_t tokens);

/// Whether the running state moves from block to block: Mamba in mode align.
[[nodiscard]] constexpr bool moves_state(const GroupConfig& group) {
  return group.kind == LayerKind::mamba && group.mode == MambaMode::align;
}

}  // namespace kvproof
