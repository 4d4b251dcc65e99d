// SPDX-License-Identifier: Apache-2.0
// Block ids become tokens so that equal tokens mean equal ids, and nothing else is equal.
#include "bench/requests/tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace kvproof::bench {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::uint64_t kLargestId = std::numeric_limits<std::uint64_t>::max();

Request request_of(std::uint64_t index, std::int64_t input_tokens,
                   std::vector<std::uint64_t> block_ids) {
  return {index, 0, input_tokens, 1, std::move(block_ids)};
}

SourceInfo info_of(std::int64_t ids_block_size, bool partial_tail) {
  return {"test", "workload", ids_block_size, partial_tail};
}

Tokens tokens_of(const Request& request, const SourceInfo& info,
                 TokenMode mode = TokenMode::as_recorded) {
  Tokens tokens(3, 99);  // what was there before does not matter
  fill_tokens(request, info, tokens, mode);
  return tokens;
}

TEST(RequestTokens, SpellEachIdByItsHalves) {
  const Request request = request_of(0, 7, {0x0000000500000002, kLargestId});
  EXPECT_EQ(tokens_of(request, info_of(4, true)), (Tokens{2, 5, 2, 5, -1, -1, -1}));
  EXPECT_EQ(tokens_of(request, info_of(5, true)), (Tokens{2, 5, 2, 5, 2, -1, -1}));
}

TEST(RequestTokens, TellAllIdsApartInBlocksOfTwoAndMore) {
  std::vector<std::uint64_t> ids = {0, kLargestId};
  for (int bit = 0; bit < 64; ++bit) {
    ids.push_back(std::uint64_t{1} << bit);
    ids.push_back(~(std::uint64_t{1} << bit));
  }
  for (const std::int64_t block : {2, 3, 16, 512}) {
    std::map<Tokens, std::uint64_t> seen;
    for (const std::uint64_t id : ids) {
      const Tokens tokens = tokens_of(request_of(0, block, {id}), info_of(block, true));
      ASSERT_EQ(tokens.size(), static_cast<std::size_t>(block));
      EXPECT_TRUE(seen.emplace(tokens, id).second) << id << " and " << seen[tokens];
    }
  }
}

TEST(RequestTokens, SharePrefixesExactlyAsFarAsTheIdsDo) {
  const SourceInfo info = info_of(512, true);
  const Tokens a = tokens_of(request_of(0, 1400, {0, 1, 2}), info);
  const Tokens b = tokens_of(request_of(1, 1536, {0, 1, 3}), info);
  ASSERT_EQ(a.size(), 1400U);
  ASSERT_EQ(b.size(), 1536U);
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  EXPECT_EQ(differ.first - a.begin(), 1024);
}

TEST(RequestTokens, GiveTheTokensWithoutAnIdToTheirRequestAlone) {
  const SourceInfo info = info_of(16, false);
  const Tokens a = tokens_of(request_of(4, 20, {7}), info);
  const Tokens b = tokens_of(request_of(5, 20, {7}), info);
  ASSERT_EQ(a.size(), 20U);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 16, b.begin()));
  EXPECT_NE(a[16], b[16]);
  EXPECT_NE(a[16], 7);
}

TEST(RequestTokens, MakeEveryRequestOfASourceWithoutIdsUnique) {
  const SourceInfo info = info_of(0, false);
  for (const TokenMode mode : {TokenMode::as_recorded, TokenMode::whole_blocks}) {
    const Tokens a = tokens_of(request_of(0, 100, {}), info, mode);
    const Tokens b = tokens_of(request_of(1, 100, {}), info, mode);
    ASSERT_EQ(a.size(), 100U);
    EXPECT_NE(a[0], b[0]);
  }
  EXPECT_TRUE(tokens_of(request_of(0, 0, {}), info).empty());
}

TEST(RequestTokens, FillWholeBlocksAndOneTokenMore) {
  const SourceInfo info = info_of(4, true);
  const Tokens a = tokens_of(request_of(0, 5, {8, 9}), info, TokenMode::whole_blocks);
  const Tokens b = tokens_of(request_of(1, 5, {8, 9}), info, TokenMode::whole_blocks);
  ASSERT_EQ(a.size(), 9U);
  EXPECT_EQ((Tokens(a.begin(), a.end() - 1)), (Tokens{8, 0, 8, 0, 9, 0, 9, 0}));
  EXPECT_TRUE(std::equal(a.begin(), a.end() - 1, b.begin()));
  EXPECT_NE(a.back(), b.back());
}

}  // namespace
}  // namespace kvproof::bench
