// SPDX-License-Identifier: Apache-2.0
// What a store of blocks in C++ needs to stand before `kvproof check --subject=./libmine.so`: this
// file keeps its tables and makes keys of content, behind the hooks of kvproof_engine.h.
//
// Derive from kvproof_kit::Pool, and end the file with KVPROOF_KIT_PLUGIN(Mine, TRAITS): what it
// does otherwise, as README.md beside this file has it, or "{}". With KVPROOF_KIT_DIRECT(Mine)
// behind it `kvproof gate` can measure it, too. Blocks are those of kvproof: 1 is the first.
// examples/kit_pool.cpp is a whole plugin.
// Needs:   C++17 and nlohmann/json.
#ifndef KVPROOF_KIT_H
#define KVPROOF_KIT_H

#include "properties/engines/kit/kvproof_engine.h"

namespace kvproof_kit {

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

/// What requests do to a pool.
class Tables {
 public:
  Tables(std::unique_ptr<Pool> pool, std::size_t size, std::size_t max_tokens, bool caching)
      : pool_(std::move(pool)), size_(size), max_tokens_(max_tokens), caching_(caching) {}

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

/// A pool behind the hooks of an engine.
template <typename Mine>
class PoolEngine final : public Engine {
 public:
  explicit PoolEngine(const char* traits) : Engine(says(traits)) {}

 protected:
  void build() override {
    tables_ =
        std::make_unique<Tables>(std::make_unique<Mine>(usable()), size(), max_tokens(), caching());
  }
  Blocks lookup(EngineRequest& r) override {
    tables_->lookup(mine(r));
    return mine(r).hit;
  }
  std::optional<std::size_t> admit(EngineRequest& r, std::size_t end, const Blocks* hit) override {
    const std::size_t found = hit->size() * size();
    mine(r).hit = *hit;
    return tables_->allocate(mine(r), end - found, true) ? std::optional(found) : std::nullopt;
  }
  bool grow(EngineRequest& r, std::size_t end) override {
    return tables_->allocate(mine(r), end - r.computed, false).has_value();
  }
  void advance(EngineRequest& r) override { tables_->advance(mine(r), r.computed); }
  void release(EngineRequest& r) override { tables_->free(mine(r)); }

  Blocks table(const EngineRequest& r) const override {
    return std::any_cast<const Request&>(r.own).table;
  }
  std::size_t num_free() const override { return pool().free_blocks().size(); }
  std::optional<Blocks> free_blocks() const override { return pool().free_blocks(); }
  std::optional<std::map<Block, std::size_t>> counts() const override {
    std::map<Block, std::size_t> out;
    for (Block block = 1; block <= usable(); ++block) out[block] = pool().holders(block);
    return out;
  }
  std::optional<std::map<Block, Key>> keys() const override {
    std::map<Block, Key> out;
    for (Block block = 1; block <= usable(); ++block) {
      if (const auto key = pool().key_of(block)) out[block] = *key;
    }
    return out;
  }
  std::optional<std::map<Key, Blocks>> index() const override {
    std::map<Key, Blocks> out;
    for (Block block = 1; block <= usable(); ++block) {
      const auto key = pool().key_of(block);
      if (key && pool().find(*key) == block) out[*key].push_back(block);
    }
    return out;
  }
  std::vector<Key> hashes(const EngineRequest& r) const override {
    std::vector<Key> out;
    extend_keys(out, r.tokens, size());
    return out;
  }

 private:
  static Says says(const char* traits) {
    Says out;
    out.traits = json::parse(traits);
    out.abilities = {{"chunks", true}, {"drafts", true}, {"skip_lookup", true}};
    out.first_block = 1;
    return out;
  }
  const Pool& pool() const { return tables_->pool(); }
  /// A request of the tables, with the tokens that are known.
  Request& mine(EngineRequest& r) const {
    if (!r.own.has_value()) r.own = Request();
    auto& out = std::any_cast<Request&>(r.own);
    tables_->append(out, r.tokens.data() + out.tokens.size(), r.tokens.size() - out.tokens.size());
    return out;
  }

  std::unique_ptr<Tables> tables_;
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

/// @return why there is no manager of this configuration; empty if there is
inline std::string why_not(const json& header) {
  const json& config = header["config"];
  const json& groups = config["groups"];
  const bool full = groups[0]["kind"] == "full" || groups[0]["kind"] == "mla";
  if (groups.size() != 1 || !full) return "one group of full attention only";
  if (config["hash_block_size"] != groups[0]["block_size"]) return "keys of whole blocks only";
  return groups[0].value("eagle", false) ? "no EAGLE" : "";
}

}  // namespace kvproof_kit

// The functions of kvproof_subject.h over a class that derives from Pool.
#define KVPROOF_KIT_PLUGIN(POOL, TRAITS) \
  KVPROOF_ENGINE_SERVE(std::make_unique<kvproof_kit::PoolEngine<POOL>>(TRAITS))

struct kvproof_direct : kvproof_kit::Direct {
  using Direct::Direct;
};

// The direct section over the same class.
#define KVPROOF_KIT_DIRECT(POOL)                                                                   \
  uint32_t kvproof_direct_abi() { return KVPROOF_DIRECT_ABI; }                                     \
  kvproof_direct* kvproof_direct_create(const char* header, uint32_t) {                            \
    const kvproof_kit::json parsed = kvproof_kit::json::parse(header);                             \
    if (!kvproof_kit::why_not(parsed).empty()) return nullptr;                                     \
    const auto& config = parsed["config"];                                                         \
    auto pool = std::make_unique<POOL>(config["num_blocks"].get<std::size_t>() - 1);               \
    return new kvproof_direct(std::move(pool), config["groups"][0]["block_size"],                  \
                              config["max_model_len"], config["enable_caching"]);                  \
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
