// SPDX-License-Identifier: Apache-2.0
// Drives a manager like a scheduler, for tests that are written as sequences (arrive, look up,
// allocate, compute, leave), and answers the questions of tests about its state.
//
// Model:   every call is one operation or a few of them on a Subject; the snapshot is taken anew
//          after each. A rejected operation throws, except through apply().
// Leaves out: random choices (generators.h) and laws (laws.h).
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "properties/sources/random/ways.h"
#include "reference/operations.h"
#include "reference/snapshot.h"
#include "reference/subject.h"

namespace kvproof::properties {

using Blocks = std::vector<BlockId>;
using Tables = std::vector<Blocks>;  // per group

class Driver {
 public:
  Driver(const Way& way, CacheConfig config) {
    config.profile = *way.profile;
    subject_ = way.subject->make(config);
    subject_->observe(state_);
  }

  /// Any operation, rejected ones included.
  Outcome apply(const Operation& operation) {
    Outcome outcome = subject_->apply(operation);
    events_.insert(events_.end(), outcome.events.begin(), outcome.events.end());
    subject_->observe(state_);
    return outcome;
  }

  void arrive(const std::string& name, std::vector<TokenId> tokens, const ExtraKeys& extra = {}) {
    accept(op::Arrive{.req = name, .tokens = std::move(tokens), .extra = extra});
  }
  void append(const std::string& name, std::uint32_t count) {
    accept(op::Append{name, range(90'000'000, count)});
  }
  void advance(const std::string& name, std::uint32_t computed) {
    accept(op::Advance{name, computed});
  }
  void free(const std::string& name) { accept(op::Free{name}); }
  void finish(const std::string& name) { accept(op::Finish{name}); }
  void recycle(const std::string& name, std::uint32_t processed) {
    accept(op::Recycle{name, processed});
  }
  void evict(Blocks blocks) { accept(op::Evict{std::move(blocks)}); }
  void step() { accept(op::Step{}); }
  bool reset() { return std::get<bool>(accept(op::Reset{})); }
  Hit lookup(const std::string& name) { return std::get<Hit>(accept(op::Lookup{name})); }
  SharedBlocks common_prefix(const std::string& name) {
    return std::get<SharedBlocks>(accept(op::CommonPrefix{name}));
  }

  /// @return the blocks newly taken; nullopt if there are not enough
  std::optional<Tables> allocate(const std::string& name, const AllocateArgs& args) {
    const Result result = accept(op::Allocate{name, args});
    if (const auto* granted = std::get_if<Granted>(&result)) return granted->blocks;
    return std::nullopt;
  }

  /// Allocates and computes the next `count` tokens of a request, without looking up.
  std::optional<Tables> compute(const std::string& name, std::uint32_t count,
                                std::uint32_t lookahead = 0) {
    auto taken = allocate(name, {.new_tokens = count, .lookahead = lookahead});
    if (taken) advance(name, state_.find(name)->computed + count);
    return taken;
  }

  struct Admitted {
    Hit hit;
    std::optional<Tables> taken;  // nullopt = refused
  };
  /// Admits a request: arrival, lookup, allocation of the rest, computation.
  Admitted admit(const std::string& name, std::vector<TokenId> tokens,
                 const ExtraKeys& extra = {}) {
    const auto total = static_cast<std::uint32_t>(tokens.size());
    arrive(name, std::move(tokens), extra);
    Admitted out;
    out.hit = lookup(name);
    out.taken = allocate(name, {.new_tokens = total - out.hit.hit_tokens, .use_lookup = true});
    if (out.taken) advance(name, total);
    return out;
  }

  /// The length of the prefix that a request with these tokens would find. [tokens]
  Hit probe(std::vector<TokenId> tokens, const ExtraKeys& extra = {}) {
    arrive("probe", std::move(tokens), extra);
    Hit out = lookup("probe");
    finish("probe");
    return out;
  }

  [[nodiscard]] const Snapshot& state() const { return state_; }
  [[nodiscard]] const Blocks& queue() const { return state_.queue; }
  [[nodiscard]] std::uint32_t num_free() const { return state_.num_free; }
  [[nodiscard]] std::size_t num_keys() const { return state_.index.size(); }
  [[nodiscard]] Tables tables(const std::string& name) const {
    const RequestState* request = state_.find(name);
    return request == nullptr ? Tables{} : request->tables;
  }
  [[nodiscard]] Blocks table(const std::string& name) const { return tables(name).at(0); }
  [[nodiscard]] std::vector<std::int64_t> references(const Blocks& blocks) const {
    std::vector<std::int64_t> out;
    for (const BlockId block : blocks) out.push_back(state_.blocks.at(block).ref_cnt);
    return out;
  }
  /// Blocks that carry a key of the group, ascending.
  [[nodiscard]] Blocks hashed(GroupId group = 0) const {
    Blocks out;
    for (BlockId block = 0; block < state_.blocks.size(); ++block) {
      const BlockState& b = state_.blocks[block];
      if (b.hashed && b.group == group) out.push_back(block);
    }
    return out;
  }
  /// The events since the last call.
  std::vector<Event> take_events() { return std::exchange(events_, {}); }

 private:
  Result accept(const Operation& operation) {
    Result result = apply(operation).result;
    if (is_undone(result)) throw std::runtime_error("rejected: " + error_text(result));
    return result;
  }

  std::unique_ptr<Subject> subject_;
  Snapshot state_;
  std::vector<Event> events_;
};

}  // namespace kvproof::properties
