// SPDX-License-Identifier: Apache-2.0
// One thread's part of a history: random calls that keep the contract, and their answers.
//
// Model:   calls depend only on the seed and on earlier answers. A thread may write and publish the
//          content of a block that it took; it reads an acquired block at once, and reads every
//          block that it holds again before it releases it. The log has room from the beginning,
//          so recording allocates nothing and costs two ticks of a shared counter.
// Leaves out: calls that break the contract, and all checks (linearizability.h).
#pragma once

#include <array>
#include <atomic>
#include <random>
#include <vector>

#include "optimized/concurrent/checks/linearizability.h"
#include "optimized/concurrent/checks/tested_pool.h"

namespace kvproof::properties::concurrency {

/// The data that all threads of one history share.
struct Field {
  std::uint32_t num_blocks = 0;
  std::uint32_t num_keys = 0;
  std::unique_ptr<TestedPool> pool;
  std::array<TestedPool::Cell, kMostModelBlocks> cells{};
  std::atomic<std::uint32_t> clock{0};
};

class HistoryClient {
 public:
  HistoryClient(Field& field, std::vector<Event>& log, std::uint32_t seed);

  /// One call, recorded.
  void call();

 private:
  static constexpr std::size_t kMostCallBlocks = 3;
  using Blocks = std::array<BlockId, kMostCallBlocks>;

  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>((random_() >> 8) % n); }
  std::uint8_t any_key() { return static_cast<std::uint8_t>(1 + below(field_.num_keys)); }
  BlockId any_block() { return BlockId(1 + below(field_.num_blocks - 1)); }
  std::uint8_t read(BlockId block) { return field_.cells[block].load(); }

  void begin() { invoked_ = field_.clock.fetch_add(1); }
  void end() { returned_ = field_.clock.fetch_add(1); }
  Step& record(StepKind kind, BlockId block = 0, std::uint8_t key = 0);

  void take();
  /// Writes into the block that this thread took last, and publishes it.
  void fill();
  void acquire();
  void release();
  /// Blocks that it holds, or any blocks: those may be free, or about to be handed out.
  void touch();
  void forget();
  void reset();

  Field& field_;
  std::vector<Event>& log_;
  std::minstd_rand random_;
  std::vector<BlockId> held_;  // once per reference
  std::vector<BlockId> own_;   // taken and not yet filled
  std::uint32_t invoked_ = 0;
  std::uint32_t returned_ = 0;
};

}  // namespace kvproof::properties::concurrency
