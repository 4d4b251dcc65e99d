// SPDX-License-Identifier: Apache-2.0
// A small manager and its callers, with so few reachable states that all of them can be visited.
//
// Model:   prompts are all strings of two tokens of the given lengths that begin with same_tokens
//          zeros; requests are interchangeable, so an arrival takes the first unused name. A
//          request is granted tokens (Allocate), then they are computed (Advance); between the two
//          anything may happen to the others. The caller's knowledge decides what a request may do
//          next, as in an engine: it looks up before it is admitted, prefills in chunks of any
//          size, and decodes one token at a time.
// Bounded: blocks, requests, prompt lengths, length of a request. Nothing else limits a search: a
//          space that was closed was visited whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "properties/caller/shared_value.h"
#include "properties/laws/history.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties::exhaustive {

inline constexpr std::size_t kMostRequests = 3;

/// A string of two tokens, 0 and 1: its bits behind a leading 1. 0 = there is none.
using Text = std::uint32_t;
inline constexpr Text kEmptyText = 1;

[[nodiscard]] constexpr Text extended(Text text, TokenId token) {
  return text << 1 | static_cast<Text>(token);
}
[[nodiscard]] std::vector<TokenId> tokens_of(Text text);

/// What callers know besides: part of a state, because no snapshot shows it.
struct Known {
  std::array<Text, kMostRequests> texts{};  // of the requests "a", "b", ... so far
  SharedValue<std::unordered_map<std::uint64_t, Text>> of_key;  // with the tokens behind its unit
};

/// Kinds of operations beyond arrive, lookup, allocate, advance, append, free, finish and reset.
enum Extras : unsigned {
  kNone = 0,
  kCommonPrefix = 1,  // common_prefix
  kRecycle = 2,       // recycle up to all computed tokens
  kEvict = 4,         // evict each block with a key
  kRaw = 8,           // the raw owner touches and releases a block, or the same one twice
  kFork = 16,         // fork
  kDelayed = 32,      // grants that do not publish, and cache
  kDrafts = 64,       // grants with one slot of lookahead, and truncate
  kGate = 128,        // allocate with full_sequence_must_fit, too
  kSteps = 256,       // step
};

struct Space {
  std::string_view name;
  std::string_view sentence;
  std::uint32_t usable_blocks;
  std::uint32_t requests;         // <= kMostRequests
  std::uint32_t shortest_prompt;  // [tokens]
  std::uint32_t longest_prompt;   // [tokens]
  std::uint32_t max_tokens;       // [tokens] of a prompt with the generated tokens
  bool caching = true;
  unsigned extras = kNone;
  std::array<GroupConfig, 2> groups = {};
  std::size_t num_groups = 1;
  std::uint64_t cut_at = 0;  // [states] at which a search gives up; 0 = it closes
  std::string_view profile = "vllm-0.24";
  std::uint32_t hash_unit = 0;  // [tokens] 0 = a block of the first group
  std::optional<std::uint32_t> retention = {};
  std::uint32_t hash_lookahead = 0;  // [tokens]
  std::uint32_t same_tokens = 0;     // [tokens] with which every prompt begins

  [[nodiscard]] CacheConfig config() const;
};

/// All operations that may be performed in a state, in an order that depends on the state alone.
void operations_in(const Space& space, const Snapshot& state, const History& history,
                   const Known& known, std::vector<Operation>& out);

/// Notes an operation that was answered. @param after the state behind it
void note(const CacheConfig& config, const Operation& operation, const Result& result,
          const Snapshot& after, Known& known);

/// The position of a request's name.
[[nodiscard]] inline std::size_t slot_of(std::string_view name) {
  return static_cast<std::size_t>(name.front() - 'a');
}

}  // namespace kvproof::properties::exhaustive
