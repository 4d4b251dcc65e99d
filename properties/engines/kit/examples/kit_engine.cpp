// SPDX-License-Identifier: Apache-2.0
// An example of a plugin over kvproof_engine.h: an engine that keeps the tables of its requests
// itself, and finds whole blocks of prompts until they are taken again. Its blocks begin with 0.
#include "properties/engines/kit/kvproof_engine.h"

namespace example {

using kvproof_kit::Block;
using kvproof_kit::Blocks;
using kvproof_kit::EngineRequest;
using kvproof_kit::Key;

class KitEngine final : public kvproof_kit::Engine {
 public:
  KitEngine() : Engine(says()) {}

 protected:
  void build() override {
    holders_.assign(usable(), 0);
    for (Block block = 0; block < usable(); ++block) free_.push_back(block);
  }

  Blocks lookup(EngineRequest& r) override {
    Blocks out;
    for (const Key key : hashes(r)) {
      if (index_.count(key) == 0 || (out.size() + 1) * size() >= r.tokens.size()) break;
      out.push_back(index_.at(key));
    }
    return out;
  }

  std::optional<std::size_t> admit(EngineRequest& r, std::size_t end, const Blocks* hit) override {
    r.own = *hit;
    for (const Block block : *hit) {
      if (holders_[block]++ == 0) free_.erase(std::find(free_.begin(), free_.end(), block));
    }
    if (grow(r, end)) return hit->size() * size();
    release(r);
    return std::nullopt;
  }

  bool grow(EngineRequest& r, std::size_t end) override {
    Blocks& mine = std::any_cast<Blocks&>(r.own);
    const std::size_t length = (end + size() - 1) / size();
    if (length > mine.size() + free_.size()) return false;
    while (mine.size() < length) {
      const Block block = free_.front();
      free_.erase(free_.begin());
      mine.push_back(block);
      holders_[block] = 1;
#ifndef KVPROOF_SEEDED  // a block that is taken again is still found
      if (carried_.count(block) != 0) index_.erase(carried_.at(block));
      carried_.erase(block);
#endif
    }
    return true;
  }

  void advance(EngineRequest& r) override {
    const auto keys = hashes(r);
    for (std::size_t at = 0; caching() && at < r.computed / size(); ++at) {
      const Block block = table(r)[at];
      if (index_.emplace(keys[at], block).second) carried_[block] = keys[at];
    }
  }

  void release(EngineRequest& r) override {
    const Blocks mine = table(r);
    for (auto block = mine.rbegin(); block != mine.rend(); ++block) {
      if (--holders_[*block] == 0) free_.push_back(*block);
    }
  }

  Blocks table(const EngineRequest& r) const override { return std::any_cast<Blocks>(r.own); }
  std::size_t num_free() const override { return free_.size(); }
  std::optional<Blocks> free_blocks() const override { return free_; }
  std::optional<std::map<Block, std::size_t>> counts() const override {
    std::map<Block, std::size_t> out;
    for (Block block = 0; block < usable(); ++block) out[block] = holders_[block];
    return out;
  }
  std::optional<std::map<Block, Key>> keys() const override { return carried_; }
  std::optional<std::map<Key, Blocks>> index() const override {
    std::map<Key, Blocks> out;
    for (const auto& [key, block] : index_) out[key] = {block};
    return out;
  }
  std::vector<Key> hashes(const EngineRequest& r) const override {
    std::vector<Key> out;
    kvproof_kit::extend_keys(out, r.tokens, size());
    return out;
  }

 private:
  static kvproof_kit::Says says() {
    kvproof_kit::Says out;
    out.traits = {{"duplicates", "oldest_keeps"}};
    out.abilities = {{"chunks", true}};
    return out;
  }

  Blocks free_;
  std::vector<std::size_t> holders_;
  std::map<Block, Key> carried_;
  std::map<Key, Block> index_;
};

}  // namespace example

KVPROOF_ENGINE_PLUGIN(example::KitEngine);
