// SPDX-License-Identifier: Apache-2.0
#include "bench/operation_replay.h"

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "optimized/subjects.h"
#include "properties/mutants.h"
#include "properties/oracles/audit.h"
#include "properties/traces/golden.h"

namespace kvproof::bench {
namespace {

using properties::TraceVerdict;

constexpr std::string_view kDefaultSubject = "optimized-xxh3";

/// A subject that consults every oracle after each operation, and throws what they find.
class Audited final : public Subject {
 public:
  Audited(const CacheConfig& config, std::unique_ptr<Subject> inner)
      : inner_(std::move(inner)), audit_(config, *inner_) {}
  Outcome apply(const Operation& operation) override { return audit_.apply(operation); }
  void observe(Snapshot& snapshot) const override { snapshot = audit_.state(); }

 private:
  std::unique_ptr<Subject> inner_;
  properties::Audit audit_;
};

std::unique_ptr<Subject> make_subject(const std::string& name, const CacheConfig& config) {
  if (const auto* row = optimized::find_subject(name)) return row->make(config);
  std::string known;
  for (const auto& mutant : properties::kMutants) {
    if (mutant.id == name) return mutant.make(config);
    known += " " + std::string(mutant.id);
  }
  for (const auto& row : optimized::kSubjects) known += " " + std::string(row.name);
  throw std::invalid_argument("no subject of the name " + name + "; there are:" + known);
}

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

/// A violation ends its file: what an allocator does after it proves nothing.
void replay_file(const std::string& file, const OperationReplayOptions& options, Tally& tally) {
  properties::GoldenReader reader(file);
  std::string subject;
  const auto make = [&](const TraceHeader& header) -> std::unique_ptr<Subject> {
    subject = !options.subject.empty()  ? options.subject
              : !header.subject.empty() ? header.subject
                                        : std::string(kDefaultSubject);
    auto made = make_subject(subject, header.config);
    const bool own = header.recorded_from == "kvproof";  // our failures carry no results to compare
    if (!own && !options.audit) return made;
    return std::make_unique<Audited>(header.config, std::move(made));
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
  if (!options.subject.empty()) {
    CacheConfig smallest;
    smallest.num_blocks = 2;
    smallest.max_model_len = smallest.hash_block_size = 1;
    smallest.groups = {{LayerKind::full, 1, false}};
    static_cast<void>(
        make_subject(options.subject, smallest));  // a wrong name is known before any work
  }
  Tally tally;
  for (const std::string& file : files) replay_file(file, options, tally);
  std::cout << tally.passed << " passed, " << tally.failed << " failed, " << tally.skipped
            << " skipped (" << tally.operations << " operations)\n";
  if (tally.failed > 0) return 1;
  return tally.passed > 0 ? 0 : 3;
}

}  // namespace kvproof::bench
