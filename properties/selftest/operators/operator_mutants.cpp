// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/operators/operator_mutants.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "properties/selftest/operators/active_mutant.h"

namespace kvproof::mutants {
namespace {

constexpr auto kRows = std::to_array<properties::OperatorMutant>({
#include "optimized/mutants.inc"
});
constexpr auto kRules = std::to_array<properties::OperatorMutant>({
#include "reference/mutants.inc"
});

std::uint32_t named_by_environment() {
  const char* number = std::getenv("KVPROOF_MUTANT");
  return number == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(number, nullptr, 10));
}

}  // namespace

std::uint32_t active = named_by_environment();
bool met[kRules.back().number + 1];

}  // namespace kvproof::mutants

namespace kvproof::properties {

std::span<const OperatorMutant> operator_mutants() { return mutants::kRows; }

std::span<const OperatorMutant> rule_mutants() { return mutants::kRules; }

void put_in_force(std::uint32_t number) { mutants::active = number; }

std::vector<bool> take_met() {
  std::vector<bool> out(std::begin(mutants::met), std::end(mutants::met));
  std::ranges::fill(mutants::met, false);
  return out;
}

}  // namespace kvproof::properties
