// SPDX-License-Identifier: Apache-2.0
// One of the threads of concurrent_stress.h: its random calls, and its knowledge of its blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "optimized/pool/hashing.h"
#include "reference/config.h"
#include "reference/ids.h"

namespace kvproof::properties::concurrency {

struct StressPlan {
  std::uint32_t num_threads = 2;
  std::uint32_t num_calls = 60'000;  // per thread
  std::uint32_t num_blocks = 129;    // few, so that threads meet
  std::uint32_t num_keys = 160;      // more than blocks: content is evicted all the time
  FreeOrder order = FreeOrder::unhashed_first;
  std::uint64_t seed = 1;
};

struct StressReport {
  std::string complaint;  // empty: all promises held
  std::uint64_t num_taken = 0;
  std::uint64_t num_refused = 0;
  std::uint64_t num_hits = 0;
};

[[nodiscard]] inline optimized::Key128 key_of(std::uint64_t k) {
  return {{(k + 1) * 0x9e3779b97f4a7c15U, (k + 1) * 0xd6e8feb86659fd93U}};
}

/// The data that the threads share beside the pool.
template <class Pool, class Cell>
struct Arena {
  explicit Arena(const StressPlan& p)
      : plan(p),
        pool(p.num_blocks, p.order),
        references(std::make_unique<std::atomic<std::uint32_t>[]>(p.num_blocks)),
        content(std::make_unique<Cell[]>(p.num_blocks)) {}

  void complain(const std::string& what) {
    const std::lock_guard guard(mutex);
    if (complaint.empty()) complaint = what;
    stop = true;
  }

  const StressPlan& plan;
  Pool pool;
  std::unique_ptr<std::atomic<std::uint32_t>[]> references;  // shape [num_blocks]
  std::unique_ptr<Cell[]> content;                           // shape [num_blocks]
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::string complaint;  // under mutex
};

template <class Pool, class Cell>
class StressThread {
 public:
  StressThread(Arena<Pool, Cell>& arena, std::uint32_t number)
      : arena_(arena), pool_(arena.pool), number_(number), random_(arena.plan.seed * 64 + number) {}

  void run() {
    try {
      for (std::uint32_t i = 0; i < arena_.plan.num_calls && !arena_.stop.load(kRelaxed); ++i)
        step();
    } catch (const std::exception& error) {
      arena_.complain(error.what());
    }
  }

  /// Gives everything back.
  void drain() { release(held_.size()); }

  StressReport counts;

 private:
  struct Held {
    BlockId block;
    std::uint64_t expected;  // content
  };

  // Relaxed, so that it orders nothing: ThreadSanitizer must see what the pool fails to order.
  static constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

  /// @param change 1, or ~0 for one less @return the count before the change
  std::uint32_t count(BlockId block, std::uint32_t change) {
    return arena_.references[block].fetch_add(change, kRelaxed);
  }

  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void check(bool holds, BlockId block, const char* what) {
    if (!holds) throw std::logic_error("block " + std::to_string(block) + ": " + what);
  }

  void step() {
    switch (below(8)) {
      case 0:
      case 1: take(1 + below(below(8) == 0 ? 80 : 6)); break;
      case 2: touch(); break;
      case 3: acquire(1 + below(below(8) == 0 ? 80 : 6)); break;
      case 4: acquire(1); break;
      case 5: release(std::min<std::size_t>(held_.size(), 1 + below(6))); break;
      case 6: rare(); break;
      default: release(held_.size() > 40 ? held_.size() - below(20) : below(held_.size() + 1));
    }
  }

  void take(std::uint32_t n) {
    std::vector<BlockId> out(n);
    if (!pool_.take(out)) {
      ++counts.num_refused;
      return;
    }
    for (const BlockId block : out) {
      check(count(block, 1) == 0, block, "taken while somebody holds it");
    }
    for (const BlockId block : out) {
      const bool publish = below(4) != 0;
      const std::uint32_t k = below(arena_.plan.num_keys);
      // An unpublished block holds content that no key stands for and no other thread writes.
      const std::uint64_t value = publish ? key_of(k).words[0] : (random_() << 8 | number_) << 1;
      arena_.content[block] = value;
      held_.push_back({block, value});
      if (publish) check(pool_.publish(block, key_of(k)), block, "new, and has content");
    }
    ++counts.num_taken;
  }

  /// Takes one more reference to some blocks that this thread holds.
  void touch() {
    std::vector<BlockId> blocks;
    for (std::uint32_t n = below(6); n > 0 && !held_.empty(); --n) {
      held_.push_back(held_[below(held_.size())]);
      blocks.push_back(held_.back().block);
    }
    pool_.touch(blocks);
    for (const BlockId block : blocks) count(block, 1);
  }

  void acquire(std::uint32_t n) {
    std::vector<optimized::Key128> keys;
    std::uint32_t k = below(arena_.plan.num_keys);
    for (; n > 0; --n) keys.push_back(key_of(k++ % arena_.plan.num_keys));
    std::vector<BlockId> out(keys.size());
    const std::size_t found = pool_.acquire(keys, out);
    for (std::size_t i = 0; i < found; ++i) {
      count(out[i], 1);
      held_.push_back({out[i], keys[i].words[0]});
      check(arena_.content[out[i]] == keys[i].words[0], out[i], "found by a key, other content");
    }
    counts.num_hits += found;
  }

  /// Touches any block, which may be free or about to be handed out; or makes the pool forget one.
  void rare() {
    const std::vector any{BlockId(1 + below(arena_.plan.num_blocks - 1))};
    if (below(4) == 0) {
      pool_.forget(any.front());
      return;
    }
    pool_.touch(any);
    if (below(2) == 0) std::this_thread::yield();
    pool_.release(any);
  }

  void release(std::size_t n) {
    std::vector<BlockId> blocks;
    for (; n > 0; --n) {
      std::swap(held_[below(held_.size())], held_.back());
      const Held held = held_.back();
      held_.pop_back();
      check(arena_.content[held.block] == held.expected, held.block,
            "content of a held block changed");
      check(count(held.block, ~0U) > 0, held.block, "nobody's reference");
      blocks.push_back(held.block);
    }
    pool_.release(blocks);
  }

  Arena<Pool, Cell>& arena_;
  Pool& pool_;
  std::uint32_t number_;
  std::mt19937_64 random_;
  std::vector<Held> held_;  // once per reference
};

}  // namespace kvproof::properties::concurrency
