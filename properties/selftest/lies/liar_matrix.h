// SPDX-License-Identifier: Apache-2.0
// The liar matrix: every lie about every operation on every level of promise, told seldom, often
// and always, before a whole check.
//
// Model:   a cell is a lie about an operation on a level. It is noticed if the verdict names it at
//          each frequency: a violation, or the operation as not exercised. A lie that never changes
//          anything that this level shows is no cell.
// Excused: a lie that no caller can observe, by a row of kExcuses that says why.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/selftest/lies/liar.h"

namespace kvproof::properties {

struct LiarOptions {
  std::uint64_t seed = 1;
  // A lie that is told seldom gets at least so many per configuration; one told often gets fewer.
  std::uint64_t operations = 2000;
  std::uint32_t threads = 0;  // 0 = as many as there are cores
  std::string lie;            // only this one; empty = all
  std::string operation;      // only this one; empty = all
};

/// How one frequency of a cell ended.
struct Telltale {
  std::uint64_t told = 0;  // lies that changed what is shown
  bool noticed = false;
  std::uint64_t operations = 0;  // until it was noticed, or all
  std::string by;                // the laws or oracles that noticed it first; "declined"
};

struct LiarCell {
  std::string_view operation;
  std::string_view lie;
  std::string_view level;
  std::array<Telltale, std::size(kFrequencies)> told = {};
  std::string_view excuse;  // why no caller can observe it; empty = none

  /// Whether the lie changes anything that can be seen.
  [[nodiscard]] bool occurs() const;
  [[nodiscard]] bool noticed() const;
};

/// The cells that occur. @param done is told the share that is done and a cell
[[nodiscard]] std::vector<LiarCell> run_liars(
    const LiarOptions& options, const std::function<void(double share, const LiarCell&)>& done);

}  // namespace kvproof::properties
