// SPDX-License-Identifier: Apache-2.0
// What the compiler takes for an id, and what it refuses; and the identities of prefixes.
#include "reference/ids.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "reference/identity.h"

namespace kvproof {
namespace {

template <class From, class To>
inline constexpr bool kConverts = std::is_convertible_v<From, To>;

static_assert(!kConverts<GroupId, BlockId> && !std::is_constructible_v<BlockId, GroupId>);
static_assert(!kConverts<RequestId, LeaseId> && !std::is_constructible_v<LeaseId, RequestId>);
static_assert(!std::is_assignable_v<BlockId&, RequestId>);

// An integer that is known at run time says what it is; a signed one says first that it is none.
static_assert(!kConverts<std::uint32_t, BlockId> && std::is_constructible_v<BlockId, std::size_t>);
static_assert(!kConverts<std::int64_t, BlockId> && !std::is_constructible_v<BlockId, std::int64_t>);
static_assert(kConverts<BlockId, std::uint32_t>);

// Tables of ids are copied as bytes, and lie in memory that nobody constructs.
static_assert(sizeof(BlockId) == 4 && alignof(BlockId) == 4);
static_assert(std::is_trivially_copyable_v<BlockId> && std::is_trivially_destructible_v<BlockId>);

template <class Left, class Right>
concept comparable = requires(Left a, Right b) {
  a == b;
}
|| requires(Left a, Right b) { a < b; };
static_assert(comparable<BlockId, BlockId> && comparable<BlockId, std::uint32_t>);
static_assert(!comparable<BlockId, GroupId> && !comparable<LeaseId, RequestId>);

// Recorded: what a device keeps in its slots is compared with what the host computed.
constexpr Identity kSeven = link(kEmptyPrefix, TokenId{7});
static_assert(kSeven == 0x43dec8be6926a4de && in_group(kSeven, 0) == kSeven);
static_assert(link(kSeven, TokenId{-1}) == 0x6778882a31a009b4);
static_assert(in_group(kEmptyPrefix, 1) == 0xb4b2be246b16c84a);
static_assert(link(link(kEmptyPrefix, TokenId{1}), TokenId{7}) != link(kSeven, TokenId{1}));
// None is one of the marks.
static_assert(link(0, ~std::uint64_t{0}) == kFewest && in_group(mix64(5) ^ kFailed, 5) > kFailed);

TEST(Ids, AConstantIsOneAndItIndexesAnArray) {
  const std::vector<BlockId> table{3, kNullBlock, 1};
  GroupId group = 0;
  EXPECT_EQ(table[group], 3U);
  EXPECT_EQ(table[++group], kNullBlock);
  EXPECT_LT(table[1], table[2]);
  EXPECT_EQ((std::unordered_set<BlockId>(table.begin(), table.end()).size()), 3U);
}

}  // namespace
}  // namespace kvproof
