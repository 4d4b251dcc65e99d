// SPDX-License-Identifier: Apache-2.0
// What an engine in C++ that keeps tables of blocks for requests needs to stand before `kvproof
// check --subject=./libmine.so`: this file keeps the book, the engine works. It is to C++ what
// EngineAdapter of the package kvproof is to Python.
//
// Derive from kvproof_kit::Engine, define the hooks, and end the file with
// KVPROOF_ENGINE_PLUGIN(Mine). Blocks are in the engine's numbers everywhere. What a hook throws is
// the engine's answer to a call; kvproof makes no broken ones, so it is reported.
// examples/kit_engine.cpp is a whole plugin.
// Needs:   C++17 and nlohmann/json.
#ifndef KVPROOF_ENGINE_H
#define KVPROOF_ENGINE_H

#include <any>
#include <stdexcept>
#include <utility>

#include "properties/engines/kit/kvproof_kit.h"

namespace kvproof_kit {

/// A request as its caller knows it.
struct EngineRequest {
  std::vector<std::int32_t> tokens;
  bool skip_lookup = false;
  std::size_t computed = 0;  // [tokens]
  std::size_t granted = 0;   // tokens that may be computed
  std::size_t room = 0;      // tokens for which it has room
  bool holds = false;        // blocks
  bool finished = false;     // it goes for good, when it gives back what it holds
  Blocks hit;                // that its last lookup found
  std::vector<std::pair<Block, Block>> copies;  // that a grant has made before they are written
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

/// What an operation is declined with.
struct Declined : std::runtime_error {
  using runtime_error::runtime_error;
};

class Engine : public Served {
 public:
  explicit Engine(Says says) : says_(std::move(says)) {
    json plain = Manager::abilities();
    for (const char* name : {"chunks", "drafts", "skip_lookup"}) plain[name] = false;
    plain.update(says_.abilities);
    if (says_.one_by_one) plain["appends"] = "one";
    if (says_.whole_steps) plain["advance"] = "whole";
    if (says_.always_hits || inside()) plain["without_lookup"] = false;
    says_.abilities = plain;
  }

  /// @return whether there is a manager as the header asks for it, and in `answer` what is said
  bool begin(const json& header, json& answer) {
    answer = {{"traits", says_.traits}, {"abilities", says_.abilities}};
    if (const std::string reason = why_not(header); !reason.empty()) {
      answer.update({{"unsupported", true}, {"reason", reason}});
      return false;
    }
    const json& config = header["config"];
    size_ = config["groups"][0]["block_size"];
    unit_ = config["hash_block_size"];
    usable_ = config["num_blocks"].get<std::size_t>() - 1;
    max_tokens_ = config["max_model_len"];
    caching_ = config["enable_caching"];
    json operations = kOperations;
    if (inside()) operations.erase(std::find(operations.begin(), operations.end(), "lookup"));
    if (says_.forks) operations.push_back("fork");
    answer.update({{"promises", "safety"}, {"block_ids", true}, {"operations", operations}});
    build();
    return true;
  }

  json apply(const json& o) final {
    try {
      return {{"out", perform(o)}};
    } catch (const Declined& reason) {
      return {{"unsupported", true}, {"reason", reason.what()}};
    } catch (const std::exception& error) {
      return {{"out", {{"error", error.what()}}}};
    }
  }

  [[nodiscard]] json observe() const final {
    json out = {{"free", num_free()}, {"tables", json::object()}};
    if (const auto queue = free_blocks()) out["queue"] = ids(*queue);
    if (const auto held = counts()) {
      out["ref"] = json::array();
      for (const auto& [block, count] : *held) {
        if (count > 0) out["ref"].push_back({id(block), count});
      }
    }
    for (const auto& [name, r] : requests_) out["tables"][name] = json::array({ids(held_by(r))});
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
  virtual void advance(EngineRequest&) {}
  virtual void fork(EngineRequest&, EngineRequest& /*child*/) {}

  // ---- what an engine shows; none: it does not --------------------------------------------------

  /// @return the blocks of a request that holds some, in their order
  [[nodiscard]] virtual Blocks table(const EngineRequest&) const = 0;
  /// @return how many can be handed out, by the engine's own count
  [[nodiscard]] virtual std::size_t num_free() const = 0;
  /// @return those that can be handed out, the next one first
  [[nodiscard]] virtual std::optional<Blocks> free_blocks() const { return {}; }
  /// @return blocks and their references
  [[nodiscard]] virtual std::optional<std::map<Block, std::size_t>> counts() const { return {}; }
  /// @return the key that each block carries; those that hashes() has not made are left out
  [[nodiscard]] virtual std::optional<std::map<Block, Key>> keys() const { return {}; }
  /// @return the blocks of each key, in the order in which they are found
  [[nodiscard]] virtual std::optional<std::map<Key, Blocks>> index() const { return {}; }
  /// @return the keys of a request's whole blocks, or if they may be partial of all its prefixes
  [[nodiscard]] virtual std::vector<Key> hashes(const EngineRequest&) const = 0;
  /// @return how many leading blocks of a request that holds some are published
  [[nodiscard]] virtual std::size_t progress(const EngineRequest&) const { return 0; }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t usable() const { return usable_; }
  [[nodiscard]] bool caching() const { return caching_; }
  static void decline(const std::string& reason) {
    if (!reason.empty()) throw Declined(reason);
  }

 private:
  // ---- the book ---------------------------------------------------------------------------------

  [[nodiscard]] bool does(const char* trait, const char* value) const {
    return says_.traits.value(trait, "") == value;
  }
  [[nodiscard]] bool inside() const { return does("lookup", "within_allocate"); }
  [[nodiscard]] bool can(const char* what) const { return says_.abilities.value(what, true); }

  [[nodiscard]] std::string why_not(json header) const {
    json& config = header["config"];
    const auto lacks = [this](const char* name, const json& value) {
      const auto found = says_.abilities.find(name);
      return found != says_.abilities.end() &&
             std::find(found->begin(), found->end(), value) == found->end();
    };
    if (does("granularity", "partial") && config["enable_caching"]) {
      if (config["hash_block_size"] != 1) return "a key for each token only";
      config["hash_block_size"] = config["groups"][0]["block_size"];
    }
    const std::string reason = Manager::why_not(header);
    if (!reason.empty()) return reason;
    if (lacks("block_sizes", config["groups"][0]["block_size"])) return "no blocks of that size";
    if (lacks("caching", config["enable_caching"])) return "with or without a prefix cache only";
    if (config.value("watermark", 0.0) != 0 && !can("watermark")) return "no watermark";
    return config.value("num_host_blocks", 0) != 0 ? "no host tier" : "";
  }

  json perform(const json& o) {
    const std::string op = o["op"], name = o["req"];
    if (op == "arrive") return do_arrive(o, name);
    EngineRequest& r = requests_.at(name);
    if (op == "append") return do_append(o, r);
    if (op == "advance") return do_advance(o["computed"], r);
    if (op == "lookup" && !inside()) return do_lookup(r);
    if (op == "allocate") return do_allocate(o, r);
    if (op == "free") return give_back(r);
    if (op == "finish") return do_finish(name, r);
    if (op == "fork" && says_.forks) return do_fork(o["child"], r);
    throw Declined("no " + op);
  }

  json do_arrive(const json& o, const std::string& name) {
    EngineRequest r;
    r.skip_lookup = o.value("skip_lookup", false);
    if (r.skip_lookup && !can("skip_lookup")) decline("no skipped lookups");
    if (!o.value("extra", json()).empty() && !can("extra")) decline("no extra keys");
    return do_append(o, requests_[name] = std::move(r));
  }

  json do_append(const json& o, EngineRequest& r) {
    const std::vector<std::int32_t> tokens = o["tokens"];
    if (r.holds && says_.one_by_one && (tokens.size() != 1 || r.computed != r.tokens.size())) {
      decline("one token, when all before it are computed");
    }
    r.tokens.insert(r.tokens.end(), tokens.begin(), tokens.end());
    std::size_t length = 0;
    for (const Key key : caching_ ? hashes(r) : std::vector<Key>()) lengths_[key] = length += unit_;
    return nullptr;
  }

  json do_advance(std::size_t computed, EngineRequest& r) {
    if (says_.whole_steps && computed != r.granted && computed != r.computed) {
      decline("what was granted is computed at once");
    }
    if (computed != std::exchange(r.computed, computed)) advance(r);
    return nullptr;
  }

  json do_lookup(EngineRequest& r) {
    r.hit = found_for(r);
    return {{"hit_tokens", r.hit.size() * size_}, {"blocks", {ids(r.hit)}}};
  }
  Blocks found_for(EngineRequest& r) {
    return r.tokens.empty() || r.skip_lookup ? Blocks() : lookup(r);
  }

  json do_allocate(const json& o, EngineRequest& r) {
    const bool looks = inside() && !r.holds;
    std::size_t before = held_by(r).size();
    const Blocks hit = o["use_lookup"] && !inside() ? r.hit : Blocks();
    const std::size_t new_tokens = o["new_tokens"], lookahead = o["lookahead"];
    std::size_t end = std::min(r.computed + hit.size() * size_ + new_tokens, max_tokens_);
    std::size_t room = std::min(end + lookahead, max_tokens_);
    decline(why_not_granted(o, r, hit, end));
    std::optional<std::size_t> found = 0;
    if (!r.holds) {
      found = admit(r, room, looks ? nullptr : &hit);
    } else if (room > r.room && !grow(r, room)) {
      found.reset();
    }
    if (!found) return nullptr;
    if (looks) end = std::max(end, *found + 1);  // a token behind it is computed in any case
    r.holds = true;
    r.granted = std::max(end, r.granted);
    r.room = std::max({end, room, r.room});
    before += looks ? (*found + size_ - 1) / size_ : hit.size();
    return granted(r, before, looks ? found : std::nullopt);
  }

  /// @return the answer to a grant whose table was so long before, with the hit
  json granted(EngineRequest& r, std::size_t before, std::optional<std::size_t> found) const {
    const Blocks after = ids(held_by(r));
    const auto behind = after.begin() + static_cast<std::ptrdiff_t>(std::min(before, after.size()));
    Blocks taken;
    json copies = json::array();
    for (const auto& [from, to] : std::exchange(r.copies, {})) {
      copies.push_back({id(from), id(to)});
      taken.push_back(id(to));
    }
    taken.insert(taken.end(), behind, after.end());
    json out = {{"blocks", {taken}}};
    if (!copies.empty()) out["copies"] = copies;
    if (found) out.update({{"hit_tokens", *found}, {"hit", {Blocks(after.begin(), behind)}}});
    return out;
  }

  std::string why_not_granted(const json& o, EngineRequest& r, const Blocks& hit, std::size_t end) {
    for (const char* argument :
         {"external", "delay_cache", "reserved", "full_sequence_must_fit", "in_flight"}) {
      const auto given = o.find(argument);
      const bool asked = given != o.end() && *given != 0 && *given != false;
      if (asked && !can(argument)) return std::string("no ") + argument;
    }
    const bool drafts = o["lookahead"] != 0 || end > r.tokens.size();
    if (drafts && !can("drafts")) return "no drafts";
    if (r.holds) {
      const bool early = says_.whole_steps && r.computed < r.granted && r.granted < end;
      return early ? "what was granted is computed first" : "";
    }
    if (end < r.tokens.size() && !can("chunks")) return "a prompt is admitted whole";
    if (inside()) return o["use_lookup"] ? "" : "a prefix is always looked up";
    return says_.always_hits && found_for(r) != hit ? "whatever is found is used" : "";
  }

  json give_back(EngineRequest& r) {
    if (r.holds && says_.whole_steps) do_advance(r.granted, r);
    if (r.holds) release(r);
    r.holds = false;
    r.computed = r.granted = r.room = 0;
    r.hit.clear();
    return nullptr;
  }

  json do_finish(const std::string& name, EngineRequest& r) {
    r.finished = true;
    give_back(r);
    requests_.erase(name);
    return nullptr;
  }

  json do_fork(const std::string& name, EngineRequest& r) {
    EngineRequest child = r;
    child.own.reset();
    child.hit.clear();
    fork(r, child);
    json copies = json::array();
    for (const auto& [from, to] : std::exchange(child.copies, {})) {
      copies.push_back({id(from), id(to)});
    }
    requests_[name] = std::move(child);
    return copies.empty() ? json() : json{{"copies", copies}};
  }

  // ---- the state --------------------------------------------------------------------------------

  [[nodiscard]] Blocks held_by(const EngineRequest& r) const {
    return r.holds ? table(r) : Blocks();
  }
  [[nodiscard]] Block id(Block block) const { return block + 1 - says_.first_block; }
  [[nodiscard]] Blocks ids(Blocks blocks) const {
    for (Block& block : blocks) block = id(block);
    return blocks;
  }

  void show_cache(json& out) const {
    if (const auto carried = keys()) {
      out["cached"] = out["key"] = json::array();
      for (const auto& [block, key] : *carried) {
        const auto length = lengths_.find(key);
        if (length == lengths_.end()) continue;
        out["cached"].push_back({id(block), 0});
        out["key"].push_back({id(block), key, length->second});
      }
    }
    if (const auto found = index()) {
      out["index"] = json::array();
      for (const auto& [key, blocks] : *found) out["index"].push_back({0, key, ids(blocks)});
    }
    out["hashes"] = json::object();
    if (says_.progress) out["progress"] = json::object();
    for (const auto& [name, r] : requests_) {
      out["hashes"][name] = hashes(r);
      if (says_.progress) out["progress"][name] = {r.holds ? json(progress(r)) : json()};
    }
  }

  Says says_;
  std::size_t size_ = 0, unit_ = 0, usable_ = 0, max_tokens_ = 0;  // unit: of a key [tokens]
  bool caching_ = false;
  std::map<std::string, EngineRequest> requests_;
  std::map<Key, std::size_t> lengths_;  // of the prefix of each key that was made [tokens]
};

/// @return an engine, and in `answer` what it says to the header; none if it cannot be like that
template <typename Mine>
std::unique_ptr<Served> begin_engine(const json& header, json& answer) {
  auto out = std::make_unique<Mine>();
  if (!out->begin(header, answer)) return nullptr;
  return out;
}

}  // namespace kvproof_kit

// The functions of kvproof_subject.h over a class that derives from Engine.
#define KVPROOF_ENGINE_PLUGIN(MINE) \
  KVPROOF_KIT_SERVE(kvproof_kit::begin_engine<MINE>(parsed, answer))

#endif  // KVPROOF_ENGINE_H
