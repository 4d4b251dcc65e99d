// SPDX-License-Identifier: Apache-2.0
// The request table: handles, memory, hashes.
#include "optimized/manager/requests.h"

#include <gtest/gtest.h>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

using properties::counted_tokens;
using properties::small_config;

struct RequestTableTest : testing::Test {
  CacheConfig config = small_config();
  std::vector<LayerGroup<Key128>> groups = make_groups<Key128>(config);
  RequestTable<Xxh3Digest> requests{config, groups, 2, 0};

  /// A request with that many tokens, hashed.
  RequestId open(std::size_t count) {
    const auto tokens = counted_tokens(count);
    const RequestId id = requests.open({.tokens = tokens});
    if (requests.num_tokens(id) >= requests[id].next_unit_end) requests.hash_units(id);
    return id;
  }
};

TEST_F(RequestTableTest, HashesTheUnitsThatAreComplete) {
  const RequestId id = open(10);
  EXPECT_EQ(requests[id].num_hashes, 2U);
  EXPECT_EQ(requests[id].next_unit_end, 12U);
  const TokenId ten = 10;
  EXPECT_FALSE(requests.append(id, {&ten, 1}));
  const TokenId eleven = 11;
  EXPECT_TRUE(requests.append(id, {&eleven, 1})) << "a unit is complete";
  const auto next = requests.hash_units(id);
  EXPECT_EQ(next.size(), 1U);
  EXPECT_EQ(next.data(), &requests[id].hashes[2]);
  EXPECT_EQ(requests[id].num_hashes, 3U);
  EXPECT_EQ(requests[id].next_unit_end, 16U);
  const Key128 by_steps = requests[id].hashes[2];
  const RequestId other = open(12);
  EXPECT_EQ(requests[other].hashes[2], by_steps);
  requests.append(id, counted_tokens(8));
  const auto two = requests.hash_units(id);
  EXPECT_EQ(two.size(), 2U);
  EXPECT_EQ(two.data(), &requests[id].hashes[3]);
}

TEST_F(RequestTableTest, GivesAHandleAgainWithItsMemory) {
  const RequestId one = open(8);
  open(8);
  EXPECT_THROW(open(1), ContractViolation) << "two requests are known already";
  const std::uint64_t bytes = requests.bytes();
  requests.close(one);
  EXPECT_EQ(requests.num_live(), 1U);
  EXPECT_THROW(static_cast<void>(requests.live(one)), ContractViolation);
  EXPECT_EQ(open(8), one);
  EXPECT_EQ(requests.bytes(), bytes);
}

TEST_F(RequestTableTest, RefusesTokensBeyondTheRoom) {
  const auto tokens = counted_tokens(4);
  const RequestId id = requests.open({.tokens = tokens, .max_tokens = 6});
  EXPECT_THROW(requests.append(id, tokens), ContractViolation);
  EXPECT_EQ(requests.num_tokens(id), 4U);
  EXPECT_THROW(open(65), ContractViolation) << "beyond max_model_len";
}

TEST_F(RequestTableTest, ACloneHasTokensAndHashesAndNoBlocks) {
  const RequestId parent = open(9);
  requests.tables(parent)->length = 3;
  const RequestId child = requests.clone(parent);
  EXPECT_EQ(requests.num_tokens(child), 9U);
  EXPECT_EQ(requests[child].hashes[1], requests[parent].hashes[1]);
  EXPECT_NE(requests.tokens(child), requests.tokens(parent));
  EXPECT_EQ(requests.tables(child)->length, 0U);
}

}  // namespace
}  // namespace kvproof::optimized
