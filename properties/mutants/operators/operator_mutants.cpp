// SPDX-License-Identifier: Apache-2.0
// Compiled with -Doptimized=mutated, and with the mutated copy before the sources: what it includes
// of optimized/ is that copy, in namespace kvproof::mutated.
#include "properties/mutants/operators/operator_mutants.h"

#include <cstdlib>

#include "optimized/subjects.h"
#include "properties/mutants/operators/active_mutant.h"

namespace kvproof::mutants {
namespace {

std::uint32_t named_by_environment() {
  const char* number = std::getenv("KVPROOF_MUTANT");
  return number == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(number, nullptr, 10));
}

}  // namespace

std::uint32_t active = named_by_environment();

}  // namespace kvproof::mutants

namespace kvproof::properties {
namespace {

constexpr OperatorMutant kOperatorMutants[] = {
#include "optimized/mutants.inc"
};

}  // namespace

std::span<const OperatorMutant> operator_mutants() { return kOperatorMutants; }

std::vector<MutatedSubject> mutated_subjects() {
  std::vector<MutatedSubject> out;
  for (const auto& row : optimized::kSubjects) {
    if (!row.digest.empty()) out.push_back({std::string(row.name), row.make});
  }
  return out;
}

void put_in_force(std::uint32_t number) { mutants::active = number; }

}  // namespace kvproof::properties
