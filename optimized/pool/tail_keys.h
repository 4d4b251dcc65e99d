// SPDX-License-Identifier: Apache-2.0
// Keys of prefixes that end inside of a block: beside the key of the block, or before it has one.
//
// Model:   a prefix index of its own over records of its own, made only where a configuration asks
//          for it, so that a block record has room for one key.
// Source:  vLLM PR 45939 (prompt_tail_keys); hits inside blocks of vLLM 0.33.
#pragma once

#include <cstdint>
#include <vector>

#include "optimized/pool/prefix_index.h"

namespace kvproof::optimized {

template <class Key>
class TailKeys {
 public:
  using Record = BlockRecord<Key>;

  explicit TailKeys(std::uint32_t num_blocks)
      : records_(num_blocks), index_(records_.data(), num_blocks), prefix_tokens_(num_blocks) {}

  /// @pre the block has no such key
  void insert(BlockId block, const Key& key, std::uint32_t prefix_tokens) {
    index_.insert(key, block);
    prefix_tokens_[block] = prefix_tokens;
  }
  /// @pre the block has one
  void erase(BlockId block) { index_.erase(block); }
  void clear() {
    for (Record& record : records_) record.flags = 0;
    index_.clear();
  }

  [[nodiscard]] const Key& key(BlockId block) const { return records_[block].key; }
  [[nodiscard]] std::uint32_t prefix_tokens(BlockId block) const { return prefix_tokens_[block]; }
  [[nodiscard]] const PrefixIndex<Key>& index() const { return index_; }

 private:
  std::vector<Record> records_;  // shape [num_blocks]; links unused
  PrefixIndex<Key> index_;
  std::vector<std::uint32_t> prefix_tokens_;  // shape [num_blocks]
};

}  // namespace kvproof::optimized
