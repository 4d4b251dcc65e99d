// SPDX-License-Identifier: Apache-2.0
// Histories of the concurrent pool under schedules that a seed decides, and under all schedules
// with few preemptions; and broken pools, which must be rejected under them.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/history_fibers.h"
#include "optimized/concurrent/checks/history_reports.h"
#include "optimized/concurrent/checks/scheduled_pool.h"

namespace kvproof::properties::concurrency {
namespace {

using Key = optimized::Key128;
using Holders = Interrupted<optimized::AtomicHolders>;
using WholePool = optimized::ScheduledPool<Key, Holders>;

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

TEST(ScheduledHistories, TheSameSeedGivesTheSameRun) {
  const auto drawn = [](std::uint64_t seed) {
    HistoryFibers fibers(make_pool<WholePool>);
    fibers.run_random(seed);
    return draw(fibers.last, {});
  };
  for (std::uint64_t seed = 1; seed <= 50; ++seed) EXPECT_EQ(drawn(seed), drawn(seed));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(ScheduledHistories, AreLinearizable) {
  const HistorySettings settings = history_settings();
  const Stopwatch watch;
  HistoryFibers fibers(make_pool<WholePool>);
  for (std::uint64_t i = 0; i < settings.num_histories && fibers.report.complaint.empty(); ++i) {
    fibers.run_random(settings.seed + i);
  }
  print("random schedules", settings.seed, fibers.report, watch.seconds());
  EXPECT_EQ(fibers.report.complaint, "") << again(fibers.report.bad_seed);
  expect_busy(fibers.report);
}

TEST(ScheduledHistories, AreLinearizableUnderEveryScheduleWithThreePreemptions) {
  const HistorySettings settings = history_settings();
  const Stopwatch watch;
  HistoryFibers fibers(make_pool<WholePool>);
  const std::uint64_t num_programs = settings.num_histories / 100;
  for (std::uint64_t i = 0; i < num_programs && fibers.report.complaint.empty(); ++i) {
    fibers.run_every(settings.seed + i, 3);
  }
  std::printf("%llu programs; ", static_cast<unsigned long long>(num_programs));
  print("every schedule with 3 preemptions", settings.seed, fibers.report, watch.seconds());
  EXPECT_EQ(fibers.report.complaint, "") << again(fibers.report.bad_seed);
  expect_busy(fibers.report);
}

/// Histories until one is rejected; in a process of its own, because a broken pool may take it
/// down.
template <class Pool>
[[noreturn]] void hunt(const char* name, bool readers_lock = true) {
  optimized::ScheduledLock::readers_lock = readers_lock;
  HistoryFibers fibers(make_pool<Pool>);
  for (std::uint64_t seed = 1; seed <= kMostHuntedHistories; ++seed) {
    fibers.run_random(seed);
    if (!fibers.report.complaint.empty()) break;
  }
  end_hunt(name, fibers.report);
}

constexpr std::uint32_t kCount = optimized::HolderWord::kCount;

TEST(ScheduledBrokenPool, ThatCountsInThreeStepsIsRejected) {
  using Torn = Interrupted<TornHolders<optimized::AtomicHolders, kCount>>;
  EXPECT_REJECTED(hunt<optimized::ScheduledPool<Key, Torn>>("torn counts"));
}
TEST(ScheduledBrokenPool, WhoseLookupHoldsABlockBeingTakenIsRejected) {
  using Blind = Interrupted<BlindHolders<optimized::AtomicHolders>>;
  EXPECT_REJECTED(hunt<optimized::ScheduledPool<Key, Blind>>("blind lookup"));
}
TEST(ScheduledBrokenPool, B132ALockPerCallIsRejected) {
  EXPECT_REJECTED(hunt<TakesOneByOne<WholePool>>("B132 lock per call"));
}
TEST(ScheduledBrokenPool, ThatReleasesOneByOneIsRejected) {
  EXPECT_REJECTED(hunt<ReleasesOneByOne<WholePool>>("a section per released block"));
}
TEST(ScheduledBrokenPool, B132AReferenceThatOutlivesTheLockIsRejected) {
  EXPECT_REJECTED(hunt<TakesWhatWasTheHead<WholePool>>("B132 reference outlives the lock"));
}
TEST(ScheduledBrokenPool, B133AcquireWithoutTheExpectedKeyIsRejected) {
  EXPECT_REJECTED(hunt<AcquiresAnyContent<WholePool, Key>>("B133 acquire checks presence"));
}
TEST(ScheduledBrokenPool, B136CreateOrGetInTwoStepsIsRejected) {
  EXPECT_REJECTED(hunt<CreatesWithoutLookingAgain<WholePool, Key>>("B136 get, create, put"));
}
TEST(ScheduledBrokenPool, B137PublishedBeforeWrittenIsRejected) {
  EXPECT_REJECTED(hunt<PublishesBeforeWriting<WholePool, Key>>("B137 publish first"));
}
TEST(ScheduledBrokenPool, WhoseReadersDoNotLockIsRejected) {
  EXPECT_REJECTED(hunt<WholePool>("readers do not lock", /*readers_lock=*/false));
}

}  // namespace
}  // namespace kvproof::properties::concurrency
