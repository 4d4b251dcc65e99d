// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/mutation_score.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/results/environment.h"
#include "bench/results/progress.h"
#include "bench/verbs/check_report.h"
#include "bench/verbs/command_line.h"
#include "properties/check/candidate.h"
#include "properties/check/check.h"
#include "properties/selftest/operators/excuses.h"
#include "properties/selftest/operators/operator_mutants.h"
#include "properties/selftest/operators/trials.h"
#include "reference/support/command_words.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::OperatorMutant;
using properties::Trial;

constexpr std::uint64_t kCheckMemory = 2ULL << 30;  // [bytes] of addresses; without a mutant 0.1
constexpr double kCheckSilence = 5;                 // [s] of the processor; without a mutant 0.2
constexpr double kTestsSilence = 30;                // [s] a unit tests' program; without a mutant 4
constexpr double kMostExcused = 0.15;
// Half of the time of the unit tests: random runs as those of check, and those of a second hash.
constexpr char kWithoutRepeats[] = "--gtest_filter=-TierBytes.*:Decode.*WithSha256";

/// What became of a mutant that was tried.
struct Judged {
  const OperatorMutant* mutant = nullptr;
  std::string excuse = {};  // why it is equivalent; empty if it is not
  std::string_view folder = "optimized/";
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

  void add(const Judged& verdict) {
    ++mutants;
    equivalent += verdict.excused() ? 1 : 0;
    by_check += !verdict.excused() && verdict.by_check() ? 1 : 0;
    killed += !verdict.excused() && verdict.killed() ? 1 : 0;
  }
  [[nodiscard]] double whole() const { return static_cast<double>(mutants - equivalent); }
  [[nodiscard]] double share(std::uint64_t part) const {
    return mutants == equivalent ? 1 : static_cast<double>(part) / whole();
  }
  /// What a draw says of all mutants with 95 % of confidence (Wilson, JASA'27).
  [[nodiscard]] std::pair<double, double> interval(std::uint64_t part) const {
    if (mutants == equivalent) return {0, 1};
    constexpr double z = 1.959964;
    const double p = share(part), n = whole(), middle = p + z * z / (2 * n);
    const double spread = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    return {(middle - spread) / (1 + z * z / n), (middle + spread) / (1 + z * z / n)};
  }
};

// ---- the judges ---------------------------------------------------------------------------------

/// By subject and mutant: whether the checks of that subject come by that place.
using Met = std::vector<std::vector<bool>>;

/// Managers of different block hashes differ in these sources alone.
bool is_of_hash(std::string_view file) {
  return file.find("hashing") != file.npos || file.find("xxh3") != file.npos;
}

/// What `kvproof check` says of the cache managers of the copy; those that never come by the place
/// of a mutant are left out. A place that all hashes share is tried on the first that comes by it.
/// @param mutant number 0: none
/// @param met_by filled without a mutant, else read
/// @param why where the check objects, or what it missed
Trial checked(const OperatorMutant& mutant, const std::function<void()>& alive, Met& met_by,
              std::string& why) {
  const std::uint32_t number = mutant.number;
  properties::put_in_force(number);
  Trial worst = Trial::survived;
  bool tried = false;  // on a manager with another hash
  const auto subjects = properties::mutated_subjects();
  for (std::size_t s = 0; s < subjects.size(); ++s) {
    const properties::MutatedSubject& row = subjects[s];
    if (number != 0 && !met_by[s][number]) continue;
    const bool repeats = tried && !row.hash.empty() && !is_of_hash(mutant.file);
    if (number != 0 && repeats) continue;
    tried = tried || !row.hash.empty();
    properties::CheckOptions options = own_check();
    options.shrinks = false;
    options.on_progress = [&](double, const std::string&) { alive(); };
    properties::Candidate candidate;
    candidate.name = row.name;
    candidate.open = row.open;
    candidate.hash = row.hash;
    alive();
    const properties::CheckReport report = check(candidate, options);
    const Verdict verdict = verdict_of(report);
    if (number == 0) met_by.push_back(properties::take_met());
    if (verdict == Verdict::broken) {
      why = report.failure() ? row.name + ": " + report.failure()->failure.text : row.name;
      return Trial::objected;
    }
    if (verdict == Verdict::cannot_tell) {
      why = row.name + ": too little was exercised";
      worst = Trial::cannot_tell;
    }
  }
  return worst;
}

/// Becomes one of the unit tests' programs; its exit code is 1 if a test fails.
Trial become_unit_tests(std::uint32_t number, const std::string& program) {
  setenv("KVPROOF_MUTANT", std::to_string(number).c_str(), 1);
  execl(program.c_str(), program.c_str(), "--gtest_fail_fast", "--gtest_brief=1", kWithoutRepeats,
        nullptr);
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
  explicit Trials(std::vector<Judged>& verdicts) : verdicts_(verdicts) {}

  void run_unit_tests() {
    for (const std::string& program : unit_tests()) try_unit_tests(program);
  }

  void run_check(Met& met_by) {
    for (Judged& verdict : verdicts_) {
      const std::uint32_t number = verdict.mutant->number;
      verdict.met = std::ranges::any_of(met_by, [&](const auto& met) { return met[number]; });
    }
    run("check", [&](const OperatorMutant& mutant, const std::function<void()>& alive) {
      std::string why;
      return checked(mutant, alive, met_by, why);
    });
  }

  using Judging = std::function<Trial(const OperatorMutant&, const std::function<void()>& alive)>;
  void run(const std::string& what, const Judging& judge) {
    properties::TrialLimits limits;
    limits.silent_seconds = kCheckSilence;
    limits.memory_bytes = kCheckMemory;
    std::vector<Judged*> met;
    for (Judged& verdict : verdicts_) {
      if (verdict.met) met.push_back(&verdict);
    }
    done_ = 0;
    const std::vector<Trial> ends = properties::run_trials(
        met.size(), limits,
        [&](std::size_t i, const auto& alive) { return judge(*met[i]->mutant, alive); },
        [&](std::size_t) { step(what, met.size()); });
    for (std::size_t i = 0; i < ends.size(); ++i) met[i]->check = ends[i];
  }

 private:
  void try_unit_tests(const std::string& program) {
    std::vector<Judged*> left;
    for (Judged& verdict : verdicts_) {
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
                     say(what, ", mutant ", done_, " of ", all));
  }

  std::vector<Judged>& verdicts_;
  Progress progress_;
  std::size_t done_ = 0;
};

Trial judged_rule(const OperatorMutant& mutant, const std::function<void()>& alive) {
  properties::put_in_force(mutant.number);
  return properties::judge_rules(alive).empty() ? Trial::survived : Trial::objected;
}

void try_rules_without_mutant() {
  const OperatorMutant none{};
  std::vector<Judged> verdicts{{&none}};
  Trials(verdicts).run("facts and recordings", &judged_rule);
  if (!verdicts.front().killed()) return;
  throw std::runtime_error("facts and recordings object to the rules without a mutant");
}

/// Else a kill would say nothing about the mutant. Notes which mutants check meets, too.
void try_without_mutant(Met& met_by) {
  const OperatorMutant none{};
  std::vector<Judged> verdicts{{&none}};
  Trials tests(verdicts);
  std::string why;
  const auto unwatched = [] {};
  if (checked(none, unwatched, met_by, why) == Trial::survived) {
    tests.run_unit_tests();
    if (!verdicts.front().killed()) return;
    why = "its unit tests";
  }
  throw std::runtime_error("the copy of optimized/ fails without a mutant (" + why +
                           "), so that nothing can be said about mutants");
}

// ---- the report ---------------------------------------------------------------------------------

std::string fate_of(const Judged& verdict) {
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

Result result_of(const Judged& verdict) {
  const OperatorMutant& mutant = *verdict.mutant;
  return {"operator_mutant",
          {{"id", std::string(mutant.id)},
           {"file", say(verdict.folder, mutant.file)},
           {"function", std::string(mutant.function)},
           {"class", std::string(mutant.operator_class)},
           {"change", std::string(mutant.change)},
           {"text", std::string(mutant.text)},
           {"fate", fate_of(verdict)},
           {"equivalent", verdict.excuse}},
          {{"line", count(mutant.line)}, {"ordinal", count(mutant.ordinal)}}};
}

Result result_of(const char* name, const Score& score, const MutationOptions& options,
                 std::size_t all, double seconds) {
  const auto [low, high] = score.interval(score.by_check);
  return {name,
          {{"seed", static_cast<std::int64_t>(options.seed)}},
          {{"mutants", count(score.mutants)},
           {"equivalent", count(score.equivalent)},
           {"killed_by_check", count(score.by_check)},
           {"killed", count(score.killed)},
           {"score", metric(score.share(score.by_check), "ratio")},
           {"score_low", metric(low, "ratio")},
           {"score_high", metric(high, "ratio")},
           {"score_with_unit_tests", metric(score.share(score.killed), "ratio")},
           {"all", count(all)},
           {"seconds", metric(seconds, "s")}}};
}

void print_list(const std::vector<Judged>& verdicts, const std::string& heading,
                const std::function<bool(const Judged&)>& belongs) {
  if (std::ranges::none_of(verdicts, belongs)) return;
  std::cout << heading << ":\n";
  for (const Judged& verdict : verdicts) {
    if (!belongs(verdict)) continue;
    const OperatorMutant& m = *verdict.mutant;
    std::cout << "  " << verdict.folder << m.file << ':' << m.line << ": " << m.operator_class
              << ", " << m.change << ", in " << m.function << ": " << m.text
              << (m.ordinal > 1 ? say(" #", m.ordinal) : "")
              << (verdict.met ? "" : " (check never comes here)")
              << (verdict.check == Trial::cannot_tell ? " (check cannot tell)" : "") << "\n    "
              << kvproof_command("selftest --mutation-score --only=" + std::string(m.id)) << '\n';
  }
}

void print_table(const std::vector<Judged>& verdicts) {
  std::map<std::string_view, Score> classes;
  Score all;
  for (const Judged& verdict : verdicts) {
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

bool is_survivor(const Judged& verdict) { return !verdict.killed() && !verdict.excused(); }
bool is_wrongly_excused(const Judged& verdict) { return verdict.killed() && verdict.excused(); }

std::string shown(const Score& score, std::uint64_t part) {
  const auto [low, high] = score.interval(part);
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << score.share(part) << " [" << low << ", " << high
      << ']';
  return out.str();
}

/// @return whether no mutant is left
bool print_rules(const std::vector<Judged>& verdicts, const Score& score) {
  if (verdicts.empty()) return true;
  print_list(verdicts, "Survived the facts and the recordings", is_survivor);
  print_list(verdicts, "Excused as equivalent, but killed", is_wrongly_excused);
  std::cout << "score of the shared rules " << shown(score, score.killed) << ": the documented "
            << "facts and " << properties::num_recordings() << " recordings of vLLM noticed "
            << score.killed << " of the " << score.mutants - score.equivalent
            << " mutants of reference/layer_rules.cpp and config.cpp that are not equivalent.\n";
  return std::ranges::none_of(verdicts, is_survivor) &&
         std::ranges::none_of(verdicts, is_wrongly_excused);
}

/// @return the exit code
int print_report(const std::vector<Judged>& verdicts, const Score& score, std::size_t all,
                 std::size_t excused) {
  print_table(verdicts);
  print_list(verdicts, "Survived check and the unit tests", is_survivor);
  print_list(verdicts, "Excused as equivalent, but killed", is_wrongly_excused);
  print_list(verdicts, "Killed by the unit tests alone",
             [](const Judged& verdict) { return verdict.unit_tests && !verdict.excused(); });
  const double share = static_cast<double>(excused) / static_cast<double>(all);
  std::cout << std::fixed << std::setprecision(3) << "score " << shown(score, score.by_check)
            << ": check killed " << score.by_check << " of the " << score.mutants - score.equivalent
            << " mutants that are not equivalent; with the unit "
            << "tests " << shown(score, score.killed) << ".\n"
            << excused << " of all " << all << " mutants are excused as equivalent, a share of "
            << share << "; at most " << kMostExcused << " may be.\n";
  const bool bad = std::ranges::any_of(verdicts, is_survivor) ||
                   std::ranges::any_of(verdicts, is_wrongly_excused) || share > kMostExcused;
  return bad ? kViolated : kHolds;
}

// ---- the draw --------------------------------------------------------------------------------

/// Leaves of some numbers those of a part, as "3/64" names it. Throws UsageError.
void keep_part(const std::string& part, std::vector<std::size_t>& numbers) {
  std::istringstream in(part);
  std::size_t index = 0, count = 0;
  char slash = 0;
  in >> index >> slash >> count;
  if (!in || !in.eof() || slash != '/' || index >= count) {
    throw UsageError("--part=" + part + ": expected an index from 0 and below a count, as 3/64");
  }
  std::erase_if(numbers, [&](std::size_t number) { return number % count != index; });
}

/// Adds so many of some mutants, or what is asked for.
void choose(const MutationOptions& options, std::size_t most, std::string_view folder,
            std::span<const OperatorMutant> mutants,
            const std::map<std::string, std::string>& excuses, std::vector<Judged>& out) {
  std::vector<std::size_t> chosen;
  if (options.only.empty()) chosen = properties::draw_mutants(mutants, most, options.seed);
  if (!options.part.empty()) keep_part(options.part, chosen);
  for (const std::string& id : options.only) {
    const auto at = std::ranges::find(mutants, id, &OperatorMutant::id);
    if (at != mutants.end()) chosen.push_back(static_cast<std::size_t>(at - mutants.begin()));
  }
  for (const std::size_t i : chosen) {
    const auto excuse = excuses.find(std::string(mutants[i].id));
    out.push_back({&mutants[i], excuse == excuses.end() ? "" : excuse->second, folder});
  }
}

}  // namespace

int mutation_score(const MutationOptions& options, int argc, const char* const* argv) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto mutants = properties::operator_mutants();
  const auto rules = properties::rule_mutants();
  std::vector<OperatorMutant> both(mutants.begin(), mutants.end());
  both.insert(both.end(), rules.begin(), rules.end());
  const auto excuses =
      properties::read_excuses(options.excuses.empty() ? KVPROOF_EXCUSES : options.excuses, both);
  std::vector<Judged> verdicts, ruled;
  const std::size_t most = options.all ? mutants.size() : options.mutants;
  choose(options, most, "optimized/", mutants, excuses, verdicts);
  choose(options, rules.size(), "reference/", rules, excuses, ruled);
  if (verdicts.size() + ruled.size() < options.only.size()) {
    throw UsageError("--only: no mutant has one of these ids");
  }
  std::optional<ResultFile> file;
  if (!options.json_path.empty()) file.emplace(options.json_path);
  std::cout << "seed " << options.seed << ", " << verdicts.size() << " of " << mutants.size()
            << " operator mutants of optimized/, but for concurrent/ and slot_mapping.h, which no "
            << "check reaches, and " << ruled.size() << " of the " << rules.size()
            << " of the rules in reference/ that all share\n\n"
            << std::flush;
  if (!ruled.empty()) {
    static_cast<void>(properties::num_recordings());  // read before any fork
    try_rules_without_mutant();
    Trials(ruled).run("facts and recordings", &judged_rule);
  }
  if (!verdicts.empty()) {
    Met met_by;
    try_without_mutant(met_by);
    Trials trials(verdicts);
    trials.run_check(met_by);
    trials.run_unit_tests();
  }
  Score sum, of_rules;
  for (const Judged& verdict : verdicts) sum.add(verdict);
  for (const Judged& verdict : ruled) of_rules.add(verdict);
  const bool covered = print_rules(ruled, of_rules);
  const int code = print_report(verdicts, sum, mutants.size(), excuses.size());
  if (file) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    std::vector<Result> results{result_of("mutation_score", sum, options, mutants.size(), seconds),
                                result_of("rules_score", of_rules, options, rules.size(), seconds)};
    for (const Judged& verdict : verdicts) results.push_back(result_of(verdict));
    for (const Judged& verdict : ruled) results.push_back(result_of(verdict));
    file->commit(describe_environment(argc, argv, options.seed), results);
  }
  return covered ? code : kViolated;
}

}  // namespace kvproof::bench
