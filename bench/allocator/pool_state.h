// SPDX-License-Identifier: Apache-2.0
// Shared by the measured pool operations: a pool in a steady state, and the floor under its queue.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "optimized/pool/block_pool.h"
#include "optimized/pool/hashing.h"
#include "reference/config.h"
#include "reference/ids.h"

namespace kvproof::bench {

using PoolKey = optimized::Key128;
using Pool = optimized::BlockPool<PoolKey>;

enum class Order {
  fresh,     // neighbours in the queue are neighbours in memory
  shuffled,  // no two are, as in a pool that has worked for a while
};

/// One case. The blocks of a pool are num_blocks - 1 usable ones and the null block.
struct PoolCase {
  std::string operation;
  std::uint32_t num_blocks = 0;
  std::uint32_t batch = 0;  // [blocks] per call
  Order order = Order::fresh;
  std::uint64_t seed = 0;
};

/// Folds the free queue, in order, and the number of keys: equal for equal seeds and equal rounds.
template <class AnyPool>
[[nodiscard]] std::uint32_t pool_checksum(const AnyPool& pool) {
  std::uint64_t sum = pool.index().num_keys();
  BlockId at = pool.queue().head();
  for (std::uint32_t i = 0; i < pool.num_free(); ++i, at = pool.record(at).next) {
    sum = (sum ^ at) * 0x9e3779b97f4a7c15U;
    sum ^= sum >> 29;
  }
  return static_cast<std::uint32_t>(sum ^ sum >> 32);
}

/// Throws std::logic_error unless `holds`.
void require(bool holds, const PoolCase& c, const char* what);

/// Shared by all cases: a pool, its ids in queue order, and keys that never repeat.
class PoolState {
 public:
  [[nodiscard]] std::uint32_t calls() const { return calls_; }
  [[nodiscard]] std::uint32_t batch() const { return case_.batch; }
  [[nodiscard]] std::uint32_t checksum() const { return pool_checksum(pool_); }
  [[nodiscard]] std::uint64_t pool_bytes() const { return pool_.bytes(); }
  void audit() const { pool_.audit(); }

 protected:
  /// @param order of the free queue @param share of the blocks that one round may use, 0 to 1
  PoolState(const PoolCase& c, FreeOrder order, double share);

  PoolKey new_key() { return {{random_(), random_()}}; }
  void take_all(bool publish);                 // holds every block, each under a new key
  void release_all() { pool_.release(ids_); }  // into the queue, in the order of ids_
  [[nodiscard]] std::span<const BlockId> slice(std::uint32_t call) const {
    return std::span(ids_).subspan(first_ + std::size_t{call} * case_.batch, case_.batch);
  }
  [[nodiscard]] std::span<const BlockId> window() const {  // the blocks of this round
    return std::span(ids_).subspan(first_, round_blocks());
  }
  void next_window();  // so that rounds visit the whole pool
  [[nodiscard]] std::uint32_t round_blocks() const { return calls_ * case_.batch; }
  [[nodiscard]] std::uint32_t usable() const { return case_.num_blocks - 1; }

  PoolCase case_;
  std::mt19937_64 random_;
  Pool pool_;
  std::vector<BlockId> ids_;  // shape [num_blocks - 1], every usable block once
  std::uint32_t calls_;
  std::size_t first_ = 0;  // of the window in ids_
};

/// The least that any such queue can do: a doubly linked list through records of the same size, in
/// the same order, and nothing else. No reference counts, no flags, no checks.
class BareList {
 public:
  explicit BareList(std::span<const BlockId> order);
  void rotate(std::span<BlockId> out);  // pops out.size() records, then pushes them back

 private:
  struct alignas(sizeof(Pool::Record)) Node {
    BlockId prev = 0;
    BlockId next = 0;
  };
  static_assert(sizeof(Node) == sizeof(Pool::Record));
  std::vector<Node> nodes_;  // shape [num_blocks + 1], the last is the sentinel
};

inline void BareList::rotate(std::span<BlockId> out) {
  const BlockId sentinel(nodes_.size() - 1);
  BlockId at = nodes_[sentinel].next;
  for (BlockId& block : out) {
    block = at;
    at = nodes_[at].next;
  }
  nodes_[sentinel].next = at;
  nodes_[at].prev = sentinel;
  BlockId tail = nodes_[sentinel].prev;
  for (const BlockId block : out) {
    nodes_[tail].next = block;
    nodes_[block].prev = tail;
    tail = block;
  }
  nodes_[tail].next = sentinel;
  nodes_[sentinel].prev = tail;
}

}  // namespace kvproof::bench
