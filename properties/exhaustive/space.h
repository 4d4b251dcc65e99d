// SPDX-License-Identifier: Apache-2.0
// A small manager with its callers, whose reachable states are few enough to visit all of them.
//
// Model:   prompts are all strings of two tokens of the given lengths; requests are
//          interchangeable, so an arrival takes the first unused name. A request is granted tokens
//          (Allocate), then they are computed (Advance); between the two anything may happen to the
//          others. What it may do next follows from what its caller knows, as in an engine: look up
//          before it is admitted, prefill in chunks of any size, decode one token at a time.
// Bounded: blocks, requests, prompt lengths, length of a request. Within these bounds nothing else
//          cuts a search short: a space that was closed was visited whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

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

/// What the requests "a", "b", ... have said so far; part of a state, as no snapshot shows it.
using Texts = std::array<Text, kMostRequests>;

/// Kinds of operations beyond arrive, lookup, allocate, advance, append, free, finish and reset.
enum Extras : unsigned {
  kNone = 0,
  kCommonPrefix = 1,  // common_prefix
  kRecycle = 2,       // recycle, of all that is computed
  kEvict = 4,         // evict, of each block with a key
  kRaw = 8,           // touch and release by the raw owner, of a block or of the same one twice
  kFork = 16,         // fork
  kDelayed = 32,      // grants that do not publish, and cache
  kDrafts = 64,       // grants with one slot of lookahead, and truncate
  kGate = 128,        // allocate with full_sequence_must_fit, too
};

struct Space {
  std::string_view name;
  std::string_view sentence;
  std::uint32_t usable_blocks;
  std::uint32_t requests;         // <= kMostRequests
  std::uint32_t shortest_prompt;  // [tokens]
  std::uint32_t longest_prompt;   // [tokens]
  std::uint32_t max_tokens;       // [tokens] of a prompt with what was generated
  bool caching = true;
  unsigned extras = kNone;
  std::array<GroupConfig, 2> groups = {};
  std::size_t num_groups = 1;
  std::uint64_t cut_at = 0;  // [states] at which a search gives up; 0 = it closes

  [[nodiscard]] CacheConfig config() const;
};

/// Everything that may be asked in a state, in an order that only the state decides.
void operations_in(const Space& space, const Snapshot& state, const History& history,
                   const Texts& texts, std::vector<Operation>& out);

/// Takes note of an operation that was answered.
void note(const Operation& operation, const Result& result, Texts& texts);

/// The position of a request's name.
[[nodiscard]] inline std::size_t slot_of(std::string_view name) {
  return static_cast<std::size_t>(name.front() - 'a');
}

}  // namespace kvproof::properties::exhaustive
