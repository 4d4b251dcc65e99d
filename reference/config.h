// SPDX-License-Identifier: Apache-2.0
// What a cache manager is built from: the pool, the layer groups, and the policy values of a
// profile.
//
// Source: vLLM v1 KVCacheConfig and CacheConfig; the recorded-trace header has one key per field.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "reference/ids.h"

namespace kvproof {

/// Where a released block, whose last reference is gone, enters the free queue.
enum class FreeOrder {
  append,          // all to the back: pure least-recently-released order
  prepend,         // all to the front: the block released last is handed out first
  unhashed_first,  // unhashed to the front (no content to lose), hashed to the back (LRU)
};

/// Which full blocks of a sliding window may enter the prefix cache, when hits end on multiples of
/// an alignment that is longer than a block.
enum class WindowMask {
  tail,  // the blocks that a hit on an aligned boundary reads, without the EAGLE block beyond it
  reachable,  // the blocks that any search may read, the EAGLE block included
};

/// Which Mamba modes recycle as if their speculative blocks were not computed yet.
enum class DraftStates { kept, kept_in_align, recycled };

/// The differences between allocator versions, as values. One row per version; no second code path.
struct Profile {
  std::string_view name;
  FreeOrder caching_on;     // with a prefix cache
  FreeOrder caching_off;    // without one: no block is ever hashed
  bool admission_gates;     // watermark and reserved blocks are honoured
  WindowMask window_mask;   // sliding windows: which blocks may be cached
  bool eagle_caches_ahead;  // hybrids: an EAGLE group publishes one block beyond the aligned length
  DraftStates draft_states;  // Mamba: which tokens count as computed for recycling
  bool prompt_tail_keys;     // hybrids: a second key for the block in which the prompt ends
};

inline constexpr Profile kProfiles[] = {
    // vLLM PR 42656 (unhashed first), 44594 (watermark), 44560 (reserved), 44082 (window mask)
    {.name = "vllm-0.24",
     .caching_on = FreeOrder::unhashed_first,
     .caching_off = FreeOrder::prepend,
     .admission_gates = true,
     .window_mask = WindowMask::reachable,
     .eagle_caches_ahead = true,
     .draft_states = DraftStates::kept_in_align,
     .prompt_tail_keys = false},
    {.name = "vllm-0.22",
     .caching_on = FreeOrder::append,
     .caching_off = FreeOrder::append,
     .admission_gates = false,
     .window_mask = WindowMask::tail,
     .eagle_caches_ahead = false,
     .draft_states = DraftStates::kept,
     .prompt_tail_keys = false},
};

/// A behaviour that is newer than the version of its profile: it changes one value of the row.
struct NewerPolicy {
  std::string_view name;
  void (*apply)(Profile& profile);
};

inline constexpr NewerPolicy kNewerPolicies[] = {
    // As released in 0.24.0; lost by vLLM PR 48017, restored by 51482.
    {"nocache_lifo", [](Profile& p) { p.caching_off = FreeOrder::prepend; }},
    {"mamba_processed_basis",
     [](Profile& p) { p.draft_states = DraftStates::recycled; }},         // vLLM PR 47728
    {"prompt_tail_keys", [](Profile& p) { p.prompt_tail_keys = true; }},  // vLLM PR 45939
};

[[nodiscard]] constexpr const Profile* find_profile(std::string_view name) {
  for (const Profile& row : kProfiles) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

/// How the layers of one group read their cache. Each kind keeps, skips and shares blocks in a way
/// of its own (layer_rules.h).
enum class LayerKind { full, mla, sliding_window, chunked_local, mamba, cross };

/// Which states of a Mamba group are kept: only the running one (no prefix cache), one per block,
/// or the states at block boundaries and the running one, which moves along.
enum class MambaMode { none, all, align };

/// One block table's worth of layers.
struct GroupConfig {
  LayerKind kind = LayerKind::full;
  std::uint32_t block_size = 16;         // [tokens per block]
  bool eagle = false;                    // drops the last hit block, for a draft head that needs it
  std::uint32_t window = 0;              // [tokens] sliding_window: the token itself included
  std::uint32_t chunk = 0;               // [tokens] chunked_local
  MambaMode mode = MambaMode::none;      // mamba
  std::uint32_t speculative_blocks = 0;  // mamba: states of drafts

  /// Whether the two groups are looked up together.
  [[nodiscard]] bool alike(const GroupConfig& other) const {
    return kind == other.kind && block_size == other.block_size && window == other.window &&
           chunk == other.chunk && mode == other.mode &&
           speculative_blocks == other.speculative_blocks;
  }
};

/// Whether the kind reads every token: full attention, with rows of any shape.
[[nodiscard]] constexpr bool reads_all(LayerKind kind) {
  return kind == LayerKind::full || kind == LayerKind::mla;
}

struct CacheConfig {
  Profile profile = kProfiles[0];
  std::uint32_t num_blocks = 0;       // [blocks] with the null block; num_blocks-1 are usable
  bool enable_caching = true;         // the prefix cache
  std::uint32_t max_model_len = 0;    // [tokens] no request gets slots beyond this
  std::uint32_t hash_block_size = 0;  // [tokens] per hashed unit; divides every block size
  std::optional<std::uint32_t> max_in_flight_tokens;  // [tokens] of one step; none = max_model_len
  double watermark = 0.0;             // fraction of num_blocks kept free on admission
  std::vector<GroupConfig> groups;    // index = GroupId
  std::uint32_t num_host_blocks = 0;  // [blocks] of the host tier; 0 = there is none

  /// The blocks that an admission leaves free, rounded down as in the original.
  [[nodiscard]] std::uint32_t watermark_blocks() const {
    return profile.admission_gates
               ? static_cast<std::uint32_t>(watermark * static_cast<double>(num_blocks))
               : 0;
  }
};

/// Least common multiple of the block sizes [tokens]: hits of several groups end on multiples.
[[nodiscard]] inline std::uint64_t alignment(const CacheConfig& config) {
  std::uint64_t out = 1;
  for (const GroupConfig& group : config.groups) out = std::lcm(out, group.block_size);
  return out;
}

/// Marks every group that is like an EAGLE group as EAGLE: they are looked up together, so they
/// have to keep the same blocks.
[[nodiscard]] CacheConfig with_eagle_kin(CacheConfig config);

/// @return why managers cannot be built from `config`; nullopt when they can.
[[nodiscard]] std::optional<std::string_view> unsupported(const CacheConfig& config);

}  // namespace kvproof
