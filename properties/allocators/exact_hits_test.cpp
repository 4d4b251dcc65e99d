// SPDX-License-Identifier: Apache-2.0
// A hash of four bits: without the exact check it serves wrong content, with the check it never
// does; and with a good hash the check changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "optimized/cache_manager.h"
#include "reference/cache_manager.h"

namespace kvproof::optimized {
namespace {

constexpr std::uint32_t kBlockSize = 2;

CacheConfig small_pool() {
  CacheConfig out;
  out.num_blocks = 24;
  out.max_model_len = 32;
  out.hash_block_size = kBlockSize;
  out.groups = {{.block_size = kBlockSize}};
  return out;
}

/// What happened in a run: hits, and those of them whose block holds another prefix.
struct Served {
  std::uint32_t hits = 0;
  std::uint32_t wrong = 0;
};

/// Requests that come, look up, are admitted and finish; beside the manager, what was written.
template <class Digest>
class Serving {
 public:
  explicit Serving(bool exact_hits)
      : manager_(small_pool(), {.max_requests = 4, .exact_hits = exact_hits}) {}

  Served run(std::uint64_t seed, std::uint32_t requests) {
    std::mt19937_64 random(seed);
    for (std::uint32_t n = 0; n < requests; ++n) {
      ExtraKeys extra;
      if (random() % 3 == 0) extra.lora = "a";
      std::vector<TokenId> tokens(1 + random() % 12);
      for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 3);
      serve(tokens, extra);
    }
    return served_;
  }

 private:
  struct Written {
    std::vector<TokenId> prefix;
    std::string lora;
    bool operator==(const Written&) const = default;
  };

  void serve(const std::vector<TokenId>& tokens, const ExtraKeys& extra) {
    if (live_.size() == 3) {
      manager_.finish(live_.front());
      live_.erase(live_.begin());
    }
    const RequestId id = manager_.arrive({.tokens = tokens, .extra = &extra});
    live_.push_back(id);
    const std::uint32_t hit = manager_.lookup(id);
    const auto blocks = manager_.hit_blocks(id);
    const auto expected = [&](std::size_t i) {
      const auto end = tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * kBlockSize);
      return Written{{tokens.begin(), std::min(end, tokens.end())}, extra.lora};
    };
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      ++served_.hits;
      served_.wrong += written_[blocks[i]] == expected(i) ? 0 : 1;
    }
    const auto rest = static_cast<std::uint32_t>(tokens.size()) - hit;
    if (!manager_.allocate(id, {.new_tokens = rest, .use_lookup = true})) return;
    manager_.advance(id, static_cast<std::uint32_t>(tokens.size()));
    const auto table = manager_.table(id);
    for (std::size_t i = hit / kBlockSize; i < table.size(); ++i) written_[table[i]] = expected(i);
  }

  CacheManager<Digest> manager_;
  std::map<BlockId, Written> written_;
  std::vector<RequestId> live_;
  Served served_;
};

TEST(ExactHits, AHashOfFourBitsServesWrongContentWithoutThem) {
  const Served served = Serving<WeakDigest>(false).run(1, 2'000);
  EXPECT_GT(served.wrong, 0U) << "or the test would not notice";
}

TEST(ExactHits, NoCollisionServesWrongContent) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Served served = Serving<WeakDigest>(true).run(seed, 2'000);
    EXPECT_EQ(served.wrong, 0U) << "seed " << seed;
    EXPECT_GT(served.hits, 500U) << "seed " << seed;
  }
}

// The parent publishes the block that both hold and leaves; the child writes it anew. Where their
// keys collide, the parent's content is gone all the same.
TEST(ExactHits, AForkForgetsWhatItsRelativePublishedUnderTheSameKey) {
  for (TokenId token = 1; token < 200; ++token) {
    CacheManager<WeakDigest> manager(small_pool(), {.max_requests = 3, .exact_hits = true});
    const auto parent = manager.arrive({.tokens = std::vector<TokenId>{7}});
    ASSERT_TRUE(manager.allocate(parent, {.new_tokens = 2}));
    const auto child = manager.fork(parent);
    manager.append(parent, std::vector<TokenId>{0});
    manager.append(child, std::vector<TokenId>{token});
    manager.cache(parent, 2);
    manager.finish(parent);
    ASSERT_TRUE(manager.allocate(child, {.new_tokens = 2}));
    const auto again = manager.arrive({.tokens = std::vector<TokenId>{7, 0, 0}});
    EXPECT_EQ(manager.lookup(again), 0U) << "the child wrote " << token << " into that block";
  }
}

// The same over two blocks, of which the second has the same tokens in both.
TEST(ExactHits, AForkForgetsWhatStandsBehindAForgottenBlock) {
  for (TokenId token = 1; token < 200; ++token) {
    CacheManager<WeakDigest> manager(small_pool(), {.max_requests = 3, .exact_hits = true});
    const auto parent = manager.arrive({.tokens = std::vector<TokenId>{7}});
    ASSERT_TRUE(manager.allocate(parent, {.new_tokens = 4}));
    const auto child = manager.fork(parent);
    manager.append(parent, std::vector<TokenId>{0, 1, 2});
    manager.append(child, std::vector<TokenId>{token, 1, 2});
    manager.cache(parent, 4);
    manager.finish(parent);
    ASSERT_TRUE(manager.allocate(child, {.new_tokens = 4, .delay_cache = true}));
    EXPECT_FALSE(manager.pool().hashed(manager.table(child)[0])) << token;
    EXPECT_FALSE(manager.pool().hashed(manager.table(child)[1])) << token;
  }
}

TEST(ExactHits, ChangeNothingWhereNothingCollides) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Served without = Serving<Xxh3Digest>(false).run(seed, 2'000);
    const Served with = Serving<Xxh3Digest>(true).run(seed, 2'000);
    EXPECT_EQ(without.wrong, 0U);
    EXPECT_EQ(with.wrong, 0U);
    EXPECT_EQ(with.hits, without.hits) << "seed " << seed;
  }
}

TEST(ExactHits, AreRefusedWhereTheBlockBeforeIsNotAtHand) {
  CacheConfig hybrid = small_pool();
  hybrid.groups.push_back(
      {.kind = LayerKind::sliding_window, .block_size = kBlockSize, .window = 4});
  EXPECT_THROW(CacheManager<Xxh3Digest>(hybrid, {.exact_hits = true}), std::invalid_argument);
  CacheConfig tiered = small_pool();
  tiered.num_host_blocks = 4;
  EXPECT_THROW(CacheManager<Xxh3Digest>(tiered, {.exact_hits = true}), std::invalid_argument);
}

}  // namespace
}  // namespace kvproof::optimized
