// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/mutation_score.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/verbs/check_report.h"
#include "bench/verbs/command_line.h"
#include "properties/check/candidate.h"
#include "properties/check/check.h"
#include "properties/mutants/operators/excuses.h"
#include "properties/mutants/operators/operator_mutants.h"
#include "properties/mutants/operators/trials.h"
#include "properties/say.h"
#include "properties/traces/input_error.h"

namespace kvproof::bench {
namespace {

using properties::OperatorMutant;
using properties::Trial;

constexpr std::uint64_t kCheckMemory = 2ULL << 30;  // [bytes] of addresses; without a mutant 0.1
constexpr double kCheckSilence = 5;                 // [s] of the processor; without a mutant 0.2
constexpr double kTestsSilence = 30;                // [s] a unit tests' program; without a mutant 4
constexpr double kMostExcused = 0.15;

/// What became of a mutant that was tried.
struct Verdict {
  const OperatorMutant* mutant = nullptr;
  std::string excuse = {};  // why it is equivalent; empty if it is not
  Trial check = Trial::survived;
  bool unit_tests = false;  // killed it, after check did not
  bool met = true;          // check comes by its place

  [[nodiscard]] bool by_check() const {
    return check != Trial::survived && check != Trial::cannot_tell;
  }
  [[nodiscard]] bool killed() const { return by_check() || unit_tests; }
  [[nodiscard]] bool excused() const { return !excuse.empty(); }
};

struct Score {
  std::uint64_t mutants = 0;
  std::uint64_t equivalent = 0;
  std::uint64_t by_check = 0;  // of those that are not equivalent
  std::uint64_t killed = 0;    // the same

  void add(const Verdict& verdict) {
    ++mutants;
    equivalent += verdict.excused() ? 1 : 0;
    by_check += !verdict.excused() && verdict.by_check() ? 1 : 0;
    killed += !verdict.excused() && verdict.killed() ? 1 : 0;
  }
  [[nodiscard]] double share(std::uint64_t part) const {
    const std::uint64_t whole = mutants - equivalent;
    return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

// ---- the judges ---------------------------------------------------------------------------------

/// What `kvproof check` says of the cache managers of the copy.
/// @param why where the check objects, or what it missed
Trial checked(std::uint32_t number, const std::function<void()>& alive, std::string& why) {
  properties::put_in_force(number);
  Trial worst = Trial::survived;
  for (const properties::MutatedSubject& row : properties::mutated_subjects()) {
    properties::CheckOptions options = own_check();
    options.shrinks = false;
    options.on_progress = [&](double, const std::string&) { alive(); };
    properties::Candidate candidate;
    candidate.name = row.name;
    candidate.open = row.open;
    alive();
    const properties::CheckReport report = check(candidate, options);
    const CheckVerdict verdict = verdict_of(report);
    if (verdict == CheckVerdict::violated) {
      why = report.failure() ? row.name + ": " + report.failure()->failure.text : row.name;
      return Trial::objected;
    }
    if (verdict == CheckVerdict::vacuous) {
      why = row.name + ": too little was exercised";
      worst = Trial::cannot_tell;
    }
  }
  return worst;
}

/// Becomes one of the unit tests' programs; its exit code is 1 if a test fails.
Trial become_unit_tests(std::uint32_t number, const std::string& program) {
  setenv("KVPROOF_MUTANT", std::to_string(number).c_str(), 1);
  execl(program.c_str(), program.c_str(), "--gtest_fail_fast", "--gtest_brief=1", nullptr);
  throw std::runtime_error(program + " cannot be run");
}

std::vector<std::string> unit_tests() {
  std::vector<std::string> out;
  const auto bin = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  std::string names = KVPROOF_MUTATED_TESTS;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    out.push_back((bin.parent_path() / "tests" / names.substr(at, end - at)).string());
    if (!std::filesystem::exists(out.back())) throw UsageError(out.back() + " is not built");
    at = end + 1;
  }
  return out;
}

/// Tries the mutants one after another on check, and what survives on each of the unit tests.
class Trials {
 public:
  explicit Trials(std::vector<Verdict>& verdicts) : verdicts_(verdicts) {}

  void run_unit_tests() {
    for (const std::string& program : unit_tests()) try_unit_tests(program);
  }

  /// @pre a check without a mutant was run in this process
  void run_check() {
    properties::TrialLimits limits;
    limits.silent_seconds = kCheckSilence;
    limits.memory_bytes = kCheckMemory;
    std::vector<Verdict*> met;
    for (Verdict& verdict : verdicts_) {
      verdict.met = properties::was_met(verdict.mutant->number);
      if (verdict.met) met.push_back(&verdict);
    }
    const std::vector<Trial> ends = properties::run_trials(
        met.size(), limits,
        [&](std::size_t i, const auto& alive) {
          std::string why;
          return checked(met[i]->mutant->number, alive, why);
        },
        [&](std::size_t) { step("check", met.size()); });
    for (std::size_t i = 0; i < ends.size(); ++i) met[i]->check = ends[i];
  }

 private:
  void try_unit_tests(const std::string& program) {
    std::vector<Verdict*> left;
    for (Verdict& verdict : verdicts_) {
      if (!verdict.killed()) left.push_back(&verdict);
    }
    properties::TrialLimits limits;
    limits.silent_seconds = kTestsSilence;
    limits.memory_bytes = kCheckMemory;
    done_ = 0;
    const std::vector<Trial> ends = properties::run_trials(
        left.size(), limits,
        [&](std::size_t i, const auto&) {
          return become_unit_tests(left[i]->mutant->number, program);
        },
        [&](std::size_t) {
          step(std::filesystem::path(program).filename().string(), left.size());
        });
    for (std::size_t i = 0; i < ends.size(); ++i) {
      left[i]->unit_tests = ends[i] != Trial::survived;
    }
  }

  void step(const std::string& what, std::size_t all) {
    ++done_;
    progress_.update(static_cast<double>(done_) / static_cast<double>(all),
                     properties::say(what, ", mutant ", done_, " of ", all));
  }

  std::vector<Verdict>& verdicts_;
  Progress progress_;
  std::size_t done_ = 0;
};

/// Else a kill would say nothing about the mutant. Notes which mutants check meets, too.
void try_without_mutant() {
  const OperatorMutant none{};
  std::vector<Verdict> verdicts{{&none}};
  Trials tests(verdicts);
  std::string why;
  const auto unwatched = [] {};
  if (checked(0, unwatched, why) == Trial::survived) {
    tests.run_unit_tests();
    if (!verdicts.front().killed()) return;
    why = "its unit tests";
  }
  throw std::runtime_error("the copy of optimized/ fails without a mutant (" + why +
                           "), so that nothing can be said about mutants");
}

// ---- the report ---------------------------------------------------------------------------------

std::string fate_of(const Verdict& verdict) {
  switch (verdict.check) {
    case Trial::objected: return "objected";
    case Trial::crashed: return "crashed";
    case Trial::hung: return "hung";
    case Trial::survived:
    case Trial::cannot_tell: break;
  }
  if (verdict.unit_tests) return "unit_tests";
  if (verdict.check == Trial::cannot_tell) return "cannot_tell";
  return verdict.met ? "survived" : "not_met";
}

Result result_of(const Verdict& verdict) {
  const OperatorMutant& mutant = *verdict.mutant;
  return {"operator_mutant",
          {{"id", std::string(mutant.id)},
           {"file", std::string(mutant.file)},
           {"function", std::string(mutant.function)},
           {"class", std::string(mutant.operator_class)},
           {"change", std::string(mutant.change)},
           {"text", std::string(mutant.text)},
           {"fate", fate_of(verdict)},
           {"equivalent", verdict.excuse}},
          {{"line", count(mutant.line)}, {"ordinal", count(mutant.ordinal)}}};
}

Result result_of(const Score& score, const MutationOptions& options, std::size_t all,
                 double seconds) {
  return {"mutation_score",
          {{"seed", static_cast<std::int64_t>(options.seed)}},
          {{"mutants", count(score.mutants)},
           {"equivalent", count(score.equivalent)},
           {"killed_by_check", count(score.by_check)},
           {"killed", count(score.killed)},
           {"score", {score.share(score.by_check), "ratio", {}, {}}},
           {"score_with_unit_tests", {score.share(score.killed), "ratio", {}, {}}},
           {"all", count(all)},
           {"seconds", {seconds, "s", {}, {}}}}};
}

void print_list(const std::vector<Verdict>& verdicts, const std::string& heading,
                const std::function<bool(const Verdict&)>& belongs) {
  if (std::ranges::none_of(verdicts, belongs)) return;
  std::cout << heading << ":\n";
  for (const Verdict& verdict : verdicts) {
    if (!belongs(verdict)) continue;
    const OperatorMutant& m = *verdict.mutant;
    std::cout << "  optimized/" << m.file << ':' << m.line << ": " << m.operator_class << ", "
              << m.change << ", in " << m.function << ": " << m.text
              << (m.ordinal > 1 ? properties::say(" #", m.ordinal) : "")
              << (verdict.met ? "" : " (check never comes here)")
              << (verdict.check == Trial::cannot_tell ? " (check cannot tell)" : "")
              << "\n    ./kvproof check --mutation-score --only=" << m.id << '\n';
  }
}

void print_table(const std::vector<Verdict>& verdicts) {
  std::map<std::string_view, Score> classes;
  Score all;
  for (const Verdict& verdict : verdicts) {
    classes[verdict.mutant->operator_class].add(verdict);
    all.add(verdict);
  }
  std::cout << std::left << std::setw(12) << "operator" << std::right << std::setw(9) << "mutants"
            << std::setw(12) << "equivalent" << std::setw(17) << "killed by check" << std::setw(9)
            << "killed" << '\n';
  const auto line = [](std::string_view name, const Score& score) {
    std::cout << std::left << std::setw(12) << name << std::right << std::setw(9) << score.mutants
              << std::setw(12) << score.equivalent << std::setw(17) << score.by_check
              << std::setw(9) << score.killed << '\n';
  };
  for (const auto& [name, score] : classes) line(name, score);
  line("all", all);
  std::cout << '\n';
}

bool is_survivor(const Verdict& verdict) { return !verdict.killed() && !verdict.excused(); }
bool is_wrongly_excused(const Verdict& verdict) { return verdict.killed() && verdict.excused(); }

/// @return the exit code
int print_report(const std::vector<Verdict>& verdicts, const Score& score, std::size_t all,
                 std::size_t excused) {
  print_table(verdicts);
  print_list(verdicts, "Survived check and the unit tests", is_survivor);
  print_list(verdicts, "Excused as equivalent, but killed", is_wrongly_excused);
  print_list(verdicts, "Killed by the unit tests alone",
             [](const Verdict& verdict) { return verdict.unit_tests && !verdict.excused(); });
  const double share = static_cast<double>(excused) / static_cast<double>(all);
  std::cout << std::fixed << std::setprecision(3) << "score " << score.share(score.by_check)
            << ": check killed " << score.by_check << " of the " << score.mutants - score.equivalent
            << " mutants that are not equivalent; with the unit "
            << "tests " << score.share(score.killed) << ".\n"
            << excused << " of all " << all << " mutants are excused as equivalent, a share of "
            << share << "; at most " << kMostExcused << " may be.\n";
  const bool bad = std::ranges::any_of(verdicts, is_survivor) ||
                   std::ranges::any_of(verdicts, is_wrongly_excused) || share > kMostExcused;
  return bad ? kViolated : kHolds;
}

// ---- the draw --------------------------------------------------------------------------------

std::vector<std::size_t> chosen(const MutationOptions& options) {
  const auto mutants = properties::operator_mutants();
  if (options.only.empty()) {
    const std::size_t most = options.all ? mutants.size() : options.mutants;
    return properties::draw_mutants(mutants, most, options.seed);
  }
  std::vector<std::size_t> out;
  for (const std::string& id : options.only) {
    const auto at = std::ranges::find(mutants, id, &OperatorMutant::id);
    if (at == mutants.end()) throw UsageError("--only=" + id + ": no mutant has that id");
    out.push_back(static_cast<std::size_t>(at - mutants.begin()));
  }
  return out;
}

}  // namespace

int mutation_score(const MutationOptions& options, int argc, const char* const* argv) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto mutants = properties::operator_mutants();
  const auto excuses = properties::read_excuses(
      options.excuses.empty() ? KVPROOF_EXCUSES : options.excuses, mutants);
  std::vector<Verdict> verdicts;
  for (const std::size_t i : chosen(options)) {
    const auto excuse = excuses.find(std::string(mutants[i].id));
    verdicts.push_back({&mutants[i], excuse == excuses.end() ? "" : excuse->second});
  }
  std::optional<ResultFile> file;
  if (!options.json_path.empty()) file.emplace(options.json_path);
  std::cout << "seed " << options.seed << ", " << verdicts.size() << " of " << mutants.size()
            << " operator mutants of optimized/, but for concurrent/ and slot_mapping.h, which no "
            << "check reaches\n\n"
            << std::flush;
  try_without_mutant();
  Trials trials(verdicts);
  trials.run_check();
  trials.run_unit_tests();
  Score sum;
  for (const Verdict& verdict : verdicts) sum.add(verdict);
  const int code = print_report(verdicts, sum, mutants.size(), excuses.size());
  if (file) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::vector<Result> results{result_of(sum, options, mutants.size(), seconds)};
    for (const Verdict& verdict : verdicts) results.push_back(result_of(verdict));
    file->commit(describe_environment(argc, argv, options.seed), results);
  }
  return code;
}

}  // namespace kvproof::bench
