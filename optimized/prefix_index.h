// SPDX-License-Identifier: Apache-2.0
// The prefix index: from a block hash to the blocks that hold that content, oldest registration
// first.
//
// Model:   open addressing over 64-byte chunks (12 one-byte tags, 12 block ids, an overflow count),
//          at most three quarters full. Keys stay in the block records; a chunk holds the oldest
//          block of a key, and younger ones hang off it in a ring. A lookup touches one chunk and
//          one record.
// Source:  the chunk of F14 (facebook/folly, F14.md); the semantics of vLLM v1 BlockHashToBlockMap.
// Refuses: growth. Built for num_blocks entries, it never moves one.
#pragma once

#include <cstdint>
#include <vector>

#include "optimized/hashing.h"
#include "reference/ids.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvproof::optimized {

__extension__ using Uint128 = unsigned __int128;

inline constexpr BlockId kNoBlock = 0xffffffffU;

/// A block: its place in the free queue, its holders, its key. With a 128-bit key it is half a
/// cache line, and aligned so that it never straddles two.
template <class Key>
struct alignas(sizeof(Key) == 16 ? 32 : 16) BlockRecord {
  static constexpr std::uint32_t kHashed = 1;  // key is valid and the block is in the index
  static constexpr std::uint32_t kHead = 2;    // the index's chunk names this block
  static constexpr std::uint32_t kShared =
      4;  // other blocks carry the same key: ring links are valid

  std::uint32_t prev = 0xffffffffU;
  std::uint32_t next = 0xffffffffU;
  std::uint32_t ref_cnt = 0;
  std::uint32_t flags = 0;
  Key key;
};

template <class Key>
class PrefixIndex {
 public:
  using Record = BlockRecord<Key>;

  /// @param records shape [num_blocks + 1], owned by the pool.
  PrefixIndex(Record* records, std::uint32_t num_blocks);

  /// Distinct keys.
  [[nodiscard]] std::uint32_t num_keys() const { return num_keys_; }

  /// The oldest block with that key, or kNoBlock.
  [[nodiscard]] BlockId find(const Key& key) const;

  /// Starts fetching what find(key) will read.
  void prefetch(const Key& key) const { __builtin_prefetch(&chunks_[home(key)], 0, 2); }

  /// Registers a block under a key, behind those that have it already. @pre the block carries no
  /// key
  void insert(const Key& key, BlockId block);

  /// Takes a block's key away. @pre the block carries one
  void erase(BlockId block);

  void clear();

  /// The next younger block with the same key, or kNoBlock after the youngest. @pre the block
  /// carries a key
  [[nodiscard]] BlockId next_copy(BlockId block) const;

  /// Memory owned here, beside the records.
  [[nodiscard]] std::uint64_t bytes() const {
    return chunks_.size() * sizeof(Chunk) + rings_.size() * sizeof(Ring);
  }

 private:
  static constexpr std::uint32_t kWidth = 12;

  struct alignas(64) Chunk {
    std::uint8_t tags[kWidth] = {};  // 0 = empty
    std::uint8_t unused[3] = {};
    std::uint8_t overflow =
        0;  // keys that wanted this chunk and went on; 255 = lost count, for good
    BlockId blocks[kWidth];
  };
  static_assert(sizeof(Chunk) == 64);

  struct Ring {
    BlockId next = 0;
    BlockId prev = 0;
  };

  [[nodiscard]] std::uint64_t home(const Key& key) const {
    // The multiplication spreads keys whose low bits alone differ; the high half of the second one
    // maps the result to [0, num_chunks) without a division.
    const std::uint64_t spread = key.words[0] * 0x9e3779b97f4a7c15U;
    return static_cast<std::uint64_t>((static_cast<Uint128>(spread) * num_chunks_) >> 64);
  }
  [[nodiscard]] static std::uint8_t tag(const Key& key) {
    const auto byte = static_cast<std::uint8_t>(key.words[1]);
    return byte == 0 ? std::uint8_t{1} : byte;
  }
  [[nodiscard]] std::uint64_t behind(std::uint64_t chunk) const {
    return chunk + 1 == num_chunks_ ? 0 : chunk + 1;
  }
  [[nodiscard]] static std::uint32_t match(const Chunk& chunk, std::uint8_t tag);

  void replace(BlockId old_block, BlockId new_block);
  void append_copy(BlockId head, BlockId block);

  Record* records_;
  std::uint64_t num_chunks_;
  std::vector<Chunk> chunks_;  // shape [num_chunks]
  std::vector<Ring> rings_;    // shape [num_blocks]; valid where the record says kShared
  std::uint32_t num_keys_ = 0;
};

/// A bit for each slot of the chunk with that tag.
template <class Key>
std::uint32_t PrefixIndex<Key>::match(const Chunk& chunk, std::uint8_t tag) {
#if defined(__SSE2__)
  const __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(chunk.tags));
  const __m128i equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8(static_cast<char>(tag)));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(equal)) & ((1U << kWidth) - 1);
#else
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < kWidth; ++i) mask |= std::uint32_t{chunk.tags[i] == tag} << i;
  return mask;
#endif
}

template <class Key>
BlockId PrefixIndex<Key>::find(const Key& key) const {
  const std::uint8_t wanted = tag(key);
  std::uint64_t at = home(key);
  // Bounded by the number of chunks: with every overflow count above zero there would be no other
  // end.
  for (std::size_t probes = 0; probes < num_chunks_; ++probes, at = behind(at)) {
    const Chunk& chunk = chunks_[at];
    for (std::uint32_t mask = match(chunk, wanted); mask != 0; mask &= mask - 1) {
      const BlockId block = chunk.blocks[__builtin_ctz(mask)];
      if (records_[block].key == key) return block;
    }
    if (chunk.overflow == 0) return kNoBlock;
  }
  return kNoBlock;
}

}  // namespace kvproof::optimized
