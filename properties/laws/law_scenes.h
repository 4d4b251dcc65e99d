// SPDX-License-Identifier: Apache-2.0
// Scenes for the tests of laws: a correct run whose last step a test can falsify.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/laws/laws.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"

namespace kvproof::properties {

inline CacheConfig small_config(std::string_view profile = "vllm-0.24") {
  CacheConfig config;
  config.profile = *find_profile(profile);
  config.num_blocks = 6;
  config.max_model_len = 64;
  config.hash_block_size = 2;
  config.groups = {GroupConfig{.kind = LayerKind::full, .block_size = 2}};
  return config;
}

inline op::Allocate allocate(std::string req, std::uint32_t new_tokens, bool use_lookup = false) {
  op::Allocate out{std::move(req), {}};
  out.args.new_tokens = new_tokens;
  out.args.use_lookup = use_lookup;
  return out;
}

/// A run of the naive manager whose last step a test can falsify.
class Scene {
 public:
  explicit Scene(CacheConfig with = small_config())
      : config(std::move(with)), model_(config), history_(config), prior_(config) {
    model_.observe(after);
  }

  Scene& play(const Operation& next) {
    prior_ = history_;
    before = after;
    operation = next;
    if (const auto* batch = std::get_if<op::Decode>(&next)) prior_.three_calls = calls_of(*batch);
    outcome = model_.apply(operation);
    model_.observe(after);
    history_.fold(before, operation, outcome, after);
    return *this;
  }

  /// Two requests with the same five tokens: a holds [1, 2, 3], b hits two blocks and holds [1, 2,
  /// 4].
  Scene& share() {
    play(op::Arrive{"a", {0, 1, 2, 0, 1}}).play(op::Lookup{"a"}).play(allocate("a", 5, true));
    return play(op::Arrive{"b", {0, 1, 2, 0, 1}})
        .play(op::Lookup{"b"})
        .play(allocate("b", 1, true));
  }

  [[nodiscard]] Finding check(const Law& row) const {
    History history = prior_;
    history.fold(before, operation, outcome, after);
    if (!is_due(row.reach, history)) return std::nullopt;
    return row.check(Step{config, before, operation, outcome, after, history});
  }

  BlockState& block(BlockId id) { return after.blocks[id]; }
  std::vector<BlockId>& table(std::size_t request) {
    return after.requests[request].tables.front();
  }
  Hit& hit() { return std::get<Hit>(outcome.result); }

  CacheConfig config;
  Snapshot before;
  Operation operation;
  Outcome outcome;
  Snapshot after;

 private:
  ThreeCalls calls_of(const op::Decode& batch);

  reference::CacheManager model_;
  Snapshot after_calls_;
  History history_;
  History prior_;
};

/// A run, and the change that makes its last step break a law.
struct Breakage {
  const char* what;
  void (*play)(Scene&);
  void (*falsify)(Scene&);
  CacheConfig (*config)() = [] { return small_config(); };
};

/// Configurations of several groups or tiers.
namespace with {
CacheConfig hybrid(), window(), states(), states_inside(), both_inside(), two_tiers(),
    prompt_tails();
}  // namespace with

/// Runs, named after their last step.
namespace play {
using Play = void(Scene&);
Play move_state, admit_hit, admit_six, append, arrive_other, arrive_same, common_prefix,
    compute_six, copy, decode, decode_batch, delay, drained, end_copies, end_prompt, evict, fork,
    gate, hit, look_up, pin, preempt, publish, recycle, refuse, refuse_third, reset, reset_device,
    share, share_and_finish, swap_failed, swap_in, swap_out, swap_out_twice, swapped_out, take_all,
    take_while_pinned;
}  // namespace play

// What the falsifiers reach for.
inline std::vector<BlockId>& table(Scene& s, std::size_t request, GroupId group) {
  return s.after.requests[request].tables[group];
}
inline std::vector<BlockId>& host_table(Scene& s) { return s.after.requests[0].host_tables[0]; }
inline Granted& granted(Scene& s) { return std::get<Granted>(s.outcome.result); }

/// What a manager that counts would say, before and after.
inline void counted(Scene& s, std::uint64_t lookups, std::uint64_t lookup_tokens,
                    std::uint64_t hits) {
  s.before.counters.emplace();
  s.after.counters = {lookups, lookup_tokens, hits};
}

}  // namespace kvproof::properties
