// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/pool_replay.h"

#include <algorithm>

namespace kvproof::properties {

PoolReplay::PoolReplay(const CacheConfig& config, const PoolState& before)
    : before_(before),
      order_(config.enable_caching ? config.profile.caching_on : config.profile.caching_off) {}

void PoolReplay::change() {
  if (changed_) return;
  changed_ = true;
  queue_.reserve(before_.blocks.size());
  queue_ = before_.queue;
  refs_.reserve(before_.blocks.size());
  for (const BlockState& block : before_.blocks) refs_.push_back(block.ref_cnt);
}

// @param to_front how many of the same release have gone there
void PoolReplay::release_one(BlockId block, std::size_t& to_front) {
  if (block == kNullBlock || block >= refs_.size() || --refs_[block] != 0) return;
  const bool hashed = before_.blocks[block].hashed;
  if (order_ == FreeOrder::prepend || (order_ == FreeOrder::unhashed_first && !hashed)) {
    queue_.insert(queue_.begin() + static_cast<std::ptrdiff_t>(to_front++), block);
  } else {
    queue_.push_back(block);
  }
}

void PoolReplay::release(std::span<const BlockId> blocks) {
  if (blocks.empty()) return;
  change();
  std::size_t to_front = 0;
  for (BlockId block : blocks) release_one(block, to_front);
}

void PoolReplay::release_backward(std::span<const BlockId> blocks) {
  if (blocks.empty()) return;
  change();
  std::size_t to_front = 0;
  for (std::size_t i = blocks.size(); i > 0; --i) release_one(blocks[i - 1], to_front);
}

void PoolReplay::recycle(const std::vector<BlockId>& table, const Recycled& gone) {
  for (const auto* positions : {&gone.run, &gone.states}) {
    if (positions->empty()) continue;
    change();
    std::size_t to_front = 0;
    for (const std::size_t i : *positions) release_one(table[i], to_front);
  }
}

void PoolReplay::touch(BlockId block) {
  change();
  if (block == kNullBlock || block >= refs_.size()) return;
  if (refs_[block]++ == 0) std::erase(queue_, block);
}

bool PoolReplay::take(BlockId block) {
  change();
  if (queue_.empty() || queue_.front() != block) return false;
  queue_.erase(queue_.begin());
  if (block < refs_.size()) refs_[block] = 1;
  return true;
}

void PoolReplay::write_to(PoolState& out) const {
  if (!changed_) return;
  out.num_free = static_cast<std::uint32_t>(queue_.size());
  out.queue = queue_;
  out.queue_backward.assign(queue_.rbegin(), queue_.rend());
  for (std::size_t b = 0; b < refs_.size() && b < out.blocks.size(); ++b) {
    out.blocks[b].ref_cnt = refs_[b];
    out.blocks[b].linked = false;
  }
  for (BlockId block : queue_) {
    if (block < out.blocks.size()) out.blocks[block].linked = true;
  }
}

}  // namespace kvproof::properties
