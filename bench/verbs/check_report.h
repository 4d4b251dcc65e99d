// SPDX-License-Identifier: Apache-2.0
// The report of `kvproof check`: for people on a stream, for machines as results.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/results/result_file.h"
#include "properties/check/check.h"

namespace kvproof::bench {

enum class CheckVerdict { holds = 0, violated = 1, vacuous = 3 };

/// What is run of an allocator of ours unless more, less or another seed is asked for.
[[nodiscard]] properties::CheckOptions own_check();

/// What is run of another's allocator: operations per configuration, at least so many over all, and
/// the distinct findings after which its check ends.
inline constexpr std::uint64_t kForeignOperations = 2000;
inline constexpr std::uint64_t kForeignAtLeast = 50'000;
inline constexpr std::size_t kForeignFindings = 5;

[[nodiscard]] CheckVerdict verdict_of(const properties::CheckReport& report);

/// Prints what was run, the laws one by one, the counters, and the verdict.
void print_report(std::ostream& out, const properties::CheckReport& report, double seconds);

/// How deep random runs went: the pairs of features that they had, and for how many operations.
void print_depth(std::ostream& out, const properties::FeaturePairs& pairs);

/// Writes each finding that is not known to a file, its lens beside it, prints it and draws it.
void print_failures(std::ostream& out, const properties::CheckReport& report, std::uint64_t seed,
                    const properties::Candidate& candidate);

/// One result for the subject, one for each law, finding and run.
[[nodiscard]] std::vector<Result> results_of(const properties::CheckReport& report,
                                             std::uint64_t seed, double seconds);

}  // namespace kvproof::bench
