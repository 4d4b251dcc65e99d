// SPDX-License-Identifier: Apache-2.0
// The report of `kvproof check`: rows, which are printed as shown.h says.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/results/result_file.h"
#include "bench/results/verdict.h"
#include "properties/check/check.h"

namespace kvproof::bench {

/// What is run of an allocator of ours unless more, less or another seed is asked for.
[[nodiscard]] properties::CheckOptions own_check();

/// What is run of another's allocator: operations per configuration, at least so many over all, and
/// the distinct findings after which its check ends.
inline constexpr std::uint64_t kForeignOperations = 2000;
inline constexpr std::uint64_t kForeignAtLeast = 50'000;
inline constexpr std::size_t kForeignFindings = 5;

/// Holds, broken or cannot_tell.
[[nodiscard]] Verdict verdict_of(const properties::CheckReport& report);

/// How deep random runs went: the pairs of features that they had, and for how many operations.
void add_depth(Result& row, const properties::FeaturePairs& pairs);

/// Writes each finding that is not known to a file, its lens beside it, prints it and draws it.
/// @return a row for each
[[nodiscard]] std::vector<Result> told_findings(std::ostream& out,
                                                const properties::CheckReport& report,
                                                std::uint64_t seed,
                                                const properties::Candidate& candidate);

/// Tells the findings, and prints what was run, the laws one by one, and the verdict.
/// @return what was printed: a row for each finding, run, note and law, and one for the subject
[[nodiscard]] std::vector<Result> told(std::ostream& out, const properties::CheckReport& report,
                                       std::uint64_t seed, double seconds,
                                       const properties::Candidate& candidate);

}  // namespace kvproof::bench
