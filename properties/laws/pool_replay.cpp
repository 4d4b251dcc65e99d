// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/pool_replay.h"

#include <algorithm>

namespace kvproof::properties {

PoolReplay::PoolReplay(const CacheConfig& config, const PoolState& before)
    : before_(before),
      order_(config.enable_caching ? config.profile.caching_on : config.profile.caching_off),
      queue_(before.queue) {
  refs_.reserve(before.blocks.size());
  for (const BlockState& block : before.blocks) refs_.push_back(block.ref_cnt);
}

void PoolReplay::release(std::span<const BlockId> blocks) {
  std::vector<BlockId> front;
  std::vector<BlockId> back;
  for (BlockId block : blocks) {
    if (block == kNullBlock || block >= refs_.size() || --refs_[block] != 0) continue;
    const bool hashed = before_.blocks[block].hashed;
    const bool to_front =
        order_ == FreeOrder::prepend || (order_ == FreeOrder::unhashed_first && !hashed);
    (to_front ? front : back).push_back(block);
  }
  queue_.insert(queue_.begin(), front.begin(), front.end());
  queue_.insert(queue_.end(), back.begin(), back.end());
}

void PoolReplay::release_backward(std::span<const BlockId> blocks) {
  const std::vector<BlockId> backward(blocks.rbegin(), blocks.rend());
  release(backward);
}

void PoolReplay::recycle(const std::vector<BlockId>& table, const Recycled& gone) {
  for (const auto* positions : {&gone.run, &gone.states}) {
    std::vector<BlockId> blocks;
    for (const std::size_t i : *positions) blocks.push_back(table[i]);
    release(blocks);
  }
}

void PoolReplay::touch(BlockId block) {
  if (block == kNullBlock || block >= refs_.size()) return;
  if (refs_[block]++ == 0) std::erase(queue_, block);
}

bool PoolReplay::take(BlockId block) {
  if (queue_.empty() || queue_.front() != block) return false;
  queue_.erase(queue_.begin());
  if (block < refs_.size()) refs_[block] = 1;
  return true;
}

void PoolReplay::write_to(PoolState& out) const {
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
