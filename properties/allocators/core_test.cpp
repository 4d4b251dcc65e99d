// SPDX-License-Identifier: Apache-2.0
// reference/core.h against the naive model, on the configuration that both have: one group of full
// attention under the default profile.
//
// A random engine drives both through the same calls, broken ones among them. After each call the
// answers, the free queue, the counts, the index and the tables must be equal.
#include "reference/core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "properties/sources/random/ways.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {
namespace {

using core::Table;
using Tokens = std::vector<TokenId>;

template <class Range>
std::vector<std::uint64_t> numbers(const Range& range) {
  return {range.begin(), range.end()};
}

/// What has happened in a run, besides what the model counts.
struct CoreRun {
  int granted_hits = 0, hits_alone = 0, refused_by_watermark = 0, refused_running = 0;
  int stale_hits = 0, broken_calls = 0, duplicates = 0, from_the_middle = 0,
      limited_to_the_last = 0;
};

/// The core and the model, side by side.
class CoreAndModel {
 public:
  CoreAndModel(std::uint32_t num_blocks, std::uint32_t block_size, double watermark)
      : block_size_(block_size),
        model_(configured(num_blocks, block_size, watermark)),
        core_(num_blocks, block_size, watermark) {
    compare();
  }

  void arrive(const std::string& name, const Tokens& tokens) {
    both(op::Arrive{.req = name, .tokens = tokens}, [&] { core_.arrive(name, tokens); });
  }
  void append(const std::string& name, const Tokens& tokens) {
    both(op::Append{name, tokens}, [&] { core_.append(name, tokens); });
  }
  void advance(const std::string& name, std::uint32_t computed) {
    both(op::Advance{name, computed}, [&] { core_.advance(name, computed); });
  }
  void preempt(const std::string& name) {
    both(op::Free{name}, [&] { core_.preempt(name); });
    hits_.erase(name);
    was_preempted_[name] = true;
  }
  void finish(const std::string& name) {
    both(op::Finish{name}, [&] { core_.finish(name); });
    hits_.erase(name);
    was_preempted_.erase(name);
  }

  void lookup(const std::string& name) {
    Table hit;
    const Result result = both(op::Lookup{name}, [&] { hit = core_.lookup(name); });
    if (is_undone(result)) return;
    const Hit& answer = std::get<Hit>(result);
    EXPECT_EQ(numbers(answer.blocks.at(0)), numbers(hit));
    EXPECT_EQ(answer.hit_tokens, hit.size() * block_size_);
    const core::Request& r = core_.request(name);
    if (r.tokens.size() % block_size_ == 0 && !r.tokens.empty()) {
      run.limited_to_the_last += core_.pool().find(r.hashes.back()) ? 1 : 0;
    }
    hits_[name] = hit;
  }

  /// @return whether it was granted
  bool allocate(const std::string& name, std::uint32_t new_tokens, bool use_hit, bool others_run) {
    const Table found = use_hit ? hit(name) : Table{};
    const bool runs = core_.requests().contains(name) && !core_.request(name).table.empty();
    const RequestStatus status = runs                            ? RequestStatus::running
                                 : was_preempted_.contains(name) ? RequestStatus::preempted
                                                                 : RequestStatus::waiting;
    const std::size_t free_before = core_.pool().num_free();
    note_place_of(found);
    std::optional<Table> taken;
    const Result result =
        both(op::Allocate{name,
                          {.new_tokens = new_tokens,
                           .use_lookup = use_hit,
                           .has_scheduled = others_run,
                           .status = status}},
             [&] { taken = core_.allocate(name, new_tokens, found, others_run); });
    if (is_undone(result)) return false;
    EXPECT_EQ(std::holds_alternative<Granted>(result), taken.has_value());
    if (const auto* granted = std::get_if<Granted>(&result); granted != nullptr && taken) {
      EXPECT_EQ(numbers(granted->blocks.at(0)), numbers(*taken));
      run.granted_hits += found.empty() ? 0 : 1;
      run.hits_alone += new_tokens == 0 ? 1 : 0;
    } else if (runs) {
      ++run.refused_running;
    } else {
      const std::size_t end = core_.request(name).computed + new_tokens;  // beside the hit
      const std::size_t need = ceil_div<std::size_t>(end, block_size_) + free_of(found);
      run.refused_by_watermark += need <= free_before ? 1 : 0;
    }
    return taken.has_value();
  }

  [[nodiscard]] const core::Cache& core() const { return core_; }
  /// What the last lookup of a request found.
  [[nodiscard]] Table hit(const std::string& name) const {
    const auto found = hits_.find(name);
    return found == hits_.end() ? Table{} : found->second;
  }
  [[nodiscard]] const Snapshot& state() const { return state_; }

  CoreRun run;

 private:
  static CacheConfig configured(std::uint32_t num_blocks, std::uint32_t block_size,
                                double watermark) {
    CacheConfig out = pool(num_blocks, {full(block_size)});
    out.watermark = watermark;
    return out;
  }

  /// Makes a call on both. A precondition that it breaks is broken for both, and changes neither.
  template <class Call>
  Result both(const Operation& operation, const Call& call) {
    const Result result = model_.apply(operation).result;
    bool is_broken = false;
    try {
      call();
    } catch (const std::logic_error&) {
      is_broken = true;
    }
    EXPECT_EQ(is_undone(result), is_broken) << error_text(result);
    const auto* rejected = std::get_if<Rejected>(&result);
    run.broken_calls += is_broken ? 1 : 0;
    if (rejected != nullptr && rejected->breach == Breach::stale_lookup) ++run.stale_hits;
    compare();
    return result;
  }

  void compare() {
    model_.observe(state_);
    const core::BlockPool& pool = core_.pool();
    ASSERT_EQ(numbers(state_.queue), numbers(pool.queue()));
    ASSERT_EQ(state_.num_free, pool.num_free());
    for (BlockId block = 1; block < state_.blocks.size(); ++block) {
      const BlockState& there = state_.blocks[block];
      ASSERT_EQ(there.ref_cnt, static_cast<std::int64_t>(pool.references(block))) << block;
      ASSERT_EQ(there.hashed ? std::optional(there.key) : std::nullopt, pool.hash_of(block));
    }
    ASSERT_EQ(state_.index.size(), pool.index().size());
    for (const IndexEntry& entry : state_.index) {
      ASSERT_TRUE(pool.index().contains(entry.key));
      ASSERT_EQ(numbers(entry.blocks), numbers(pool.index().at(entry.key)));
      run.duplicates += entry.blocks.size() > 1 ? 1 : 0;
    }
    ASSERT_EQ(state_.requests.size(), core_.requests().size());
    for (const RequestState& there : state_.requests) {
      const core::Request& r = core_.request(there.name);
      ASSERT_EQ(there.num_tokens, r.tokens.size());
      ASSERT_EQ(there.computed, r.computed);
      ASSERT_EQ(there.hashes, r.hashes);
      ASSERT_EQ(numbers(there.tables.at(0)), numbers(r.table));
      ASSERT_EQ(there.progress.at(0).value_or(0), r.published);
    }
  }

  [[nodiscard]] std::size_t free_of(const Table& blocks) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        blocks, [&](core::Block block) { return core_.pool().references(block) == 0; }));
  }

  /// Counts hits that stand neither at the head nor at the tail of the queue.
  void note_place_of(const Table& hit) {
    const auto& queue = core_.pool().queue();
    for (const core::Block block : hit) {
      const bool inside =
          core_.pool().references(block) == 0 && queue.front() != block && queue.back() != block;
      run.from_the_middle += inside ? 1 : 0;
    }
  }

  std::uint32_t block_size_;
  reference::CacheManager model_;
  core::Cache core_;
  Snapshot state_;
  std::map<std::string, Table> hits_;  // of the last lookups
  std::map<std::string, bool> was_preempted_;
};

/// An engine that makes random choices, and now and then a call that it must not make.
class CoreEngine {
 public:
  CoreEngine(CoreAndModel& caches, std::uint32_t block_size, std::uint32_t seed)
      : caches_(caches), block_size_(block_size), random_(seed) {}

  void act() {
    const std::string name = any();
    const std::uint32_t choice = draw(20);
    if (requests().size() < 3 || (choice < 3 && requests().size() < 7)) return arrive();
    if (choice < 16) return go_on(name);
    if (choice == 16) return caches_.finish(name);
    if (choice == 17) return caches_.preempt(name);
    if (choice == 18) return caches_.lookup(name);
    break_precondition(name);
  }

 private:
  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  [[nodiscard]] const std::map<std::string, core::Request>& requests() const {
    return caches_.core().requests();
  }
  std::string any() {
    if (requests().empty()) return "nobody";
    return std::next(requests().begin(), draw(static_cast<std::uint32_t>(requests().size())))
        ->first;
  }

  // Prompts of one family begin alike.
  void arrive() {
    Tokens tokens = range(1000 * static_cast<TokenId>(draw(3)), draw(4 * block_size_ + 1));
    const Tokens own = range(static_cast<TokenId>(10'000 + draw(2)), draw(2 * block_size_));
    tokens.insert(tokens.end(), own.begin(), own.end());
    caches_.arrive("r" + std::to_string(count_++), tokens);
  }

  void go_on(const std::string& name) {
    const core::Request& r = caches_.core().request(name);
    const bool waits = r.table.empty();
    if (waits ? r.tokens.empty() : r.computed == r.tokens.size()) {
      caches_.append(name, range(static_cast<TokenId>(500 + draw(2)), 1 + draw(3)));
    }
    if (waits && draw(6) > 0) caches_.lookup(name);
    const bool use_hit = waits && draw(8) > 0;
    const std::size_t hit = use_hit ? caches_.hit(name).size() * block_size_ : 0;
    const auto rest = static_cast<std::uint32_t>(r.tokens.size() - r.computed - hit);
    const std::uint32_t new_tokens = hit > 0 && draw(8) == 0 ? 0 : 1 + draw(rest);
    const auto end = static_cast<std::uint32_t>(r.computed + hit + new_tokens);
    if (caches_.allocate(name, new_tokens, use_hit, draw(2) == 0)) {
      if (draw(10) > 0) caches_.advance(name, end);
    } else if (draw(3) == 0 || !waits) {
      caches_.preempt(any());
    }
  }

  void break_precondition(const std::string& name) {
    const auto computed = static_cast<std::uint32_t>(caches_.core().request(name).tokens.size());
    switch (draw(5)) {
      case 0: return caches_.arrive(name, {});
      case 1: return caches_.finish("nobody");
      case 2: return caches_.advance(name, computed + 1);
      case 3: return static_cast<void>(caches_.allocate(name, 0, false, false));
      default: break;
    }
    const bool runs = !caches_.core().request(name).table.empty();
    if (runs && !caches_.hit(name).empty()) caches_.allocate(name, 1, true, false);
  }

  CoreAndModel& caches_;
  std::uint32_t block_size_;
  std::mt19937 random_;
  int count_ = 0;
};

/// A run in which these never happened has shown nothing about them.
void expect_all_occurred(const CoreAndModel& caches, bool has_watermark) {
  const WorkCounters& work = caches.state().work.value();
  const CoreRun& run = caches.run;
  const std::pair<const char*, std::uint64_t> counts[] = {
      {"hits", caches.state().counters.value().hit_tokens},
      {"evictions", work.evictions},
      {"revivals", work.revivals},
      {"refusals", work.refusals},
      {"preemptions", work.preemptions},
      {"granted hits", run.granted_hits},
      {"hits without new tokens", run.hits_alone},
      {"refused while running", run.refused_running},
      {"stale hits", run.stale_hits},
      {"broken calls", run.broken_calls},
      {"contents with two blocks", run.duplicates},
      {"revived from the middle of the queue", run.from_the_middle},
      {"hits that leave out a block with the last token", run.limited_to_the_last},
      {"refused by the watermark alone", has_watermark ? run.refused_by_watermark : 10},
  };
  for (const auto& [what, count] : counts) EXPECT_GE(count, 10U) << what;
  EXPECT_TRUE(has_watermark || run.refused_by_watermark == 0);
}

struct CoreCase {
  std::uint32_t num_blocks, block_size;
  double watermark;
};
constexpr CoreCase kCoreCases[] = {{10, 2, 0.0}, {12, 4, 0.1}, {16, 1, 0.15}, {20, 3, 0.3}};

TEST(Core, EqualsTheModelOnRandomRuns) {
  for (const CoreCase& c : kCoreCases) {
    for (std::uint32_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(std::to_string(c.num_blocks) + " blocks, seed " + std::to_string(seed));
      CoreAndModel caches(c.num_blocks, c.block_size, c.watermark);
      CoreEngine engine(caches, c.block_size, seed);
      for (int i = 0; i < 10'000 && !::testing::Test::HasFailure(); ++i) engine.act();
      if (::testing::Test::HasFailure()) return;
      expect_all_occurred(caches, c.watermark > 0);
    }
  }
}

// The example that stands at BlockPool::release().
TEST(Core, TheTailOfATableStandsBeforeItsBeginning) {
  core::BlockPool pool(10);
  EXPECT_EQ(pool.take(9).size(), 9U);
  pool.publish(7, 70);
  pool.publish(5, 50);
  pool.release({2, 1});
  pool.release({7, 5, 9});
  EXPECT_EQ(numbers(pool.queue()), (std::vector<std::uint64_t>{9, 1, 2, 5, 7}));
}

TEST(Core, AHashStandsForAllTokensBefore) {
  core::ChainedHash hash;
  const core::Hash a = hash(core::kEmptyPrefix, {1, 2});
  const core::Hash b = hash(core::kEmptyPrefix, {3, 4});
  EXPECT_EQ(a, hash(core::kEmptyPrefix, {1, 2}));
  EXPECT_NE(a, b);
  EXPECT_NE(hash(a, {5, 6}), hash(b, {5, 6}));
  EXPECT_NE(hash(a, {5, 6}), hash(core::kEmptyPrefix, {5, 6}));
}

}  // namespace
}  // namespace kvproof::properties
