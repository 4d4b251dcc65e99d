// SPDX-License-Identifier: Apache-2.0
// A trial tells a survivor from a mutant that is noticed, crashes, hangs or eats memory; the list
// of excuses refuses what names no mutant; a draw is the same for the same seed.
#include "properties/selftest/operators/trials.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

#include "properties/selftest/operators/excuses.h"
#include "reference/support/input_error.h"

namespace kvproof::properties {
namespace {

std::vector<Trial> trials_of(const Judge& judge, std::size_t count) {
  TrialLimits limits;
  limits.silent_seconds = 0.3;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  limits.memory_bytes = 1ULL << 30;
#endif
  std::size_t done = 0;
  std::vector<Trial> out = run_trials(count, limits, judge, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, count);
  return out;
}

TEST(Trials, TellHowAMutantEnded) {
  const auto spin = [](const std::function<void()>& alive) {  // for longer than the limit
    const std::clock_t end = std::clock() + CLOCKS_PER_SEC;
    while (std::clock() < end) alive();
  };
  const Judge judge = [&](std::size_t index, const std::function<void()>& alive) {
    switch (index) {
      case 0: return Trial::survived;
      case 1: return Trial::objected;
      case 2: std::abort();
      case 3: throw std::runtime_error("not caught");
      case 4: spin([] {}); return Trial::survived;
      case 5: return Trial::cannot_tell;
      default: spin(alive); return Trial::objected;
    }
  };
  EXPECT_EQ(trials_of(judge, 7),
            (std::vector{Trial::survived, Trial::objected, Trial::crashed, Trial::crashed,
                         Trial::hung, Trial::cannot_tell, Trial::objected}));
}

TEST(Trials, EndAMutantThatAsksForEndlessMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more addresses than the limit";
#endif
  const Judge judge = [](std::size_t, const std::function<void()>& alive) {
    for (std::vector<std::vector<char>> all;;) {
      all.emplace_back(1 << 20, 'x');
      alive();
    }
    return Trial::survived;
  };
  EXPECT_EQ(trials_of(judge, 1), std::vector{Trial::crashed});
}

constexpr OperatorMutant kRows[] = {
    {1, "0000000a", "pool/a.h", 3, "f", "relational", "< to <=", "return a `<` b", 1},
    {2, "0000000b", "pool/a.h", 9, "f", "relational", "< to <=", "return a `<` b", 2},
    {3, "0000000c", "pool/b.h", 5, "g", "statement", "deleted", "`prefetch(x);`", 1}};

class ExcusesFile : public testing::Test {
 protected:
  ~ExcusesFile() override { std::filesystem::remove(path_); }

  std::map<std::string, std::string> read(const std::string& text) {
    std::ofstream(path_) << text;
    return read_excuses(path_, kRows);
  }
  std::string complaint_of(const std::string& text) {
    try {
      return "none: " + std::to_string(read(text).size());
    } catch (const InputError& error) {
      return std::string(error.what()).substr(path_.size());
    }
  }

  const std::string path_ = testing::TempDir() + "kvproof-excuses-" + std::to_string(getpid());
};

TEST_F(ExcusesFile, NamesMutantsByWhatTheyChange) {
  const auto excuses = read(
      "# remark\n\npool/a.h\tf\t< to <=\treturn a `<` b #2\tthe second\n"
      "pool/b.h\tg\tdeleted\t`prefetch(x);`\tonly time\n");
  EXPECT_EQ(excuses, (std::map<std::string, std::string>{{"0000000b", "the second"},
                                                         {"0000000c", "only time"}}));
  for (const OperatorMutant& row : kRows) {
    EXPECT_EQ(read(excuse_key(row) + "\twhy\n").begin()->first, row.id);
  }
}

TEST_F(ExcusesFile, RefusesStaleRowsTwinsAndRowsWithoutReason) {
  const std::string good = "pool/b.h\tg\tdeleted\t`prefetch(x);`\tonly time\n";
  EXPECT_EQ(complaint_of(good + "pool/b.h\tg\tdeleted\t`prefetch(y);`\tonly time\n"),
            ": line 2: field text: expected a mutant that there is: none has this file, function, "
            "change and text");
  EXPECT_EQ(complaint_of(good + "\n" + good),
            ": line 3: field text: expected a mutant that no line above excuses");
  const std::string columns =
      ": line 1: expected file, function, change, text and reason, divided by tabs";
  EXPECT_EQ(complaint_of("pool/b.h\tg\tdeleted\t`prefetch(x);`\t\n"), columns);
  EXPECT_EQ(complaint_of("pool/b.h\tg\tdeleted\t`prefetch(x);`\n"), columns);
  EXPECT_THROW((void)read_excuses("/no/such/file", kRows), InputError);
}

TEST(DrawMutants, IsTheSameForTheSameSeedAndReachesAll) {
  EXPECT_EQ(draw_mutants(kRows, 2, 7), draw_mutants(kRows, 2, 7));
  EXPECT_EQ(draw_mutants(kRows, 9, 7), (std::vector<std::size_t>{0, 1, 2}));
  std::set<std::size_t> drawn;
  for (std::uint64_t seed = 0; seed < 20; ++seed) drawn.insert(draw_mutants(kRows, 1, seed)[0]);
  EXPECT_EQ(drawn.size(), 3U);
}

}  // namespace
}  // namespace kvproof::properties
