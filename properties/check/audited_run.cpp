// SPDX-License-Identifier: Apache-2.0
#include "properties/check/audited_run.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "properties/audit/shrink.h"
#include "properties/sources/random/cases.h"
#include "reference/mix64.h"
#include "reference/operations.h"
#include "reference/recordings/golden.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// The operations that each kind of the generator makes; empty for calls that break the contract.
constexpr std::array<std::string_view, kNumKinds> kOperationOfKind = {
    "arrive",   "lookup",  "allocate", "advance",       "append",   "finish", "free",
    "cache",    "evict",   "reset",    "common_prefix", "recycle",  "step",   "take",
    "touch",    "release", "",         "fork",          "truncate", "pin",    "unpin",
    "swap_out", "swap_in", "complete", "decode"};

// Only our own subjects are called with mistakes; a foreign subject gets calls that hold.
void switch_off(Swarm& swarm, const Promises& promises, bool foreign) {
  for (std::size_t kind = 0; kind < kNumKinds; ++kind) {
    const std::string_view name = kOperationOfKind[kind];
    const bool asked = name.empty() ? !foreign : promises.operations.test(operation_index(name));
    if (!asked) swarm.weight[kind] = 0;
  }
}

/// The operations that the runs of a row try at some time, by design.
OperationSet asked_in(const Configuration& row) {
  OperationSet out = all_operations();
  if (!row.can_fork()) out &= ~operation_set({"fork"});
  if (!row.sharing) out &= ~operation_set({"truncate", "pin", "unpin"});
  if (!row.host_tier) out &= ~operation_set({"swap_out", "swap_in", "complete"});
  return out;
}

}  // namespace

/// One manager under audit.
class AuditedRun::Run {
 public:
  /// @param asked operations that are sure to be tried, so that laws about them must be checked
  /// @param batches whether decode steps may be among them
  Run(const AuditedRun& all, const CacheConfig& config, const OperationSet& asked, bool batches)
      : report_(all.report_), config_(config), opened_(all.candidate_.open(config)) {
    if (opened_.subject == nullptr) return;
    CheckReport& report = report_;
    ended_.demands = opened_.demands;
    ended_.oracles = oracles_for(config, opened_.demands);
    ended_.oracles.laws_left_out |= all.laws_left_out_;
    const bool decodes = batches && promises().operations.test(operation_index("decode"));
    audit_.emplace(config, *opened_.subject, ended_.oracles,
                   decodes ? all.candidate_.open(config).subject : nullptr);
    report.model = report.model || ended_.oracles.model;
    report.content = report.content || ended_.oracles.content;
    report.shown |= opened_.demands.shown;
    for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
      LawReport& law = report.laws[i];
      const bool left_out = (ended_.oracles.laws_left_out >> i & 1U) != 0;
      law.demanded = law.demanded || !left_out;
      law.promised =
          law.promised || (!left_out && asked.any() && is_about(kStateLaws[i], config, asked));
      if (!left_out && is_about(kStateLaws[i], audit_->config())) applicable_.push_back(i);
      const std::string why = why_left_out(kStateLaws[i], config, opened_.demands);
      if (left_out && !why.empty()) law.left_out = why;
    }
  }

  [[nodiscard]] bool possible() const { return audit_.has_value(); }
  [[nodiscard]] const Audit& audit() const { return *audit_; }
  [[nodiscard]] const Demands& demands() const { return opened_.demands; }
  [[nodiscard]] const Promises& promises() const { return opened_.demands.promises; }

  void play_out(const Source& next, const Observer& held = {}) {
    if (!audit_) return;
    ended_.failure = properties::play_out(config_, *audit_, next, [&](const Operation& operation) {
      count(operation, audit_->outcome());
      return !held || held(operation);
    });
  }

  Ended end(Counts& counts) {
    if (audit_) {
      counts += audit_->counts();
      for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
        report_.laws[i].exempted += audit_->law_counts()[i].exempted;
      }
    }
    if (!audit_) {
      const std::string& why = opened_.demands.promises.unsupported;
      ended_.unsupported = say("it says: ", why);
      ended_.unexplained = why == kNoReason;
    }
    return std::move(ended_);
  }

 private:
  void count(const Operation& operation, const Outcome& outcome) {
    if (declines(promises(), operation, outcome.result)) {
      note_declined(operation, outcome.result);
      return;
    }
    if (is_undone(outcome.result) && promises().valid_calls_only) {
      if (report_.errors.first.empty()) {
        report_.errors.first =
            say(kOperationNames[operation.index()], ": ", error_text(outcome.result));
      }
      ++ended_.errors;
    }
    const Step step{audit_->config(), audit_->state_before(), operation,
                    outcome,          audit_->state(),        audit_->history()};
    for (const std::size_t i : applicable_) {
      const Applies applies = kStateLaws[i].reach.applies(step);
      report_.laws[i].evaluated += applies == Applies::yes ? 1 : 0;
      report_.laws[i].suspended += applies == Applies::suspended ? 1 : 0;
    }
  }

  void note_declined(const Operation& operation, const Result& answer) {
    if (std::holds_alternative<NotAsked>(answer)) return;
    ended_.declined.set(operation.index());
    const std::string& declared = promises().declines[operation.index()];
    const auto* declined = std::get_if<Declined>(&answer);
    std::string why = declined != nullptr ? declined->reason : error_text(answer);
    if (!declared.empty() && (declined == nullptr || why == kNoReason)) why = declared;
    auto& said = report_.declined[operation.index()];
    if (said.size() >= kMostReasons && !said.contains(why)) why = "other reasons";
    ++said[why];
  }

  static constexpr std::size_t kMostReasons = 8;  // of one operation; some have numbers in them

  CheckReport& report_;
  CacheConfig config_;
  Opened opened_;
  std::optional<Audit> audit_;
  std::vector<std::size_t> applicable_;  // laws, by their place in the list
  Ended ended_;
};

AuditedRun::Ended AuditedRun::trace(const CacheConfig& config,
                                    std::span<const Operation> operations, Counts& counts) {
  Run run(*this, config, {}, has_batches(operations));
  run.play_out(from_trace(operations, run.promises().abilities));
  return run.end(counts);
}

AuditedRun::Ended AuditedRun::recording(const CacheConfig& config, std::span<const TraceLine> lines,
                                        Counts& counts) {
  std::vector<Operation> operations;
  for (const TraceLine& line : lines) operations.push_back(line.operation);
  Run run(*this, config, {}, has_batches(operations));
  // Recordings of engines decode call by call.
  const OperationSet performed = run.promises().operations | operation_set({"decode"});
  const bool whole_recording = run.demands().shown == kAllParts && performed.all();
  if (run.promises().whole && !whole_recording) {
    Ended out = run.end(counts);
    out.unsupported = "it does not perform and show all that was recorded";
    return out;
  }
  // A recording may hold what a subject of valid calls is not asked: the rest follows from it.
  std::size_t at = 0;
  run.play_out(from_trace(operations, run.promises().abilities), [&](const Operation& operation) {
    const TraceLine& line = lines[at++];
    const Outcome& outcome = run.audit().outcome();
    const bool asked = !std::holds_alternative<NotAsked>(outcome.result);
    const bool declined = asked && declines(run.promises(), operation, outcome.result);
    if (!asked && !(line.result && is_undone(*line.result))) return false;
    if (declined && !line.result) return false;
    if (const auto difference = compare(line, outcome, run.audit().state())) {
      throw Violation("recorded", *difference);
    }
    return true;
  });
  return run.end(counts);
}

AuditedRun::Ended AuditedRun::random(const Profile& profile, const Configuration& row,
                                     const Case& c, Counts& counts) {
  const CacheConfig config = draw_config(profile, row, c.setup);
  Swarm swarm = draw_swarm(row, mix64(c.setup));
  Run run(*this, config, asked_in(row), draws_batches(swarm));
  if (!run.possible()) return run.end(counts);
  switch_off(swarm, run.promises(), candidate_.foreign);
  const Generator generator(config, swarm);
  run.play_out(from_choices(generator, c.choices));
  report_.pairs.add(features_of({row, config, swarm}), run.audit().counts().operations);
  return run.end(counts);
}

namespace {

/// @return what of the row is beyond the abilities; empty if nothing is
std::string beyond(const Configuration& row, const Abilities& has) {
  if (row.caching && !has.cached) return "it has no managers with a prefix cache";
  if (!row.caching && !has.uncached) return "it has no managers without a prefix cache";
  if (row.groups.size() > has.groups) return say("it has ", has.groups, " groups at most");
  for (const GroupShape& shape : row.groups) {
    const bool either = shape.kind == LayerKind::full && has.kinds.test(1);
    if (!has.kinds.test(static_cast<std::size_t>(shape.kind)) && !either) {
      return say("it has no layers of the kind ", kKindNames[static_cast<std::size_t>(shape.kind)]);
    }
    if (shape.eagle && !has.eagle) return "it has no draft heads";
  }
  if (!has.block_sizes.empty() && units_within(row).empty()) {
    return "it has no blocks of such sizes";
  }
  return {};
}

}  // namespace

std::string why_no_host_tier(const Promises& promises) {
  for (const char* name : {"swap_out", "swap_in", "complete"}) {
    if (!promises.operations.test(operation_index(name))) {
      return "it does not declare swap_out, swap_in and complete";
    }
  }
  return {};
}

std::string fit(Configuration& row, const Promises& promises) {
  const auto does = [&](std::string_view name) {
    return promises.operations.test(operation_index(name));
  };
  row.within = &promises.abilities;
  if (std::string missing = beyond(row, promises.abilities); !missing.empty()) return missing;
  if (row.caching && !does("lookup") && !promises.traits.looks_up_within()) {
    return "it does not declare lookup";
  }
  if (row.host_tier) {
    if (std::string missing = why_no_host_tier(promises); !missing.empty()) return missing;
  }
  row.sharing = row.sharing && (does("fork") || does("truncate") || does("pin"));
  return {};
}

namespace {

/// How the trace of a failure ends under oracles, by default those that its subject demands.
struct Replayed {
  bool possible = false;
  std::optional<Failure> failure = {};
};

Replayed replay(const Candidate& candidate, const Failure& failure,
                std::optional<Oracles> oracles = {}) {
  const Opened opened = candidate.open(failure.config);
  if (opened.subject == nullptr) return {};
  Audit audit(failure.config, *opened.subject,
              oracles ? *oracles : oracles_for(failure.config, opened.demands),
              has_batches(failure.trace) ? candidate.open(failure.config).subject : nullptr);
  return {true, play_out(failure.config, audit, from_trace(failure.trace))};
}

}  // namespace

bool repeats(const Candidate& candidate, const Failure& failure, Oracles oracles) {
  const auto again = replay(candidate, failure, std::move(oracles)).failure;
  return again && again->breaches == failure.breaches &&
         again->trace.size() == failure.trace.size();
}

FailureReport report_failure(const Candidate& candidate, Failure failure, const std::string& where,
                             Oracles oracles, double shrink_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const MakeSubject make = [&](const CacheConfig& config) -> std::unique_ptr<Subject> {
    const std::chrono::duration<double> spent = Clock::now() - start;
    auto opened = spent.count() < shrink_seconds ? candidate.open(config) : Opened();
    // The time is up: a subject that never fails makes every further candidate pass at once.
    if (opened.subject == nullptr) {
      return optimized::subject_of(optimized::Role::model).make(config);
    }
    return std::move(opened.subject);
  };
  FailureReport out;
  out.where = where;
  out.found_after = failure.trace.size();
  // A failure that does not repeat (a seeming hang, a rare failure) is reported as it was found.
  if (shrink_seconds > 0) {
    candidate.hurry(failure.names("hang"));  // no other failure depends on how fast it answers
    const Failure shrunk = shrink(make, failure, oracles);
    candidate.hurry(false);
    if (auto again = replay(candidate, shrunk, oracles).failure) failure = *std::move(again);
  }
  out.failure = std::move(failure);
  out.failure.subject = candidate.name;
  return out;
}

namespace {

/// Whether a trace holds when its subject is judged by these traits.
bool holds_with(const Candidate& candidate, const Failure& failure, const Traits& traits) {
  candidate.suppose(traits);
  const Replayed again = replay(candidate, failure);
  return again.possible && !again.failure;
}

/// Those that differ in one row more. What another dialogue would need is not supposed.
std::vector<Traits> with_one_more(const Traits& traits) {
  std::vector<Traits> out;
  for (std::size_t i = 0; i < kNumTraits; ++i) {
    if (kTraits[i].name == "lookup" || kTraits[i].name == "granularity") continue;
    for (std::uint8_t v = 1; v < kTraits[i].values.size(); ++v) {
      if (traits.value[i] != 0 || kTraits[i].values[v].name.empty()) continue;
      out.push_back(traits);
      out.back().value[i] = v;
    }
  }
  return out;
}

}  // namespace

std::string trait_that_words(const Candidate& candidate, const Failure& failure) {
  if (!candidate.suppose) return {};
  const Traits own = candidate.open(failure.config).demands.promises.traits;
  std::vector<Traits> tried = with_one_more(own);
  const std::size_t singles = tried.size();
  for (std::size_t i = 0; i < singles; ++i) {
    for (const Traits& two : with_one_more(tried[i])) tried.push_back(two);
  }
  std::string out;
  for (const Traits& traits : tried) {
    if (!holds_with(candidate, failure, traits)) continue;
    out = traits_text(traits);
    break;
  }
  candidate.suppose(std::nullopt);
  return out;
}

std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t out = 0;
  for (const char c : text) out = mix64(out ^ static_cast<unsigned char>(c));
  return out;
}

}  // namespace kvproof::properties
