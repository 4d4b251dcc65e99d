// SPDX-License-Identifier: Apache-2.0
// Sums up explained lookups, for people and as results.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/results/result_file.h"
#include "bench/results/verdict.h"
#include "properties/story/causes.h"

namespace kvproof::bench {

/// The lookups of a file.
struct ExplainReport {
  Parameters parameters;  // of the source
  std::string moment;     // what a lookup is counted by
  std::vector<properties::Explained> lookups = {};
  std::uint64_t num_traces = 0;
  std::vector<std::string> ends = {};          // why a trace was not explained to its end
  std::optional<std::uint64_t> by_twice = {};  // [tokens] more than were hit; unset: not known
  std::optional<std::uint64_t> by_optimum = {};

  [[nodiscard]] std::uint64_t ended_by(properties::Cause cause) const;  // lookups
  [[nodiscard]] std::uint64_t lost_by(properties::Cause cause) const;   // [tokens]
  [[nodiscard]] std::uint64_t hit_tokens() const;
  /// Broken if a lookup of ours is not explained; it cannot tell if another's is not, if a trace
  /// was not explained to its end, or if there was no lookup.
  [[nodiscard]] Verdict verdict() const;
  /// The lookups of that request; empty: all.
  [[nodiscard]] std::vector<const properties::Explained*> asked(const std::string& request) const;
};

/// Prints the lookups, those of a request alone or, if there are many, the first and the worst;
/// then what the tokens met, and the verdict.
/// @return what was printed, but of many lookups none or all
[[nodiscard]] std::vector<Result> told_lookups(std::ostream& out, const ExplainReport& report,
                                               const std::string& request);

}  // namespace kvproof::bench
