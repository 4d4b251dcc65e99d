// SPDX-License-Identifier: Apache-2.0
// How long blocks lived and lay idle, on a script whose answers are known.
#include <gtest/gtest.h>

#include <initializer_list>

#include "optimized/cache_manager.h"
#include "properties/sources/random/ways.h"

namespace kvproof::properties {
namespace {

using Fast = optimized::CacheManager<optimized::Xxh3Digest>;
using Buckets = StepBuckets;

Buckets buckets(std::initializer_list<std::size_t> filled) {
  Buckets out{};
  for (const std::size_t k : filled) ++out[k];
  return out;
}

class Clock {
 public:
  explicit Clock(Fast& manager) : manager_(manager) {}
  void wait(int steps) {
    for (; steps > 0; --steps) manager_.start_step();
  }
  RequestId admit(const std::vector<TokenId>& tokens) {
    const auto id = manager_.arrive({.tokens = tokens});
    const std::uint32_t hit = manager_.lookup(id);
    const auto rest = static_cast<std::uint32_t>(tokens.size()) - hit;
    EXPECT_TRUE(manager_.allocate(id, {.new_tokens = rest, .use_lookup = true}));
    manager_.advance(id, static_cast<std::uint32_t>(tokens.size()));
    return id;
  }

 private:
  Fast& manager_;
};

TEST(Residency, AScriptFillsTheBucketsThatItMust) {
  Fast manager(pool(3, {full(4)}), {.max_requests = 4, .residency = true});
  Clock clock(manager);
  const auto& residency = manager.pool().residency();
  clock.wait(5);
  const auto a = clock.admit(range(0, 8));  // blocks 1 and 2
  clock.wait(3);
  manager.finish(a);
  clock.wait(4);
  const auto b = clock.admit(range(100, 4));  // takes 2: lived 7 steps, idle for 4
  EXPECT_EQ(residency.lifetime().buckets(), buckets({3}));
  EXPECT_EQ(residency.idle().buckets(), buckets({3}));
  clock.wait(1);
  manager.finish(b);
  const auto c = clock.admit(range(0, 5));  // revives 1, takes 2: lived 1 step, idle for none
  EXPECT_EQ(residency.lifetime().buckets(), buckets({3, 1}));
  EXPECT_EQ(residency.idle().buckets(), buckets({3, 0}));
  clock.wait(16);
  manager.finish(c);
  clock.wait(9);
  clock.admit(range(200, 8));  // takes 2, which had no content, and 1: lived 33 steps, idle for 9
  EXPECT_EQ(residency.lifetime().buckets(), buckets({3, 1, 6}));
  EXPECT_EQ(residency.idle().buckets(), buckets({3, 0, 4}));
  EXPECT_EQ(manager.counters().evictions, 3U);
  EXPECT_EQ(manager.counters().revivals, 1U);
}

TEST(Residency, BucketKEndsBelowTwoToTheK) {
  optimized::StepHistogram histogram;
  for (const std::uint32_t steps : {0U, 1U, 2U, 3U, 4U, 7U, 8U, 0xffffffffU}) histogram.add(steps);
  EXPECT_EQ(histogram.buckets(), buckets({0, 1, 2, 2, 3, 3, 4, 32}));
}

TEST(Residency, IsOffUnlessAskedFor) {
  Fast manager(pool(3, {full(4)}), {.max_requests = 4});
  Clock clock(manager);
  manager.finish(clock.admit(range(0, 8)));
  clock.admit(range(100, 8));
  EXPECT_EQ(manager.counters().evictions, 2U);
  EXPECT_EQ(manager.pool().residency().lifetime().buckets(), Buckets{});
  EXPECT_EQ(manager.pool().residency().bytes(), 0U);
}

}  // namespace
}  // namespace kvproof::properties
