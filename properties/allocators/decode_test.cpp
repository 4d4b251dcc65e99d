// SPDX-License-Identifier: Apache-2.0
// A decode step of a batch is the three calls for each request, one after the other: two managers
// play the same random run, one of them with batches, and come to the same state.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "optimized/cache_manager.h"
#include "optimized/manager_calls.h"
#include "optimized/subjects.h"
#include "properties/random/random_run.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

using optimized::NewBlock;

constexpr AllocateArgs kDecoded{.new_tokens = 1, .status = RequestStatus::running};

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

/// Both managers, under the names of a random run. The one that is called request by request always
/// announces what it does, as the laws want it: so where the batch does not, the code that follows
/// nothing (BlockPool::plain()) is held to the code that the laws watch.
template <class Digest>
class Twins {
 public:
  Twins(const CacheConfig& config, const optimized::Capacity& capacity, std::uint64_t seed)
      : batched_(config, capacity),
        single_(config, announcing(capacity)),
        announced_(capacity.event_records > 0),
        random_(seed) {
    observe();
  }

  Result apply(Operation operation) {
    if (auto* o = std::get_if<op::Arrive>(&operation))
      o->extra.lora = below(4) == 0 ? "adapter" : "";
    if (auto* o = std::get_if<op::Truncate>(&operation)) {  // the batch has gone further
      const RequestId id = names().requests.at(o->req);
      o->tokens = std::max(o->tokens, single_.manager().computed(id));
    }
    const bool swaps = single_.manager().config().num_host_blocks > 0;
    if (!swaps && std::holds_alternative<op::SwapOut>(operation)) return Refused{};
    const Result result = single_.apply(operation);
    EXPECT_TRUE(batched_.apply(operation) == result);
    compare();
    return result;
  }
  [[nodiscard]] const Snapshot& state() const { return state_; }
  [[nodiscard]] const Seen& seen() const { return seen_; }

  /// A batch for one, single calls for the other.
  void decode_some() {
    std::vector<RequestId> ids;
    for (const auto& [name, id] : names().requests) {
      const bool can = !first_breach({id});
      if (below(4) > 0 && (can || below(8) == 0)) ids.push_back(id);
    }
    std::ranges::shuffle(ids, random_);
    const bool twice = !ids.empty() && below(4) == 0;
    // Now and then far more than the requests that there are: the manager looks at 16 at once.
    for (std::uint32_t more = !twice ? 0 : below(8) > 0 ? 1 : 40; more > 0; --more) {
      ids.push_back(ids[below(static_cast<std::uint32_t>(ids.size()))]);
    }
    if (below(16) == 0) {  // an id that was perhaps never given, or is none
      const std::uint32_t strange =
          below(2) > 0 ? below(64) : static_cast<std::uint32_t>(random_());
      ids.insert(ids.begin() + below(static_cast<std::uint32_t>(ids.size() + 1)),
                 RequestId(strange));
    }
    std::vector<TokenId> tokens(ids.size());
    for (TokenId& token : tokens) token = static_cast<TokenId>(below(2));
    if (const auto breach = first_breach(ids)) return expect_nothing_happens(ids, tokens, *breach);

    std::vector<std::uint32_t> refused;
    std::vector<NewBlock> taken;
    for (std::uint32_t i = 0; i < ids.size(); ++i) step(i, ids[i], tokens[i], refused, taken);
    const optimized::DecodeGrant decoded = batched_.calls()->decode(ids, tokens);
    EXPECT_TRUE(std::ranges::equal(decoded.refused, refused));
    EXPECT_TRUE(std::ranges::equal(decoded.taken, taken, [](const auto& a, const auto& b) {
      return a.index == b.index && a.group == b.group && a.block == b.block;
    }));
    seen_.tokens += ids.size();
    seen_.twice += twice ? 1 : 0;
    seen_.large += ids.size() >= 16 ? 1 : 0;
    seen_.refused += refused.size();
    seen_.taken += taken.size();
    seen_.copies += copies_.size();
    compare();
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  /// The three calls, and which blocks they have put into tables.
  void step(std::uint32_t index, RequestId id, TokenId token, std::vector<std::uint32_t>& refused,
            std::vector<NewBlock>& taken) {
    const auto groups = static_cast<GroupId>(single_.manager().config().groups.size());
    std::vector<std::size_t> held;
    for (GroupId g = 0; g < groups; ++g) held.push_back(single_.manager().table(id, g).size());
    single_.calls()->append(id, {&token, 1});
    const optimized::Admission admission = single_.calls()->allocate(id, kDecoded);
    if (!admission) return refused.push_back(index);
    single_.calls()->advance(id, single_.manager().computed(id) + 1);
    for (const optimized::BlockCopy& copy : single_.calls().take_copies()) {
      const auto table = single_.manager().table(id, copy.group);
      const bool stands_there = std::ranges::find(table, copy.to) != table.end();
      if (stands_there) taken.push_back({index, copy.group, copy.to});
      copies_.push_back(copy.to);
    }
    for (GroupId g = 0; g < groups; ++g) {
      if (single_.manager().table(id, g).size() == held[g]) continue;
      for (const BlockId block : single_.manager().growth(id, g))
        taken.push_back({index, g, block});
    }
  }

  /// The first of the three calls that a contract forbids, in the order of the batch.
  std::optional<Breach> first_breach(const std::vector<RequestId>& ids) const {
    std::map<RequestId, std::size_t> more;
    for (const RequestId id : ids) {
      const auto is_it = [&](const auto& entry) { return entry.second == id; };
      if (std::ranges::none_of(names().requests, is_it)) return Breach::unknown_request;
      if (single_.manager().tokens(id).size() + ++more[id] >
          single_.manager().config().max_model_len) {
        return Breach::capacity;
      }
      const bool away = std::ranges::any_of(names().transfers, is_it);
      if (away || single_.manager().has_host_tables(id)) return Breach::in_transfer;
    }
    return std::nullopt;
  }

  void expect_nothing_happens(const std::vector<RequestId>& ids, const std::vector<TokenId>& tokens,
                              Breach breach) {
    ++seen_.broken;
    try {
      batched_.calls()->decode(ids, tokens);
      ADD_FAILURE() << "expected " << to_string(breach);
    } catch (const ContractViolation& violation) {
      EXPECT_EQ(violation.breach(), breach) << violation.what();
    }
    compare();
  }

  [[nodiscard]] const optimized::CallerNames& names() const { return single_.names(); }
  void observe() { single_.observe(state_); }
  void compare() {
    observe();
    Snapshot other;
    batched_.observe(other);
    ASSERT_TRUE(other == (announced_ ? state_ : silent(state_)));
    const auto& [batched, single] = std::tie(batched_.manager(), single_.manager());
    for (const auto& [name, id] : names().requests) {
      ASSERT_TRUE(std::ranges::equal(batched.tokens(id), single.tokens(id)));
    }
    const std::vector<Event> events = single_.calls()->take_events();
    ASSERT_TRUE(batched_.calls()->take_events() == (announced_ ? events : std::vector<Event>()));
    ASSERT_EQ(batched.counters().refusals, single.counters().refusals);
    ASSERT_TRUE(
        std::ranges::equal(batched_.calls().take_copies(), copies_, {}, &optimized::BlockCopy::to));
    copies_.clear();
  }

  using Manager = optimized::ManagerCalls<optimized::Held<optimized::CacheManager<Digest>>>;

  Manager batched_;
  Manager single_;
  bool announced_;  // by batched_
  std::mt19937_64 random_;
  std::vector<BlockId> copies_;  // targets in the batch
  Snapshot state_;
  Seen seen_;
};

struct DecodeRow {
  const char* name;
  std::vector<GroupConfig> groups;
  optimized::Capacity capacity = {.max_requests = 64};
  bool host = true;
  bool caching = true;
};

std::vector<DecodeRow> decode_rows() {
  const optimized::Capacity exact{.max_requests = 64, .exact_hits = true};
  return {{"full", {full(4)}},
          {"one token per block", {full(1)}},
          {"no caching", {full(4)}, {.max_requests = 64}, true, false},
          {"usual blocks", {full(16)}},
          {"announced", {full(4)}, kAnnouncing},
          {"exact", {full(4)}, exact, false},
          {"blocks of two units", {full(8), full(4)}, kAnnouncing},
          {"full and window", {full(4), window(4, 8)}},
          {"unequal blocks", {full(8), window(4, 8), window(4, 12)}},
          {"announced windows", {full(4), window(4, 8)}, kAnnouncing},
          {"eagle", {full(4, true)}, kAnnouncing},
          {"states", {full(4), mamba(4, MambaMode::align)}, kAnnouncing, false}};
}

template <class Digest>
void expect_equal_runs() {
  constexpr int kOperations = 6000;
  std::cout << "KVPROOF_SEED=" << seed_of_runs() << "\n";
  for (const DecodeRow& row : decode_rows()) {
    Seen all;
    for (const Profile& profile : kProfiles) {
      SCOPED_TRACE(std::string(row.name) + " as " + std::string(profile.name));
      CacheConfig config = pool(32, row.groups, row.caching);
      config.profile = profile;
      config.max_model_len = 80;
      config.num_host_blocks = row.host ? 32 : 0;
      Twins<Digest> twins(config, row.capacity, seed_of_runs());
      RandomRun run(twins, config, seed_of_runs());
      for (int i = 0; i < kOperations && !testing::Test::HasFailure(); ++i) {
        run.next();
        if (i % 3 == 0) twins.decode_some();
      }
      if (testing::Test::HasFailure()) return;
      const Seen& seen = twins.seen();
      all.tokens += seen.tokens;
      all.taken += seen.taken;
      all.refused += seen.refused;
      all.copies += seen.copies;
      all.twice += seen.twice;
      all.broken += seen.broken;
      all.large += seen.large;
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
