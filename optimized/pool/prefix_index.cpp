// SPDX-License-Identifier: Apache-2.0
#include "optimized/pool/prefix_index.h"

#include <bit>
#include <utility>

namespace kvproof::optimized {
namespace {

// Of 12 slots, on average, when every block carries a key: with a record of 32 bytes and a ring
// of 8 this makes 48 bytes per block.
constexpr std::uint32_t kFill = 8;

std::uint64_t num_chunks_for(std::uint32_t num_blocks) {
  constexpr std::uint32_t kSpare = 2;  // paid for by the sentinel record and rounding
  const std::uint32_t least = num_blocks / 12 + 1;
  return num_blocks / kFill > least + kSpare ? num_blocks / kFill - kSpare : least;
}

}  // namespace

template <class Key>
PrefixIndex<Key>::PrefixIndex(Record* records, std::uint32_t num_blocks)
    : records_(records),
      num_chunks_(num_chunks_for(num_blocks)),
      chunks_(num_chunks_),
      rings_(num_blocks) {}

template <class Key>
BlockId PrefixIndex<Key>::find_behind(Chunk* at, const Key& key) const {
  const std::uint8_t wanted = tag(key);
  // Bounded by the number of chunks: where keys have gone on from every one there is no other end.
  for (std::uint64_t probes = 1; probes < num_chunks_; ++probes) {
    if ((at->gone_on & passed(wanted)) == 0) break;
    at = behind(at);
    for (std::uint32_t mask = match(*at, wanted); mask != 0; mask &= mask - 1) {
      const BlockId block = at->blocks[first_of(mask)];
      if (records_[block].key == key) return block;
    }
  }
  return kNoBlock;
}

// A copy is looked for where such keys went on; then the first chunk with an empty slot is taken.
template <class Key>
void PrefixIndex<Key>::name_elsewhere(Chunk& first, std::uint32_t empty, BlockId block) const {
  Record& record = records_[block];
  const std::uint8_t wanted = tag(record.key);
  if ((first.gone_on & passed(wanted)) != 0) {
    const BlockId head = find_behind(&first, record.key);
    if (head != kNoBlock) return append_copy(head, block);
  }
  if (empty != 0) {
    record.flags |= Record::at(enter(first, empty, wanted, block));
    return;
  }
  Chunk* chunk = &first;
  while (empty == 0) {
    if (chunk->overflow != kLostCount) ++chunk->overflow;
    chunk->gone_on |= static_cast<std::uint16_t>(passed(wanted));
    chunk = behind(chunk);
    empty = match(*chunk, 0);
  }
  enter(*chunk, empty, wanted, block);
}

template <class Key>
std::uint32_t PrefixIndex<Key>::num_keys() const {
  settle();
  std::uint32_t keys = 0;
  for (const Chunk& chunk : chunks_) {
    keys += kWidth - static_cast<std::uint32_t>(std::popcount(match(chunk, 0)));
  }
  return keys;
}

template <class Key>
void PrefixIndex<Key>::complete_pending() const {
  name(*pending_chunk_, std::exchange(pending_, kNoBlock));
}

template <class Key>
auto PrefixIndex<Key>::locate(const Key& key, BlockId block, bool leaves) -> Place {
  const std::uint8_t wanted = tag(key);
  for (std::uint64_t at = home(key);; at = behind(at)) {
    Chunk& chunk = chunks_[at];
    for (std::uint32_t mask = match(chunk, wanted); mask != 0; mask &= mask - 1) {
      const std::size_t slot = first_of(mask);
      if (chunk.blocks[slot] == block) return {&chunk, slot};
    }
    if (leaves && chunk.overflow != kLostCount && --chunk.overflow == 0) chunk.gone_on = 0;
  }
}

template <class Key>
void PrefixIndex<Key>::erase_elsewhere(BlockId block) {
  if (block == pending_) {
    complete_pending();
    return erase(block);
  }
  Record& record = records_[block];
  if ((record.flags & Record::kShared) != 0) return erase_copy(block);
  const auto [chunk, slot] = locate(record.key, block, /*leaves=*/true);
  chunk->tags[slot] = 0;
  record.flags = 0;
}

template <class Key>
void PrefixIndex<Key>::append_copy(BlockId head, BlockId block) const {
  Record& first = records_[head];
  if ((first.flags & Record::kShared) == 0) {
    rings_[head] = {head, head};
    first.flags |= Record::kShared;
  }
  const BlockId last = rings_[head].prev;
  rings_[block] = {head, last};
  rings_[last].next = block;
  rings_[head].prev = block;
  records_[block].flags ^= Record::kHead | Record::kShared;
}

template <class Key>
void PrefixIndex<Key>::erase_copy(BlockId block) {
  Record& record = records_[block];
  const auto [next, prev] = rings_[block];
  rings_[next].prev = prev;
  rings_[prev].next = next;
  if ((record.flags & Record::kHead) != 0) {
    const auto [chunk, slot] = locate(record.key, block, /*leaves=*/false);
    chunk->blocks[slot] = next;
    records_[next].flags |= record.flags & (Record::kHead | Record::kAtHome | Record::kSlot);
  }
  if (next == prev) records_[next].flags &= ~Record::kShared;  // one copy is left
  record.flags = 0;
}

template <class Key>
void PrefixIndex<Key>::clear() {
  for (Chunk& chunk : chunks_) chunk = Chunk{};
  pending_ = kNoBlock;
}

template <class Key>
BlockId PrefixIndex<Key>::next_copy(BlockId block) const {
  settle();
  if ((records_[block].flags & Record::kShared) == 0) return kNoBlock;
  const BlockId next = rings_[block].next;
  return (records_[next].flags & Record::kHead) != 0 ? kNoBlock : next;
}

template class PrefixIndex<Key128>;
template class PrefixIndex<Key256>;

}  // namespace kvproof::optimized
