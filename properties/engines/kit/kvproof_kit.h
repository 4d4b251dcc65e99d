// SPDX-License-Identifier: Apache-2.0
// What a store of blocks in C++ needs to stand before `kvproof check --subject=./libmine.so`: this
// file keeps requests and tables, makes keys of content, and speaks the lines of kvproof_subject.h.
//
// Derive from kvproof_kit::Pool, and end the file with KVPROOF_KIT_PLUGIN(Mine, TRAITS): what it
// does otherwise, as README.md beside this file has it, or "{}". With KVPROOF_KIT_DIRECT(Mine)
// behind it `kvproof gate` can measure it, too. Blocks are those of kvproof: 1 is the first.
// examples/kit_pool.cpp is a whole plugin.
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

#include "properties/engines/kit/kvproof_subject.h"

namespace kvproof_kit {

using json = nlohmann::json;
using Block = std::uint32_t;
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
  [[nodiscard]] virtual std::optional<Block> find(Key key) const = 0;

  /// @return the blocks that can be taken, the next one first
  [[nodiscard]] virtual Blocks free_blocks() const = 0;
  /// @return how often a block is held
  [[nodiscard]] virtual std::size_t holders(Block block) const = 0;
  /// @return the content that a block carries
  [[nodiscard]] virtual std::optional<Key> key_of(Block block) const = 0;
};

struct Request {
  std::vector<std::int32_t> tokens;
  std::vector<Key> keys;  // of its whole blocks: equal where all tokens so far are
  bool skip_lookup = false;
  std::size_t computed = 0;  // [tokens]
  Blocks table, hit;
};

/// Adds the keys of whole blocks that are still missing.
inline void extend_keys(std::vector<Key>& keys, const std::vector<std::int32_t>& tokens,
                        std::size_t size) {
  while ((keys.size() + 1) * size <= tokens.size()) {
    Key key = keys.empty() ? 14695981039346656037U : keys.back();  // FNV-1a, of whole tokens
    const std::int32_t* const begin = tokens.data() + keys.size() * size;
    for (const std::int32_t* token = begin; token != begin + size; ++token) {
      key = (key ^ (static_cast<Key>(*token) + 1)) * 1099511628211U;
    }
    keys.push_back(key);
  }
}

/// What requests do to a pool.
class Tables {
 public:
  Tables(std::unique_ptr<Pool> pool, const json& config)
      : pool_(std::move(pool)),
        size_(config["groups"][0]["block_size"]),
        max_tokens_(config["max_model_len"]),
        caching_(config["enable_caching"]) {}

  void append(Request& r, const std::int32_t* tokens, std::size_t count) const {
    r.tokens.insert(r.tokens.end(), tokens, tokens + count);
    if (caching_) extend_keys(r.keys, r.tokens, size_);
  }

  /// @return the tokens of the prefix that was found, whose blocks are r.hit
  std::size_t lookup(Request& r) const {
    r.hit.clear();
    const bool may = caching_ && !r.skip_lookup && !r.tokens.empty();
    for (std::size_t at = 0; may && at < (r.tokens.size() - 1) / size_; ++at) {
      const auto block = pool_->find(r.keys[at]);
      if (!block) break;
      r.hit.push_back(*block);
    }
    return r.hit.size() * size_;
  }

  /// @return the blocks taken; none where it is refused
  std::optional<Blocks> allocate(Request& r, std::size_t new_tokens, bool use_lookup) {
    static const Blocks kNone;
    const Blocks& hit = use_lookup ? r.hit : kNone;
    const std::size_t wanted = r.computed + hit.size() * size_ + new_tokens;
    const std::size_t length = (std::min(wanted, max_tokens_) + size_ - 1) / size_;
    pool_->touch(hit);
    const std::size_t held = r.table.size() + hit.size();
    auto taken = pool_->take(length > held ? length - held : 0);
    if (!taken) {
      pool_->drop(Blocks(hit.rbegin(), hit.rend()));
      return taken;
    }
    r.table.insert(r.table.end(), hit.begin(), hit.end());
    r.table.insert(r.table.end(), taken->begin(), taken->end());
    return taken;
  }

  void advance(Request& r, std::size_t computed) {
    const std::size_t before = r.computed / size_;
    r.computed = computed;
    const std::size_t whole = std::min({computed / size_, r.keys.size(), r.table.size()});
    for (std::size_t at = before; at < whole; ++at) {
      if (!pool_->find(r.keys[at])) pool_->publish(r.table[at], r.keys[at]);
    }
  }

  void free(Request& r) {
    pool_->drop(Blocks(r.table.rbegin(), r.table.rend()));
    r.table.clear();
    r.computed = 0;
  }

  [[nodiscard]] const Pool& pool() const { return *pool_; }
  [[nodiscard]] std::size_t block_size() const { return size_; }
  [[nodiscard]] bool caching() const { return caching_; }

 private:
  std::unique_ptr<Pool> pool_;
  std::size_t size_, max_tokens_;  // [tokens]
  bool caching_;
};

inline constexpr const char* kOperations[] = {"arrive",   "append", "advance", "lookup",
                                              "allocate", "free",   "finish"};

/// What is served over kvproof_subject.h, in JSON.
class Served {
 public:
  virtual ~Served() = default;
  virtual json apply(const json& operation) = 0;
  [[nodiscard]] virtual json observe() const = 0;
};

/// One manager: the requests, and the pool behind them.
class Manager final : public Served {
 public:
  Manager(std::unique_ptr<Pool> pool, const json& config)
      : tables_(std::move(pool), config), num_blocks_(config["num_blocks"]) {}

  /// @return why there is no manager of this configuration; empty if there is
  static std::string why_not(const json& header) {
    const json& config = header["config"];
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

  json apply(const json& o) override {
    const std::string op = o["op"];
    Request& r = requests_[o["req"]];
    if (op == "arrive") r.skip_lookup = o.value("skip_lookup", false);
    if (op == "arrive" || op == "append") {
      const std::vector<std::int32_t> tokens = o["tokens"];
      tables_.append(r, tokens.data(), tokens.size());
      for (std::size_t at = 0; at < r.keys.size(); ++at) {
        lengths_[r.keys[at]] = (at + 1) * tables_.block_size();
      }
    } else if (op == "advance") {
      tables_.advance(r, o["computed"]);
    } else if (op == "lookup") {
      const std::size_t tokens = tables_.lookup(r);
      return {{"out", {{"hit_tokens", tokens}, {"blocks", {r.hit}}}}};
    } else if (op == "allocate") {
      const std::size_t new_tokens = o["new_tokens"], lookahead = o["lookahead"];
      const auto taken = tables_.allocate(r, new_tokens + lookahead, o["use_lookup"]);
      return {{"out", taken ? json{{"blocks", {*taken}}} : json(nullptr)}};
    } else {
      tables_.free(r);
      if (op == "finish") requests_.erase(o["req"]);
    }
    return json::object();
  }

  [[nodiscard]] json observe() const override {
    const Pool& pool = tables_.pool();
    const Blocks free = pool.free_blocks();
    json out = {{"free", free.size()}, {"queue", free}, {"ref", json::array()}};
    json cached = json::array(), keys = json::array(), index = json::array();
    std::map<Key, Blocks> holders;
    for (Block block = 1; block < num_blocks_; ++block) {
      if (const std::size_t count = pool.holders(block)) out["ref"].push_back({block, count});
      if (const auto key = tables_.caching() ? pool.key_of(block) : std::nullopt) {
        const auto length = lengths_.find(*key);
        cached.push_back({block, 0});
        keys.push_back({block, *key, length == lengths_.end() ? 0 : length->second});
        if (pool.find(*key) == block) holders[*key].push_back(block);
      }
    }
    for (const auto& [key, found] : holders) index.push_back({0, key, found});
    out["tables"] = json::object();
    json hashes = json::object();
    for (const auto& [name, r] : requests_) {
      out["tables"][name] = json::array({r.table});
      hashes[name] = r.keys;
    }
    if (tables_.caching()) {
      out.update({{"cached", cached}, {"key", keys}, {"index", index}, {"hashes", hashes}});
    }
    return out;
  }

 private:
  Tables tables_;
  Block num_blocks_;
  std::map<std::string, Request> requests_;
  std::map<Key, std::size_t> lengths_;  // of the prefix of each key that was made [tokens]
};

/// A manager that is driven by numbers of requests.
class Direct : public Tables {
 public:
  using Tables::Tables;
  std::uint32_t arrive() {
    if (unused_.empty()) {
      unused_.push_back(static_cast<std::uint32_t>(requests_.size()));
      requests_.emplace_back();
    }
    const std::uint32_t number = unused_.back();
    unused_.pop_back();
    requests_[number] = Request();
    return number;
  }
  void finish(std::uint32_t number) {
    free(requests_[number]);
    unused_.push_back(number);
  }
  Request& operator[](std::uint32_t number) { return requests_[number]; }

 private:
  std::vector<Request> requests_;
  std::vector<std::uint32_t> unused_;  // numbers of finished requests
};

}  // namespace kvproof_kit

struct kvproof_subject {
  std::unique_ptr<kvproof_kit::Served> served;
  std::string answer;  // lives until the next call
};

namespace kvproof_kit {

/// @return a manager over a pool, and in `answer` what it says to the header; none if it cannot be
template <typename Mine>
std::unique_ptr<Served> begin_pool(const json& header, const char* traits, json& answer) {
  const std::string reason = Manager::why_not(header);
  answer = {{"traits", json::parse(traits)}, {"abilities", Manager::abilities()}};
  if (!reason.empty()) {
    answer.update({{"unsupported", true}, {"reason", reason}});
    return nullptr;
  }
  answer.update({{"promises", "safety"}, {"block_ids", true}, {"operations", kOperations}});
  const json& config = header["config"];
  auto pool = std::make_unique<Mine>(config["num_blocks"].get<std::size_t>() - 1);
  return std::make_unique<Manager>(std::move(pool), config);
}

}  // namespace kvproof_kit

// The functions of kvproof_subject.h. BEGIN makes what is served of `parsed` and fills `answer`.
#define KVPROOF_KIT_SERVE(BEGIN)                                                       \
  uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }                       \
  kvproof_subject* kvproof_subject_create(const char* header, const char** promises) { \
    static std::string said;                                                           \
    const auto parsed = kvproof_kit::json::parse(header);                              \
    kvproof_kit::json answer;                                                          \
    auto served = BEGIN;                                                               \
    *promises = (said = answer.dump()).c_str();                                        \
    return served ? new kvproof_subject{std::move(served), {}} : nullptr;              \
  }                                                                                    \
  const char* kvproof_subject_apply(kvproof_subject* subject, const char* operation) { \
    const auto parsed = kvproof_kit::json::parse(operation);                           \
    return (subject->answer = subject->served->apply(parsed).dump()).c_str();          \
  }                                                                                    \
  const char* kvproof_subject_observe(kvproof_subject* subject) {                      \
    return (subject->answer = subject->served->observe().dump()).c_str();              \
  }                                                                                    \
  void kvproof_subject_destroy(kvproof_subject* subject) { delete subject; }           \
  static_assert(true, "a semicolon follows")

// The functions over a class that derives from Pool.
#define KVPROOF_KIT_PLUGIN(POOL, TRAITS) \
  KVPROOF_KIT_SERVE(kvproof_kit::begin_pool<POOL>(parsed, TRAITS, answer))

struct kvproof_direct : kvproof_kit::Direct {
  using Direct::Direct;
};

// The direct section over the same class.
#define KVPROOF_KIT_DIRECT(POOL)                                                                   \
  uint32_t kvproof_direct_abi() { return KVPROOF_DIRECT_ABI; }                                     \
  kvproof_direct* kvproof_direct_create(const char* header, uint32_t) {                            \
    const kvproof_kit::json parsed = kvproof_kit::json::parse(header);                             \
    if (!kvproof_kit::Manager::why_not(parsed).empty()) return nullptr;                            \
    const auto& config = parsed["config"];                                                         \
    auto pool = std::make_unique<POOL>(config["num_blocks"].get<std::size_t>() - 1);               \
    return new kvproof_direct(std::move(pool), config);                                            \
  }                                                                                                \
  void kvproof_direct_destroy(kvproof_direct* subject) { delete subject; }                         \
  uint32_t kvproof_direct_arrive(kvproof_direct* subject, const int32_t* tokens, uint32_t count) { \
    const uint32_t number = subject->arrive();                                                     \
    subject->append((*subject)[number], tokens, count);                                            \
    return number;                                                                                 \
  }                                                                                                \
  void kvproof_direct_append(kvproof_direct* subject, uint32_t request, const int32_t* tokens,     \
                             uint32_t count) {                                                     \
    subject->append((*subject)[request], tokens, count);                                           \
  }                                                                                                \
  void kvproof_direct_advance(kvproof_direct* subject, uint32_t request, uint32_t computed) {      \
    subject->advance((*subject)[request], computed);                                               \
  }                                                                                                \
  uint32_t kvproof_direct_lookup(kvproof_direct* subject, uint32_t request) {                      \
    return static_cast<uint32_t>(subject->lookup((*subject)[request]));                            \
  }                                                                                                \
  int64_t kvproof_direct_allocate(kvproof_direct* subject, uint32_t request,                       \
                                  const kvproof_direct_allocation* arguments) {                    \
    const auto taken =                                                                             \
        subject->allocate((*subject)[request], arguments->new_tokens, arguments->use_lookup != 0); \
    return taken ? static_cast<int64_t>(taken->size()) : -1;                                       \
  }                                                                                                \
  void kvproof_direct_free(kvproof_direct* subject, uint32_t request) {                            \
    subject->free((*subject)[request]);                                                            \
  }                                                                                                \
  void kvproof_direct_finish(kvproof_direct* subject, uint32_t request) {                          \
    subject->finish(request);                                                                      \
  }                                                                                                \
  static_assert(true, "a semicolon follows")

#endif  // KVPROOF_KIT_H
