// SPDX-License-Identifier: Apache-2.0
#include "optimized/prefix_index.h"

#include <limits>

namespace kvproof::optimized {
namespace {

constexpr std::uint8_t kLostCount = std::numeric_limits<std::uint8_t>::max();
constexpr std::uint32_t kFill = 9;  // of 12 slots, on average, when every block carries a key

}  // namespace

template <class Key>
PrefixIndex<Key>::PrefixIndex(Record* records, std::uint32_t num_blocks)
    : records_(records),
      num_chunks_(num_blocks / kFill + 1),
      chunks_(num_chunks_),
      rings_(num_blocks) {}

template <class Key>
void PrefixIndex<Key>::insert(const Key& key, BlockId block) {
  Record& record = records_[block];
  record.key = key;
  if (const BlockId head = find(key); head != kNoBlock) {
    append_copy(head, block);
    return;
  }
  record.flags = Record::kHashed | Record::kHead;
  ++num_keys_;
  std::uint64_t at = home(key);
  std::uint32_t empty = match(chunks_[at], 0);
  for (; empty == 0; empty = match(chunks_[at], 0)) {
    if (chunks_[at].overflow != kLostCount) ++chunks_[at].overflow;
    at = behind(at);
  }
  const int slot = __builtin_ctz(empty);
  chunks_[at].tags[slot] = tag(key);
  chunks_[at].blocks[slot] = block;
}

template <class Key>
void PrefixIndex<Key>::append_copy(BlockId head, BlockId block) {
  Record& first = records_[head];
  if ((first.flags & Record::kShared) == 0) {
    rings_[head] = {head, head};
    first.flags |= Record::kShared;
  }
  const BlockId last = rings_[head].prev;
  rings_[block] = {head, last};
  rings_[last].next = block;
  rings_[head].prev = block;
  records_[block].flags = Record::kHashed | Record::kShared;
}

template <class Key>
void PrefixIndex<Key>::erase(BlockId block) {
  Record& record = records_[block];
  if ((record.flags & Record::kShared) == 0) {
    replace(block, kNoBlock);
    --num_keys_;
  } else {
    const auto [next, prev] = rings_[block];
    rings_[next].prev = prev;
    rings_[prev].next = next;
    if ((record.flags & Record::kHead) != 0) {
      replace(block, next);
      records_[next].flags |= Record::kHead;
    }
    if (next == prev) records_[next].flags &= ~Record::kShared;  // one copy is left
  }
  record.flags = 0;
}

/// Finds the slot that names `old_block` and names `new_block` there, or empties it for kNoBlock.
template <class Key>
void PrefixIndex<Key>::replace(BlockId old_block, BlockId new_block) {
  const Key& key = records_[old_block].key;
  const std::uint8_t wanted = tag(key);
  for (std::uint64_t at = home(key);; at = behind(at)) {
    Chunk& chunk = chunks_[at];
    for (std::uint32_t mask = match(chunk, wanted); mask != 0; mask &= mask - 1) {
      const int slot = __builtin_ctz(mask);
      if (chunk.blocks[slot] != old_block) continue;
      if (new_block == kNoBlock) {
        chunk.tags[slot] = 0;
      } else {
        chunk.blocks[slot] = new_block;
      }
      return;
    }
    if (new_block == kNoBlock && chunk.overflow != kLostCount) --chunk.overflow;
  }
}

template <class Key>
void PrefixIndex<Key>::clear() {
  for (Chunk& chunk : chunks_) chunk = Chunk{};
  num_keys_ = 0;
}

template <class Key>
BlockId PrefixIndex<Key>::next_copy(BlockId block) const {
  if ((records_[block].flags & Record::kShared) == 0) return kNoBlock;
  const BlockId next = rings_[block].next;
  return (records_[next].flags & Record::kHead) != 0 ? kNoBlock : next;
}

template class PrefixIndex<Key128>;
template class PrefixIndex<Key256>;

}  // namespace kvproof::optimized
