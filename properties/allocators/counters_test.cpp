// SPDX-License-Identifier: Apache-2.0
// The counters of the paged allocator against counts that a random run takes from the naive model's
// answers and snapshots.
#include "optimized/pool/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "optimized/manager_subject.h"
#include "optimized/pool/hashing.h"
#include "properties/audit/runner.h"
#include "properties/laws/extent.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/random/ways.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

using optimized::Counters;
using Blocks = std::vector<BlockId>;

/// The same operations on the naive model, which is watched, and on the manager that counts.
class Watched final : public Subject {
 public:
  explicit Watched(const CacheConfig& config)
      : config_(config),
        naive_(config),
        fast_(optimized::make_manager_subject<optimized::Xxh3Digest>(config)) {
    naive_.observe(state_);
  }

  Outcome apply(const Operation& operation) override {
    const Outcome outcome = naive_.apply(operation);
    const Snapshot before = state_;
    naive_.observe(state_);
    const bool done = !is_undone(outcome.result);
    if (done) std::visit([&](const auto& o) { count(o, outcome, before); }, operation);
    EXPECT_EQ(is_undone(fast_->apply(operation).result), !done);
    fast_->observe(counting_);
    EXPECT_EQ(counting_.num_free, state_.num_free) << "the two went different ways";
    return outcome;
  }
  void observe(Snapshot& out) const override { out = state_; }

  [[nodiscard]] const Counters& expected() const { return expected_; }
  [[nodiscard]] const Snapshot& counted() const { return counting_; }

 private:
  // ---- counting, from what can be seen ----

  template <class Other>
  void count(const Other& /*operation*/, const Outcome& /*outcome*/, const Snapshot& /*before*/) {}

  void count(const op::Lookup& o, const Outcome& outcome, const Snapshot& /*before*/) {
    hits_[o.req] = std::get<Hit>(outcome.result);
  }
  void count(const op::Allocate& o, const Outcome& outcome, const Snapshot& before) {
    const auto* granted = std::get_if<Granted>(&outcome.result);
    if (granted == nullptr) return void(++expected_.refusals);
    expected_.copies += granted->copies.size();
    count_lost(outcome);
    if (o.args.use_lookup && o.args.status != RequestStatus::preempted) count_hit(o.req, before);
    const auto& old_tables = before.find(o.req)->tables;
    const auto& tables = state_.find(o.req)->tables;
    for (std::size_t g = 0; g < tables.size(); ++g) {
      const bool from_hit = o.args.use_lookup && g < hits_[o.req].blocks.size();
      const Blocks hit = from_hit ? hits_[o.req].blocks[g] : Blocks{};
      for (std::size_t i = 0; i < tables[g].size(); ++i) {
        const BlockId block = tables[g][i];
        const BlockId old = i < old_tables[g].size() ? old_tables[g][i] : kNullBlock;
        if (block == kNullBlock || block == old) continue;
        const bool is_hit = i < hit.size() && hit[i] == block;
        if (!is_hit) ++expected_.taken;
        if (is_hit && before.blocks[block].ref_cnt == 0) ++expected_.revivals;
      }
    }
  }
  void count_hit(const std::string& req, const Snapshot& before) {
    const RequestState& r = *before.find(req);
    const bool idle = without_blocks(r) && without_progress(r);
    if (!config_.enable_caching || r.num_tokens == 0 || !idle) return;
    ++expected_.lookups;
    expected_.lookup_tokens += r.num_tokens - 1;
    expected_.hit_tokens += hits_[req].hit_tokens;
  }
  void count(const op::Take& o, const Outcome& outcome, const Snapshot& /*before*/) {
    if (!std::holds_alternative<Granted>(outcome.result)) return;
    expected_.taken += o.n;
    count_lost(outcome);
  }
  void count(const op::Touch& o, const Outcome& /*outcome*/, const Snapshot& before) {
    count_revived(o.blocks, before);
  }
  void count(const op::Pin& o, const Outcome& /*outcome*/, const Snapshot& before) {
    count_revived(o.blocks, before);
  }
  void count(const op::SwapIn& o, const Outcome& outcome, const Snapshot& before) {
    const auto* granted = std::get_if<Granted>(&outcome.result);
    if (granted == nullptr) return;
    expected_.taken += granted->copies.size();
    count_lost(outcome);
    Blocks found;
    for (const Blocks& table : state_.find(o.req)->tables) {
      for (const BlockId block : table) {
        const bool copied = std::ranges::any_of(granted->copies,
                                                [&](const Copy& copy) { return copy.to == block; });
        if (block != kNullBlock && !copied) found.push_back(block);
      }
    }
    count_revived(found, before);
  }
  void count(const op::Free& o, const Outcome& /*outcome*/, const Snapshot& /*before*/) {
    ++expected_.preemptions;
    hits_.erase(o.req);
  }
  /// Blocks that were handed out and had content, under one key or several.
  void count_lost(const Outcome& outcome) {
    std::set<BlockId> lost;
    for (const Event& event : outcome.events) {
      if (const auto* removed = std::get_if<event::Removed>(&event)) lost.insert(removed->block);
    }
    expected_.evictions += lost.size();
  }
  void count_revived(const Blocks& blocks, const Snapshot& before) {
    for (const BlockId block : std::set<BlockId>(blocks.begin(), blocks.end())) {
      if (before.blocks[block].ref_cnt == 0) ++expected_.revivals;
    }
  }

  CacheConfig config_;
  reference::CacheManager naive_;
  std::unique_ptr<Subject> fast_;
  Snapshot state_;
  Snapshot counting_;  // of fast_
  Counters expected_;
  std::map<std::string, Hit> hits_;
};

std::vector<CacheConfig> configs() {
  std::vector<CacheConfig> out;
  const std::vector<std::vector<GroupConfig>> groups = {
      {full(4)}, {full(4), window(4, 8)}, {full(4), window(2, 5)}, {full(4, true)}};
  for (const Profile& profile : kProfiles) {
    for (const auto& g : groups) {
      for (const bool caching : {true, false}) {
        CacheConfig config = pool(24, g, caching);
        config.profile = profile;
        config.max_model_len = 80;
        config.num_host_blocks = 24;
        out.push_back(config);
      }
    }
  }
  return out;
}

TEST(Counters, AgreeWithWhatARandomRunShows) {
  constexpr int kOperations = 12000;
  std::cout << "KVPROOF_SEED=" << seed_from_environment() << "\n";
  for (const CacheConfig& config : configs()) {
    SCOPED_TRACE(std::string(config.profile.name) + ", " + std::to_string(config.groups.size()) +
                 " groups" + (config.enable_caching ? "" : ", no caching"));
    Watched manager(config);
    Audit audit(config, manager, {.laws = false, .model = false, .content = false});
    Swarm swarm = usual_swarm();
    swarm.calls.skip_lookup = false;  // such requests are not counted
    swarm.calls.early_forks = false;  // their drafts take keys from blocks that are not handed out
    swarm.of(Kind::fork) = 9;
    const Generator generator(config, swarm);
    const auto choices = ChoiceStream(seed_from_environment()).take(kOperations);
    const auto failure = play_out(config, audit, from_choices(generator, choices),
                                  [](const Operation&) { return !testing::Test::HasFailure(); });
    ASSERT_FALSE(failure) << failure->text;
    const Counters& expected = manager.expected();
    const auto& [lookups, lookup_tokens, hit_tokens] = *manager.counted().counters;
    const WorkCounters& work = *manager.counted().work;
    EXPECT_EQ(lookups, expected.lookups);
    EXPECT_EQ(lookup_tokens, expected.lookup_tokens);
    EXPECT_EQ(hit_tokens, expected.hit_tokens);
    EXPECT_EQ(work.taken, expected.taken);
    EXPECT_EQ(work.evictions, expected.evictions);
    EXPECT_EQ(work.revivals, expected.revivals);
    EXPECT_EQ(work.refusals, expected.refusals);
    EXPECT_EQ(work.preemptions, expected.preemptions);
    EXPECT_EQ(work.copies, expected.copies);
    // A run in which these never happened has shown nothing about them.
    for (const std::uint64_t n :
         {expected.taken, expected.refusals, expected.preemptions, expected.copies}) {
      EXPECT_GT(n, 20U);
    }
    for (const std::uint64_t n : {expected.hit_tokens, expected.evictions, expected.revivals}) {
      EXPECT_TRUE(n > 20 || !config.enable_caching);
    }
  }
}

}  // namespace
}  // namespace kvproof::properties
