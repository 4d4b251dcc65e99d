// SPDX-License-Identifier: Apache-2.0
// The list of operator mutants that are excused because they behave as the original does, and the
// draw of a sample.
//
// Format:  one row a line, in columns that a tab divides: file, function, change, text, reason. The
//          first four are those of the mutant; the text ends in " #2" for the second of those that
//          look the same. Lines that are empty or begin with # are remarks.
// Refuses: a row that names no mutant, a second row for one, a row without a reason.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "properties/selftest/operators/operator_mutants.h"

namespace kvproof::properties {

/// @return id of a mutant -> why it is excused. @throws InputError
[[nodiscard]] std::map<std::string, std::string> read_excuses(
    const std::string& path, std::span<const OperatorMutant> mutants);

/// The row that excuses a mutant, up to its reason.
[[nodiscard]] std::string excuse_key(const OperatorMutant& mutant);

/// Draws `most` of the mutants, or all if there are no more, by their ids: a seed draws the same
/// ones while the text stays. @return indices, in ascending order
[[nodiscard]] std::vector<std::size_t> draw_mutants(std::span<const OperatorMutant> mutants,
                                                    std::size_t most, std::uint64_t seed);

}  // namespace kvproof::properties
