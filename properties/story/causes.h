// SPDX-License-Identifier: Apache-2.0
// Why a lookup hit no more: the one cause of the first block that it missed.
//
// Model:  the search of reference/prefix_search.h runs over the history of the index. It must find
//         the hit that was answered, or nothing is explained. Run again as if more were there, it
//         tells what ended the hit: the rules, a group, or one block.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/story/index_history.h"
#include "reference/config.h"

namespace kvproof::properties {

enum class Cause : std::uint8_t {
  caching_off,
  last_token,
  no_state,
  pending,
  evicted,
  key_differs,
  never_computed,
  refused,
  unexplained,
};

struct CauseRow {
  std::string_view name;  // in JSON
  std::string_view words;
};

inline constexpr CauseRow kCauses[] = {
    {"caching_off", "caching off"},       // or the request asks for no lookup
    {"last_token", "last-token rule"},    // and every other rule by which no more may hit
    {"no_state", "no state in a group"},  // another group has it, or it was computed and not kept
    {"pending", "pending"},               // somebody computes or loads it
    {"evicted", "evicted"},               // it was in the index
    {"key_differs", "key differs"},       // its tokens are in the index under another key
    {"never_computed", "never computed"},
    {"refused", "refused"},          // of a log: the prompt is longer than the pool
    {"unexplained", "unexplained"},  // the history finds another hit than was answered
};

/// A lookup that was answered.
struct Lookup {
  std::string request;
  Moment now = {};
  std::uint64_t tokens = 0;  // of the prompt
  std::uint64_t limit = 0;   // [tokens] that may hit at most
  std::uint64_t hit = 0;     // [tokens]
  bool off = false;
  bool may_know_more = false;                // the hit may hold what no index was seen to hold
  std::span<const ContentId> contents = {};  // one per complete hash unit
  /// Who computes or loads what ends at so many tokens, and has not published it; empty: nobody.
  std::function<std::string(GroupId group, std::uint64_t end, ContentId content)> pending = {};
};

struct Explained {
  std::string trace = {};  // for the caller to fill in
  std::string request;
  std::uint64_t operation = 0;
  std::uint64_t tokens = 0;
  std::uint64_t hit = 0;
  std::uint64_t most = 0;  // [tokens] that the rules allow
  Cause cause = Cause::unexplained;
  std::string why = {};
  std::uint64_t kept_by_twice = 0;  // [tokens] more than the hit, see Explainer

  [[nodiscard]] std::uint64_t lost() const { return tokens - hit; }
};

/// How a source of lookups calls things.
struct ExplainWords {
  std::string moment = "operation";
  std::function<std::string(std::uint32_t)> name = {};  // of a number given to IndexHistory
  bool tells_whom = true;  // false: for whom a block left is not known, or the moment says it
};

class Explainer {
 public:
  /// @param pool_blocks [blocks] usable. A pool of twice the size is taken to have kept what left
  /// for room while fewer blocks than these were handed out until the lookup. 0: nothing is said
  Explainer(const CacheConfig& config, const IndexHistory& history, ExplainWords words,
            std::uint64_t pool_blocks);

  [[nodiscard]] Explained explain(const Lookup& lookup) const;

 private:
  using Cached = std::function<bool(GroupId group, std::uint64_t tokens)>;

  [[nodiscard]] std::uint64_t search(const Lookup& lookup, const Cached& cached) const;
  void explain_group(const Lookup& lookup, const Cached& there, std::uint64_t longest,
                     Explained& out) const;
  void explain_block(const Lookup& lookup, const Cached& there, Explained& out) const;
  [[nodiscard]] std::string left(const Stay& stay) const;
  bool explain_key(ContentId content, GroupId group, Explained& out) const;
  [[nodiscard]] std::string first_difference(ContentId a, ContentId b) const;

  CacheConfig config_;
  const IndexHistory& history_;
  ExplainWords words_;
  std::uint64_t pool_blocks_;
  std::vector<bool> leads_;  // per group: whether its blocks are asked for one by one
};

}  // namespace kvproof::properties
