// SPDX-License-Identifier: Apache-2.0
// The offline optimum against every possible choice of what to keep, and its heap against a set.
#include "bench/hit_rate/bounds.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <random>
#include <set>

#include "bench/hit_rate/block_heap.h"
#include "bench/requests/listed_source.h"

namespace kvproof::bench {
namespace {

using Prompt = std::vector<std::uint64_t>;

std::vector<Request> requests(const std::vector<Prompt>& prompts) {
  std::vector<Request> out;
  for (const Prompt& ids : prompts) {
    out.push_back({.input_tokens = static_cast<std::int64_t>(16 * ids.size()),
                   .output_tokens = 1,
                   .block_ids = ids});
  }
  return out;
}

std::uint64_t optimum(const std::vector<Prompt>& prompts, std::uint64_t capacity) {
  return PromptFuture(*listed(requests(prompts)).open()).optimum(capacity).hit_blocks;
}

// The most that any sequence of choices hits, by trying all: after each prompt any `capacity`
// blocks of those kept and those of the prompt, served as far as they are there from its start on.
std::uint64_t best_of_all(const std::vector<Prompt>& prompts, std::uint64_t capacity) {
  std::map<std::uint32_t, std::uint64_t> best = {{0, 0}};  // kept, as bits -> hits so far
  for (const Prompt& prompt : prompts) {
    std::map<std::uint32_t, std::uint64_t> next;
    for (const auto& [kept, hits] : best) {
      std::uint32_t there = kept;
      std::uint64_t served = 0;
      for (std::size_t i = 0; i < prompt.size(); ++i) {
        if (served == i && (kept >> prompt[i] & 1U) != 0) ++served;
        there |= 1U << prompt[i];
      }
      for (std::uint32_t some = there;; some = (some - 1) & there) {
        if (static_cast<std::uint64_t>(std::popcount(some)) <= capacity) {
          next[some] = std::max(next[some], hits + served);
        }
        if (some == 0) break;
      }
    }
    best = std::move(next);
  }
  std::uint64_t most = 0;
  for (const auto& [kept, hits] : best) most = std::max(most, hits);
  return most;
}

/// Random prompts of at most `most_ids` different ids, chained: an id has one parent.
std::vector<Prompt> random_prompts(std::mt19937_64& random, std::size_t count,
                                   std::size_t most_ids) {
  std::vector<Prompt> paths;  // to each id, itself last
  std::vector<Prompt> out;
  while (out.size() < count) {
    if (paths.size() < most_ids && (paths.empty() || random() % 3 == 0)) {
      Prompt path = paths.empty() || random() % 3 == 0 ? Prompt() : paths[random() % paths.size()];
      path.push_back(paths.size());
      paths.push_back(path);
    }
    out.push_back(paths[random() % paths.size()]);
  }
  return out;
}

TEST(Optimum, IsWhatPencilAndPaperGive) {
  const std::vector<Prompt> two = {{1}, {2}, {1}, {2}};
  EXPECT_EQ(optimum(two, 0), 0U);
  EXPECT_EQ(optimum(two, 1), 1U);  // one of the two is kept from the start, the other passed over
  EXPECT_EQ(optimum(two, 2), 2U);
  // 1 is needed next, so its child and 4 give way; then 4 is not needed any more.
  EXPECT_EQ(optimum({{1, 2, 3}, {4}, {1, 5}, {4}, {1, 2, 3}}, 1), 2U);
  EXPECT_EQ(optimum({{1, 2, 3}, {4}, {1, 5}, {4}, {1, 2, 3}}, 3), 4U);
  EXPECT_EQ(optimum({{1, 2, 3}, {4}, {1, 5}, {4}, {1, 2, 3}}, 4), 5U);
}

TEST(Optimum, IsTheBestOfAllChoices) {
  std::mt19937_64 random(1);
  std::uint64_t hits = 0;
  for (int round = 0; round < 300; ++round) {
    const auto prompts = random_prompts(random, 9, 6);
    for (std::uint64_t capacity = 0; capacity <= 4; ++capacity) {
      const std::uint64_t best = best_of_all(prompts, capacity);
      ASSERT_EQ(optimum(prompts, capacity), best) << "round " << round << " of " << capacity;
      hits += best;
    }
  }
  EXPECT_GT(hits, 1000U);
}

TEST(Optimum, CountsAPartialLastBlockByItsTokens) {
  auto prompts = requests({{1, 2}, {1, 2}});
  for (Request& request : prompts) request.input_tokens = 20;
  const ReplayCounts counts = PromptFuture(*listed(prompts).open()).optimum(2);
  EXPECT_EQ(counts.hit_tokens, 20U);
  EXPECT_DOUBLE_EQ(counts.hit_rate_tokens(), 0.5);
  EXPECT_DOUBLE_EQ(counts.hit_rate_blocks(), 0.5);
}

TEST(BlockHeap, IsASetInOrder) {
  std::mt19937_64 random(2);
  BlockHeap<std::uint64_t> heap(40);
  std::set<std::pair<std::uint64_t, std::uint32_t>> set;
  std::uint64_t key = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto item = static_cast<std::uint32_t>(random() % 40);
    if (random() % 2 == 0) {
      if (heap.contains(item)) set.erase({heap.key(item), item});
      key = (random() % 1000) * 100'000 + static_cast<std::uint64_t>(step);  // all different
      heap.put(item, key);
      set.insert({key, item});
    } else if (heap.contains(item)) {
      set.erase({heap.key(item), item});
      heap.remove(item);
    } else if (!heap.empty()) {
      ASSERT_EQ(heap.pop(), set.begin()->second);
      set.erase(set.begin());
    }
    ASSERT_EQ(heap.size(), set.size());
    if (!set.empty()) {
      ASSERT_EQ(heap.top(), set.begin()->second);
    }
  }
}

}  // namespace
}  // namespace kvproof::bench
