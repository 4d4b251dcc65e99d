// SPDX-License-Identifier: Apache-2.0
// A random run of a few requests that makes only valid calls: admission from hits, chunks, drafts,
// decoding, forks, preemption, swaps that land or fail, leases, raw blocks, eviction.
//
// Leaves out: broken calls (contract_test.cpp), shrinking (state_machine_test.cpp).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "properties/random/ways.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

/// KVPROOF_SEED, or 1.
[[nodiscard]] inline std::uint64_t seed_of_runs() {
  const char* text = std::getenv("KVPROOF_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

/// `Manager` has apply(Operation) -> Result and state() -> Snapshot.
template <class Manager>
class RandomRun {
 public:
  RandomRun(Manager& manager, const CacheConfig& config, std::uint64_t seed)
      : manager_(manager), config_(config), random_(seed) {
    for (const GroupConfig& group : config.groups) {
      if (group.kind == LayerKind::mamba) state_tokens_ = group.block_size;
    }
  }

  /// Performs one operation, or a few that belong together.
  void next() {
    const std::vector<RequestState>& requests = manager_.state().requests;
    if (requests.size() < 6 && below(5) == 0) {
      // Prompts of three families: prefixes of each other, so that they hit.
      const auto family = static_cast<TokenId>(below(3));
      manager_.apply(
          op::Arrive{.req = name("r"), .tokens = range(1000 * family, 1 + below(40)), .extra = {}});
    } else if (below(6) == 0) {
      without_request();
    } else if (!requests.empty()) {
      with(RequestState(requests[below(static_cast<std::uint32_t>(requests.size()))]));
    }
  }

  /// Completes all transfers, returns leases and raw blocks, ends all requests.
  void wind_up() {
    while (!in_flight_.empty()) complete(in_flight_.begin()->first);
    if (lease_) manager_.apply(op::Unpin{*lease_});
    lease_.reset();
    manager_.apply(op::Release{Blocks(manager_.state().raw)});
    while (!manager_.state().requests.empty()) {
      manager_.apply(op::Finish{std::string(manager_.state().requests.front().name)});
    }
  }

 private:
  using Blocks = std::vector<BlockId>;

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  std::string name(const char* kind) { return kind + std::to_string(named_++); }

  void complete(const std::string& request) {
    const auto transfer = in_flight_.extract(request).mapped();
    manager_.apply(op::Complete{transfer, below(3) != 0});
  }

  /// A running state is published where a step ends on a block's end, so steps stop there.
  std::uint32_t step_of(std::uint32_t from, std::uint32_t most) {
    const std::uint32_t tokens = 1 + below(most);
    const bool inside = state_tokens_ > 0 && from % state_tokens_ != 0;
    return inside ? std::min(tokens, state_tokens_ - from % state_tokens_) : tokens;
  }

  void with(const RequestState& r) {
    if (in_flight_.contains(r.name)) {
      if (below(2) == 0) complete(r.name);
      return;
    }
    if (!r.host_tables.empty()) return swap(r, op::SwapIn{r.name, name("t")});
    const bool started = std::ranges::any_of(r.tables, [](const Blocks& t) { return !t.empty(); });
    switch (below(16)) {
      case 0: manager_.apply(op::Free{r.name}); break;
      case 1: manager_.apply(op::Finish{r.name}); break;
      case 2:
        if (manager_.state().requests.size() < 8 && state_tokens_ == 0)
          manager_.apply(op::Fork{r.name, name("r")});
        break;
      case 3:
        if (started) swap(r, op::SwapOut{r.name, name("t")});
        break;
      default: started ? decode(r) : admit(r);
    }
  }

  template <class Swap>
  void swap(const RequestState& r, const Swap& start) {
    const Result result = manager_.apply(start);
    if (std::holds_alternative<Granted>(result)) in_flight_[r.name] = start.transfer;
  }

  void admit(const RequestState& r) {
    const bool running =
        std::ranges::any_of(r.progress, [](const auto& p) { return p.has_value(); });
    std::uint32_t hit = 0;
    if (!running) hit = std::get<Hit>(manager_.apply(op::Lookup{r.name})).hit_tokens;
    const std::uint32_t most = r.num_tokens - (running ? r.computed : hit);
    if (most == 0) return;
    const std::uint32_t from = running ? r.computed : hit;
    const AllocateArgs args{.new_tokens = step_of(from, most),
                            .use_lookup = !running,
                            .lookahead = below(3),
                            .full_sequence_must_fit = below(4) == 0,
                            .reserved = below(3)};
    const Result result = manager_.apply(op::Allocate{r.name, args});
    if (!std::holds_alternative<Granted>(result)) return;
    manager_.apply(op::Advance{r.name, from + args.new_tokens});
  }

  void decode(const RequestState& r) {
    if (r.computed == r.num_tokens) {
      if (r.num_tokens + 1 >= config_.max_model_len) return;
      manager_.apply(op::Append{r.name, {static_cast<TokenId>(below(2))}});
    }
    const std::uint32_t left = std::max(r.num_tokens - r.computed, 1U);
    const AllocateArgs args{.new_tokens = step_of(r.computed, left),
                            .lookahead = below(4),
                            .status = RequestStatus::running};
    const Result result = manager_.apply(op::Allocate{r.name, args});
    if (!std::holds_alternative<Granted>(result)) return;
    manager_.apply(op::Advance{r.name, r.computed + args.new_tokens});
    if (below(2) == 0) manager_.apply(op::Truncate{r.name, r.computed + args.new_tokens});
  }

  void without_request() {
    const Snapshot& state = manager_.state();
    const BlockId block(1 + below(static_cast<std::uint32_t>(state.blocks.size()) - 1));
    switch (below(6)) {
      case 0: manager_.apply(op::Step{}); break;
      case 1: manager_.apply(op::Evict{{block}}); break;
      case 2: manager_.apply(op::Take{1 + below(3)}); break;
      case 3:
        if (state.raw.size() < 3) manager_.apply(op::Touch{{block, block}});
        break;
      case 4:
        if (lease_) {
          manager_.apply(op::Unpin{*lease_});
          lease_.reset();
        } else if (state.blocks[block].hashed) {
          lease_ = name("l");
          manager_.apply(op::Pin{{block}, *lease_});
        }
        break;
      default: manager_.apply(op::Release{Blocks(state.raw)});
    }
  }

  Manager& manager_;
  CacheConfig config_;
  std::mt19937_64 random_;
  std::uint32_t state_tokens_ = 0;  // [tokens] per block of a Mamba group
  int named_ = 0;
  std::map<std::string, std::string> in_flight_;  // by request
  std::optional<std::string> lease_;
};

}  // namespace kvproof::properties
