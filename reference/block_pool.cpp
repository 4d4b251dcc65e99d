// SPDX-License-Identifier: Apache-2.0
#include "reference/block_pool.h"

#include <bit>
#include <utility>

#include "reference/contract.h"

namespace kvproof::reference {

BlockPool::BlockPool(std::uint32_t num_blocks, FreeOrder order)
    : order_(order), ref_cnt_(num_blocks, 0), residency_(num_blocks) {
  for (BlockId block = 1; block < num_blocks; ++block) queue_.push_back(block);
}

std::vector<BlockId> BlockPool::take(std::uint32_t n) {
  std::vector<BlockId> out;
  out.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const BlockId block = queue_.front();
    queue_.pop_front();
    ++work_.taken;
    if (cache_.key_of(block) != nullptr) {
      ++work_.evictions;
      ++work_.lifetime[std::bit_width(step_ - residency_[block].taken)];
      ++work_.idle[std::bit_width(step_ - residency_[block].last_held)];
    }
    residency_[block] = {step_, step_};
    forget(block);
    ref_cnt_[block] = 1;
    out.push_back(block);
  }
  return out;
}

void BlockPool::touch(const std::vector<BlockId>& blocks) {
  for (BlockId block : blocks) {
    if (block == kNullBlock) continue;
    if (ref_cnt_[block] == 0) {
      queue_.remove(block);
      ++work_.revivals;
    }
    ++ref_cnt_[block];
  }
}

void BlockPool::release(const std::vector<BlockId>& blocks) {
  std::list<BlockId> front;
  std::list<BlockId> back;
  for (BlockId block : blocks) {
    if (block == kNullBlock) continue;
    expects(ref_cnt_[block] > 0, Breach::not_held, "release of a block that nobody holds");
    if (--ref_cnt_[block] > 0) continue;
    residency_[block].last_held = step_;
    const bool to_front = order_ == FreeOrder::prepend ||
                          (order_ == FreeOrder::unhashed_first && cache_.key_of(block) == nullptr);
    (to_front ? front : back).push_back(block);
  }
  queue_.splice(queue_.begin(), front);
  queue_.splice(queue_.end(), back);
}

void BlockPool::publish(GroupId group, const std::vector<BlockId>& blocks,
                        const std::vector<PrefixKey>& keys, std::uint32_t from, std::uint32_t to) {
  event::Stored stored{group, from, to, {}};
  stored.blocks.reserve(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const PrefixKey* carried = cache_.key_of(blocks[i]);
    if (carried != nullptr && carried->prefix_tokens < keys[i].prefix_tokens) forget(blocks[i]);
    cache_.insert(keys[i], blocks[i]);
    stored.blocks.push_back({blocks[i], keys[i].prefix_tokens});
  }
  events_.emplace_back(std::move(stored));
}

void BlockPool::move_keys(BlockId from, BlockId to) {
  for (const PrefixKey& key : cache_.erase(from)) cache_.insert(key, to);
}

void BlockPool::evict(const std::vector<BlockId>& blocks) {
  for (BlockId block : blocks) forget(block);
}

void BlockPool::reset() {
  cache_.clear();
  events_.emplace_back(event::Cleared{});
}

std::vector<Event> BlockPool::take_events() { return std::exchange(events_, {}); }

void BlockPool::forget(BlockId block) {
  for (const PrefixKey& key : cache_.erase(block)) {
    events_.emplace_back(event::Removed{key.group, block, key.prefix_tokens});
  }
}

}  // namespace kvproof::reference
