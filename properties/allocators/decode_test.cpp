// SPDX-License-Identifier: Apache-2.0
// A decode step of a batch is the three calls for each request, one after the other: two managers
// play the same random run, one of them with batches, and come to the same state.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/manager_calls.h"
#include "optimized/subjects.h"
#include "properties/audit/runner.h"
#include "properties/laws/laws.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/random/ways.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

/// How often what matters has happened.
struct Seen {
  std::uint64_t tokens = 0, taken = 0, refused = 0, copies = 0, twice = 0, broken = 0, large = 0;
};

const optimized::Capacity kAnnouncing{.max_requests = 64, .event_records = 512, .residency = true};

optimized::Capacity announcing(optimized::Capacity capacity) {
  capacity.event_records = kAnnouncing.event_records;
  capacity.residency = kAnnouncing.residency;
  return capacity;
}

/// What a manager shows that announces nothing.
Snapshot silent(Snapshot state) {
  for (PoolState* pool : {static_cast<PoolState*>(&state), &state.host}) {
    for (BlockState& block : pool->blocks) block.prefix_tokens = 0;
  }
  state.work->lost_events = 0;
  state.work->lifetime = {};
  state.work->idle = {};
  return state;
}

/// A manager under the names of a random run.
/// @tparam Digest of its blocks
template <class Digest>
class Played final : public Subject {
 public:
  /// @param announces whether it shows what a manager shows that announces what it does
  Played(const CacheConfig& config, const optimized::Capacity& capacity, bool announces)
      : calls_(config, capacity), announces_(announces) {}

  Outcome apply(const Operation& operation) override {
    Outcome out;
    try {
      out.result = calls_.apply(operation);
    } catch (const ContractViolation& violation) {
      out.result = result_of_error(violation.what());
    }
    std::vector<Event> events = calls_.calls()->take_events();
    if (announces_) out.events = std::move(events);
    return out;
  }
  void observe(Snapshot& out) const override {
    calls_.observe(out);
    if (!announces_) out = silent(std::move(out));
  }

  /// What no snapshot shows must be alike, too.
  void compare(const Played& other) const {
    Snapshot mine, others;
    observe(mine);
    other.observe(others);
    ASSERT_TRUE(mine == others);
    ASSERT_EQ(manager().counters().refusals, other.manager().counters().refusals);
    for (const auto& [name, id] : calls_.names().requests) {
      ASSERT_TRUE(std::ranges::equal(manager().tokens(id), other.manager().tokens(id)));
    }
  }

 private:
  [[nodiscard]] const auto& manager() const { return calls_.manager(); }

  optimized::ManagerCalls<optimized::Held<optimized::CacheManager<Digest>>> calls_;
  bool announces_;
};

/// Draws batches of all sizes, and mistakes in them.
class Batches {
 public:
  explicit Batches(std::uint64_t seed) : random_(seed) {}

  Operation next(const Audit& before) {
    op::Decode out;
    for (const RequestState& r : before.state().requests) {
      const RequestRecord* record = before.history().find(r.name);
      const bool can = record->resident() && r.num_tokens < before.config().max_model_len;
      if (below(4) > 0 && (can || below(8) == 0)) out.reqs.push_back(r.name);
    }
    std::ranges::shuffle(out.reqs, random_);
    const bool twice = !out.reqs.empty() && below(4) == 0;
    // Now and then far more than the requests that there are: the manager looks at 16 at once.
    for (std::uint32_t more = !twice ? 0 : below(8) > 0 ? 1 : 40; more > 0; --more) {
      out.reqs.push_back(out.reqs[below(static_cast<std::uint32_t>(out.reqs.size()))]);
    }
    if (below(16) == 0) {  // a name that was perhaps never given, or is given back
      const auto at = below(static_cast<std::uint32_t>(out.reqs.size() + 1));
      out.reqs.insert(out.reqs.begin() + at,
                      "r" + std::to_string(below(before.history().book.arrivals() + 2)));
    }
    for (std::size_t i = 0; i < out.reqs.size(); ++i) out.tokens.push_back(TokenId(below(2)));
    return out;
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  std::mt19937_64 random_;
};

void count(const Operation& operation, const Result& result, Seen& seen) {
  const auto* batch = std::get_if<op::Decode>(&operation);
  if (batch == nullptr) return;
  const auto* decoded = std::get_if<Decoded>(&result);
  if (decoded == nullptr) return void(++seen.broken);
  const std::set<std::string> different(batch->reqs.begin(), batch->reqs.end());
  seen.tokens += batch->reqs.size();
  seen.twice += different.size() < batch->reqs.size() ? 1 : 0;
  seen.large += batch->reqs.size() >= 16 ? 1 : 0;
  seen.refused += decoded->refused.size();
  seen.copies += decoded->copies.size();
  for (const auto& groups : decoded->blocks) {
    for (const auto& blocks : groups) seen.taken += blocks.size();
  }
}

/// The laws of batches alone: that of their calls, and that of why one is rejected.
Oracles laws_of_batches() {
  Oracles out{.model = false, .content = false};
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    const bool is_due = kStateLaws[i].id == "C12" || kStateLaws[i].id == "C15";
    if (!is_due) out.laws_left_out |= std::uint64_t{1} << i;
  }
  return out;
}

struct DecodeRow {
  const char* name;
  std::vector<GroupConfig> groups;
  optimized::Capacity capacity = {.max_requests = 64};
  bool host = true;
  bool caching = true;
  std::uint32_t blocks = 32;
};

std::vector<DecodeRow> decode_rows() {
  const optimized::Capacity exact{.max_requests = 64, .exact_hits = true};
  return {{"full", {full(4)}},
          {"one token per block", {full(1)}},
          {"no caching", {full(4)}, {.max_requests = 64}, true, false},
          {"usual blocks", {full(16)}, {.max_requests = 64}, true, true, 16},
          {"announced", {full(4)}, kAnnouncing},
          {"exact", {full(4)}, exact, false},
          {"blocks of two units", {full(8), full(4)}, kAnnouncing},
          {"full and window", {full(4), window(4, 8)}},
          {"unequal blocks", {full(8), window(4, 8), window(4, 12)}},
          {"announced windows", {full(4), window(4, 8)}, kAnnouncing},
          {"eagle", {full(4, true)}, kAnnouncing},
          {"states", {full(4), mamba(4, MambaMode::align)}, kAnnouncing, false}};
}

/// The manager that is called request by request always announces what it does, as the laws want
/// it: so where the batch does not, the code that follows nothing (BlockPool::plain()) is held to
/// the code that the laws watch.
template <class Digest>
void play_batches(const CacheConfig& config, const optimized::Capacity& capacity, Seen& seen) {
  constexpr int kOperations = 4000;
  const std::uint64_t seed = seed_from_environment();
  const bool announces = capacity.event_records > 0;
  Played<Digest> batched(config, capacity, announces);
  auto twin = std::make_unique<Played<Digest>>(config, announcing(capacity), announces);
  const Played<Digest>& single = *twin;
  Audit audit(config, batched, laws_of_batches(), std::move(twin));
  const Generator generator(config, usual_swarm());
  const auto choices = ChoiceStream(seed).take(kOperations);
  const Source drawn = from_choices(generator, choices);
  Batches batches(seed);
  int performed = 0;
  const auto next = [&](const Audit& before) {
    return ++performed % 4 == 0 ? std::optional(batches.next(before)) : drawn(before);
  };
  const auto failure = play_out(config, audit, next, [&](const Operation& operation) {
    count(operation, audit.outcome().result, seen);
    batched.compare(single);
    return !testing::Test::HasFailure();
  });
  ASSERT_FALSE(failure) << failure->text;
}

template <class Digest>
void expect_equal_runs() {
  std::cout << "KVPROOF_SEED=" << seed_from_environment() << "\n";
  for (const DecodeRow& row : decode_rows()) {
    Seen all;
    for (const Profile& profile : kProfiles) {
      SCOPED_TRACE(std::string(row.name) + " as " + std::string(profile.name));
      CacheConfig config = pool(row.blocks, row.groups, row.caching);
      config.profile = profile;
      config.max_model_len = 80;
      config.num_host_blocks = row.host ? 32 : 0;
      play_batches<Digest>(config, row.capacity, all);
      if (testing::Test::HasFailure()) return;
    }
    // A run in which these never happened has shown nothing about them.
    for (const std::uint64_t n : {all.tokens, all.taken, all.refused, all.twice, all.broken}) {
      EXPECT_GT(n, 20U) << row.name;
    }
    EXPECT_GT(all.large, 4U) << row.name;
    // A block of one token is complete when it is written, and hardly ever shared before.
    EXPECT_TRUE(all.copies > 0 || row.groups.front().block_size == 1) << row.name;
  }
}

TEST(Decode, IsTheThreeCallsOfEachRequestWithXxh3) { expect_equal_runs<optimized::Xxh3Digest>(); }
TEST(Decode, IsTheThreeCallsOfEachRequestWithSha256) {
  expect_equal_runs<optimized::Sha256Digest>();
}

/// Asks in text. @return the answer in text
std::string ask(Subject& subject, const std::string& line) {
  const TraceLine read = parse_trace_line(line);
  const Outcome outcome = subject.apply(read.operation);
  const std::string text = to_json(outcome);
  EXPECT_TRUE(parse_answer(read.operation, text).result == outcome.result) << text;
  return text;
}

TEST(Decode, IsAskedAndAnsweredAsText) {
  CacheConfig config = pool(4, {full(2)});
  config.profile = *find_profile("vllm-0.24");
  for (const auto& row : optimized::kSubjects) {
    SCOPED_TRACE(row.name);
    const auto subject = row.make(config);
    for (const auto& [name, tokens] : {std::pair("a", 2), {"b", 2}, {"c", 1}}) {
      const auto all = static_cast<std::uint32_t>(tokens);
      subject->apply(op::Arrive{name, range(0, all)});
      subject->apply(op::Allocate{name, {.new_tokens = all}});
      subject->apply(op::Advance{name, all});
    }
    const std::string both = R"({"op":"decode","reqs":["a","b"],"tokens":[7,8]})";
    EXPECT_EQ(ask(*subject, both), R"({"out":{"refused":[0,1],"blocks":[[],[]]}})");
    EXPECT_EQ(ask(*subject, R"({"op":"finish","req":"c"})"), R"({"out":null})");
    EXPECT_EQ(ask(*subject, both), R"({"out":{"refused":[1],"blocks":[[[3]],[]]}})");
    EXPECT_EQ(ask(*subject, R"({"op":"decode","reqs":["a"],"tokens":[7,8]})").find("capacity"),
              17U);
  }
}

TEST(Decode, OfAHandleThatWasNeverGivenChangesNothing) {
  optimized::CacheManager<optimized::Xxh3Digest> manager(pool(8, {full(4)}), {.max_requests = 64});
  const RequestId known = manager.arrive({.tokens = range(0, 3)});
  for (const std::uint32_t strange : {1U, 63U, 64U, ~0U}) {
    const RequestId ids[] = {known, RequestId(strange)};
    try {
      manager.decode(ids, std::vector<TokenId>{1, 2});
      ADD_FAILURE() << strange;
    } catch (const ContractViolation& violation) {
      EXPECT_EQ(violation.breach(), Breach::unknown_request) << strange;
    }
    EXPECT_EQ(manager.tokens(known).size(), 3U);
  }
}

TEST(Decode, NeedsATokenForEachRequest) {
  optimized::CacheManager<optimized::Xxh3Digest> manager(pool(8, {full(4)}));
  const RequestId ids[] = {manager.arrive({.tokens = range(0, 3)})};
  const std::vector<TokenId> tokens = {1, 2};
  EXPECT_THROW(manager.decode(ids, tokens), ContractViolation);
  EXPECT_EQ(manager.tokens(ids[0]).size(), 3U);
  EXPECT_TRUE(manager.decode({}, {}).taken.empty());
}

}  // namespace
}  // namespace kvproof::properties
