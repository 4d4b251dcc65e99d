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

/// Which prefix of a prompt gives its block a second key, beside that of the whole block.
enum class PromptTail {
  none,
  complete,     // all complete hash units of the prompt
  before_last,  // those that do not hold its last token, which is computed anew; all if the group
                // drops what it finds last
};

/// The differences between allocator versions, as values. One row per version; no second code path.
struct Profile {
  std::string_view name;
  FreeOrder caching_on;     // with a prefix cache
  FreeOrder caching_off;    // without one: no block is ever hashed
  bool admission_gates;     // watermark and reserved blocks are honoured
  WindowMask window_mask;   // sliding windows: which blocks may be cached
  bool eagle_caches_ahead;  // hybrids: an EAGLE group publishes one block beyond the aligned length
  DraftStates draft_states;   // Mamba: which tokens count as computed for recycling
  PromptTail prompt_tail;     // hybrids: a second key for the block in which the prompt ends
  bool searches_all_hashes;   // hybrids: the EAGLE block beyond the hit may hold the last token
  bool counts_common_prefix;  // common_prefix answers what is shared, not 0
  bool grants_hits_alone;     // a hit may be granted without new tokens
  bool recycles_behind_gaps;  // Mamba align: states behind null positions are given back, too
  bool hits_inside_blocks;    // hybrids with Mamba: a hit may end on every hash unit
  bool sparse;  // knows retention, lookahead hashes, checkpoints, R-SWA and ring groups
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
     .prompt_tail = PromptTail::none,
     .searches_all_hashes = false,
     .counts_common_prefix = true,
     .grants_hits_alone = false,
     .recycles_behind_gaps = false,
     .hits_inside_blocks = false,
     .sparse = false},
    {.name = "vllm-0.22",
     .caching_on = FreeOrder::append,
     .caching_off = FreeOrder::append,
     .admission_gates = false,
     .window_mask = WindowMask::tail,
     .eagle_caches_ahead = false,
     .draft_states = DraftStates::kept,
     .prompt_tail = PromptTail::none,
     .searches_all_hashes = false,
     .counts_common_prefix = true,
     .grants_hits_alone = false,
     .recycles_behind_gaps = false,
     .hits_inside_blocks = false,
     .sparse = false},
    // What the release has by default: sparse retention, hits inside blocks.
    {.name = "vllm-0.33",
     .caching_on = FreeOrder::unhashed_first,
     .caching_off = FreeOrder::prepend,
     .admission_gates = true,
     .window_mask = WindowMask::reachable,
     .eagle_caches_ahead = true,
     .draft_states = DraftStates::recycled,
     .prompt_tail = PromptTail::before_last,
     .searches_all_hashes = true,
     .counts_common_prefix = false,
     .grants_hits_alone = true,
     .recycles_behind_gaps = true,
     .hits_inside_blocks = true,
     .sparse = true},
};

/// What is meant where nobody names a profile: the newest release.
inline constexpr const Profile& kDefaultProfile = kProfiles[2];

/// A behaviour that is newer than the version of its profile: it changes one value of the row.
struct NewerPolicy {
  std::string_view name;
  void (*apply)(Profile& profile);
};

inline constexpr NewerPolicy kNewerPolicies[] = {
    // As released in 0.24.0; lost by vLLM PR 48017, restored by 51482.
    {"nocache_lifo", [](Profile& p) { p.caching_off = FreeOrder::prepend; }},
    {"mamba_processed_basis",
     [](Profile& p) { p.draft_states = DraftStates::recycled; }},  // vLLM PR 47728
    {"prompt_tail_keys",
     [](Profile& p) { p.prompt_tail = PromptTail::complete; }},  // vLLM PR 45939
};

[[nodiscard]] constexpr const Profile* find_profile(std::string_view name) {
  for (const Profile& row : kProfiles) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

/// How the layers of one group read their cache. Each kind keeps, skips and shares blocks in a way
/// of its own (layer_rules.h). R-SWA reads the prompt and a window; a ring is one block that a
/// request overwrites, never shared.
enum class LayerKind { full, mla, sliding_window, chunked_local, mamba, cross, rswa, ring };

/// Which states of a Mamba group are kept: only the running one (no prefix cache), one per block,
/// or the states at block boundaries and the running one, which moves along.
enum class MambaMode { none, all, align };

/// One block table's worth of layers.
struct GroupConfig {
  LayerKind kind = LayerKind::full;
  std::uint32_t block_size = 16;  // [tokens per block]
  bool eagle = false;             // drops the last hit block, for a draft head that needs it
  std::uint32_t window = 0;       // [tokens] of sliding_window and rswa, the token itself included
  std::uint32_t chunk = 0;        // [tokens] of a chunk of chunked_local
  MambaMode mode = MambaMode::none;      // which states mamba keeps
  std::uint32_t speculative_blocks = 0;  // states that mamba has for drafts
  /// Mamba align: the chunk that ends a prefill also writes the state at the prompt's boundary, if
  /// that lies a multiple of this behind the start of the chunk. [tokens] 0 = it does not
  std::uint32_t checkpoint_alignment = 0;

  /// Whether the two groups are looked up together.
  [[nodiscard]] bool alike(const GroupConfig& other) const {
    return kind == other.kind && block_size == other.block_size && window == other.window &&
           chunk == other.chunk && mode == other.mode &&
           speculative_blocks == other.speculative_blocks &&
           checkpoint_alignment == other.checkpoint_alignment;
  }
};

/// Whether the kind reads every token of a prompt: full attention, with rows of any shape.
[[nodiscard]] constexpr bool reads_all(LayerKind kind) {
  return kind == LayerKind::full || kind == LayerKind::mla || kind == LayerKind::rswa;
}

/// Whether later tokens are written into blocks in their order. Encoder rows are written once, and
/// states and rings are overwritten.
[[nodiscard]] constexpr bool is_written_again(LayerKind kind) {
  return kind != LayerKind::mamba && kind != LayerKind::cross && kind != LayerKind::ring;
}

/// Whether requests may share blocks of the kind.
[[nodiscard]] constexpr bool is_cacheable(LayerKind kind) { return kind != LayerKind::ring; }

struct CacheConfig {
  Profile profile = kDefaultProfile;
  std::uint32_t num_blocks = 0;       // [blocks] with the null block; num_blocks-1 are usable
  bool enable_caching = true;         // the prefix cache
  std::uint32_t max_model_len = 0;    // [tokens] no request gets slots beyond this
  std::uint32_t hash_block_size = 0;  // [tokens] per hashed unit; divides every block size
  /// [tokens] of one step; none = max_model_len
  std::optional<std::uint32_t> max_in_flight_tokens = {};
  double watermark = 0.0;             // fraction of num_blocks kept free on admission
  std::vector<GroupConfig> groups;    // index = GroupId
  std::uint32_t num_host_blocks = 0;  // [blocks] of the host tier; 0 = there is none
  /// Windows and Mamba keep only what is needed to resume at a multiple of this many tokens, or at
  /// a boundary of the request (layer_rules.h). 0: only at the boundaries; none: they keep all.
  std::optional<std::uint32_t> retention = {};
  std::uint32_t hash_lookahead = 0;  // how many tokens behind a hash unit its key also covers

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
/// have to keep the same blocks. If keys cover tokens behind their unit, no group drops a block:
/// none is marked.
[[nodiscard]] CacheConfig with_eagle_kin(CacheConfig config);

/// @return why managers cannot be built from `config`; nullopt when they can.
[[nodiscard]] std::optional<std::string_view> unsupported(const CacheConfig& config);

}  // namespace kvproof
