// SPDX-License-Identifier: Apache-2.0
// What a store of blocks in C++ needs to stand before `kvproof check --subject=./libmine.so`: this
// file keeps requests and tables, makes keys of content, and speaks the lines of kvproof_subject.h.
//
// Derive from kvproof_kit::Pool, and end the file with KVPROOF_KIT_PLUGIN(Mine, TRAITS): what it
// does otherwise, as README.md beside this file has it, or "{}". Blocks are those of kvproof: 1 is
// the first. examples/kit_pool.cpp is a whole plugin.
// Needs:   C++17 and nlohmann/json.
#ifndef KVPROOF_KIT_H
#define KVPROOF_KIT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "properties/foreign/kvproof_subject.h"

namespace kvproof_kit {

using json = nlohmann::json;
using Block = std::size_t;
using Key = std::uint64_t;
using Blocks = std::vector<Block>;

/// A store of blocks that knows no requests. It is made with the number of its blocks, which are
/// 1 to that number, and is made anew for each manager.
class Pool {
 public:
  virtual ~Pool() = default;

  /// @return so many blocks that nobody held, each held once now; none for a shortage
  virtual std::optional<Blocks> take(std::size_t count) = 0;
  /// Holds blocks that find() has answered, once more.
  virtual void touch(const Blocks& blocks) = 0;
  /// Gives blocks back, the last of a table first.
  virtual void drop(const Blocks& blocks) = 0;
  /// A block carries this content from now on.
  virtual void publish(Block block, Key key) = 0;
  /// @return a block of that content
  virtual std::optional<Block> find(Key key) = 0;

  /// @return the blocks that can be taken, the next one first
  [[nodiscard]] virtual Blocks free_blocks() const = 0;
  /// @return how often a block is held
  [[nodiscard]] virtual std::size_t holders(Block block) const = 0;
  /// @return the content that a block carries
  [[nodiscard]] virtual std::optional<Key> key_of(Block block) const = 0;
};

struct Request {
  std::vector<long> tokens;
  bool skip_lookup = false;
  std::size_t computed = 0;  // [tokens]
  Blocks table, hit;
};

inline constexpr const char* kOperations[] = {"arrive",   "append", "advance", "lookup",
                                              "allocate", "free",   "finish"};

/// One manager: the requests, and the pool behind them.
class Manager {
 public:
  Manager(std::unique_ptr<Pool> pool, const json& config)
      : pool_(std::move(pool)),
        blocks_(config["num_blocks"].get<std::size_t>() - 1),
        size_(config["groups"][0]["block_size"]),
        max_tokens_(config["max_model_len"]),
        caching_(config["enable_caching"]) {}

  /// @return why there is no manager of this configuration; empty if there is
  static std::string why_not(const json& config) {
    const json& groups = config["groups"];
    const bool full = groups[0]["kind"] == "full" || groups[0]["kind"] == "mla";
    if (groups.size() != 1 || !full) return "one group of full attention only";
    if (config["hash_block_size"] != groups[0]["block_size"]) return "keys of whole blocks only";
    return groups[0].value("eagle", false) ? "no EAGLE" : "";
  }

  static json abilities() {
    json out = {{"groups", 1}, {"kinds", {"full", "mla"}}};
    for (const char* name : {"eagle", "watermark", "external", "extra", "delay_cache", "reserved",
                             "full_sequence_must_fit", "in_flight", "max_tokens"}) {
      out[name] = false;
    }
    return out;
  }

  json apply(const json& o) {
    const std::string op = o["op"];
    Request& r = requests_[o["req"]];
    if (op == "arrive") r.skip_lookup = o.value("skip_lookup", false);
    if (op == "arrive" || op == "append") {
      r.tokens.insert(r.tokens.end(), o["tokens"].begin(), o["tokens"].end());
    } else if (op == "advance") {
      advance(r, o["computed"]);
    } else if (op == "lookup") {
      r.hit = lookup(r);
      return {{"out", {{"hit_tokens", r.hit.size() * size_}, {"blocks", {r.hit}}}}};
    } else if (op == "allocate") {
      return {{"out", allocate(o, r)}};
    } else {
      pool_->drop(Blocks(r.table.rbegin(), r.table.rend()));
      r.table.clear();
      r.computed = 0;
      if (op == "finish") requests_.erase(o["req"]);
    }
    return json::object();
  }

  [[nodiscard]] json observe() const {
    const Blocks free = pool_->free_blocks();
    json out = {{"free", free.size()}, {"queue", free}, {"ref", json::array()}};
    json cached = json::array(), keys = json::array(), index = json::array();
    std::map<Key, Blocks> holders;
    for (Block block = 1; block <= blocks_; ++block) {
      if (const std::size_t count = pool_->holders(block)) out["ref"].push_back({block, count});
      if (const auto key = caching_ ? pool_->key_of(block) : std::nullopt) {
        const auto length = lengths_.find(*key);
        cached.push_back({block, 0});
        keys.push_back({block, *key, length == lengths_.end() ? 0 : length->second});
        if (pool_->find(*key) == block) holders[*key].push_back(block);
      }
    }
    for (const auto& [key, found] : holders) index.push_back({0, key, found});
    out["tables"] = json::object();
    json hashes = json::object();
    for (const auto& [name, r] : requests_) {
      out["tables"][name] = json::array({r.table});
      hashes[name] = keys_of(r);
    }
    if (caching_) {
      out.update({{"cached", cached}, {"key", keys}, {"index", index}, {"hashes", hashes}});
    }
    return out;
  }

 private:
  /// One key for each whole block: equal where all tokens so far are.
  [[nodiscard]] std::vector<Key> keys_of(const Request& r) const {
    std::vector<Key> out;
    Key key = 14695981039346656037U;  // FNV-1a, over whole tokens
    for (std::size_t end = size_; end <= r.tokens.size(); end += size_) {
      for (std::size_t at = end - size_; at < end; ++at) {
        key = (key ^ static_cast<Key>(r.tokens[at] + 1)) * 1099511628211U;
      }
      out.push_back(key);
      lengths_[key] = end;
    }
    return out;
  }

  Blocks lookup(const Request& r) {
    Blocks out;
    if (!caching_ || r.skip_lookup || r.tokens.empty()) return out;
    std::vector<Key> keys = keys_of(r);
    keys.resize((r.tokens.size() - 1) / size_);
    for (const Key key : keys) {
      const auto block = pool_->find(key);
      if (!block) break;
      out.push_back(*block);
    }
    return out;
  }

  json allocate(const json& o, Request& r) {
    const Blocks hit = o["use_lookup"] ? r.hit : Blocks();
    const std::size_t wanted = r.computed + hit.size() * size_ +
                               o["new_tokens"].get<std::size_t>() +
                               o["lookahead"].get<std::size_t>();
    const std::size_t length = (std::min(wanted, max_tokens_) + size_ - 1) / size_;
    pool_->touch(hit);
    const std::size_t held = r.table.size() + hit.size();
    const auto taken = pool_->take(length > held ? length - held : 0);
    if (!taken) {
      pool_->drop(Blocks(hit.rbegin(), hit.rend()));
      return nullptr;
    }
    r.table.insert(r.table.end(), hit.begin(), hit.end());
    r.table.insert(r.table.end(), taken->begin(), taken->end());
    return {{"blocks", {*taken}}};
  }

  void advance(Request& r, std::size_t computed) {
    r.computed = computed;
    if (!caching_) return;
    const std::vector<Key> keys = keys_of(r);
    const std::size_t whole = std::min({computed / size_, keys.size(), r.table.size()});
    for (std::size_t at = 0; at < whole; ++at) {
      if (!pool_->find(keys[at])) pool_->publish(r.table[at], keys[at]);
    }
  }

  std::unique_ptr<Pool> pool_;
  std::size_t blocks_, size_, max_tokens_;  // [tokens] but for the first
  bool caching_;
  std::map<std::string, Request> requests_;
  mutable std::map<Key, std::size_t> lengths_;  // of the prefix of each key that was made [tokens]
};

}  // namespace kvproof_kit

struct kvproof_subject {
  kvproof_kit::Manager manager;
  std::string answer;  // lives until the next call
};

// The functions of kvproof_subject.h over a class that derives from Pool.
#define KVPROOF_KIT_PLUGIN(POOL, TRAITS)                                               \
  uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }                       \
  kvproof_subject* kvproof_subject_create(const char* header, const char** promises) { \
    static std::string said;                                                           \
    const kvproof_kit::json config = kvproof_kit::json::parse(header)["config"];       \
    const std::string reason = kvproof_kit::Manager::why_not(config);                  \
    kvproof_kit::json answer = {{"traits", kvproof_kit::json::parse(TRAITS)},          \
                                {"abilities", kvproof_kit::Manager::abilities()}};     \
    if (reason.empty()) {                                                              \
      answer.update({{"promises", "safety"},                                           \
                     {"block_ids", true},                                              \
                     {"operations", kvproof_kit::kOperations}});                       \
    } else {                                                                           \
      answer.update({{"unsupported", true}, {"reason", reason}});                      \
    }                                                                                  \
    *promises = (said = answer.dump()).c_str();                                        \
    if (!reason.empty()) return nullptr;                                               \
    auto pool = std::make_unique<POOL>(config["num_blocks"].get<std::size_t>() - 1);   \
    return new kvproof_subject{kvproof_kit::Manager(std::move(pool), config), {}};     \
  }                                                                                    \
  const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation) { \
    const auto parsed = kvproof_kit::json::parse(operation);                           \
    return (subject->answer = subject->manager.apply(parsed).dump()).c_str();          \
  }                                                                                    \
  const char* kvproof_subject_observe(kvproof_subject* subject) {                      \
    return (subject->answer = subject->manager.observe().dump()).c_str();              \
  }                                                                                    \
  void kvproof_subject_destroy(kvproof_subject* subject) { delete subject; }           \
  static_assert(true, "a semicolon follows")

#endif  // KVPROOF_KIT_H
