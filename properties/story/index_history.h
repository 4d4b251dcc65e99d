// SPDX-License-Identifier: Apache-2.0
// Every prefix that a run has named, and when each stood in the prefix index of each group.
//
// Model:  a content is a prefix that ends with a hash unit: its parent, and the tokens and extra
//         keys of that unit. A stay says how many blocks hold a content in a group now, when one
//         was last held or hit, and at which operation and for whom the last of them left.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reference/identity.h"
#include "reference/ids.h"

namespace kvproof::properties {

using ContentId = std::uint32_t;
inline constexpr ContentId kNoContent = 0;  // the empty prefix, the parent of all others

/// Equal tokens have equal numbers.
[[nodiscard]] inline Identity number_of_tokens(std::span<const TokenId> tokens) {
  Identity out = kEmptyPrefix;
  for (const TokenId token : tokens) out = link(out, token);
  return out;
}

/// What the last unit of a content holds.
struct ContentUnit {
  std::uint64_t own = 0;                 // a number of its tokens
  std::span<const TokenId> tokens = {};  // empty where only ids are known
  std::vector<std::string> extra = {};   // as reference::unit_extra() writes them
};

struct Content {
  ContentId parent = kNoContent;
  std::uint32_t depth = 0;    // [units] with its own
  std::uint32_t request = 0;  // the number of the one that brought it first
  std::uint32_t extra = 0;    // in the list of extra keys; 0 = none
  std::uint64_t own = 0;
  ContentId next_same = kNoContent;  // another content whose unit has the same tokens
  bool computed = false;             // by a request, published or not
};

/// A point of the run.
struct Moment {
  std::uint32_t operation = 0;
  std::uint64_t taken = 0;  // [blocks] that were handed out until then
};

struct Stay {
  std::uint32_t blocks = 0;  // that hold it now
  bool ever = false;
  bool for_room = true;        // it left because its block was taken, not because a call asked so
  std::uint32_t left_for = 0;  // a number that the caller gave
  Moment used;                 // when a block of it was held last
  Moment left;                 // when the last block left, if there is none now
};

class IndexHistory {
 public:
  /// @param unit_tokens [tokens] of a unit whose tokens are kept; 0 = only ids are known
  IndexHistory(std::size_t groups, std::uint32_t unit_tokens)
      : groups_(groups), unit_tokens_(unit_tokens), contents_(1), stays_(groups), extras_(1) {
    tokens_.resize(unit_tokens);
  }

  /// The content of that key, which is added if it is new. @param key of the whole prefix
  ContentId learn(std::uint64_t key, ContentId parent, const ContentUnit& unit,
                  std::uint32_t request) {
    const auto next = static_cast<ContentId>(contents_.size());
    const auto [known, is_new] = by_key_.try_emplace(key, next);
    if (!is_new) return known->second;
    Content content{.parent = parent,
                    .depth = contents_[parent].depth + 1,
                    .request = request,
                    .own = unit.own,
                    .next_same = std::exchange(by_own_[unit.own], next)};
    if (!unit.extra.empty()) {
      content.extra = static_cast<std::uint32_t>(extras_.size());
      extras_.push_back(unit.extra);
    }
    contents_.push_back(content);
    stays_.resize(stays_.size() + groups_);
    tokens_.insert(tokens_.end(), unit.tokens.begin(), unit.tokens.end());
    tokens_.resize(contents_.size() * unit_tokens_);
    return next;
  }
  /// The content of that key, or kNoContent.
  [[nodiscard]] ContentId find(std::uint64_t key) const {
    const auto at = by_key_.find(key);
    return at == by_key_.end() ? kNoContent : at->second;
  }

  void compute(ContentId content) { contents_[content].computed = true; }
  void enter(ContentId content, GroupId group, Moment now) {
    Stay& there = stay_of(content, group);
    ++there.blocks;
    there.ever = true;
    there.used = now;
    contents_[content].computed = true;
  }
  void use(ContentId content, GroupId group, Moment now) { stay_of(content, group).used = now; }
  /// @param for_whom any number @pre a block holds it
  void leave(ContentId content, GroupId group, Moment now, std::uint32_t for_whom,
             bool for_room = true) {
    Stay& there = stay_of(content, group);
    if (--there.blocks > 0) return;
    there.left = now;
    there.left_for = for_whom;
    there.for_room = for_room;
  }

  [[nodiscard]] const Content& at(ContentId content) const { return contents_[content]; }
  [[nodiscard]] const Stay& stay(ContentId content, GroupId group) const {
    return stays_[content * groups_ + group];
  }
  [[nodiscard]] bool holds(ContentId content, GroupId group) const {
    return stay(content, group).blocks > 0;
  }
  [[nodiscard]] std::span<const TokenId> tokens(ContentId content) const {
    return std::span(tokens_).subspan(std::size_t{content} * unit_tokens_, unit_tokens_);
  }
  [[nodiscard]] const std::vector<std::string>& extra(ContentId content) const {
    return extras_[contents_[content].extra];
  }
  /// A content of the same tokens as this one; the others follow by next_same.
  [[nodiscard]] ContentId first_like(ContentId content) const {
    return by_own_.at(contents_[content].own);
  }

 private:
  [[nodiscard]] Stay& stay_of(ContentId content, GroupId group) {
    return stays_[content * groups_ + group];
  }

  std::size_t groups_;
  std::uint32_t unit_tokens_;
  std::vector<Content> contents_;  // the empty prefix first
  std::vector<Stay> stays_;        // shape [contents, groups]
  std::vector<TokenId> tokens_;    // shape [contents, unit_tokens]
  std::vector<std::vector<std::string>> extras_;
  std::unordered_map<std::uint64_t, ContentId> by_key_;
  std::unordered_map<std::uint64_t, ContentId> by_own_;
};

}  // namespace kvproof::properties
