// SPDX-License-Identifier: Apache-2.0
#include "properties/check/check.h"

#include <algorithm>
#include <filesystem>

#include "properties/check/audited_run.h"
#include "properties/random/shrink.h"
#include "properties/traces/golden.h"
#include "properties/traces/scenarios.h"
#include "reference/mix64.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

bool has_profile(const std::vector<const Profile*>& profiles, const Profile& profile) {
  return std::ranges::any_of(profiles, [&](const Profile* p) { return p->name == profile.name; });
}

class Check {
 public:
  Check(const Candidate& candidate, const CheckOptions& options)
      : candidate_(candidate), options_(options), run_(candidate, report_) {
    report_.subject = candidate.name;
  }

  CheckReport run() {
    choose_profiles();
    run_scenarios();
    run_vectors();
    run_configurations();
    for (const RunReport& run : report_.runs) report_.counts += run.counts;
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool done() const { return report_.failure.has_value(); }

  void fail(Failure failure, const std::string& where, Oracles oracles, bool shrinks = true) {
    options_.on_progress(1, "shrinking what failed");
    const double most = candidate_.foreign ? options_.shrink_seconds : 1e9;
    shrinks = shrinks && options_.shrinks;
    const bool error = failure.names("C12") && report_.promises.valid_calls_only;
    report_.failure =
        report_failure(candidate_, std::move(failure), where, oracles, shrinks ? most : 0);
    if (error && options_.shrinks) count_errors();
    for (std::size_t i = 0; i < report_.laws.size(); ++i) {
      report_.laws[i].broken = report_.failure->failure.names(std::string(kLaws[i].id));
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

  // Our subjects follow every profile; a foreign subject says which. A subject that promises only
  // safety is asked without watermark and reserved blocks.
  void choose_profiles() {
    profiles_ = options_.profiles;
    if (!candidate_.foreign) {
      report_.promises.profile = "any";
      for (const Profile& row : kProfiles) {
        if (options_.profiles.empty()) profiles_.push_back(&row);
      }
      return;
    }
    for (const Profile& row : kProfiles) {
      const Opened opened = candidate_.open(draw_config(row, *find_configuration("plain"), 0));
      report_.promises = opened.demands.promises;
      report_.shown = opened.demands.shown;
      if (opened.demands.promises.unsupported.empty()) break;
    }
    if (!profiles_.empty()) return;
    const Promises& promises = report_.promises;
    const Profile* promised = find_profile(promises.profile);
    if (promised == nullptr) {
      promised = find_profile(promises.level == Level::safety ? "vllm-0.22" : "vllm-0.24");
    }
    profiles_.push_back(promised);
  }

  void run_scenarios() {
    RunReport out{.name = "directed scenarios", .profile = "both"};
    if (profiles_.size() == 1) out.profile = profiles_.front()->name;
    for (const Scenario& scenario : scenarios()) {
      if (done() || !has_profile(profiles_, scenario.config.profile)) continue;
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
    RunReport out{.name = "recorded vectors", .profile = "both"};
    if (profiles_.size() == 1) out.profile = profiles_.front()->name;
    if (done()) return;
    if (options_.vectors.empty()) {
      out.not_run = "properties/traces/vectors is not installed";
    } else if (report_.promises.level != Level::profile) {
      out.not_run = "it promises no profile";
    } else {
      std::vector<std::filesystem::path> files;
      for (const auto& file : std::filesystem::directory_iterator(options_.vectors)) {
        if (file.path().extension() == ".jsonl") files.push_back(file.path());
      }
      std::ranges::sort(files);
      for (const auto& file : files) run_vector(file.string(), out);
    }
    report_.runs.push_back(std::move(out));
  }

  void run_vector(const std::string& file, RunReport& out) {
    LineReader lines(file);
    std::vector<TraceLine> recorded;
    for (std::string_view line; lines.next(line);) {
      TraceLine read = parse_trace_line(line);
      if (read.kind != TraceLine::Kind::end) recorded.push_back(std::move(read));
    }
    if (done() || recorded.empty() || recorded.front().kind != TraceLine::Kind::header) return;
    const CacheConfig& config = recorded.front().header.config;
    if (!has_profile(profiles_, config.profile)) return;
    const auto ended = run_.recording(config, std::span(recorded).subspan(1), out.counts);
    out.runs += ended.unsupported.empty() ? 1 : 0;
    if (ended.failure) fail(*ended.failure, "vector " + file, ended.oracles, false);
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
        run_configuration(*profile, *row, step / steps, 1 / steps);
        step += 1;
      }
    }
  }

  void run_configuration(const Profile& profile, const Configuration& listed, double from,
                         double share) {
    RunReport out{.name = std::string(listed.name), .profile = std::string(profile.name)};
    Configuration row = listed;
    const bool drawn = &listed == &kSwarm;
    if (!drawn) out.not_run = fit(row, report_.promises);
    ChoiceStream choices(options_.seed ^ fingerprint(out.name + out.profile));
    FeaturePairs had;
    const std::uint64_t fewest = options_.operations * depth_of(listed);
    const auto enough = [&] {
      if (out.counts.operations < fewest) return false;
      return !options_.waits || out.vacuous.empty() || out.counts.operations >= 8 * fewest;
    };
    OperationSet declined;
    for (int refused = 0; out.not_run.empty() && !enough();) {
      const double part = static_cast<double>(out.counts.operations) / static_cast<double>(fewest);
      options_.on_progress(from + share * std::min(part, 1.0),
                           say(candidate_.name, " as ", profile.name, ", ", row.name));
      Case c = draw_case(choices, kMostOperationsPerCase);
      if (drawn) out.not_run = draw_new(profile, choices, row, c.setup, had);
      if (!out.not_run.empty()) break;
      AuditedRun::Ended ended = run_.random(profile, row, c, out.counts);
      if (!ended.unsupported.empty()) {
        if (++refused < kMostRefusedCases * (out.runs == 0 ? 1 : 10)) continue;
        if (out.runs == 0) out.not_run = ended.unsupported;
        break;
      }
      ++out.runs;
      if (ended.failure) {
        fail(*ended.failure, out.name, ended.oracles);
        break;
      }
      declined |= ended.declined;
      ended.demands.promises.operations &= ~declined;
      // Who supports some of the drawn rows only may support those that move few counters.
      if (drawn && (candidate_.foreign || refused > 0)) continue;
      out.vacuous = idle_counters(listed, out.counts, candidate_.foreign, ended.demands);
    }
    if (done()) out.vacuous.clear();
    report_.runs.push_back(std::move(out));
  }

  /// Draws a row and a setup that has a new pair of features with it, unless all those are rare.
  /// @return why there is none that fits
  [[nodiscard]] std::string draw_new(const Profile& profile, ChoiceStream& choices,
                                     Configuration& row, Choice& setup, FeaturePairs& had) const {
    std::string unfit;
    bool found = false;
    FeatureSet features;
    for (int tries = 0; tries < kMostTries; ++tries) {
      Configuration next = draw_row(choices.next());
      const Choice choice = choices.next();
      unfit = fit(next, report_.promises);
      if (!unfit.empty()) continue;
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

  static constexpr int kMostTries = 16;
  static constexpr std::size_t kMostOperationsPerCase = 200;
  static constexpr int kMostRefusedCases = 8;

  const Candidate& candidate_;
  const CheckOptions& options_;
  CheckReport report_;
  AuditedRun run_;
  std::vector<const Profile*> profiles_;
};

bool forgets(const Configuration& row) {
  return row.has(LayerKind::sliding_window) || row.has(LayerKind::chunked_local) ||
         row.has(LayerKind::mamba);
}

}  // namespace

bool CheckReport::vacuous() const {
  const bool idle = std::ranges::any_of(
      laws, [](const LawReport& law) { return law.promised && law.checked == 0; });
  const bool still = std::ranges::any_of(
      runs, [](const RunReport& run) { return run.not_run.empty() && !run.vacuous.empty(); });
  const bool nothing = std::ranges::all_of(
      runs, [](const RunReport& run) { return !run.not_run.empty() || run.runs == 0; });
  return idle || still || nothing;
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
  promise(row.host_tier && does("swap_out"), "swaps", counts.swaps);
  promise(row.host_tier && does("swap_out"), "failed_swaps", counts.failed_swaps);
  return out;
}

CheckReport check(const Candidate& candidate, const CheckOptions& options) {
  return Check(candidate, options).run();
}

}  // namespace kvproof::properties
