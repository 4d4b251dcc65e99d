// SPDX-License-Identifier: Apache-2.0
// One thread's part of a history: random calls that keep the contract, and what each answered.
//
// Model:   calls depend on the seed and on earlier answers alone. Of a block that it took the
//          thread may write and publish the content; what it acquired it reads at once; it reads
//          what it holds again before it lets go. The log has room for everything beforehand:
//          recording allocates nothing and costs two ticks of a shared counter.
// Refuses: calls that break the contract; checking anything (linearizability.h).
#pragma once

#include <algorithm>
#include <atomic>
#include <random>
#include <span>

#include "optimized/hashing.h"
#include "properties/concurrency/linearizability.h"
#include "properties/concurrency/race_point.h"

namespace kvproof::properties {

/// What all threads of one history share.
template <class Pool>
struct Field {
  Field(std::uint32_t num_blocks, FreeOrder order) : pool(num_blocks, order) {}

  Pool pool;
  std::array<std::atomic<std::uint8_t>, kMostModelBlocks> cells{};
  std::atomic<std::uint32_t> clock{0};
};

/// Model keys are 1 and up.
[[nodiscard]] inline optimized::Key128 pool_key(std::uint64_t key) {
  return {{key * 0x9e3779b97f4a7c15U, key * 0xd6e8feb86659fd93U}};
}

template <class Pool>
class HistoryClient {
 public:
  static constexpr std::size_t kMostCallBlocks = 3;

  HistoryClient(Field<Pool>& field, std::vector<Event>& log, std::uint32_t num_keys,
                std::uint32_t seed)
      : field_(field), log_(log), num_keys_(num_keys), random_(seed) {
    log_.reserve(255);
    held_.reserve(255);
    own_.reserve(255);
  }

  void call() {
    switch (below(16)) {
      case 0:
      case 1:
      case 2: take(); break;
      case 3:
      case 4:
      case 5: fill(); break;
      case 6:
      case 7:
      case 8:
      case 9: acquire(); break;
      case 10:
      case 11:
      case 12: release(); break;
      case 13: touch(); break;
      case 14: forget(); break;
      default: reset(); break;
    }
  }

 private:
  using Blocks = std::array<BlockId, kMostCallBlocks>;

  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>((random_() >> 8) % n); }
  std::uint8_t any_key() { return static_cast<std::uint8_t>(1 + below(num_keys_)); }
  BlockId any_block() { return 1 + below(field_.pool.num_blocks() - 1); }
  std::uint8_t read(BlockId block) { return field_.cells[block].load(); }

  void begin() { invoked_ = field_.clock.fetch_add(1); }
  void end() { returned_ = field_.clock.fetch_add(1); }
  Step& record(StepKind kind, BlockId block = 0, std::uint8_t key = 0) {
    Event& event = log_.emplace_back();
    event.invoked = invoked_;
    event.returned = returned_;
    event.step.kind = kind;
    event.step.key = key;
    event.step.blocks[0] = static_cast<std::uint8_t>(block);
    return event.step;
  }

  void take() {
    const std::size_t num = 1 + below(kMostCallBlocks);
    Blocks out{};
    begin();
    const bool granted = field_.pool.take(std::span(out).first(num));
    end();
    Step& step = record(StepKind::take);
    step.answer = granted;
    step.num = static_cast<std::uint8_t>(num);
    for (std::size_t i = 0; granted && i < num; ++i) {
      step.blocks[i] = static_cast<std::uint8_t>(out[i]);
      held_.push_back(out[i]);
      own_.push_back(out[i]);
    }
  }

  /// Writes into the block that this thread took last, and publishes it.
  void fill() {
    if (own_.empty()) return take();
    const BlockId block = own_.back();
    own_.pop_back();
    const std::uint8_t key = any_key();
    bool registered = false;
    begin();
    if constexpr (requires { field_.pool.fill(block, pool_key(key), field_.cells[block], key); }) {
      registered = field_.pool.fill(block, pool_key(key), field_.cells[block], key);
    } else {
      field_.cells[block].store(key);
      registered = field_.pool.publish(block, pool_key(key));
    }
    end();
    record(StepKind::write, block, key);
    record(StepKind::publish, block, key).answer = registered;
  }

  void acquire() {
    const std::size_t num = 1 + below(kMostCallBlocks);
    std::array<std::uint8_t, kMostCallBlocks> keys{};
    std::array<optimized::Key128, kMostCallBlocks> pool_keys{};
    Blocks out{};
    std::array<std::uint8_t, kMostCallBlocks> seen{};
    for (std::size_t i = 0; i < num; ++i) pool_keys[i] = pool_key(keys[i] = any_key());
    begin();
    const std::size_t found = field_.pool.acquire(std::span(pool_keys).first(num), out);
    for (std::size_t i = 0; i < found; ++i) seen[i] = read(out[i]);
    end();
    for (std::size_t i = 0; i < found; ++i) record(StepKind::acquire, out[i], keys[i]);
    if (found < num) record(StepKind::acquire, 0, keys[found]);
    for (std::size_t i = 0; i < found; ++i) {
      record(StepKind::read, out[i], seen[i]);
      held_.push_back(out[i]);
    }
  }

  void release() {
    if (held_.empty()) return acquire();
    Blocks blocks{};
    std::array<std::uint8_t, kMostCallBlocks> seen{};
    const std::size_t num = 1 + below(std::min(held_.size(), kMostCallBlocks));
    for (std::size_t i = 0; i < num; ++i) {
      std::swap(held_[below(held_.size())], held_.back());
      blocks[i] = held_.back();
      held_.pop_back();
      if (std::ranges::find(held_, blocks[i]) == held_.end()) std::erase(own_, blocks[i]);
    }
    begin();
    for (std::size_t i = 0; i < num; ++i) seen[i] = read(blocks[i]);
    field_.pool.release(InterruptedBlocks(std::span(blocks).first(num)));
    end();
    for (std::size_t i = 0; i < num; ++i) record(StepKind::read, blocks[i], seen[i]);
    for (std::size_t i = 0; i < num; ++i) {
      record(StepKind::release, blocks[i]).last = i + 1 == num;
      if (i + 1 < num) record(StepKind::look, blocks[i + 1]);
    }
  }

  /// Blocks that it holds, or any at all: those may be free, or on their way to somebody.
  void touch() {
    Blocks blocks{};
    const std::size_t num = 1 + below(kMostCallBlocks);
    for (std::size_t i = 0; i < num; ++i) {
      blocks[i] = held_.empty() || below(2) == 0 ? any_block() : held_[below(held_.size())];
    }
    begin();
    field_.pool.touch(std::span(blocks).first(num));
    end();
    for (std::size_t i = 0; i < num; ++i) {
      record(StepKind::touch, blocks[i]);
      held_.push_back(blocks[i]);
    }
  }

  void forget() {
    const BlockId block = any_block();
    begin();
    field_.pool.forget(block);
    end();
    record(StepKind::forget, block);
  }

  void reset() {
    begin();
    const bool done = field_.pool.reset();
    end();
    record(StepKind::reset).answer = done;
  }

  Field<Pool>& field_;
  std::vector<Event>& log_;
  std::uint32_t num_keys_;
  std::minstd_rand random_;
  std::vector<BlockId> held_;  // once per reference
  std::vector<BlockId> own_;   // taken and not yet filled
  std::uint32_t invoked_ = 0;
  std::uint32_t returned_ = 0;
};

}  // namespace kvproof::properties
