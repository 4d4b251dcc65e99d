// SPDX-License-Identifier: Apache-2.0
#include "properties/check/check.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "properties/audit/shrink.h"
#include "properties/check/audited_run.h"
#include "properties/check/published_keys.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/traces/scenarios.h"
#include "reference/mix64.h"
#include "reference/recordings/golden.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

bool has_profile(const std::vector<const Profile*>& profiles, const Profile& profile) {
  return std::ranges::any_of(profiles, [&](const Profile* p) { return p->name == profile.name; });
}

/// What is asked of a subject that names no profile: what it was asked when it was written.
constexpr const Profile& kUnnamed = *find_profile("vllm-0.24");

/// Who promises only safety is asked without watermark and reserved blocks.
constexpr Profile kWithoutGates = [] {
  Profile out = kUnnamed;
  out.admission_gates = false;
  return out;
}();

bool has_gates(const CacheConfig& config, const std::vector<Operation>& operations) {
  const auto reserves = [](const Operation& operation) {
    const auto* allocate = std::get_if<op::Allocate>(&operation);
    return allocate != nullptr && allocate->args.reserved > 0;
  };
  return config.watermark > 0 || std::ranges::any_of(operations, reserves);
}

/// The traces of a folder, in the order of their names.
std::vector<std::string> traces_in(const std::string& folder) {
  std::vector<std::string> out;
  if (folder.empty()) return out;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".jsonl") out.push_back(file.path().string());
  }
  std::ranges::sort(out);
  return out;
}

class Check {
 public:
  Check(const Candidate& candidate, const CheckOptions& options)
      : candidate_(candidate),
        options_(options),
        findings_(options.findings, options.known, candidate.name),
        run_(candidate, report_, options.laws_left_out) {
    report_.subject = candidate.name;
  }

  CheckReport run() {
    choose_profiles();
    run_published_keys();
    run_scenarios();
    run_vectors();
    run_regressions();
    run_configurations();
    for (const RunReport& run : report_.runs) report_.counts += run.counts;
    conclude();
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool done() const { return findings_.enough() || gives_up_; }

  /// @param skipped laws that this run did not ask, since they are broken often enough
  void fail(Failure failure, const std::string& where, Oracles oracles, bool shrinks = true,
            std::uint64_t skipped = 0) {
    // A program that ends costs a start each time, and one that hangs its whole time limit.
    const bool ended = failure.names("crash") || failure.names("nonsense");
    gives_up_ = failure.names("hang") || (ended && ++ends_ == kMostEnds);
    if (findings_.counts_only(failure)) return;
    options_.on_progress(1, "shrinking what failed");
    const auto nth = static_cast<double>(findings_.all().size() + 1);
    const double most = candidate_.foreign ? options_.shrink_seconds / nth : 1e9;
    shrinks = shrinks && options_.shrinks;
    const bool error = failure.names("C12") && report_.promises.valid_calls_only;
    Oracles all = oracles;
    all.laws_left_out &= ~skipped;
    const bool stands = skipped == 0 || repeats(candidate_, failure, all);
    FailureReport found = report_failure(candidate_, std::move(failure), where,
                                         stands ? all : oracles, shrinks ? most : 0);
    if (!stands && !repeats(candidate_, found.failure, all)) found.behind = skipped;
    const bool judged = find_law(found.failure.breaches.front()) != nullptr;
    if (options_.shrinks && judged) found.intended = trait_that_words(candidate_, found.failure);
    if (error && options_.shrinks && report_.errors.calls == 0) count_errors();
    findings_.add(std::move(found));
  }

  // What is broken, what was known and did not occur, and what had to be exercised and was not.
  void conclude() {
    report_.findings = findings_.all();
    std::ranges::stable_partition(report_.findings,
                                  [](const FailureReport& found) { return found.behind == 0; });
    report_.stopped = done();
    report_.gone = findings_.gone();
    for (std::size_t i = 0; i < report_.laws.size(); ++i) {
      LawReport& law = report_.laws[i];
      const std::string id(kStateLaws[i].id);
      for (const FailureReport& finding : report_.findings) {
        if (!finding.failure.names(id)) continue;
        const bool follows = finding.behind != 0 && report_.failure() == nullptr;
        ++law.reported;
        law.known += finding.known || follows ? 1 : 0;
      }
      if ((options_.laws_left_out >> i & 1U) != 0) law.left_out = "--without-law";
      const auto& required = options_.required;
      const bool asked = std::ranges::find(required, id) != required.end();
      if (asked && law.evaluated == 0) report_.silent.push_back(id);
    }
  }

  // How many valid calls are answered by an error, if nobody minds.
  void count_errors() {
    CheckReport aside;
    AuditedRun run(candidate_, aside, 1ULL << (find_law("C12") - kLaws));
    ChoiceStream choices(options_.seed);
    Counts counts;
    for (std::size_t i = 0;
         counts.operations < options_.operations && i < 2 * std::size(kConfigurations); ++i) {
      Configuration row = kConfigurations[i % std::size(kConfigurations)];
      if (!fit(row, report_.promises).empty()) continue;
      const auto ended =
          run.random(*profiles_.front(), row, draw_case(choices, kMostOperationsPerCase), counts);
      report_.errors.count += ended.errors;
    }
    for (std::size_t i = 0; i < kNumOperations; ++i) report_.errors.calls += counts.asked[i];
    report_.errors.first = aside.errors.first;
  }

  // Our subjects follow every profile; a foreign subject says which.
  void choose_profiles() {
    profiles_ = options_.profiles;
    if (!candidate_.foreign) {
      report_.promises.profile = "any";
      for (const Profile& row : kProfiles) {
        if (options_.profiles.empty()) profiles_.push_back(&row);
      }
      return;
    }
    learn_promises();
    if (!profiles_.empty()) return;
    const Promises& promises = report_.promises;
    const Profile* promised = find_profile(promises.profile);
    if (promised == nullptr) promised = &kUnnamed;
    if (promises.level == Level::policy) report_.assumed_profile = promised->name;
    if (std::min(promises.level, report_.beside.level) < Level::policy) promised = &kWithoutGates;
    profiles_.push_back(promised);
  }

  // From the first manager that it has; abilities may be stated before there is one.
  void learn_promises() {
    for (const Configuration& row : kConfigurations) {
      for (const Profile& profile : kProfiles) {
        Configuration asked = row;
        if (!fit(asked, report_.promises).empty()) continue;
        const Opened opened = candidate_.open(draw_config(profile, asked, 0));
        report_.promises = opened.demands.promises;
        report_.beside = opened.beside;
        report_.shown = opened.demands.shown;
        if (report_.promises.unsupported.empty()) return;
      }
    }
  }

  // Other runs see only which keys are equal.
  void run_published_keys() {
    if (candidate_.hash.empty()) return;
    RunReport out{.name = "published keys", .profile = "all"};
    if (std::getenv("PYTHONHASHSEED") != nullptr) out.not_run = "PYTHONHASHSEED is set";
    for (const PublishedKey& row : published_keys()) {
      if (done() || !out.not_run.empty()) break;
      const Opened opened = candidate_.open(row.config);
      ++out.runs;
      Audit audit(row.config, *opened.subject, {.laws = false, .model = false, .content = false});
      audit.apply(row.arrival);
      if (const Finding why = why_another_key(row, candidate_.hash, audit.state())) {
        Violation violation("keys", *why);
        audit.complete(row.arrival, violation.step);
        fail({std::move(violation), row.config, {row.arrival}}, out.name, {}, false);
      }
    }
    report_.runs.push_back(std::move(out));
  }

  void run_scenarios() {
    RunReport out{.name = "directed scenarios", .profile = "all"};
    if (profiles_.size() == 1) out.profile = profiles_.front()->name;
    for (const Scenario& scenario : scenarios()) {
      if (done() || !has_profile(profiles_, scenario.config.profile)) continue;
      if (out.not_run = why_not(scenario.config, scenario.operations); !out.not_run.empty())
        continue;
      const AuditedRun::Ended ended = run_.trace(scenario.config, scenario.operations, out.counts);
      if (!ended.unsupported.empty() && out.runs == 0) out.not_run = ended.unsupported;
      if (ended.unsupported.empty()) ++out.runs;
      if (ended.failure) fail(*ended.failure, "scenario " + scenario.name, ended.oracles);
    }
    if (out.runs > 0) out.not_run.clear();
    report_.runs.push_back(std::move(out));
  }

  // A recording holds the answers of one profile.
  void run_vectors() {
    RunReport out{.name = "recorded vectors", .profile = "all"};
    if (profiles_.size() == 1) out.profile = profiles_.front()->name;
    if (done()) return;
    if (options_.vectors.empty()) {
      out.not_run = "properties/sources/traces/vectors is not installed";
    } else if (report_.promises.level != Level::profile) {
      out.not_run = "it promises no profile";
    } else {
      for (const std::string& file : traces_in(options_.vectors)) run_vector(file, out);
    }
    report_.runs.push_back(std::move(out));
  }

  void run_vector(const std::string& file, RunReport& out) {
    const std::vector<TraceLine> recorded = trace_in(file);
    if (recorded.empty()) return;
    const CacheConfig& config = recorded.front().header.config;
    const auto ended = run_.recording(config, std::span(recorded).subspan(1), out.counts);
    out.runs += ended.unsupported.empty() ? 1 : 0;
    if (ended.failure) fail(*ended.failure, "vector " + file, ended.oracles, false);
  }

  // What once broke an allocator is tried on every other.
  /// @return why a given trace is beyond what the subject is asked; empty if it is not
  [[nodiscard]] std::string why_not(const CacheConfig& config,
                                    const std::vector<Operation>& operations) const {
    const Abilities& abilities = report_.promises.abilities;
    if (!knows_all_calls(abilities)) return "it does not know all calls that they make";
    if (profiles_.front() == &kWithoutGates && has_gates(config, operations)) {
      return "it is asked without watermarks and reserved blocks";
    }
    if (config.num_host_blocks > 0) {
      if (std::string missing = why_no_host_tier(report_.promises); !missing.empty())
        return missing;
    }
    return why_beyond(abilities, config);
  }

  void run_regressions() {
    RunReport out{.name = "regressions", .profile = "all"};
    if (profiles_.size() == 1) out.profile = profiles_.front()->name;
    if (done()) return;
    if (options_.regressions.empty())
      out.not_run = "properties/sources/regressions is not installed";
    for (const std::string& file : traces_in(options_.regressions)) {
      const std::vector<TraceLine> lines = trace_in(file);
      if (lines.empty()) continue;
      std::vector<Operation> operations;
      for (const TraceLine& line : std::span(lines).subspan(1)) {
        operations.push_back(line.operation);
      }
      const CacheConfig& config = lines.front().header.config;
      if (out.not_run = why_not(config, operations); !out.not_run.empty()) continue;
      const auto ended = run_.trace(config, operations, out.counts);
      out.runs += ended.unsupported.empty() ? 1 : 0;
      if (!ended.unsupported.empty() && out.runs == 0) out.not_run = ended.unsupported;
      if (ended.failure) fail(*ended.failure, "regression " + file, ended.oracles);
    }
    if (out.runs > 0) out.not_run.clear();
    report_.runs.push_back(std::move(out));
  }

  /// The header and the operations of the one trace of a file; nothing after a failure, and where
  /// the trace is of a profile that is not asked for.
  [[nodiscard]] std::vector<TraceLine> trace_in(const std::string& file) const {
    LineReader lines(file);
    std::vector<TraceLine> out;
    for (std::string_view line; lines.next(line);) {
      TraceLine read = parse_trace_line(line);
      if (read.kind != TraceLine::Kind::end) out.push_back(std::move(read));
    }
    if (done() || out.empty() || out.front().kind != TraceLine::Kind::header) return {};
    if (!has_profile(profiles_, out.front().header.config.profile)) return {};
    return out;
  }

  void run_configurations() {
    std::vector<const Configuration*> rows = options_.rows;
    if (rows.empty()) {
      for (const Configuration& row : kConfigurations) rows.push_back(&row);
      rows.push_back(&kSwarm);
    }
    const double steps = static_cast<double>(rows.size() * profiles_.size());
    double step = 0;
    for (const Profile* profile : profiles_) {
      for (const Configuration* row : rows) {
        if (done()) return;
        report_.runs.push_back(
            {.name = std::string(row->name), .profile = std::string(profile->name)});
        run_configuration(*profile, *row, options_.operations * depth_of(*row), report_.runs.back(),
                          {step / steps, 1 / steps});
        step += 1;
      }
    }
    run_more();
  }

  // Where few rows can be run, each gets a larger share.
  void run_more() {
    std::uint64_t have = 0;
    std::size_t ran = 0;
    for (const RunReport& run : report_.runs) {
      have += run.counts.operations;
      ran += run.runs > 0 && find_configuration(run.name) != nullptr ? 1 : 0;
    }
    if (have >= options_.least_operations || ran == 0) return;
    const std::uint64_t each = (options_.least_operations - have) / ran + 1;
    const double steps = static_cast<double>(ran);
    double step = 0;
    for (RunReport& run : report_.runs) {
      const Configuration* row = find_configuration(run.name);
      if (row == nullptr || run.runs == 0 || done()) continue;
      run_configuration(*find_promised(run.profile), *row, run.counts.operations + each, run,
                        {step / steps, 1 / steps});
      step += 1;
    }
  }

  [[nodiscard]] const Profile* find_promised(std::string_view name) const {
    return *std::ranges::find(profiles_, name, [](const Profile* p) { return p->name; });
  }

  /// Where a row stands in the whole, for the progress.
  struct Part {
    double from = 0;
    double share = 1;
  };

  /// Adds runs to `out` until it has so many operations.
  void run_configuration(const Profile& profile, const Configuration& listed, std::uint64_t fewest,
                         RunReport& out, const Part& part_of_all) {
    Configuration row = listed;
    const bool drawn = &listed == &kSwarm;
    if (!drawn) out.not_run = fit(row, report_.promises);
    const std::string more = out.runs > 0 ? " once more" : "";
    ChoiceStream choices(options_.seed ^ fingerprint(out.name + out.profile + more));
    FeaturePairs had;
    const auto enough = [&] {
      if (out.counts.operations < fewest) return false;
      return !options_.waits || out.vacuous.empty() || out.counts.operations >= 8 * fewest;
    };
    OperationSet declined;
    int failed = 0;
    for (int refused = 0; out.not_run.empty() && !enough();) {
      const double part = static_cast<double>(out.counts.operations) / static_cast<double>(fewest);
      options_.on_progress(part_of_all.from + part_of_all.share * std::min(part, 1.0),
                           say(candidate_.name, " as ", profile.name, ", ", row.name));
      Case c = draw_case(choices, kMostOperationsPerCase);
      if (drawn) out.not_run = draw_new(profile, choices, row, c.setup, had);
      if (!out.not_run.empty()) break;
      // What breaks again and again hides nothing: every other run goes on without it.
      const std::uint64_t often = out.runs % 2 == 1 ? findings_.laws_seen_enough() : 0;
      const std::uint64_t skipped = often & ~options_.laws_left_out;
      run_.leave_out(options_.laws_left_out | skipped);
      AuditedRun::Ended ended = run_.random(profile, row, c, out.counts);
      if (!ended.unsupported.empty()) {
        const int most = kMostRefusedCases * (out.runs == 0 ? 1 : kPatience);
        if (++refused < most + kPatience * static_cast<int>(out.runs)) continue;
        out.answered = out.runs == 0;
        out.unexplained = out.answered && ended.unexplained;
        if (out.runs == 0) out.not_run = ended.unsupported;
        if (out.runs > 0 && !drawn) out.cut = ended.unsupported;
        break;
      }
      ++out.runs;
      if (ended.failure) {
        const std::uint64_t demanded =
            skipped & ~oracles_for(ended.failure->config, ended.demands).laws_left_out;
        fail(*ended.failure, out.name, ended.oracles, true, demanded);
        if (done() || ++failed == kMostFailed) break;
        continue;
      }
      declined |= ended.declined;
      ended.demands.promises.operations &= ~declined;
      // Who supports some of the drawn rows only may support those that move few counters.
      if (drawn && (candidate_.foreign || refused > 0)) continue;
      out.vacuous = idle_counters(listed, out.counts, candidate_.foreign, ended.demands);
    }
    run_.leave_out(options_.laws_left_out);
    if (!findings_.all().empty()) out.vacuous.clear();
  }

  /// Draws a row and a setup that has a new pair of features with it, unless all those are rare.
  /// @return why there is none that fits
  [[nodiscard]] std::string draw_new(const Profile& profile, ChoiceStream& choices,
                                     Configuration& row, Choice& setup, FeaturePairs& had) const {
    std::string unfit;
    bool found = false;
    FeatureSet features;
    for (int tries = 0, unfits = 0; tries < kMostTries && unfits < kMostUnfit;) {
      Configuration next = draw_row(choices.next());
      const Choice choice = choices.next();
      unfit = fit(next, report_.promises);
      if (!unfit.empty()) {
        ++unfits;
        continue;
      }
      ++tries;
      row = next;
      setup = choice;
      found = true;
      features =
          features_of({row, draw_config(profile, row, setup), draw_swarm(row, mix64(setup))});
      if (had.gains(features)) break;
    }
    if (!found) return unfit;
    had.add(features, 1);
    return {};
  }

  /// Bugs of host tiers, states and second keys were found late: they need many operations.
  static std::uint64_t depth_of(const Configuration& row) {
    if (&row == &kSwarm) return kSwarmShare;
    return row.host_tier || row.tail_keys || row.has(LayerKind::mamba) ? 2 : 1;
  }

  static constexpr int kMostTries = 16;    // rows that fit
  static constexpr int kMostUnfit = 2000;  // rows that do not
  static constexpr std::size_t kMostOperationsPerCase = 200;
  static constexpr int kMostRefusedCases = 8;
  static constexpr int kPatience = 20;
  static constexpr int kMostFailed = 50;  // runs of a row that fail
  static constexpr int kMostEnds = 3;     // of the program

  const Candidate& candidate_;
  const CheckOptions& options_;
  CheckReport report_;
  Findings findings_;
  int ends_ = 0;
  bool gives_up_ = false;
  AuditedRun run_;
  std::vector<const Profile*> profiles_;
};

bool forgets(const Configuration& row) {
  return row.has(LayerKind::sliding_window) || row.has(LayerKind::chunked_local) ||
         row.has(LayerKind::mamba);
}

}  // namespace

const FailureReport* CheckReport::failure() const {
  const auto at = std::ranges::find_if(
      findings, [](const FailureReport& f) { return !f.known && f.behind == 0; });
  return at != findings.end() ? &*at : nullptr;
}

std::size_t CheckReport::num_known() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(findings, [](const FailureReport& f) { return f.known.has_value(); }));
}

std::size_t CheckReport::num_behind() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      findings, [](const FailureReport& f) { return !f.known && f.behind != 0; }));
}

std::size_t CheckReport::laws_evaluated() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(laws, [](const LawReport& law) { return law.evaluated > 0; }));
}

std::size_t CheckReport::rows_run() const {
  std::size_t out = 0;
  for (const Configuration& row : kConfigurations) {
    out += std::ranges::any_of(
               runs, [&](const RunReport& run) { return run.name == row.name && run.runs > 0; })
               ? 1
               : 0;
  }
  return out;
}

bool CheckReport::vacuous() const {
  const bool idle = std::ranges::any_of(
      laws, [](const LawReport& law) { return law.promised && law.evaluated == 0; });
  const bool still = std::ranges::any_of(
      runs, [](const RunReport& run) { return run.not_run.empty() && !run.vacuous.empty(); });
  const bool nothing = std::ranges::all_of(
      runs, [](const RunReport& run) { return !run.not_run.empty() || run.runs == 0; });
  const bool cut = std::ranges::any_of(runs, [](const RunReport& run) { return !run.cut.empty(); });
  return idle || still || nothing || cut || !silent.empty();
}

std::vector<std::string_view> CheckReport::not_exercised() const {
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < kNumOperations; ++i) {
    if (2 * counts.declined[i] > counts.asked[i]) out.push_back(kOperationNames[i]);
  }
  return out;
}

std::vector<std::string> idle_counters(const Configuration& row, const Counts& counts, bool foreign,
                                       const Demands& demands) {
  const auto does = [&](std::string_view operation) {
    return demands.promises.operations.test(operation_index(operation));
  };
  const auto shows = [&](Parts parts) { return (parts & ~demands.shown) == 0; };
  std::vector<std::string> out;
  const auto promise = [&](bool promised, const char* name, std::uint64_t value) {
    if (promised && value == 0) out.emplace_back(name);
  };
  promise(true, "grants", counts.grants);
  promise(true, "refusals", counts.refusals);
  promise(!foreign, "rejections", counts.rejections);
  promise(does("free"), "preemptions", counts.preemptions);
  const bool looks_up = row.caching && does("lookup");
  promise(looks_up, "hits", counts.hits);
  promise(looks_up && shows(kCached | kReferences), "revivals", counts.revivals);
  promise(row.caching && shows(kEvents), "evictions", counts.evictions);
  promise(forgets(row) && shows(kIds), "recycled", counts.recycled);
  promise(row.can_fork() && does("fork"), "forks", counts.forks);
  promise(row.can_fork() && does("fork"), "copies", counts.copies);
  promise(row.sharing && does("truncate"), "truncations", counts.truncations);
  promise(row.sharing && does("pin"), "leases", counts.leases);
  promise(demands.promises.contents, "positions_read", counts.positions_read);
  promise(row.host_tier && does("swap_out"), "swaps", counts.swaps);
  promise(row.host_tier && does("swap_out"), "failed_swaps", counts.failed_swaps);
  return out;
}

CheckReport check(const Candidate& candidate, const CheckOptions& options) {
  return Check(candidate, options).run();
}

}  // namespace kvproof::properties
