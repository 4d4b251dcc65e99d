// SPDX-License-Identifier: Apache-2.0
// Laws that are named on a command line.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "properties/laws/laws.h"

namespace kvproof::bench {

/// @return bit i: the i-th law is named. @throws std::invalid_argument that names the option
[[nodiscard]] inline std::uint64_t laws_named(const std::vector<std::string>& ids,
                                              const char* option) {
  std::uint64_t out = 0;
  std::string known;
  for (const properties::Law& row : properties::kStateLaws) {
    known.append(known.empty() ? "" : ", ").append(row.id);
  }
  for (const std::string& id : ids) {
    const properties::Law* law = properties::find_law(id);
    if (law == nullptr) {
      throw std::invalid_argument(std::string(option) + '=' + id + ": expected one of " + known);
    }
    out |= std::uint64_t{1} << static_cast<std::size_t>(law - properties::kLaws);
  }
  return out;
}

}  // namespace kvproof::bench
