// SPDX-License-Identifier: Apache-2.0
// Histories of the concurrent pool on real threads, and of broken pools, which must be rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/history_reports.h"
#include "optimized/concurrent/checks/history_threads.h"
#include "optimized/concurrent/checks/sanitizer.h"
#include "optimized/concurrent/concurrent_pool.h"

namespace kvproof::properties::concurrency {
namespace {

using Key = optimized::Key128;
using ShippedPool = optimized::ConcurrentPool<Key>;
using Holders = Interrupted<optimized::AtomicHolders>;
using InterruptedPool = optimized::ConcurrentPool<Key, Holders>;

class Histories : public testing::TestWithParam<std::uint32_t> {
 protected:
  template <class Pool>
  void check(const char* what, std::uint64_t num_histories) {
    const HistorySettings settings = history_settings();
    const Stopwatch watch;
    const HistoryReport report =
        run_on_threads(make_pool<Pool>, settings.seed, num_histories, GetParam());
    std::printf("%u threads, ", GetParam());
    print(what, settings.seed, report, watch.seconds());
    EXPECT_EQ(report.complaint, "") << again(report.bad_seed);
    expect_busy(report);
  }
};

TEST_P(Histories, OfThePoolAsItShipsAreLinearizable) {
  check<ShippedPool>("as it ships", history_settings().num_histories / 4);
}

TEST_P(Histories, OfThePoolInterruptedAreLinearizable) {
  check<InterruptedPool>("interrupted", history_settings().num_histories / 4);
}

INSTANTIATE_TEST_SUITE_P(Threads, Histories, testing::Values(2U, 3U, 4U));

template <class Pool>
[[noreturn]] void hunt(const char* name) {
  end_hunt(name, run_on_threads(make_pool<Pool>, 1, kMostHuntedHistories, 3));
}

class BrokenPool : public testing::Test {
 protected:
  void SetUp() override {
    if (kUnderThreadSanitizer) {
      GTEST_SKIP() << "ThreadSanitizer ends a broken pool before the checks can";
    }
  }
};

constexpr std::uint32_t kCount = optimized::HolderWord::kCount;

TEST_F(BrokenPool, ThatCountsInThreeStepsIsRejected) {
  using Torn = Interrupted<TornHolders<optimized::AtomicHolders, kCount>>;
  EXPECT_REJECTED(hunt<optimized::ConcurrentPool<Key, Torn>>("torn counts"));
}
TEST_F(BrokenPool, WhoseLookupHoldsABlockBeingTakenIsRejected) {
  using Blind = Interrupted<BlindHolders<optimized::AtomicHolders>>;
  EXPECT_REJECTED(hunt<optimized::ConcurrentPool<Key, Blind>>("blind lookup"));
}
TEST_F(BrokenPool, B132ALockPerCallIsRejected) {
  EXPECT_REJECTED(hunt<TakesOneByOne<InterruptedPool>>("B132 lock per call"));
}
TEST_F(BrokenPool, ThatReleasesOneByOneIsRejected) {
  EXPECT_REJECTED(hunt<ReleasesOneByOne<InterruptedPool>>("a section per released block"));
}
TEST_F(BrokenPool, B132AReferenceThatOutlivesTheLockIsRejected) {
  EXPECT_REJECTED(hunt<TakesWhatWasTheHead<InterruptedPool>>("B132 reference outlives the lock"));
}
TEST_F(BrokenPool, B133AcquireWithoutTheExpectedKeyIsRejected) {
  EXPECT_REJECTED(hunt<AcquiresAnyContent<InterruptedPool, Key>>("B133 acquire checks presence"));
}
TEST_F(BrokenPool, B136CreateOrGetInTwoStepsIsRejected) {
  EXPECT_REJECTED(hunt<CreatesWithoutLookingAgain<InterruptedPool, Key>>("B136 get, create, put"));
}
TEST_F(BrokenPool, B137PublishedBeforeWrittenIsRejected) {
  EXPECT_REJECTED(hunt<PublishesBeforeWriting<InterruptedPool, Key>>("B137 publish first"));
}

}  // namespace
}  // namespace kvproof::properties::concurrency
