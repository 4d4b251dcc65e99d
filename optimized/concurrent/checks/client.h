// SPDX-License-Identifier: Apache-2.0
// One thread's part of a run: random calls that keep the contract, and their answers.
//
// Model:   calls depend only on the seed and on earlier answers. A thread may write and publish the
//          content of a block that it took; it reads an acquired block at once, and reads what it
//          knows again before it releases it. A run of few calls is recorded as a history, in a log
//          that has room from the beginning: recording allocates nothing and costs two ticks of a
//          shared counter. In a long run each answer is checked at once against a record that the
//          pool does not see: what a block contains, and how many references of threads that know
//          so it has (raised after the pool gave one, lowered before the pool gets it back).
// Leaves out: calls that break the contract.
#pragma once

#include <algorithm>
#include <random>
#include <stdexcept>

#include "optimized/concurrent/checks/linearizability.h"
#include "optimized/concurrent/checks/tested_pool.h"
#include "reference/mix64.h"
#include "reference/support/say.h"

namespace kvproof::properties::concurrency {

/// What all threads of one run share.
struct Field {
  std::uint32_t num_blocks = 0;
  std::uint32_t num_keys = 0;
  bool recorded = true;
  std::unique_ptr<TestedPool> pool;
  std::vector<Cell> cells;                             // shape [num_blocks]
  std::vector<std::atomic<std::uint32_t>> references;  // shape [num_blocks]
  std::atomic<std::uint32_t> clock{0};
};

class Client {
 public:
  Client(Field& field, std::vector<Event>& log, std::uint32_t seed)
      : field_(field), log_(log), random_(seed) {
    if (!field.recorded) return;
    log_.reserve(kMostSteps);
    held_.reserve(kMostSteps);
    own_.reserve(kMostSteps);
  }

  std::uint64_t num_calls = 0;
  std::uint64_t num_overlapping = 0;  // calls during which others began or ended
  std::uint64_t num_hits = 0;
  std::uint64_t num_refused = 0;
  std::uint64_t blocks_in_order = 0;  // a hash of the blocks that calls handed out

  /// One call.
  void call() {
    if (!field_.recorded) log_.clear();
    ++num_calls;
    const std::uint32_t drawn = below(16);
    if (drawn < 3) return take();
    if (drawn < 6) return fill();
    if (drawn < 10) return acquire();
    if (drawn < 13) return release();
    if (drawn == 13) return touch();
    return drawn == 14 ? forget() : reset();
  }

  /// How many references this thread has to a block.
  [[nodiscard]] std::uint32_t references(BlockId block) const {
    return static_cast<std::uint32_t>(std::ranges::count(held_, block, &Held::block));
  }
  /// Gives everything back.
  void drain() { release(held_.size()); }

 private:
  static constexpr std::size_t kMostSteps = 255;  // of one thread in one history
  static constexpr std::uint32_t kUnknown = ~0U;

  struct Held {
    BlockId block;
    std::uint32_t content;  // kUnknown of a block that was touched: its taker may write it
  };

  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>((random_() >> 8) % n); }
  std::uint32_t any_key() { return 1 + below(field_.num_keys); }
  BlockId any_block() { return BlockId(1 + below(field_.num_blocks - 1)); }
  /// How many blocks or keys a call has. In a long run a call may be more than a run of the pool.
  std::size_t some() {
    if (field_.recorded) return 1 + below(3);
    return 1 + below(below(8) == 0 ? 80 : 6);
  }

  void begin() { invoked_ = field_.recorded ? field_.clock.fetch_add(1) : 0; }
  void end() {
    if (!field_.recorded) return;
    returned_ = field_.clock.fetch_add(1);
    num_overlapping += returned_ - invoked_ > 1 ? 1 : 0;
  }
  Step& record(StepKind kind, BlockId block = 0, std::uint32_t key = 0) {
    Event& event = log_.emplace_back();
    event.invoked = invoked_;
    event.returned = returned_;
    event.step.kind = kind;
    event.step.key = static_cast<std::uint8_t>(key);
    event.step.blocks[0] = static_cast<std::uint8_t>(block);
    return event.step;
  }
  void expect(bool holds, BlockId block, const char* what) const {
    if (!holds && !field_.recorded) throw std::logic_error(say("block ", block, ": ", what));
  }
  // Relaxed, so that it orders nothing: ThreadSanitizer must see what the pool fails to order.
  void hold(BlockId block, std::uint32_t content) {
    if (content != kUnknown) field_.references[block].fetch_add(1, std::memory_order_relaxed);
    held_.push_back({block, content});
    blocks_in_order = mix64(blocks_in_order ^ block);
  }

  void take() {
    std::vector<BlockId> out(some());
    begin();
    const bool granted = field_.pool->take(out);
    end();
    Step& step = record(StepKind::take);
    step.answer = granted;
    step.num = static_cast<std::uint8_t>(out.size());
    if (!granted) {
      ++num_refused;
      return;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (i < step.blocks.size()) step.blocks[i] = static_cast<std::uint8_t>(out[i]);
      expect(field_.references[out[i]].load(std::memory_order_relaxed) == 0, out[i],
             "taken while somebody holds it");
      hold(out[i], field_.cells[out[i]]);
      own_.push_back(out[i]);
    }
  }

  /// Writes into the block that this thread took last, and publishes it.
  void fill() {
    if (own_.empty()) return take();
    const BlockId block = own_.back();
    own_.pop_back();
    const std::uint32_t key = any_key();
    begin();
    const bool registered = field_.pool->fill(block, key, field_.cells[block]);
    end();
    record(StepKind::write, block, key);
    record(StepKind::publish, block, key).answer = registered;
    expect(registered, block, "new, and has content");
    for (Held& held : held_) {
      if (held.block == block && held.content != kUnknown) held.content = key;
    }
  }

  void acquire() {
    std::vector<std::uint32_t> keys(some());
    std::vector<Key> pool_keys;
    for (std::uint32_t& key : keys) pool_keys.push_back(pool_key(key = any_key()));
    std::vector<BlockId> out(keys.size());
    std::vector<std::uint32_t> seen(keys.size());
    begin();
    const std::size_t found = field_.pool->acquire(pool_keys, out);
    for (std::size_t i = 0; i < found; ++i) seen[i] = field_.cells[out[i]];
    end();
    for (std::size_t i = 0; i < found; ++i) record(StepKind::acquire, out[i], keys[i]);
    if (found < keys.size()) record(StepKind::acquire, 0, keys[found]);
    for (std::size_t i = 0; i < found; ++i) {
      record(StepKind::read, out[i], seen[i]);
      hold(out[i], seen[i]);
      expect(seen[i] == keys[i], out[i], "found by a key, other content");
    }
    num_hits += found;
  }

  void release() {
    if (held_.empty()) return acquire();
    const std::size_t few = 1 + below(std::min<std::size_t>(held_.size(), 3));
    release(held_.size() > 40 ? held_.size() - below(20) : few);
  }

  void release(std::size_t num) {
    std::vector<Held> given;
    std::vector<BlockId> blocks;
    for (std::size_t i = 0; i < num; ++i) {
      std::swap(held_[below(held_.size())], held_.back());
      given.push_back(held_.back());
      blocks.push_back(held_.back().block);
      held_.pop_back();
    }
    std::erase_if(own_, [this](BlockId block) { return references(block) == 0; });
    begin();
    for (Held& held : given) {
      if (held.content == kUnknown) continue;
      const std::uint32_t seen = field_.cells[held.block];
      expect(seen == held.content, held.block, "content of a held block changed");
      held.content = seen;
      field_.references[held.block].fetch_sub(1, std::memory_order_relaxed);
    }
    field_.pool->release(blocks);
    end();
    for (const Held& held : given) {
      if (held.content != kUnknown) record(StepKind::read, held.block, held.content);
    }
    for (std::size_t i = 0; i < num; ++i) {
      record(StepKind::release, blocks[i]).last = i + 1 == num;
      if (i + 1 < num) record(StepKind::look, blocks[i + 1]);
    }
  }

  /// Blocks that it holds, or any blocks: those may be free, or about to be handed out.
  void touch() {
    std::vector<Held> touched;
    std::vector<BlockId> blocks;
    for (std::size_t num = some(); num > 0; --num) {
      touched.push_back(held_.empty() || below(2) == 0 ? Held{any_block(), kUnknown}
                                                       : held_[below(held_.size())]);
      blocks.push_back(touched.back().block);
    }
    begin();
    field_.pool->touch(blocks);
    end();
    for (const Held& held : touched) {
      record(StepKind::touch, held.block);
      hold(held.block, held.content);
    }
  }

  void forget() {
    const BlockId block = any_block();
    begin();
    field_.pool->forget(block);
    end();
    record(StepKind::forget, block);
  }

  void reset() {
    begin();
    const bool done = field_.pool->reset();
    end();
    record(StepKind::reset).answer = done;
  }

  Field& field_;
  std::vector<Event>& log_;
  std::minstd_rand random_;
  std::vector<Held> held_;    // once per reference
  std::vector<BlockId> own_;  // taken and not yet filled
  std::uint32_t invoked_ = 0;
  std::uint32_t returned_ = 0;
};

}  // namespace kvproof::properties::concurrency
