// SPDX-License-Identifier: Apache-2.0
#include "properties/mutants/fault_host_pool.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace kvproof::properties {

FaultHostPool::FaultHostPool(std::uint32_t num_blocks, FreeOrder order, Fault fault)
    : order_(order), fault_(fault), blocks_(num_blocks) {
  for (BlockId block = 1; block < num_blocks; ++block) free_.push_back(block);
}

FaultHostPool::Blocks FaultHostPool::take(std::uint64_t n) {
  if (n > free_.size() && !is("take_before_check")) {
    throw std::runtime_error("no free blocks");
  }
  Blocks out;
  for (; n > 0; --n) {
    BlockId block = free_.empty() ? kNullBlock : free_.front();
    if (is("take_numbers_consecutively") && !out.empty() && out.back() + 1 < blocks_.size()) {
      block = BlockId(out.back() + 1);
    }
    std::erase(free_, block);
    out.push_back(block);
    if (block == kNullBlock) continue;
    Block& b = blocks_[block];
    const bool keeps = is("take_keeps_key") ||
                       (is("recycled_block_keeps_key") && std::exchange(b.recycled, false));
    if (is("take_keeps_index_entry")) {
      b.hashed = false;
    } else if (!keeps) {
      unpublish(block);
    }
    if (!is("take_without_reference")) b.refs = 1;
    b.hit = false;
  }
  return out;
}

void FaultHostPool::touch(const Blocks& blocks) {
  for (BlockId block : blocks) {
    if (block == kNullBlock) continue;
    if (blocks_[block].refs == 0 && !is("touch_leaves_queued")) std::erase(free_, block);
    ++blocks_[block].refs;
  }
}

void FaultHostPool::release(const Blocks& blocks) {
  Blocks unheld;
  if (is("release_queues_duplicates")) {  // two passes, as if every id came once
    for (BlockId block : blocks) --blocks_[block].refs;
    for (BlockId block : blocks) {
      if (blocks_[block].refs == 0) unheld.push_back(block);
    }
  } else {
    for (BlockId block : blocks) {
      if (--blocks_[block].refs <= 0) unheld.push_back(block);
    }
  }
  enqueue(unheld);
}

bool FaultHostPool::to_front(const Block& b) const {
  if (b.hit && (is("hit_prefix_freed_to_front") || is("window_hit_freed_to_front"))) {
    return true;
  }
  if (order_ == FreeOrder::prepend) return !is("lifo_becomes_fifo");
  return order_ == FreeOrder::unhashed_first && !b.hashed;
}

void FaultHostPool::enqueue(const Blocks& blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (to_front(blocks_[*block])) free_.push_front(*block);
  }
  for (BlockId block : blocks) {
    if (!to_front(blocks_[block])) free_.push_back(block);
  }
}

void FaultHostPool::publish(BlockId block, const FaultHostKey& key) {
  blocks_[block].hashed = true;
  blocks_[block].key = key;
  buckets_[key.hash % kBuckets].push_back({key, block});
}

void FaultHostPool::unpublish(BlockId block) {
  Block& b = blocks_[block];
  if (!b.hashed) return;
  std::vector<Entry>& bucket = buckets_[b.key.hash % kBuckets];
  const auto same = [&](const Entry& e) {
    return e.key.group == b.key.group && e.key.hash == b.key.hash;
  };
  const auto first = std::find_if(bucket.begin(), bucket.end(), same);
  if (first != bucket.end()) {
    const BlockId named = is("removal_names_first_copy") ? first->block : block;
    const bool silent = is("removal_asks_parent") && b.key.parent != 0 &&
                        !find(b.key.group, b.key.parent).has_value();
    if (!silent) {
      events_.emplace_back(event::Removed{b.key.group, named, b.key.prefix_tokens});
    }
    std::erase_if(bucket, [&](const Entry& e) { return same(e) && e.block == block; });
  }
  if (!is("evict_keeps_block_hash")) b.hashed = false;
}

void FaultHostPool::reset() {
  for (std::vector<Entry>& bucket : buckets_) bucket.clear();
  if (!is("reset_forgets_blocks")) {
    for (Block& b : blocks_) b.hashed = false;
  }
  events_.emplace_back(event::Cleared{});
}

std::optional<BlockId> FaultHostPool::find(GroupId group, std::uint64_t hash) const {
  for (const Entry& e : buckets_[hash % kBuckets]) {
    const bool same = e.key.hash == hash || is("lookup_compares_bucket_only");
    if (e.key.group == group && same) return e.block;
  }
  return std::nullopt;
}

std::optional<BlockId> FaultHostPool::find_tier(GroupId group, std::uint64_t tier_hash) const {
  for (const std::vector<Entry>& bucket : buckets_) {
    for (const Entry& e : bucket) {
      if (e.key.group == group && e.key.tier_hash == tier_hash) return e.block;
    }
  }
  return std::nullopt;
}

bool FaultHostPool::has_content() const {
  return std::any_of(buckets_.begin(), buckets_.end(), [](const auto& b) { return !b.empty(); });
}

std::uint64_t FaultHostPool::queued(const Blocks& found) const {
  return static_cast<std::uint64_t>(std::count_if(found.begin(), found.end(), [&](BlockId block) {
    return block != kNullBlock && blocks_[block].refs == 0;
  }));
}

void FaultHostPool::observe(PoolState& out) const {
  out.num_free = static_cast<std::uint32_t>(free_.size());
  out.usage = 0.0;
  if (blocks_.size() > 1) {
    out.usage = 1.0 - static_cast<double>(free_.size()) / static_cast<double>(blocks_.size() - 1);
  }
  out.queue.assign(free_.begin(), free_.end());
  out.queue_backward.assign(free_.rbegin(), free_.rend());
  out.blocks.assign(blocks_.size(), {});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& b = blocks_[i];
    out.blocks[i].ref_cnt = b.refs;
    out.blocks[i].hashed = b.hashed;
    if (!b.hashed) continue;
    out.blocks[i].group = b.key.group;
    out.blocks[i].key = b.key.hash;
    out.blocks[i].prefix_tokens = b.key.prefix_tokens;
  }
  for (BlockId block : free_) out.blocks[block].linked = true;
  std::map<std::pair<GroupId, std::uint64_t>, Blocks> entries;
  for (const std::vector<Entry>& bucket : buckets_) {
    for (const Entry& e : bucket) entries[{e.key.group, e.key.hash}].push_back(e.block);
  }
  out.index.clear();
  for (const auto& [key, copies] : entries) out.index.push_back({key.first, key.second, copies});
  std::sort(out.index.begin(), out.index.end(),
            [](const IndexEntry& a, const IndexEntry& b) { return a.blocks < b.blocks; });
}

}  // namespace kvproof::properties
