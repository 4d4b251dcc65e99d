// SPDX-License-Identifier: Apache-2.0
// Runs of the concurrent pool by several threads: histories under schedules that a seed decides,
// under all schedules with few preemptions and on real threads; long runs on real threads; and
// broken pools, which must be rejected by each of these that can. And the checks behind them.
//
// KVPROOF_SEED is the first seed; KVPROOF_HISTORIES how many histories each test checks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <set>
#include <thread>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/run.h"
#include "optimized/concurrent/concurrent_pool.h"
#include "reference/mix64.h"

namespace kvproof::properties::concurrency {
namespace {

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}
std::uint64_t first_seed() { return setting("KVPROOF_SEED", 1); }
std::uint64_t num_histories() {
  return setting("KVPROOF_HISTORIES", KVPROOF_UNDER_ASAN || KVPROOF_UNDER_TSAN ? 2'000 : 20'000);
}

/// Requires that all runs were right, that calls overlapped, and that answers were of every kind.
void expect_whole(const Runner& runner) {
  std::cout << say("seeds from ", first_seed(), ", ", runner.num_runs, " runs, ", runner.num_calls,
                   " calls (", runner.num_overlapping, " overlapping, ", runner.num_hits, " hits, ",
                   runner.num_refused, " refused)\n");
  EXPECT_EQ(runner.complaint, "")
      << "again: KVPROOF_SEED=" << runner.bad_seed << " " << testing::internal::GetArgvs().front()
      << " --gtest_filter="
      << testing::UnitTest::GetInstance()->current_test_info()->test_suite_name() << ".*";
  EXPECT_GE(runner.num_overlapping, runner.num_runs / 20);
  EXPECT_GT(runner.num_hits, runner.num_runs / 4);
  EXPECT_GT(runner.num_refused, runner.num_runs / 4);
}

TEST(Schedule, TriesEveryWay) {
  // Two fibers that write three letters each, with a race point between any two.
  Schedule schedule(2);
  const auto count = [&](std::uint32_t most_preemptions) {
    std::set<std::string> orders;
    std::uint32_t num_runs = 0;
    EveryWay ways(most_preemptions);
    do {
      std::string order;
      const auto body = [&](std::uint32_t fiber) {
        for (int i = 0; i < 3; ++i) {
          if (i > 0) RacePoint::here();
          order += fiber == 0 ? 'a' : 'b';
        }
      };
      EXPECT_TRUE(schedule.run(2, body, [&](std::uint32_t options, bool forced) {
        return ways.choose(options, forced);
      }));
      orders.insert(order);
      ++num_runs;
    } while (ways.next());
    EXPECT_EQ(num_runs, orders.size()) << "a way was tried twice";
    return orders.size();
  };
  EXPECT_EQ(count(0), 2U);    // aaabbb, bbbaaa
  EXPECT_EQ(count(99), 20U);  // 6! / (3! 3!)
  EXPECT_GT(count(1), 2U);
  EXPECT_LT(count(1), 20U);
}

TEST(Schedule, NoticesThatNobodyCanGoOn) {
  Schedule schedule(2);
  const auto body = [](std::uint32_t) {
    for (;;) RacePoint::waits();
  };
  EXPECT_FALSE(schedule.run(2, body, [](std::uint32_t, bool) { return 0U; }));
}

TEST(Fibers, TheSameSeedGivesTheSameRun) {
  const auto drawn = [](std::uint64_t seed) {
    Runner runner(tested_pool("sound"));
    runner.on_random_fibers(seed);
    return draw(runner.last, {});
  };
  for (std::uint64_t seed = 1; seed <= 50; ++seed) EXPECT_EQ(drawn(seed), drawn(seed));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(Fibers, HistoriesAreLinearizable) {
  Runner runner(tested_pool("sound"));
  for (std::uint64_t i = 0; i < num_histories() && runner.whole(); ++i) {
    runner.on_random_fibers(first_seed() + i);
  }
  expect_whole(runner);
}

TEST(Fibers, HistoriesAreLinearizableUnderEveryScheduleWithThreePreemptions) {
  Runner runner(tested_pool("sound"));
  for (std::uint64_t i = 0; i < num_histories() / 100 && runner.whole(); ++i) {
    runner.on_every_schedule(first_seed() + i, 3);
  }
  expect_whole(runner);
}

TEST(Threads, HistoriesAreLinearizable) {
  for (const std::uint32_t num_threads : {2U, 3U, 4U}) {
    Runner runner(tested_pool("sound"));
    runner.on_threads({.seed = first_seed(), .num_threads = num_threads}, num_histories() / 4);
    expect_whole(runner);
  }
}

TEST(Threads, HoldInLongRunsWhatTheyWereGiven) {
  const std::uint32_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (const std::uint32_t num_threads : std::set{1U, 2U, 4U, 8U, cores}) {
    for (const FreeOrder order :
         {FreeOrder::append, FreeOrder::prepend, FreeOrder::unhashed_first}) {
      Runner runner(make_pool<optimized::ConcurrentPool<Key>>);
      runner.on_threads(
          {.seed = first_seed(), .num_threads = num_threads, .num_calls = 30'000, .order = order},
          1);
      expect_whole(runner);
    }
  }
}

/// Runs until one is rejected; in a process of its own, because a broken pool may take it down.
[[noreturn]] void hunt(const PoolRow& row, Rejects source) {
  alarm(3600);  // [s]
  Runner runner(row.make);
  for (std::uint64_t seed = 1; runner.num_runs < 20'000 && runner.whole(); ++seed) {
    if (source == fibers) {
      runner.on_random_fibers(seed);
    } else if (source == threads) {
      runner.on_threads({.seed = 250 * seed, .num_threads = 3}, 250);
    } else {
      runner.on_threads({.seed = seed, .num_threads = 4, .num_calls = 4'000}, 1);
    }
  }
  std::cout << say(row.name, ": rejected by run ", runner.num_runs, "\n") << std::flush;
  std::cerr << (runner.whole() ? "" : "rejected: ") << runner.complaint << "\n";
  std::_Exit(runner.whole() ? 0 : 1);
}

class BrokenPools : public testing::TestWithParam<Rejects> {};

TEST_P(BrokenPools, AreRejected) {
  if (kUnderThreadSanitizer && GetParam() != fibers) {
    GTEST_SKIP() << "ThreadSanitizer ends a broken pool before the checks can";
  }
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const PoolRow& row : tested_pools()) {
    if ((row.rejected_by & GetParam()) == 0) continue;
    EXPECT_EXIT(hunt(row, GetParam()), testing::ExitedWithCode(1), "rejected: ") << row.name;
  }
}

INSTANTIATE_TEST_SUITE_P(FibersThreadsLongRuns, BrokenPools,
                         testing::Values(fibers, threads, long_runs));

}  // namespace
}  // namespace kvproof::properties::concurrency
