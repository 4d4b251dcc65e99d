// SPDX-License-Identifier: Apache-2.0
// What blocks really hold: with it a hit is checked token by token, and a hash collision can cost a
// hit but never serve wrong content.
//
// Model:   every published content has a number; a block remembers its own, that of the block
//          before it, its tokens and its extra keys. Two blocks hold the same iff all of that
//          agrees, so one comparison per block checks the whole prefix.
// Source:  ours; LMDeploy's trie and nano-vllm compare tokens, too.
// Refuses: groups that do not read every token, and the host tier: there the block before is not at
//          hand. Content that was evicted and computed again is new: what was behind it is not hit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>

#include "optimized/hashing.h"
#include "optimized/huge_pages.h"
#include "optimized/prefix_index.h"

namespace kvproof::optimized {

class ExactContents {
 public:
  using ContentNumber = std::uint64_t;
  static constexpr ContentNumber kNoPrefix = 0;

  /// What a position of a request's table has to hold.
  struct Expected {
    ContentNumber before = kNoPrefix;  // number() of the block before it
    std::span<const TokenId> tokens;   // shape [block_size]
    std::string_view extra_keys;       // as append_extra_keys() writes them
  };

  ExactContents(std::uint32_t num_blocks, std::uint32_t block_size)
      : block_size_(block_size),
        notes_(num_blocks),
        tokens_(std::size_t{num_blocks} * block_size) {}

  /// Of the content that the block held when it was last published.
  [[nodiscard]] ContentNumber number(BlockId block) const { return notes_[block].own; }

  [[nodiscard]] bool holds(BlockId block, const Expected& expected) const {
    const Note& note = notes_[block];
    const TokenId* tokens = &tokens_[std::size_t{block} * block_size_];
    if (note.before != expected.before) return false;
    if (std::memcmp(tokens, expected.tokens.data(), expected.tokens.size_bytes()) != 0)
      return false;
    const auto extra = extra_keys_.find(block);
    return expected.extra_keys ==
           (extra == extra_keys_.end() ? std::string_view() : std::string_view(extra->second));
  }

  /// The oldest block under `key` that holds what is expected, or kNoBlock.
  template <class Key>
  [[nodiscard]] BlockId find(const PrefixIndex<Key>& index, const Key& key,
                             const Expected& expected) const {
    BlockId block = index.find(key);
    while (block != kNoBlock && !holds(block, expected)) block = index.next_copy(block);
    return block;
  }

  /// Notes what a block holds that is about to be published under `key`. Equal contents get one
  /// number. Allocates only for extra keys.
  template <class Key>
  void note(const PrefixIndex<Key>& index, const Key& key, BlockId block,
            const Expected& expected) {
    const BlockId twin = find(index, key, expected);
    notes_[block] = {twin == kNoBlock ? ++last_number_ : notes_[twin].own, expected.before};
    std::ranges::copy(expected.tokens, &tokens_[std::size_t{block} * block_size_]);
    if (expected.extra_keys.empty()) {
      extra_keys_.erase(block);
    } else {
      extra_keys_[block] = expected.extra_keys;
    }
  }

  [[nodiscard]] std::uint64_t bytes() const {
    return notes_.size() * sizeof(Note) + tokens_.size() * sizeof(TokenId);
  }

 private:
  struct Note {
    ContentNumber own = kNoPrefix;
    ContentNumber before = kNoPrefix;
  };

  std::uint32_t block_size_;
  ContentNumber last_number_ = kNoPrefix;
  HugeVector<Note> notes_;      // shape [num_blocks]
  HugeVector<TokenId> tokens_;  // shape [num_blocks, block_size]
  std::unordered_map<BlockId, std::string> extra_keys_;
};

}  // namespace kvproof::optimized
