// SPDX-License-Identifier: Apache-2.0
// The keys of the optimized manager tell units apart as the naive one does, which names contents:
// with adapters and their paths, images, rows, salts, and tokens behind a unit that its key covers.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "optimized/manager/requests.h"
#include "properties/allocators/manager/configs.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::optimized {
namespace {

constexpr std::uint32_t kRequests = 500;
constexpr std::uint32_t kLongest = 40;  // [tokens]

/// A configuration of the newest profile: the others have no lookahead.
CacheConfig keyed_config(std::uint32_t unit, std::uint32_t lookahead) {
  CacheConfig out = properties::small_config({{.block_size = unit}});
  out.profile = *find_profile("vllm-0.33");
  out.hash_block_size = unit;
  out.hash_lookahead = lookahead;
  return out;
}

/// Requests from so few texts, places and tokens that many of their units are equal, and many
/// differ in one thing.
class PromptDraw {
 public:
  explicit PromptDraw(std::uint64_t seed) : random_(seed) {}

  std::vector<TokenId> tokens(std::uint32_t most) {
    std::vector<TokenId> out(below(most + 1));
    if (!out.empty() && below(2) == 0) out[below(static_cast<std::uint32_t>(out.size()))] = 1;
    return out;
  }
  ExtraKeys extra() {
    ExtraKeys out;
    if (below(2) == 0) return out;
    out.lora = text(3);
    out.lora_path = text(3);
    out.salt = text(3);
    out.layout = text(6);
    out.mm = items(3);
    out.embeds = items(6);
    return out;
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

 private:
  std::string text(std::uint32_t one_in) {
    static const std::string kTexts[] = {"a", "b", "ab"};
    return below(one_in) == 0 ? kTexts[below(3)] : std::string();
  }
  std::vector<MultimodalItem> items(std::uint32_t one_in) {
    std::vector<MultimodalItem> out;
    if (below(one_in) != 0) return out;
    for (std::uint32_t at = below(6); at < kLongest && out.size() < 3; at += 1 + below(4)) {
      out.push_back({below(2) == 0 ? "a" : "b", at, 1 + below(3)});
      at += out.back().length;
    }
    return out;
  }

  std::mt19937_64 random_;
};

/// Content numbers and keys of the same units.
template <class Key>
struct Correspondence {
  std::map<std::uint64_t, Key> key_of;
  std::map<std::array<std::uint64_t, sizeof(Key) / 8>, std::uint64_t> content_of;
  std::size_t again = 0;  // units that were seen before

  void note(std::uint64_t content, const Key& key) {
    const auto [known, is_new] = key_of.emplace(content, key);
    again += is_new ? 0 : 1;
    EXPECT_EQ(known->second, key) << "equal contents have different keys";
    const auto [owner, is_first] = content_of.emplace(key.words, content);
    EXPECT_EQ(owner->second, content) << "different contents have one key";
  }
};

template <class Digest>
class UnitKeys : public testing::Test {
 protected:
  using Key = typename Digest::Key;

  void compare(std::uint32_t unit, std::uint32_t lookahead) {
    const CacheConfig config = keyed_config(unit, lookahead);
    const std::vector<LayerGroup<Key>> groups = make_groups<Key>(config);
    const auto naive = reference::make_cache_manager(config);
    RequestTable<Digest> requests(config, groups, kRequests, 0);
    PromptDraw draw(unit * 10 + lookahead);
    for (std::uint32_t i = 0; i < kRequests; ++i) {
      const std::vector<TokenId> prompt = draw.tokens(kLongest);
      const ExtraKeys extra = draw.extra();
      naive->apply(op::Arrive{.req = std::to_string(i), .tokens = prompt, .extra = extra});
      const RequestId id = requests.open({.tokens = prompt, .extra = &extra});
      if (requests.num_tokens(id) >= requests[id].next_unit_end) requests.hash_units(id);
      for (std::uint32_t step = draw.below(4); step > 0; --step) {
        const std::vector<TokenId> more = draw.tokens(8);
        naive->apply(op::Append{std::to_string(i), more});
        if (requests.append(id, more)) requests.hash_units(id);
      }
    }
    match(*naive, requests);
  }

 private:
  static void match(const Subject& naive, const RequestTable<Digest>& requests) {
    Snapshot snapshot;
    naive.observe(snapshot);
    ASSERT_EQ(snapshot.requests.size(), kRequests);
    Correspondence<Key> seen;
    for (const RequestState& known : snapshot.requests) {
      const auto& own = requests[RequestId(std::stoul(known.name))];
      ASSERT_EQ(own.num_hashes, known.hashes.size()) << "of request " << known.name;
      for (std::size_t i = 0; i < known.hashes.size(); ++i) {
        seen.note(known.hashes[i], own.hashes[i]);
      }
    }
    EXPECT_GT(seen.key_of.size(), 50U) << "too little differs";
    EXPECT_GT(seen.again, 20U) << "too little is equal";
  }
};

using UnitDigests =
    testing::Types<Xxh3Digest, Sha256Digest, VllmSha256Digest, VllmSha256CborDigest>;
TYPED_TEST_SUITE(UnitKeys, UnitDigests);

TYPED_TEST(UnitKeys, AreEqualWhereContentsAre) {
  for (const std::uint32_t unit : {1U, 4U, 16U}) {
    for (const std::uint32_t lookahead : {0U, 1U, 3U, 17U}) {
      SCOPED_TRACE(testing::Message() << "unit " << unit << ", lookahead " << lookahead);
      this->compare(unit, lookahead);
    }
  }
}

}  // namespace
}  // namespace kvproof::optimized
