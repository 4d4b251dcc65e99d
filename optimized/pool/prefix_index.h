// SPDX-License-Identifier: Apache-2.0
// The prefix index: from a block hash to the blocks that hold that content, oldest registration
// first.
//
// Model:   open addressing over 64-byte chunks (12 one-byte tags, 12 block ids, the number of keys
//          that found a chunk full and 16 bits that say which these may be), two thirds full when
//          every block carries a key. Keys stay in the block records; a chunk holds the oldest
//          block of a key, and younger ones hang off it in a ring. A lookup touches one chunk and
//          one record.
// Source:  the chunk of F14 (facebook/folly, F14.md); the semantics of vLLM v1 BlockHashToBlockMap.
// Leaves out: growth. It is built for num_blocks entries and never moves one.
#pragma once

#include <cstdint>
#include <vector>

#include "optimized/pool/block_record.h"
#include "optimized/pool/hashing.h"
#include "optimized/pool/huge_pages.h"
#include "reference/ids.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvproof::optimized {

template <class Key>
class PrefixIndex {
 public:
  using Record = BlockRecord<Key>;

  /// @param records shape [num_blocks], owned by the pool.
  PrefixIndex(Record* records, std::uint32_t num_blocks);

  /// Counted when it is asked for. O(num_blocks)
  [[nodiscard]] std::uint32_t num_keys() const;

  /// The oldest block with that key, or kNoBlock.
  [[nodiscard]] BlockId find(const Key& key) const;

  /// Starts to fetch the data that find(key) will read. Inlined, or the compiler drops a call that
  /// changes nothing.
  [[gnu::always_inline]] void prefetch(const Key& key) const {
    __builtin_prefetch(&chunks_[home(key)], 0, 2);
  }

  /// Registers a block under a key, behind those that have it already. Sets the flags of its record
  /// anew. @param marks flags besides @pre the block carries no key
  void insert(const Key& key, BlockId block, std::uint32_t marks = 0);
  /// As insert(), but the chunk is only fetched now. It names the block when the next key enters or
  /// when somebody asks, so callers see no difference. The first question after it writes: two
  /// threads must not ask at once.
  void insert_later(const Key& key, BlockId block);
  /// Completes insert_later().
  void settle() const {
    if (pending_ != kNoBlock) [[unlikely]]
      complete_pending();
  }

  /// Takes a block's key away, and its flags. @pre the block carries one
  void erase(BlockId block) {
    Record& record = records_[block];
    if (!is_simple(record.flags)) [[unlikely]]
      return erase_elsewhere(block);
    erase_simple(record);
  }
  /// Whether such a block has one key, which no other has, in the chunk where it belongs.
  [[nodiscard]] static bool is_simple(std::uint32_t flags) {
    return (flags & (Record::kAtHome | Record::kShared | Record::kTailKeyed)) == Record::kAtHome;
  }
  /// As erase(). @pre is_simple()
  void erase_simple(Record& record) {
    const std::uint32_t slot = (record.flags & Record::kSlot) >> Record::kSlotShift;
    chunks_[home(record.key)].tags[slot] = 0;
    record.flags = 0;
  }

  void clear();

  /// The next younger block with the same key, or kNoBlock after the youngest. @pre the block
  /// carries a key
  [[nodiscard]] BlockId next_copy(BlockId block) const;

  /// Whether the index names this block for its key. @pre the block carries a key
  [[nodiscard]] bool is_oldest(BlockId block) const {
    settle();
    return (records_[block].flags & Record::kHead) != 0;
  }

  /// False if the record names a slot, and the slot does not name the block.
  [[nodiscard]] bool stands_where_it_says(BlockId block) const {
    const Record& record = records_[block];
    const std::uint32_t slot = (record.flags & Record::kSlot) >> Record::kSlotShift;
    return (record.flags & Record::kAtHome) == 0 || chunks_[home(record.key)].blocks[slot] == block;
  }

  /// Memory owned here, beside the records.
  [[nodiscard]] std::uint64_t bytes() const {
    return chunks_.size() * sizeof(Chunk) + rings_.size() * sizeof(Ring);
  }

 private:
  static constexpr std::uint32_t kWidth = 12;
  static constexpr std::uint8_t kLostCount = 255;  // an overflow count that is not kept any more

  struct alignas(64) Chunk {
    std::uint8_t tags[kWidth] = {};  // 0 = empty
    std::uint16_t gone_on = 0;       // passed() of the keys that wanted this chunk and went on
    std::uint8_t unused = 0;
    std::uint8_t overflow = 0;  // the number of these keys; 255 = lost count, for good
    BlockId blocks[kWidth];
  };
  static_assert(sizeof(Chunk) == 64);

  struct Ring {
    BlockId next = 0;
    BlockId prev = 0;
  };

  [[nodiscard]] std::uint64_t home(const Key& key) const {
    // Maps a word that is as good as random to [0, num_chunks) without a division.
    return static_cast<std::uint64_t>((static_cast<Uint128>(key.words[0]) * num_chunks_) >> 64);
  }
  [[nodiscard]] static std::uint8_t tag(const Key& key) {
    const auto byte = static_cast<std::uint8_t>(key.words[1]);
    return static_cast<std::uint8_t>(byte + (byte == 0 ? 1 : 0));
  }
  /// The bit that tells in Chunk::gone_on whether such a key may live behind the chunk.
  [[nodiscard]] static std::uint32_t passed(std::uint8_t tag) { return 1U << (tag % 16U); }
  [[nodiscard]] std::uint64_t behind(std::uint64_t chunk) const {
    return chunk + 1 == num_chunks_ ? 0 : chunk + 1;
  }
  [[nodiscard]] Chunk* behind(Chunk* chunk) const {
    return chunk + 1 == chunks_.data() + num_chunks_ ? chunks_.data() : chunk + 1;
  }
  [[nodiscard]] static std::uint32_t match(const Chunk& chunk, std::uint8_t tag);
  /// The first slot of those that match. @pre there is one
  [[nodiscard]] static std::size_t first_of(std::uint32_t mask) {
    return static_cast<std::uint32_t>(__builtin_ctz(mask));
  }

  struct Place {
    Chunk* chunk;
    std::size_t slot;
  };
  /// The slot that names `block` for its key. @param leaves it will be emptied: keys that went past
  /// full chunks are not counted there any more
  Place locate(const Key& key, BlockId block, bool leaves);
  /// As erase(), of a block with copies or whose key lives behind a full chunk.
  void erase_elsewhere(BlockId block);
  void append_copy(BlockId head, BlockId block) const;
  void erase_copy(BlockId block);
  /// Names a block, which has its key and flags, in the chunk of its key or behind the block that
  /// the chunk names.
  void name(Chunk& chunk, BlockId block) const;
  /// The same where the chunk is full or such keys went past it.
  void name_elsewhere(Chunk& chunk, std::uint32_t empty, BlockId block) const;
  void complete_pending() const;
  /// Names a block in the first empty slot. @param empty a bit for each empty slot @return the slot
  std::size_t enter(Chunk& chunk, std::uint32_t empty, std::uint8_t tag, BlockId block) const {
    const std::size_t slot = first_of(empty);
    chunk.tags[slot] = tag;
    chunk.blocks[slot] = block;
    return slot;
  }
  [[nodiscard]] BlockId find_behind(Chunk* chunk, const Key& key) const;

  Record* records_;
  std::uint64_t num_chunks_;
  // Reading completes what insert_later() has begun.
  mutable HugeVector<Chunk> chunks_;  // shape [num_chunks]
  mutable HugeVector<Ring> rings_;    // shape [num_blocks]; valid where the record says kShared
  mutable BlockId pending_ = kNoBlock;
  Chunk* pending_chunk_ = nullptr;  // of its key
};

/// A bit for each slot of the chunk with that tag.
template <class Key>
std::uint32_t PrefixIndex<Key>::match(const Chunk& chunk, std::uint8_t tag) {
#if defined(__SSE2__)
  const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(chunk.tags));
  const __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi32(static_cast<int>(tag * 0x01010101U)));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) & ((1U << kWidth) - 1);
#else
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < kWidth; ++i) mask |= std::uint32_t{chunk.tags[i] == tag} << i;
  return mask;
#endif
}

template <class Key>
[[gnu::always_inline]] inline void PrefixIndex<Key>::insert(const Key& key, BlockId block,
                                                            std::uint32_t marks) {
  settle();
  Record& record = records_[block];
  record.key = key;
  record.flags = marks | Record::kHashed | Record::kHead;
  name(chunks_[home(key)], block);
}

template <class Key>
[[gnu::always_inline]] inline void PrefixIndex<Key>::insert_later(const Key& key, BlockId block) {
  Chunk* const chunk = &chunks_[home(key)];
  __builtin_prefetch(chunk, 1, 2);
  Record& record = records_[block];
  record.key = key;
  record.flags = Record::kHashed | Record::kHead;
  const BlockId before = pending_;
  Chunk& its_chunk = *pending_chunk_;
  pending_ = block;
  pending_chunk_ = chunk;
  if (before != kNoBlock) [[likely]]
    name(its_chunk, before);
}

// The search for an older copy and for an empty slot read the same chunk, nearly always the first.
template <class Key>
[[gnu::always_inline]] inline void PrefixIndex<Key>::name(Chunk& chunk, BlockId block) const {
  Record& record = records_[block];
  const Key& key = record.key;
  const std::uint8_t wanted = tag(key);
  for (std::uint32_t mask = match(chunk, wanted); mask != 0; mask &= mask - 1) {
    const BlockId head = chunk.blocks[first_of(mask)];
    if (records_[head].key == key) [[unlikely]]
      return append_copy(head, block);
  }
  const std::uint32_t empty = match(chunk, 0);
  if (empty == 0 || (chunk.gone_on & passed(wanted)) != 0) [[unlikely]]
    return name_elsewhere(chunk, empty, block);
  record.flags |= Record::at(enter(chunk, empty, wanted, block));
}

template <class Key>
[[gnu::always_inline]] inline BlockId PrefixIndex<Key>::find(const Key& key) const {
  settle();
  Chunk& chunk = chunks_[home(key)];
  const std::uint8_t wanted = tag(key);
  for (std::uint32_t mask = match(chunk, wanted); mask != 0; mask &= mask - 1) {
    const BlockId block = chunk.blocks[first_of(mask)];
    if (records_[block].key == key) return block;
  }
  return (chunk.gone_on & passed(wanted)) == 0 ? kNoBlock : find_behind(&chunk, key);
}

}  // namespace kvproof::optimized
