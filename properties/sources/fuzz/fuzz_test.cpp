// SPDX-License-Identifier: Apache-2.0
// The fuzz targets notice: seeded bugs, driven by pseudo-random bytes through the same functions,
// must be found, and the trace that is written about one must break the same law.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "optimized/concurrent/checks/broken_pools.h"
#include "properties/selftest/patches.h"
#include "properties/sources/fuzz/history_input.h"
#include "properties/sources/fuzz/manager_input.h"
#include "properties/sources/random/cases.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

using namespace concurrency;  // NOLINT: histories

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

/// Bytes that nobody chose: a seed and 5 + 2 * 60 of them.
Bytes random_bytes(std::uint64_t seed) {
  ChoiceStream stream(seed);
  Bytes out(125);
  for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(stream.next());
  return out;
}

const FuzzedSubject kBroken{"B004", [](const CacheConfig& c) { return make_museum("B004", c); }};
const FuzzedSubject kSound{"", [](const CacheConfig& c) { return make_museum("", c); }};

constexpr FuzzScope kFull = FuzzScope::one_full_group;
constexpr std::uint64_t kInputs = 3000;

/// The first seed whose bytes break the seeded bug's allocator; kInputs if there is none.
std::uint64_t first_failing_seed(const FuzzedSubject& subject) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < kInputs; ++seed) {
    const ManagerInput input = decode_manager_input(random_bytes(seed), kFull);
    if (run_manager_input(input, subject, counts)) return seed;
  }
  return kInputs;
}

class FuzzedManager : public testing::Test {
 protected:
  FuzzedManager() : folder_(fs::path(testing::TempDir()) / say("kvproof-fuzz-test-", getpid())) {
    fs::create_directories(folder_);
  }
  ~FuzzedManager() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(FuzzedManager, ASeededBugAbortsTheTargetAndItsTraceBreaksTheSameLaw) {
  const std::uint64_t seed = first_failing_seed(kBroken);
  ASSERT_LT(seed, kInputs) << "nothing was noticed";
  const Bytes bytes = random_bytes(seed);
  EXPECT_DEATH(fuzz_manager(bytes, kFull, kBroken), "fuzz target failed");

  const ManagerInput input = decode_manager_input(bytes, kFull);
  Counts counts;
  const auto found = run_manager_input(input, kBroken, counts);
  const auto file = write_fuzz_trace(input, kBroken, folder_);
  ASSERT_TRUE(file.has_value());
  TraceHeader header;
  std::vector<Operation> trace;
  std::ifstream in(*file);
  for (std::string text; std::getline(in, text);) {
    const TraceLine line = parse_trace_line(text);
    if (line.kind == TraceLine::Kind::header) header = line.header;
    if (line.kind == TraceLine::Kind::operation) trace.push_back(line.operation);
  }
  EXPECT_EQ(header.subject, "B004");
  EXPECT_LE(trace.size(), 25U);
  const auto again = run_trace(kBroken.make, header.config, trace, {});
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->breaches.front(), found->breaches.front());
  EXPECT_FALSE(run_trace(kSound.make, header.config, trace, {}).has_value());
}

TEST_F(FuzzedManager, SoundAllocatorsHold) {
  Counts counts;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const auto plain = decode_manager_input(random_bytes(seed), kFull);
    const auto failure = run_manager_input(plain, kSound, counts);
    EXPECT_FALSE(failure.has_value()) << "seed " << seed << ": " << failure->text;
  }
  const ManagerInput input = decode_manager_input(random_bytes(1), FuzzScope::all_others);
  EXPECT_EQ(write_fuzz_trace(input, fuzzed_optimized(), folder_), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder_)) << "an input that holds left a file";
}

/// Dies in the second release of a request's blocks.
class Mortal final : public Subject {
 public:
  explicit Mortal(std::unique_ptr<Subject> inner) : inner_(std::move(inner)) {}
  Outcome apply(const Operation& operation) override {
    if (std::holds_alternative<op::Free>(operation) && ++frees_ == 2) std::abort();
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override { inner_->observe(snapshot); }

 private:
  std::unique_ptr<Subject> inner_;
  int frees_ = 0;
};

TEST_F(FuzzedManager, WhatKillsTheProcessBecomesATraceToo) {
  const FuzzedSubject mortal{"mortal", [](const CacheConfig& config) {
                               return std::make_unique<Mortal>(fuzzed_optimized().make(config));
                             }};
  std::optional<fs::path> file;
  for (std::uint64_t seed = 0; seed < 100 && !file; ++seed) {
    file = write_fuzz_trace(decode_manager_input(random_bytes(seed), kFull), mortal, folder_);
  }
  ASSERT_TRUE(file.has_value());
  std::vector<TraceLine> lines;
  std::ifstream in(*file);
  for (std::string text; std::getline(in, text);) lines.push_back(parse_trace_line(text));
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines.front().header.name, "died");
  EXPECT_EQ(lines.back().kind, TraceLine::Kind::end);
  const auto is_free = [](const TraceLine& x) {
    return x.kind == TraceLine::Kind::operation && std::holds_alternative<op::Free>(x.operation);
  };
  EXPECT_EQ(std::ranges::count_if(lines, is_free), 2);
  EXPECT_TRUE(is_free(lines[lines.size() - 2])) << "it goes on after the end";
}

TEST(ManagerInput, TheFirstByteReachesEveryConfigurationUnderEveryProfile) {
  std::set<std::pair<const Configuration*, const Profile*>> reached;
  for (const FuzzScope scope : {kFull, FuzzScope::all_others}) {
    for (unsigned first = 0; first < 256; ++first) {
      const Bytes bytes{static_cast<std::uint8_t>(first)};
      const ManagerInput input = decode_manager_input(bytes, scope);
      reached.insert({input.configuration, input.profile});
    }
  }
  EXPECT_EQ(reached.size(), std::size(kConfigurations) * std::size(kProfiles));
}

TEST(ManagerInput, TwoBytesAreAnOperationAndTheyDecideItsKind) {
  Bytes bytes(5 + 2 * 7);
  EXPECT_EQ(decode_manager_input(bytes, kFull).run.choices, std::vector<Choice>(7, 0));
  bytes[5] = 0x34;
  bytes[6] = 0x12;
  const Choice first = decode_manager_input(bytes, kFull).run.choices.front();
  EXPECT_EQ(first & 0xffff, 0x1234U);
  EXPECT_NE(first >> 16, 0U) << "nothing is left for the rest of the operation";
  bytes.resize(5 + 2 * (kMostFuzzedOperations + 9));
  EXPECT_EQ(decode_manager_input(bytes, kFull).run.choices.size(), kMostFuzzedOperations);
}

// The figure that the corpus is held to: inputs long enough to reach states worth auditing.
TEST(Corpus, ManagerInputsPerformAtLeast16OperationsOnAverage) {
  const fs::path corpus = fs::path(KVPROOF_SOURCE_DIR) / "properties/sources/fuzz/corpus";
  for (const char* target : {"full", "hybrid"}) {
    std::uint64_t inputs = 0;
    Counts counts;
    for (const auto& entry : fs::directory_iterator(corpus / target)) {
      std::ifstream in(entry.path(), std::ios::binary);
      const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
      const FuzzScope scope = target == std::string("full") ? kFull : FuzzScope::all_others;
      const auto input = decode_manager_input(bytes, scope);
      EXPECT_FALSE(run_manager_input(input, fuzzed_optimized(), counts).has_value());
      ++inputs;
    }
    EXPECT_GE(counts.operations, 16 * inputs) << target;
    EXPECT_GT(inputs, 20U) << target;
    // What no input of it reaches, the corpus says nothing about.
    EXPECT_GT(counts.hits, 0U);
    EXPECT_GT(counts.evictions, 0U);
    EXPECT_GT(counts.revivals, 0U);
    EXPECT_GT(counts.refusals, 0U);
    EXPECT_GT(counts.preemptions, 0U);
    EXPECT_GT(counts.copies, 0U);
    EXPECT_GT(counts.swaps, 0U);
    EXPECT_GT(counts.failed_swaps, 0U);
  }
}

/// Random bytes until something is wrong.
void hunt(Runner& runner) {
  for (std::uint64_t seed = 0; seed < kInputs && runner.whole(); ++seed) {
    run_history_input(runner, random_bytes(seed));
  }
}

TEST(HistoryInput, InterruptsThreadsAndASoundPoolHolds) {
  Runner runner(tested_pool("sound"));
  hunt(runner);
  EXPECT_EQ(runner.complaint, "");
  EXPECT_EQ(runner.num_runs, kInputs);
  EXPECT_GT(runner.num_overlapping, kInputs / 2);
}

TEST(HistoryInput, APoolThatPublishesBeforeItWritesIsNoticed) {
  Runner runner(tested_pool("B137 published before written"));
  hunt(runner);
  EXPECT_NE(runner.complaint, "");
  EXPECT_LT(runner.num_runs, 1000U) << "almost everything hides it";
}

TEST(HistoryInput, WithoutBytesNobodyIsInterrupted) {
  Runner runner(tested_pool("sound"));
  run_history_input(runner, Bytes{1, 2, 3, 4});
  EXPECT_EQ(runner.num_overlapping, 0U);
}

}  // namespace
}  // namespace kvproof::properties
