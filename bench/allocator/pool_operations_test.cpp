// SPDX-License-Identifier: Apache-2.0
// The measured operations do what they claim, notice when they do not, and can go on for ever.
#include "bench/allocator/pool_operations.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "reference/operations.h"

namespace kvproof::bench {
namespace {

PoolCase small_case(Order order, std::uint64_t seed = 3) {
  return {"test", 1'024, 64, order, seed};
}

template <class Operation>
void run_round(Operation& operation) {
  operation.prepare();
  for (std::uint32_t i = 0; i < operation.calls(); ++i) operation.call(i);
  operation.verify();
  operation.finish();
}

template <class Operation, auto... Arguments>
struct Named {
  static Operation make(Order order, std::uint64_t seed = 3) {
    return Operation(small_case(order, seed), Arguments...);
  }
};

template <class Row>
class PoolOperation : public testing::Test {};

using Rows = testing::Types<Named<TakeRelease>, Named<Touch>, Named<Publish>, Named<Evict>,
                            Named<Lookup, true>, Named<Lookup, false>, Named<EvictBatch>,
                            Named<FreeRequest>, Named<UnitHash<optimized::Xxh3Digest>>,
                            Named<UnitHash<optimized::Sha256Digest>>>;
TYPED_TEST_SUITE(PoolOperation, Rows);

TYPED_TEST(PoolOperation, HoldsItsChecksRoundAfterRound) {
  for (const Order order : {Order::fresh, Order::shuffled}) {
    auto operation = TypeParam::make(order);
    for (int round = 0; round < 40; ++round) {
      run_round(operation);
      ASSERT_NO_THROW(operation.audit()) << "round " << round;
    }
  }
}

TYPED_TEST(PoolOperation, HasAChecksumThatOnlyTheSeedDecides) {
  auto one = TypeParam::make(Order::shuffled);
  auto same = TypeParam::make(Order::shuffled);
  for (int round = 0; round < 3; ++round) {
    run_round(one);
    run_round(same);
  }
  EXPECT_EQ(one.checksum(), same.checksum());
}

template <class Operation>
class PoolOperationEffect : public testing::Test {};

// Not take_release, which leaves no trace, nor lookup_miss, whose effect is none.
using Effects =
    testing::Types<Named<Touch>, Named<Evict>, Named<Publish>, Named<Lookup, true>,
                   Named<EvictBatch>, Named<FreeRequest>, Named<UnitHash<optimized::Xxh3Digest>>>;
TYPED_TEST_SUITE(PoolOperationEffect, Effects);

TYPED_TEST(PoolOperationEffect, IsMissedWhenTheTimedCallsDoNothing) {
  auto operation = TypeParam::make(Order::shuffled);
  run_round(operation);
  operation.prepare();
  EXPECT_THROW(operation.verify(), std::logic_error);
}

TEST(PoolOperationCase, ThatDoesNotFitIsRefused) {
  EXPECT_THROW(EvictBatch({"test", 256, 512, Order::fresh, 1}), std::logic_error);
}

TEST(BareList, VisitsEveryBlockInTurn) {
  const std::vector<BlockId> order = {3, 1, 4, 2, 5};
  BareList list(order);
  std::vector<BlockId> out(2);
  std::vector<BlockId> visited;
  for (int i = 0; i < 5; ++i) {
    list.rotate(out);
    visited.insert(visited.end(), out.begin(), out.end());
  }
  EXPECT_EQ(visited, (std::vector<BlockId>{3, 1, 4, 2, 5, 3, 1, 4, 2, 5}));
}

TEST(PoolChecksum, ChangesWithTheOrderOfTheQueue) {
  Pool forward(8, {.order = FreeOrder::append});
  Pool rotated(8, {.order = FreeOrder::append});
  const std::uint32_t before = pool_checksum(rotated);
  EXPECT_EQ(pool_checksum(forward), before);
  std::vector<BlockId> out(1);
  rotated.take(out);
  rotated.release(out);
  EXPECT_NE(pool_checksum(rotated), before);
}

}  // namespace
}  // namespace kvproof::bench
