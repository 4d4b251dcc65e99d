// SPDX-License-Identifier: Apache-2.0
// The score counts what check kills, names a survivor and fails for it, believes an excuse only
// while the mutant lives, and allows few excuses. The mutant that is killed here is a source patch.
#include "bench/verbs/mutation_score.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/verbs/command_line.h"
#include "properties/selftest/operators/excuses.h"
#include "properties/selftest/operators/operator_mutants.h"
#include "properties/selftest/patches.h"

namespace kvproof::properties {
namespace {

// Ten, of which the first is a patch; the others change nothing, and the last is never met.
constexpr auto kMade = [] {
  std::array<OperatorMutant, 10> out{};
  constexpr std::array<std::string_view, 10> kIds = {"m0", "m1", "m2", "m3", "m4",
                                                     "m5", "m6", "m7", "m8", "m9"};
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    out[i] = {i + 1, kIds[i], "a.h", i + 1, "f", "relational", "< to <=", "a `<` b", i + 1};
  }
  return out;
}();
std::uint32_t in_force = 0;

}  // namespace

std::span<const OperatorMutant> operator_mutants() { return kMade; }
std::span<const OperatorMutant> rule_mutants() {
  static constexpr OperatorMutant kRules[] = {
      {21, "r0", "r.cpp", 1, "f", "constant", "0 to 1", "`0`", 1},
      {22, "r1", "r.cpp", 2, "f", "constant", "0 to 1", "`0`", 2}};
  return kRules;
}
std::size_t num_recordings() { return 3; }
std::string judge_rules(const std::function<void()>& /*alive*/) {
  return in_force == 21 ? "a fact" : "";
}
std::vector<MutatedSubject> mutated_subjects() {
  const auto open = [](const CacheConfig& config) {
    const Patch* patch = in_force == 1 ? all_patches().data() : nullptr;
    return Opened{make_patched(patch, config), {}};
  };
  return {{.name = "patched", .open = open, .hash = {}}};
}
void put_in_force(std::uint32_t number) { in_force = number; }
std::vector<bool> take_met() {
  std::vector<bool> out(kMade.size() + 1, true);
  out.back() = false;
  return out;
}

}  // namespace kvproof::properties

namespace kvproof::bench {
namespace {

class MutationScore : public testing::Test {
 protected:
  ~MutationScore() override { std::filesystem::remove_all(folder_); }

  /// @param excused indices of rows @return the exit code
  int score(const std::vector<std::string>& only, const std::vector<std::size_t>& excused) {
    std::filesystem::create_directories(folder_);
    MutationOptions options;
    options.only = only;
    options.all = !part_.empty();
    options.part = part_;
    options.excuses = folder_ / "excuses.tsv";
    options.json_path = folder_ / "score.json";
    std::ofstream excuses(options.excuses);
    for (const std::size_t i : excused) {
      excuses << excuse_key(properties::operator_mutants()[i]) << "\tit is the same\n";
    }
    excuses.close();
    std::ostringstream said;
    std::streambuf* const before = std::cout.rdbuf(said.rdbuf());
    const char* words[] = {"test"};
    const int code = mutation_score(options, 1, words);
    std::cout.rdbuf(before);
    said_ = said.str();
    std::ifstream in(options.json_path);
    first_ = nlohmann::json::parse(in).at("results").at(0);
    return code;
  }
  [[nodiscard]] double metric(const char* name) const {
    return first_.at("metrics").at(name).at("value");
  }
  [[nodiscard]] bool says(const std::string& text) const {
    return said_.find(text) != std::string::npos;
  }

  const std::filesystem::path folder_ =
      testing::TempDir() + "kvproof-mutation-score-" + std::to_string(getpid());
  std::string part_;
  std::string said_;
  nlohmann::json first_;
};

TEST_F(MutationScore, CountsAndNamesASurvivorAndFails) {
  EXPECT_EQ(score({"m0", "m9"}, {}), 1) << said_;
  EXPECT_TRUE(
      says("Survived check and the unit tests:\n  optimized/a.h:10: relational, < to <=, "
           "in f: a `<` b #10 (check never comes here)\n"
           "    ./kvproof selftest --mutation-score --only=m9\n"))
      << said_;
  EXPECT_EQ(first_.at("experiment"), "mutation_score");
  EXPECT_EQ(metric("mutants"), 2);
  EXPECT_EQ(metric("equivalent"), 0);
  EXPECT_EQ(metric("killed_by_check"), 1);
  EXPECT_EQ(metric("killed"), 1);
  EXPECT_EQ(metric("score"), 0.5);
}

TEST_F(MutationScore, TakesAPartOfAll) {
  part_ = "9/10";
  static_cast<void>(score({}, {}));
  EXPECT_EQ(metric("mutants"), 1) << said_;
  EXPECT_TRUE(says("--only=m9\n")) << said_;
  part_ = "10/11";
  static_cast<void>(score({}, {}));
  EXPECT_EQ(metric("mutants"), 0) << said_;
  std::streambuf* const before = std::cout.rdbuf();
  for (const char* part : {"3/3", "1", "0/0", "0/2x", "/2"}) {
    part_ = part;
    EXPECT_THROW(static_cast<void>(score({}, {})), UsageError) << part;
    std::cout.rdbuf(before);
  }
}

TEST_F(MutationScore, LetsFactsAndRecordingsJudgeTheRulesAlone) {
  EXPECT_EQ(score({"r0", "r1"}, {}), 1) << said_;
  EXPECT_TRUE(says("Survived the facts and the recordings:\n  reference/r.cpp:2:")) << said_;
  EXPECT_TRUE(
      says("score of the shared rules 0.500 [0.095, 0.905]: the documented facts and 3 "
           "recordings of vLLM noticed 1 of the 2 mutants"))
      << said_;
  EXPECT_EQ(score({"r0"}, {}), 0) << said_;
}

TEST_F(MutationScore, LeavesAnExcusedSurvivorOutOfTheScore) {
  EXPECT_EQ(score({"m0", "m9"}, {9}), 0) << said_;
  EXPECT_EQ(metric("equivalent"), 1);
  EXPECT_EQ(metric("score"), 1);
  EXPECT_FALSE(says("Survived")) << said_;
}

TEST_F(MutationScore, FailsForAnExcuseThatIsWrongAndForTooMany) {
  EXPECT_EQ(score({"m0", "m9"}, {0, 9}), 1) << said_;
  EXPECT_TRUE(says("Excused as equivalent, but killed:\n  optimized/a.h:1:")) << said_;
  EXPECT_TRUE(says("2 of all 10 mutants are excused as equivalent, a share of 0.200")) << said_;
  EXPECT_EQ(score({"m9"}, {8, 9}), 1) << "a fifth is excused";
}

}  // namespace
}  // namespace kvproof::bench
