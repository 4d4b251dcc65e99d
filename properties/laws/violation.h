// SPDX-License-Identifier: Apache-2.0
// What ends a run: an objection, with what was broken.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvproof::properties {

/// An oracle objected after an operation.
class Violation : public std::runtime_error {
 public:
  /// @param breaches the ids of all laws broken by it, or "model", "content", "exception"; not
  /// empty
  Violation(std::vector<std::string> breaches, const std::string& text)
      : std::runtime_error(text), breaches_(std::move(breaches)) {}

  [[nodiscard]] const std::vector<std::string>& breaches() const { return breaches_; }
  [[nodiscard]] bool names(std::string_view id) const {
    return std::ranges::find(breaches_, id) != breaches_.end();
  }

 private:
  std::vector<std::string> breaches_;
};

}  // namespace kvproof::properties
