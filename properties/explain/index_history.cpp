// SPDX-License-Identifier: Apache-2.0
#include "properties/explain/index_history.h"

#include <utility>

namespace kvproof::properties {

ContentId IndexHistory::learn(std::uint64_t key, ContentId parent, const ContentUnit& unit,
                              std::uint32_t request) {
  const auto next = static_cast<ContentId>(contents_.size());
  const auto [known, is_new] = by_key_.try_emplace(key, next);
  if (!is_new) return known->second;
  Content content{.parent = parent,
                  .depth = contents_[parent].depth + 1,
                  .request = request,
                  .own = unit.own,
                  .next_same = std::exchange(by_own_[unit.own], next),
                  .next_sibling = std::exchange(contents_[parent].first_child, next)};
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

ContentId IndexHistory::find(std::uint64_t key) const {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? kNoContent : at->second;
}

ContentId IndexHistory::first_of(std::uint64_t own) const {
  const auto at = by_own_.find(own);
  return at == by_own_.end() ? kNoContent : at->second;
}

void IndexHistory::enter(ContentId content, GroupId group, Moment now) {
  Stay& there = stay_of(content, group);
  ++there.blocks;
  there.ever = true;
  there.used = now;
  contents_[content].computed = true;
}

void IndexHistory::leave(ContentId content, GroupId group, Moment now, std::uint32_t for_whom,
                         bool for_room) {
  Stay& there = stay_of(content, group);
  if (--there.blocks > 0) return;
  there.left = now;
  there.left_for = for_whom;
  there.for_room = for_room;
}

}  // namespace kvproof::properties
