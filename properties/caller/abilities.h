// SPDX-License-Identifier: Apache-2.0
// What may be asked of a subject at all: the managers that it can be, and the calls that it knows.
//
// Model:   an engine states it once, and what is drawn stays inside. Nothing is left out silently:
//          a check names what its subject's abilities leave out.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvproof {
struct CacheConfig;
}

namespace kvproof::properties {

inline constexpr std::size_t kNumLayerKinds = 8;

/// Ways of calling that an engine may lack.
struct Calls {
  bool chunks = true;
  bool drafts = true;
  bool external = true;
  bool extra = true;
  bool delay_cache = true;
  bool skip_lookup = true;
  bool without_lookup = true;
  bool full_sequence_must_fit = true;
  bool reserved = true;
  bool in_flight = true;
  bool max_tokens = true;
  bool long_appends = true;    // of several tokens, or before all known tokens are computed
  bool part_advances = true;   // over a part of what was granted, and back by one
  bool batches = true;         // decode steps; of a subject it is the operation that says so
  bool early_forks = true;     // of requests whose granted tokens are not all computed
  bool lookup_within = false;  // by the trait: an admission looks up by itself
  std::uint64_t most_requests = ~std::uint64_t{0};
  bool operator==(const Calls&) const = default;
};

struct CallRow {
  std::string_view name;
  bool Calls::*value;
  std::string_view sentence;  // what is left out if it is false
};

inline constexpr CallRow kCalls[] = {
    {"chunks", &Calls::chunks, "prompts that are computed in several allocations"},
    {"drafts", &Calls::drafts, "lookahead, and new tokens beyond those that are known"},
    {"external", &Calls::external, "tokens that are loaded from elsewhere"},
    {"extra", &Calls::extra, "extra keys: adapters, salts, images"},
    {"delay_cache", &Calls::delay_cache, "grants that publish nothing yet"},
    {"skip_lookup", &Calls::skip_lookup, "requests that must not hit"},
    {"without_lookup", &Calls::without_lookup, "admissions that do not use a lookup"},
    {"full_sequence_must_fit", &Calls::full_sequence_must_fit, "the gate for whole sequences"},
    {"reserved", &Calls::reserved, "blocks that are promised to others"},
    {"in_flight", &Calls::in_flight, "steps that still run while the next is granted"},
    {"max_tokens", &Calls::max_tokens, "lookups with a bound"},
};

struct Abilities : Calls {
  std::vector<std::uint32_t> block_sizes;  // [tokens]; empty = any
  std::uint32_t groups = ~std::uint32_t{0};
  std::bitset<kNumLayerKinds> kinds = std::bitset<kNumLayerKinds>().set();
  bool cached = true;    // managers with a prefix cache
  bool uncached = true;  // and without
  bool eagle = true;
  bool watermark = true;
  bool partial_keys = false;       // by the trait: keys of every token, and hits that end anywhere
  std::uint32_t least_blocks = 0;  // of a pool, the null block included
  std::uint32_t most_blocks = ~std::uint32_t{0};

  /// Whether a block size may be drawn.
  [[nodiscard]] bool has_size(std::uint32_t tokens) const;
};

/// Reads the object "abilities" of an answer to a header. @throws TextError
[[nodiscard]] Abilities parse_abilities(std::string_view json_object);

/// @return why a manager is beyond them; empty if it is not
[[nodiscard]] std::string why_beyond(const Abilities& abilities, const CacheConfig& config);

/// Whether there is something to ask of two subjects alike, and what that is.
[[nodiscard]] bool has_common(const Abilities& one, const Abilities& other);
[[nodiscard]] Abilities common(Abilities one, const Abilities& other);

/// Whether every way of calling is known.
[[nodiscard]] bool knows_all_calls(const Calls& calls);

/// What they leave out, each as some words.
[[nodiscard]] std::vector<std::string> left_out_by(const Abilities& abilities);

}  // namespace kvproof::properties
