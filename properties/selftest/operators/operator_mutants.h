// SPDX-License-Identifier: Apache-2.0
// Operator mutants of optimized/: small changes of its text that a program has made.
//
// Model:   mutate.py copies optimized/ with each mutant behind a switch; the number of a row is
//          that of its switch. optimized/ itself stays as it is.
// Leaves out: optimized/concurrent and slot_mapping.h, which no operation of `check` reaches.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "properties/check/candidate.h"

namespace kvproof::properties {

struct OperatorMutant {
  std::uint32_t number;
  std::string_view id;    // stays while its text and what is around it stay
  std::string_view file;  // below optimized/, or reference/
  std::uint32_t line;
  std::string_view function;
  std::string_view operator_class;
  std::string_view change;  // "< to <="
  std::string_view text;    // around it, the part that is changed in backticks
  std::uint32_t ordinal;    // among those of the same file, function, change and text
};

/// An allocator out of the mutated copy.
struct MutatedSubject {
  std::string name;
  std::function<Opened(const CacheConfig&)> open;
  std::string hash;  // as Candidate::hash
};

/// The rows, in the order of the text.
[[nodiscard]] std::span<const OperatorMutant> operator_mutants();

/// Those of reference/layer_rules.cpp and config.cpp, which the model, the laws and the product
/// share, so that no two of them can disagree about a mutant.
[[nodiscard]] std::span<const OperatorMutant> rule_mutants();

/// What vLLM answered in the recordings, and the documented facts: they alone judge those rules.
/// @param alive is called between two recordings @return where the mutant in force shows; empty if
/// nowhere. It ends the judgement of this process.
[[nodiscard]] std::string judge_rules(const std::function<void()>& alive);

/// How many recordings that are; they are read at the first call.
[[nodiscard]] std::size_t num_recordings();

/// The cache managers of subjects.h and their variants, out of the mutated copy.
[[nodiscard]] std::vector<MutatedSubject> mutated_subjects();

/// Puts a mutant in force in this process. @param number 0 = none
void put_in_force(std::uint32_t number);

/// By the number of each mutant, whether this process has come by its place since the last call.
[[nodiscard]] std::vector<bool> take_met();

}  // namespace kvproof::properties
