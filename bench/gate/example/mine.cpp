// SPDX-License-Identifier: Apache-2.0
// An example of an allocator whose changes are gated: free blocks stand in a linked list, what they
// hold in a table of open addressing. kvproof_kit.h keeps the tables of requests, for `check` by
// lines of JSON, and for `gate` by direct calls.
#include "properties/engines/kit/kvproof_kit.h"

namespace mine {

using kvproof_kit::Blocks;
using kvproof_kit::Key;
using Number = kvproof_kit::Block;

/// A block. Free blocks stand in a list; the first one is taken next.
struct Block {
  Key key = 0;  // of its content and all before it
  Number prev = 0;
  Number next = 0;
  Number refs = 0;
  bool has_key = false;
};

class Pool final : public kvproof_kit::Pool {
 public:
  explicit Pool(std::size_t num_blocks) : blocks_(num_blocks + 1) {
    std::size_t size = 4;
    while (size < 2 * blocks_.size()) size *= 2;
    index_.resize(size);
    for (Number block = 1; block < blocks_.size(); ++block) link(block);
  }

  std::optional<Blocks> take(std::size_t count) override {
    if (count > num_free_) return std::nullopt;
    Blocks out(count);
    for (Number& block : out) {
      block = blocks_[0].next;
      unlink(block);
      if (blocks_[block].has_key) forget(block);
      blocks_[block].refs = 1;
    }
    return out;
  }
  void touch(const Blocks& blocks) override {
    for (const Number block : blocks) {
      if (blocks_[block].refs++ == 0) unlink(block);
    }
  }
  void drop(const Blocks& blocks) override {
    for (const Number block : blocks) {
      if (--blocks_[block].refs == 0) link(block);
    }
  }
  void publish(Number block, Key key) override {
    if (blocks_[block].has_key) return;
    blocks_[block].key = key;
    blocks_[block].has_key = true;
    index_[place_of(key)] = block;
  }
  std::optional<Number> find(Key key) const override {
    const Number block = index_[place_of(key)];
    return block == 0 ? std::nullopt : std::optional(block);
  }

  Blocks free_blocks() const override {
    Blocks out;
    for (Number block = blocks_[0].next; block != 0; block = blocks_[block].next) {
      out.push_back(block);
    }
    return out;
  }
  std::size_t holders(Number block) const override { return blocks_[block].refs; }
  std::optional<Key> key_of(Number block) const override {
    return blocks_[block].has_key ? std::optional(blocks_[block].key) : std::nullopt;
  }

 private:
  void link(Number block) {
    Block& b = blocks_[block];
    b.next = 0;
    b.prev = blocks_[0].prev;
    blocks_[b.prev].next = block;
    blocks_[0].prev = block;
    ++num_free_;
  }
  void unlink(Number block) {
    const Block& b = blocks_[block];
    blocks_[b.prev].next = b.next;
    blocks_[b.next].prev = b.prev;
    --num_free_;
  }

  /// @return where the key stands, or the empty place where it would
  std::size_t place_of(Key key) const {
    const std::size_t mask = index_.size() - 1;
    std::size_t at = key & mask;
    while (index_[at] != 0 && blocks_[index_[at]].key != key) at = (at + 1) & mask;
    return at;
  }
  /// Takes the content of a block away, and closes the gap that its key leaves.
  void forget(Number block) {
    const std::size_t mask = index_.size() - 1;
    std::size_t gap = place_of(blocks_[block].key);
    for (std::size_t at = (gap + 1) & mask; index_[at] != 0; at = (at + 1) & mask) {
      const std::size_t wanted = blocks_[index_[at]].key & mask;
      if (((at - wanted) & mask) < ((at - gap) & mask)) continue;
      index_[gap] = index_[at];
      gap = at;
    }
    index_[gap] = 0;
    blocks_[block].has_key = false;
  }

  std::vector<Block> blocks_;  // [0] is the head of the list
  std::vector<Number> index_;  // open addressing by key; 0 = empty
  std::size_t num_free_ = 0;
};

}  // namespace mine

KVPROOF_KIT_PLUGIN(mine::Pool, R"({"duplicates":"oldest_keeps"})");
KVPROOF_KIT_DIRECT(mine::Pool);
