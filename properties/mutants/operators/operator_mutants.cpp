// SPDX-License-Identifier: Apache-2.0
#include "properties/mutants/operators/operator_mutants.h"

#include <array>
#include <cstdlib>

#include "properties/mutants/operators/active_mutant.h"

namespace kvproof::mutants {
namespace {

constexpr auto kRows = std::to_array<properties::OperatorMutant>({
#include "optimized/mutants.inc"
});

std::uint32_t named_by_environment() {
  const char* number = std::getenv("KVPROOF_MUTANT");
  return number == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(number, nullptr, 10));
}

}  // namespace

std::uint32_t active = named_by_environment();
bool met[kRows.back().number + 1];

}  // namespace kvproof::mutants

namespace kvproof::properties {

std::span<const OperatorMutant> operator_mutants() { return mutants::kRows; }

void put_in_force(std::uint32_t number) { mutants::active = number; }

bool was_met(std::uint32_t number) { return mutants::met[number]; }

}  // namespace kvproof::properties
