// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/operation_replay.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "properties/oracles/audit.h"
#include "properties/traces/golden.h"
#include "reference/operations.h"

namespace kvproof::bench {
namespace {

using properties::TraceVerdict;

/// A subject that consults every oracle that applies after each operation, and throws their
/// violations.
class Audited final : public Subject {
 public:
  Audited(const CacheConfig& config, properties::Opened opened)
      : inner_(std::move(opened.subject)),
        audit_(config, *inner_, oracles_for(config, opened.demands)) {}
  Outcome apply(const Operation& operation) override { return audit_.apply(operation); }
  void observe(Snapshot& snapshot) const override { snapshot = audit_.state(); }

 private:
  std::unique_ptr<Subject> inner_;
  properties::Audit audit_;
};

std::string title(const std::string& file, const TraceHeader& header) {
  return file + (header.name.empty() ? "" : " " + header.name) + " (" +
         std::string(header.config.profile.name) + ")";
}

void print_difference(const std::string& file, const TraceVerdict& verdict) {
  const properties::Difference& d = *verdict.difference;
  std::cout << "DIFFERS  " << title(file, verdict.header) << "\n  operation " << d.operation
            << ", line " << d.line << ": " << d.trace_line << "\n  " << d.what
            << "\n  recorded state:\n"
            << d.recorded_state << "  the subject's state:\n"
            << d.subject_state;
}

struct Tally {
  std::uint64_t passed = 0;
  std::uint64_t failed = 0;
  std::uint64_t skipped = 0;
  std::uint64_t operations = 0;
};

void count(const std::string& file, const TraceVerdict& verdict, const std::string& subject,
           Tally& tally) {
  tally.operations += verdict.operations;
  if (!verdict.skipped.empty()) {
    ++tally.skipped;
    std::cout << "skipped  " << title(file, verdict.header) << ": " << verdict.skipped << '\n';
  } else if (verdict.difference) {
    ++tally.failed;
    print_difference(file, verdict);
  } else {
    ++tally.passed;
    std::cout << "holds    " << title(file, verdict.header) << ": " << verdict.operations
              << " operations, " << verdict.recorded << " with recorded results, by " << subject
              << '\n';
  }
}

/// A violation ends the replay of its file, because later operations prove nothing.
void replay_file(const std::string& file, const OperationReplayOptions& options,
                 const std::optional<properties::Candidate>& given, Tally& tally) {
  properties::GoldenReader reader(file);
  std::string subject;
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    properties::SubjectOptions own = options.subject;
    own.subject = header.subject;
    if (own.subject.empty()) own.subject = optimized::subject_of(optimized::Role::standard).name;
    const properties::Candidate candidate = given ? *given : find_candidate_or_mutant(own);
    subject = candidate.name;
    properties::Opened opened = candidate.open(header.config);
    const bool ours = header.recorded_from == "kvproof";  // our failures carry no results
    if (opened.subject == nullptr || (!ours && !options.audit)) return std::move(opened.subject);
    return std::make_unique<Audited>(header.config, std::move(opened));
  };
  try {
    while (const auto verdict = reader.next(make)) count(file, *verdict, subject, tally);
  } catch (const properties::Violation& violation) {
    ++tally.failed;
    std::cout << "VIOLATED " << file << ", by " << subject << "\n  " << violation.what() << '\n';
  }
}

}  // namespace

int replay_operations(const std::vector<std::string>& files,
                      const OperationReplayOptions& options) {
  std::optional<properties::Candidate> given;  // found first, so that a wrong name costs no work
  if (options.subject.given()) given = find_candidate_or_mutant(options.subject);
  Tally tally;
  for (const std::string& file : files) replay_file(file, options, given, tally);
  std::cout << tally.passed << " passed, " << tally.failed << " failed, " << tally.skipped
            << " skipped (" << tally.operations << " operations)\n";
  if (tally.failed > 0) return 1;
  return tally.passed > 0 ? 0 : 3;
}

}  // namespace kvproof::bench
