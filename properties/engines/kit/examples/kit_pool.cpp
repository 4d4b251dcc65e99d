// SPDX-License-Identifier: Apache-2.0
// An example of a plugin over kvproof_kit.h: blocks with a prefix cache, the one that was given
// back longest ago is taken first.
//   c++ -std=c++17 -shared -fPIC -I<prefix>/include/kvproof kit_pool.cpp -o libkit_pool.so
//   kvproof check --subject=./libkit_pool.so
#include <deque>

#include "properties/engines/kit/kvproof_kit.h"

namespace example {

using kvproof_kit::Block;
using kvproof_kit::Blocks;
using kvproof_kit::Key;

class KitPool final : public kvproof_kit::Pool {
 public:
  explicit KitPool(std::size_t blocks) : holders_(blocks + 1), keys_(blocks + 1) {
    for (Block block = 1; block <= blocks; ++block) free_.push_back(block);
  }

  std::optional<Blocks> take(std::size_t count) override {
    if (count > free_.size()) return std::nullopt;
    Blocks out(free_.begin(), free_.begin() + static_cast<long>(count));
    free_.erase(free_.begin(), free_.begin() + static_cast<long>(count));
    for (const Block block : out) {
      holders_[block] = 1;
#ifndef KVPROOF_SEEDED  // a block that is handed out again stays in the index
      if (keys_[block]) index_.erase(*keys_[block]);
      keys_[block].reset();
#endif
    }
    return out;
  }

  void touch(const Blocks& blocks) override {
    for (const Block block : blocks) {
      if (holders_[block]++ == 0) free_.erase(std::find(free_.begin(), free_.end(), block));
    }
  }

  void drop(const Blocks& blocks) override {
    for (const Block block : blocks) {
      if (--holders_[block] == 0) free_.push_back(block);
    }
  }

  void publish(Block block, Key key) override {
    keys_[block] = key;
    index_[key] = block;
  }

  std::optional<Block> find(Key key) const override {
    const auto found = index_.find(key);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }

  Blocks free_blocks() const override { return {free_.begin(), free_.end()}; }
  std::size_t holders(Block block) const override { return holders_[block]; }
  std::optional<Key> key_of(Block block) const override { return keys_[block]; }

 private:
  std::deque<Block> free_;
  std::vector<std::size_t> holders_;
  std::vector<std::optional<Key>> keys_;
  std::map<Key, Block> index_;
};

}  // namespace example

KVPROOF_KIT_PLUGIN(example::KitPool, R"({"duplicates":"oldest_keeps"})");
