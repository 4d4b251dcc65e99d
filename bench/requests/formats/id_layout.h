// SPDX-License-Identifier: Apache-2.0
// How the block ids of a log cover its prompts, inferred from pairs of lengths where the file
// does not say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/ids.h"

namespace kvproof::bench {

struct IdLayout {
  std::int64_t block_size = 0;  // [tokens per id]
  bool partial_tail = false;    // the last id may cover fewer tokens; else they have no id

  [[nodiscard]] std::int64_t num_ids(std::int64_t tokens) const {
    return partial_tail ? ceil_div(tokens, block_size) : tokens / block_size;
  }
  /// "2 ids for the 600 tokens of input_length", to which the caller adds what it found.
  [[nodiscard]] std::string wanted(std::int64_t tokens, std::string_view length_field) const {
    return std::to_string(num_ids(tokens)) + " ids for the " + std::to_string(tokens) +
           " tokens of " + std::string(length_field) + " in blocks of " +
           std::to_string(block_size) +
           (partial_tail ? ", the last may be partial" : ", full ones");
  }
};

/// The layouts that every request so far fits, the most likely first.
class IdLayouts {
 public:
  explicit IdLayouts(std::vector<IdLayout> candidates) : candidates_(std::move(candidates)) {}

  /// Powers of two up to 65,536 with either tail: Mooncake's own first, then full blocks of 16.
  [[nodiscard]] static IdLayouts any() {
    std::vector<IdLayout> out = {{512, true}, {16, false}, {16, true}};
    for (std::int64_t size = 1; size <= 65'536; size *= 2) {
      if (size != 16) out.push_back({size, false});
      if (size != 16 && size != 512) out.push_back({size, true});
    }
    return IdLayouts(std::move(out));
  }

  /// Keeps the layouts that fit; returns false, and changes nothing, if no layout fits.
  [[nodiscard]] bool narrow(std::int64_t tokens, std::int64_t ids) {
    std::vector<IdLayout> fit;
    for (const IdLayout& layout : candidates_) {
      if (layout.num_ids(tokens) == ids) fit.push_back(layout);
    }
    if (fit.empty()) return false;
    candidates_ = std::move(fit);
    return true;
  }

  [[nodiscard]] bool is_certain() const { return candidates_.size() == 1; }
  [[nodiscard]] const IdLayout& best() const { return candidates_.front(); }

 private:
  std::vector<IdLayout> candidates_;  // never empty
};

}  // namespace kvproof::bench
