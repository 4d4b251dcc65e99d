// SPDX-License-Identifier: Apache-2.0
// The allocator in Python makes the decisions of optimized/: tables, hits, counts and refusals of a
// random run are equal, so that their costs are those of the same work.
#include "bench/allocator/in_python/worker.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "optimized/cache_manager.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kNumBlocks = 28;
constexpr std::uint32_t kBlockSize = 16;

/// The same call on both sides.
class Both {
 public:
  explicit Both(const std::filesystem::path& script)
      : textbook_(script), manager_(config(), {.max_requests = 16}, 7) {
    textbook_.ask("start bytes " + std::to_string(kNumBlocks) + " 1 7");
  }

  void arrive(const std::string& name, const std::vector<TokenId>& tokens) {
    ids_[name] = manager_.arrive({.tokens = tokens});
    expect_equal(name, textbook_.ask("arrive " + name + " " + hex_of(tokens)));
  }

  /// @return whether there was room
  bool admit(const std::string& name, std::uint32_t count) {
    const RequestId id = ids_.at(name);
    const std::uint32_t hit = manager_.lookup(id);
    const auto known = static_cast<std::uint32_t>(manager_.tokens(id).size());
    const std::uint32_t end = std::min(hit + count, known);
    const auto taken = manager_.allocate(id, {.new_tokens = end - hit, .use_lookup = true});
    if (taken) manager_.advance(id, end);
    const TextbookAnswer answer = textbook_.ask("admit " + name + " " + std::to_string(count));
    EXPECT_EQ(answer.at("hit"), std::to_string(hit / kBlockSize));
    EXPECT_EQ(answer.at("taken"), taken ? std::to_string(*taken) : "-1");
    expect_equal(name, answer);
    hits += hit;
    refusals += taken ? 0 : 1;
    return static_cast<bool>(taken);
  }

  bool step(const std::string& name, TokenId token) {
    const RequestId id = ids_.at(name);
    if (manager_.computed(id) == manager_.tokens(id).size()) {
      manager_.append(id, {&token, 1});
      textbook_.ask("append " + name + " " + hex_of({&token, 1}));
    }
    const auto taken = manager_.allocate(id, {.new_tokens = 1, .status = RequestStatus::running});
    if (taken) manager_.advance(id, manager_.computed(id) + 1);
    const TextbookAnswer answer = textbook_.ask("step " + name);
    EXPECT_EQ(answer.at("taken"), taken ? std::to_string(*taken) : "-1");
    expect_equal(name, answer);
    refusals += taken ? 0 : 1;
    return static_cast<bool>(taken);
  }

  void free(const std::string& name) {
    manager_.free(ids_.at(name));
    expect_equal(name, textbook_.ask("free " + name));
  }

  void finish(const std::string& name) {
    manager_.finish(ids_.at(name));
    ids_.erase(name);
    const TextbookAnswer answer = textbook_.ask("finish " + name);
    EXPECT_EQ(number(answer, "free"), manager_.pool().num_free());
  }

  std::uint64_t hits = 0, refusals = 0;
  [[nodiscard]] std::uint64_t evictions() const { return manager_.counters().evictions; }

 private:
  static CacheConfig config() {
    CacheConfig out;
    out.num_blocks = kNumBlocks;
    out.max_model_len = 512;
    out.hash_block_size = kBlockSize;
    out.groups = {{.block_size = kBlockSize}};
    return out;
  }

  void expect_equal(const std::string& name, const TextbookAnswer& answer) {
    std::string table;
    for (const BlockId block : manager_.table(ids_.at(name))) {
      table += (table.empty() ? "" : ",") + std::to_string(block);
    }
    EXPECT_EQ(answer.at("table"), table);
    EXPECT_EQ(number(answer, "free"), manager_.pool().num_free());
  }

  TextbookProcess textbook_;
  optimized::CacheManager<optimized::Sha256Digest> manager_;
  std::map<std::string, RequestId> ids_;
};

TEST(Textbook, DecidesAsTheAllocatorDoes) {
  if (std::system("command -v python3 >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no python3";
  Both both(std::filesystem::path(KVPROOF_SOURCE_DIR) / "bench/allocator/in_python/worker.py");
  std::mt19937_64 random(3);
  struct Live {
    std::string name;
    bool running;
  };
  std::vector<Live> live;
  for (int turn = 0; turn < 3000 && !testing::Test::HasFailure(); ++turn) {
    if (live.size() < 6 && random() % 4 == 0) {
      // Prefixes of three families, so that they hit.
      std::vector<TokenId> tokens(1 + random() % 160, static_cast<TokenId>(random() % 3));
      live.push_back({"r" + std::to_string(turn), false});
      both.arrive(live.back().name, tokens);
      continue;
    }
    if (live.empty()) continue;
    Live& one = live[random() % live.size()];
    const std::uint64_t what = random() % 24;
    if (what == 0) {
      both.finish(one.name);
      std::swap(one, live.back());
      live.pop_back();
    } else if (what == 1) {
      both.free(one.name);
      one.running = false;
    } else if (one.running) {
      both.step(one.name, static_cast<TokenId>(random() % 2));
    } else {
      one.running = both.admit(one.name, 1 + static_cast<std::uint32_t>(random() % 100));
    }
  }
  EXPECT_GT(both.hits, 1000U);
  EXPECT_GT(both.refusals, 20U);
  EXPECT_GT(both.evictions(), 100U);
}

}  // namespace
}  // namespace kvproof::bench
