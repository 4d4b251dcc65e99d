// SPDX-License-Identifier: Apache-2.0
// Builds the one sentence of a finding out of its parts; called only when something is wrong.
#pragma once

#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "reference/ids.h"

namespace kvproof {

/// What an oracle found wrong, as one sentence that names ids and counts; nullopt when nothing is.
using Finding = std::optional<std::string>;

template <class... Parts>
[[nodiscard]] std::string say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Block ids as "[3, 1, 2]".
[[nodiscard]] inline std::string list_of(std::span<const BlockId> blocks) {
  std::ostringstream out;
  for (std::size_t i = 0; i < blocks.size(); ++i) out << (i == 0 ? "[" : ", ") << blocks[i];
  return blocks.empty() ? "[]" : out.str() + "]";
}

/// One list per group.
[[nodiscard]] inline std::string lists_of(const std::vector<std::vector<BlockId>>& lists) {
  std::string out;
  for (const auto& list : lists) out += (out.empty() ? "" : " ") + list_of(list);
  return out.empty() ? "absent" : out;
}

}  // namespace kvproof
