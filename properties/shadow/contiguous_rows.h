// SPDX-License-Identifier: Apache-2.0
// What each request must read: the identities of its tokens, placed by the contiguous cache that
// paging replaced, one run per request.
//
// Leaves out: bytes. An identity stands for the K and V of a token: equal identity, equal bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reference/contiguous_cache.h"
#include "reference/identity.h"

namespace kvproof::properties {

class ContiguousRows {
 public:
  /// Makes room for `num_tokens` tokens of a request; the rows that it had move along.
  void place(const std::string& name, std::uint32_t num_tokens) {
    if (num_tokens == 0) return;
    const bool known = cache_.find(name).has_value();
    while (known ? !cache_.extend(name, num_tokens)
                 : !cache_.insert(name, num_tokens, num_tokens)) {
      rebuild(2 * std::max<std::uint64_t>(rows_.size(), num_tokens));
    }
    if (!known) names_.push_back(name);
    if (const auto& move = cache_.last_move()) copy(rows_, move->from, rows_, move->to);
  }

  void erase(const std::string& name) {
    if (std::erase(names_, name) > 0) cache_.erase(name);
  }

  /// @return the first of the request's rows, null if it has none; valid until the next place
  [[nodiscard]] Identity* rows(const std::string& name) {
    const auto run = cache_.find(name);
    return run ? rows_.data() + run->offset : nullptr;
  }
  [[nodiscard]] const Identity* rows(const std::string& name) const {
    const auto run = cache_.find(name);
    return run ? rows_.data() + run->offset : nullptr;
  }

 private:
  using Cache = reference::ContiguousCache;
  using Rows = std::vector<Identity>;  // shape [arena capacity]

  static Cache arena_of(std::uint64_t capacity) {
    return {capacity, capacity, reference::Reservation::grow_and_copy};
  }
  static void copy(const Rows& source, reference::Run from, Rows& target, reference::Run to) {
    std::copy_n(source.data() + from.offset, from.length, target.data() + to.offset);
  }

  /// A bigger arena with the same requests; the old one was too small or too fragmented.
  void rebuild(std::uint64_t capacity) {
    Cache bigger = arena_of(capacity);
    Rows rows(capacity);
    for (const std::string& name : names_) {
      const reference::Run run = *cache_.find(name);
      if (bigger.insert(name, run.length, run.length)) copy(rows_, run, rows, *bigger.find(name));
    }
    cache_ = std::move(bigger);
    rows_ = std::move(rows);
  }

  static constexpr std::uint64_t kFirstArena = 1024;  // [tokens]; doubles when it is too small

  Cache cache_ = arena_of(kFirstArena);
  Rows rows_ = Rows(kFirstArena);
  std::vector<std::string> names_;  // of the requests that have rows
};

}  // namespace kvproof::properties
