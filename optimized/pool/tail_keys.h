// SPDX-License-Identifier: Apache-2.0
// Keys of prefixes that end inside of a block: beside the key of the block, or before it has one.
//
// Model:   a prefix index of its own over entries of its own, made only where a configuration asks
//          for it, so that a block record has room for one key. The first such key of block b is in
//          entry b, further ones are in entries that all blocks share. Relatives that share the
//          block in which their prompt ends bring them about, where keys cover tokens behind their
//          unit.
// Source:  vLLM PR 45939 (prompt_tail_keys); hits inside blocks of vLLM 0.33.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "optimized/pool/prefix_index.h"

namespace kvproof::optimized {

template <class Key>
class TailKeys {
 public:
  using Record = BlockRecord<Key>;
  using Entry = BlockId;  // what the index knows as a block

  /// @param most [keys per block] there is room for so many of every block. @pre most > 0
  TailKeys(std::uint32_t num_blocks, std::uint32_t most)
      : num_blocks_(num_blocks),
        records_(std::size_t{num_blocks} * most),
        index_(records_.data(), num_entries()),
        prefix_tokens_(num_entries()) {
    clear();
  }

  /// Registers a key behind those that the block has. @return false, with nothing changed, if it is
  /// not the first and all entries are taken. @pre !carries(block, key)
  bool insert(BlockId block, const Key& key, std::uint32_t prefix_tokens) {
    Entry entry = block;
    if (carries_any(block)) {
      if (unused_ == kNoBlock) return false;
      entry = std::exchange(unused_, records_[unused_].next);
      Entry last = block;
      while (next(last) != kNoBlock) last = next(last);
      records_[last].next = entry;
      records_[entry].prev = block;
      records_[entry].next = kNoBlock;
    }
    index_.insert(key, entry);
    prefix_tokens_[entry] = prefix_tokens;
    return true;
  }

  /// Forgets all keys of the block. @pre it has one
  void erase(BlockId block) {
    index_.erase(block);
    for (Entry entry = std::exchange(records_[block].next, kNoBlock); entry != kNoBlock;) {
      index_.erase(entry);
      const Entry rest = std::exchange(records_[entry].next, unused_);
      unused_ = std::exchange(entry, rest);
    }
  }

  /// Registers the keys of one block for another one, in their order. @pre `from` has one, `to` has
  /// none
  void move(BlockId from, BlockId to) {
    index_.erase(from);
    index_.insert(key(from), to);
    prefix_tokens_[to] = prefix_tokens_[from];
    records_[to].next = std::exchange(records_[from].next, kNoBlock);
    for (Entry entry = next(to); entry != kNoBlock; entry = next(entry)) {
      index_.erase(entry);
      index_.insert(key(entry), entry);
      records_[entry].prev = to;
    }
  }

  void clear() {
    index_.clear();
    unused_ = kNoBlock;
    for (std::uint32_t i = num_entries(); i-- > 0;) {
      const Entry entry(i);
      records_[i] = Record();
      records_[i].prev = entry;
      if (i >= num_blocks_) records_[i].next = std::exchange(unused_, entry);
    }
  }

  /// The oldest block with that key, or kNoBlock.
  [[nodiscard]] BlockId find(const Key& key) const {
    const Entry entry = index_.find(key);
    return entry == kNoBlock ? kNoBlock : block_of(entry);
  }
  [[nodiscard]] bool carries(BlockId block, const Key& key) const {
    return any_of(block, [&](Entry entry) { return this->key(entry) == key; });
  }
  /// Whether the block has a key of a prefix of that length.
  [[nodiscard]] bool carries(BlockId block, std::uint32_t prefix_tokens) const {
    return any_of(block, [&](Entry entry) { return prefix_tokens_[entry] == prefix_tokens; });
  }

  /// The entry of the block's next key, or kNoBlock; entry b holds the first one of block b.
  [[nodiscard]] Entry next(Entry entry) const { return records_[entry].next; }
  [[nodiscard]] BlockId block_of(Entry entry) const { return records_[entry].prev; }
  [[nodiscard]] const Key& key(Entry entry) const { return records_[entry].key; }
  [[nodiscard]] std::uint32_t prefix_tokens(Entry entry) const { return prefix_tokens_[entry]; }
  [[nodiscard]] std::uint32_t num_entries() const {
    return static_cast<std::uint32_t>(records_.size());
  }
  /// Its blocks are entries.
  [[nodiscard]] const PrefixIndex<Key>& index() const { return index_; }

 private:
  [[nodiscard]] bool carries_any(BlockId block) const {
    return (records_[block].flags & Record::kHashed) != 0;
  }
  template <class Wanted>
  [[nodiscard]] bool any_of(BlockId block, const Wanted& wanted) const {
    Entry entry = carries_any(block) ? block : kNoBlock;
    while (entry != kNoBlock && !wanted(entry)) entry = next(entry);
    return entry != kNoBlock;
  }

  std::uint32_t num_blocks_;
  std::vector<Record> records_;  // shape [num_entries]; `prev` is the block, `next` its next key
  PrefixIndex<Key> index_;
  std::vector<std::uint32_t> prefix_tokens_;  // shape [num_entries]
  Entry unused_ = kNoBlock;                   // the first shared entry without a key
};

}  // namespace kvproof::optimized
