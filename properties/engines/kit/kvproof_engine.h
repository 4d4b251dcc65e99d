// SPDX-License-Identifier: Apache-2.0
// What an engine in C++ that keeps tables of blocks for requests needs to stand before `kvproof
// check --subject=./libmine.so`: kvproof keeps the book of its requests and calls the hooks of this
// table; the engine works and shows what it has.
//
// Derive from kvproof_kit::Engine, define the hooks, and end the file with
// KVPROOF_ENGINE_PLUGIN(Mine). Blocks are in the engine's numbers everywhere. What a hook throws is
// the engine's answer to a call; kvproof makes no broken ones, so it is reported.
// examples/kit_engine.cpp is a whole plugin.
// Needs:   C++17 and nlohmann/json.
#ifndef KVPROOF_ENGINE_H
#define KVPROOF_ENGINE_H

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "properties/engines/kit/kvproof_subject.h"

namespace kvproof_kit {

using json = nlohmann::json;
using Block = std::uint32_t;
using Key = std::uint64_t;
using Blocks = std::vector<Block>;

/// A request as kvproof tells of it.
struct EngineRequest {
  std::vector<std::int32_t> tokens;
  bool skip_lookup = false;
  std::size_t computed = 0;  // [tokens]
  std::size_t granted = 0;   // tokens that may be computed
  std::size_t room = 0;      // tokens for which it has room
  std::size_t ahead = 0;     // drafts behind the tokens of its admission
  bool holds = false;        // blocks
  bool finished = false;     // it goes for good, when it gives back what it holds
  std::vector<std::pair<Block, Block>> copies;  // set by a hook that copies blocks for it
  std::any own;                                 // what the engine keeps of it
};

/// What an engine says of itself, and in what order its scheduler drives it. Whatever else is asked
/// for is declined.
struct Says {
  json traits = json::object(), abilities = json::object();
  bool forks = false;
  bool progress = false;     // it shows how much is published
  bool one_by_one = false;   // it grows by one token, when all before it are computed
  bool whole_steps = false;  // what was granted is computed at once, and before the request goes
  bool always_hits = false;  // an admission uses whatever is found
  Block first_block = 0;     // of the engine; kvproof's is 1, behind the null block
};

/// What a call is declined with.
struct Declined : std::runtime_error {
  using runtime_error::runtime_error;
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

class Engine {
 public:
  explicit Engine(Says says) : says_(std::move(says)) {}
  virtual ~Engine() = default;

  /// @return what the engine says of itself
  json begin(const json& header) {
    const json& config = header["config"];
    size_ = config["groups"][0]["block_size"];
    usable_ = config["num_blocks"].get<std::size_t>() - 1;
    caching_ = config["enable_caching"];
    max_tokens_ = config["max_model_len"];
    json can = {{"groups", 1}, {"kinds", {"full", "mla"}}};
    for (const char* name :
         {"eagle", "watermark", "chunks", "drafts", "external", "extra", "delay_cache",
          "skip_lookup", "reserved", "full_sequence_must_fit", "in_flight", "max_tokens"}) {
      can[name] = false;
    }
    can.update(says_.abilities);
    json operations = {"arrive", "append", "advance", "lookup", "allocate", "free", "finish"};
    const bool inside = says_.traits.value("lookup", "") == "within_allocate";
    if (says_.one_by_one) can["appends"] = "one";
    if (says_.whole_steps) can["advance"] = "whole";
    if (says_.always_hits || inside) can["without_lookup"] = false;
    if (inside) operations.erase(std::find(operations.begin(), operations.end(), "lookup"));
    if (says_.forks) operations.push_back("fork");
    return {{"level", "engine"},      {"promises", "safety"},     {"block_ids", true},
            {"traits", says_.traits}, {"operations", operations}, {"abilities", can}};
  }

  json apply(const json& line) {
    try {
      told_ = line["is"];
      learn(told_);
      json answer = {{"out", perform(line)}, {"copies", json::array()}};
      for (const std::string name : line["req"]) {  // for who asks for no state
        const auto r = requests_.find(name);
        if (r != requests_.end()) answer["tables"][name] = table_of(r->second);
      }
      for (auto& [name, r] : requests_) {
        for (const auto& [from, to] : std::exchange(r.copies, {})) {
          answer["copies"].push_back({id(from), id(to)});
        }
      }
      return answer;
    } catch (const Declined& reason) {
      return {{"unsupported", true}, {"reason", reason.what()}};
    } catch (const std::exception& error) {
      return {{"out", {{"error", error.what()}}}};
    }
  }

  [[nodiscard]] json observe() const {
    json out = {{"free", num_free()}, {"tables", json::object()}};
    if (const auto queue = free_blocks()) out["queue"] = ids(*queue);
    if (const auto held = counts()) {
      out["ref"] = json::array();
      for (const auto& [block, count] : *held) {
        if (count > 0) out["ref"].push_back({id(block), count});
      }
    }
    for (const auto& [name, r] : requests_) {
      out["tables"][name] = json::array({table_of(r)});
    }
    if (caching_) show_cache(out);
    return out;
  }

 protected:
  // ---- what an engine does ----------------------------------------------------------------------

  /// Makes it, with usable() blocks of size() tokens.
  virtual void build() = 0;
  /// @return the blocks of the prefix that a request, which has tokens, is admitted with
  virtual Blocks lookup(EngineRequest&) { return {}; }
  /// Makes room for the first `end` tokens of a request that holds nothing.
  /// @param hit its blocks that are found already; null: the engine looks them up by itself
  /// @return how many tokens it has found; none if it is refused
  virtual std::optional<std::size_t> admit(EngineRequest&, std::size_t end, const Blocks* hit) = 0;
  /// Makes room for the first `end` tokens of a request that holds some; false if it is refused.
  virtual bool grow(EngineRequest&, std::size_t end) = 0;
  /// Gives back all that a request holds: it is preempted, or r.finished.
  virtual void release(EngineRequest&) = 0;
  virtual void append(EngineRequest&) {}   // one that holds blocks has more tokens
  virtual void advance(EngineRequest&) {}  // its first r.computed tokens have K and V
  virtual void fork(EngineRequest&, EngineRequest& /*child*/) {}
  virtual void finish(EngineRequest&) {}

  // ---- what an engine shows; none: it does not --------------------------------------------------

  /// @return the blocks of a request that holds some, in their order
  [[nodiscard]] virtual Blocks table(const EngineRequest&) const = 0;
  /// @return how many can be handed out, by the engine's own count
  [[nodiscard]] virtual std::size_t num_free() const = 0;
  /// @return those that can be handed out, the next one first
  [[nodiscard]] virtual std::optional<Blocks> free_blocks() const { return {}; }
  /// @return blocks and their references
  [[nodiscard]] virtual std::optional<std::map<Block, std::size_t>> counts() const { return {}; }
  /// @return the key that each block carries
  [[nodiscard]] virtual std::optional<std::map<Block, Key>> keys() const { return {}; }
  /// @return the blocks of each key, in the order in which they are found
  [[nodiscard]] virtual std::optional<std::map<Key, Blocks>> index() const { return {}; }
  /// @return the keys of a request's whole blocks, or if they may be partial of all its prefixes;
  /// they follow from its tokens
  [[nodiscard]] virtual std::vector<Key> hashes(const EngineRequest&) const = 0;
  /// @return how many leading blocks of a request that holds some are published
  [[nodiscard]] virtual std::size_t progress(const EngineRequest&) const { return 0; }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t usable() const { return usable_; }
  [[nodiscard]] std::size_t max_tokens() const { return max_tokens_; }
  [[nodiscard]] bool caching() const { return caching_; }
  static void decline(const std::string& reason) {
    if (!reason.empty()) throw Declined(reason);
  }

 private:
  /// Facts of requests, by name; null: it is forgotten.
  void learn(const json& facts) {
    for (const auto& [name, told] : facts.items()) {
      if (told.is_null()) {
        requests_.erase(name);
        continue;
      }
      if (told.contains("extra")) requests_[name] = {};  // it is new
      EngineRequest& r = requests_.at(name);
      const auto set = [fact = &told](const char* field, auto& value) {
        if (fact->contains(field)) fact->at(field).get_to(value);
      };
      std::vector<std::int32_t> more;
      set("tokens", r.tokens);
      set("more", more);
      r.tokens.insert(r.tokens.end(), more.begin(), more.end());
      set("skip_lookup", r.skip_lookup);
      set("computed", r.computed);
      set("granted", r.granted);
      set("room", r.room);
      set("ahead", r.ahead);
      set("holds", r.holds);
      set("finished", r.finished);
    }
  }

  /// @return what the last hook of a line returns
  json perform(const json& line) {
    json out;
    for (const auto& hook : line["hooks"]) {
      out = hook == "build" ? (build(), json()) : call(hook, line);
      if (out == false || (hook == "admit" && out.is_null())) return nullptr;
    }
    learn(line.value("then", json::object()));
    if (out.is_number() && line["with"][1].is_null()) {  // one token more is computed
      EngineRequest& r = requests_.at(line["req"][0]);
      const std::size_t behind = out.get<std::size_t>() + 1;
      r.granted = std::max(r.granted, behind);
      r.room = std::max(r.room, behind + r.ahead);
    }
    return out;
  }

  json call(const std::string& hook, const json& line) {
    EngineRequest& r = requests_.at(line["req"][0]);
    if (hook == "lookup") return ids(lookup(r));
    if (hook == "grow") return grow(r, line["with"][0]);
    if (hook == "admit") {
      const bool found = !line["with"][1].is_null();
      Blocks hit = found ? line["with"][1].get<Blocks>() : Blocks();
      for (Block& block : hit) block = block - 1 + says_.first_block;
      const auto tokens = admit(r, line["with"][0], found ? &hit : nullptr);
      return tokens ? json(*tokens) : json();
    }
    if (hook == "append") append(r);
    if (hook == "advance") advance(r);
    if (hook == "release") release(r);
    if (hook == "finish") finish(r);
    if (hook == "fork") fork(r, requests_.at(line["req"][1]));
    return nullptr;
  }

  [[nodiscard]] Block id(Block block) const { return block + 1 - says_.first_block; }
  [[nodiscard]] Blocks ids(Blocks blocks) const {
    for (Block& block : blocks) block = id(block);
    return blocks;
  }

  [[nodiscard]] Blocks table_of(const EngineRequest& r) const {
    return r.holds ? ids(table(r)) : Blocks();
  }

  void show_cache(json& out) const {
    if (const auto carried = keys()) {
      out["key"] = json::array();
      for (const auto& [block, key] : *carried) out["key"].push_back({id(block), key});
    }
    if (const auto found = index()) {
      out["index"] = json::array();
      for (const auto& [key, blocks] : *found) out["index"].push_back({0, key, ids(blocks)});
    }
    out["hashes"] = json::object();
    if (says_.progress) out["progress"] = json::object();
    for (const auto& [name, r] : requests_) {
      const bool told = told_.contains(name) && told_[name].is_object();
      if (told && (told_[name].contains("tokens") || told_[name].contains("more"))) {
        out["hashes"][name] = hashes(r);
      }
      if (says_.progress) out["progress"][name] = {r.holds ? json(progress(r)) : json()};
    }
  }

  Says says_;
  std::size_t size_ = 0, usable_ = 0, max_tokens_ = 0;
  bool caching_ = false;
  std::map<std::string, EngineRequest> requests_;
  json told_ = json::object();  // the facts of the last line
};

}  // namespace kvproof_kit

struct kvproof_subject {
  std::unique_ptr<kvproof_kit::Engine> engine;
  std::string says, answer;  // the answer lives until the next call
};

// The functions of kvproof_subject.h over a class that derives from Engine.
#define KVPROOF_ENGINE_PLUGIN(MINE) KVPROOF_ENGINE_SERVE(std::make_unique<MINE>())

#define KVPROOF_ENGINE_SERVE(ENGINE)                                                   \
  uint32_t kvproof_subject_abi() { return KVPROOF_SUBJECT_ABI; }                       \
  kvproof_subject* kvproof_subject_create(const char* header, const char** promises) { \
    auto subject = std::make_unique<kvproof_subject>();                                \
    subject->engine = ENGINE;                                                          \
    subject->says = subject->engine->begin(nlohmann::json::parse(header)).dump();      \
    *promises = subject->says.c_str();                                                 \
    return subject.release();                                                          \
  }                                                                                    \
  const char* kvproof_subject_apply(kvproof_subject* subject, const char* line) {      \
    const auto parsed = nlohmann::json::parse(line);                                   \
    return (subject->answer = subject->engine->apply(parsed).dump()).c_str();          \
  }                                                                                    \
  const char* kvproof_subject_observe(kvproof_subject* subject) {                      \
    return (subject->answer = subject->engine->observe().dump()).c_str();              \
  }                                                                                    \
  void kvproof_subject_destroy(kvproof_subject* subject) { delete subject; }           \
  static_assert(true, "a semicolon follows")

#endif  // KVPROOF_ENGINE_H
