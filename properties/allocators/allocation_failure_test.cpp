// SPDX-License-Identifier: Apache-2.0
// Memory that is refused has no side effects: in random lives, every allocation of every call fails
// once, and nothing shows it afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "optimized/manager_calls.h"
#include "optimized/manager_subject.h"
#include "properties/audit/runner.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/random/ways.h"
#include "reference/operations.h"
#include "reference/trace_names.h"

/// How many more allocations of this program succeed; kNoLimit = all.
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
static std::uint64_t allocations_left = kNoLimit;

// Replaced for the whole program. The sanitizers' malloc lies below, so that they see every block.
// Not inlined: g++ would see a free() of what new gave, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  const bool limited = allocations_left != kNoLimit;
  if (limited && allocations_left-- == 0) {
    allocations_left = 0;  // and so do all further ones, until the call is over
    throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace kvproof::properties {
namespace {

using optimized::Capacity;
using Manager = optimized::CacheManager<optimized::Xxh3Digest>;

/// A manager of which each call is refused memory; not the names and results of its caller, and
/// those alone are copied from its logs that are asked for.
class Failing {
 public:
  Failing(const CacheConfig& config, const Capacity& capacity) : manager_(config, capacity) {}

  /// One call: only allocations until its end are counted and refused.
  struct Call {
    Manager& manager;
    ~Call() { allocations_left = kNoLimit; }
    Manager* operator->() const { return &manager; }
  };
  Call operator->() {
    allocations_left = granted;
    return {manager_};
  }
  const Manager& operator*() const { return manager_; }
  static std::vector<optimized::BlockCopy> take_copies() { return {}; }  // a call of its own

  std::uint64_t granted = kNoLimit;  // allocations in a call; the next throws std::bad_alloc

 private:
  Manager manager_;
};

using Calls = std::set<std::string_view>;

struct Row {
  std::string name;
  CacheConfig config;
  Calls allocate;
  bool takes_copies = true;  // after every admission, as one should
  bool exact_hits = false;
};

Capacity capacity_of(const Row& row) {
  return {.max_requests = 8, .event_records = 1U << 12, .exact_hits = row.exact_hits};
}

/// As pool(), for requests that end soon.
CacheConfig short_pool(std::uint32_t num_blocks, std::vector<GroupConfig> groups,
                       bool caching = true) {
  CacheConfig out = pool(num_blocks, std::move(groups), caching);
  out.max_model_len = 72;
  return out;
}

CacheConfig with_host(CacheConfig config) {
  config.num_host_blocks = 14;
  return config;
}

CacheConfig with_prompt_tails(CacheConfig config) {
  config.hash_block_size = 2;
  config.profile.prompt_tail = PromptTail::complete;
  return config;
}

std::vector<Row> rows() {
  const std::vector<GroupConfig> hybrid = {full(4), window(4, 8)};
  const std::vector<GroupConfig> states = {full(4), mamba(4, MambaMode::align, 1)};
  const Calls usual = {"arrive", "fork", "pin", "take_copies", "take_events"};
  const Calls host = {"arrive", "fork", "pin", "swap_in", "swap_out", "take_copies", "take_events"};
  return {
      {"full", short_pool(28, {full(4)}), usual},
      {"full_uncached", short_pool(28, {full(4)}, false), {"arrive", "fork", "pin", "take_copies"}},
      {"full_host", with_host(short_pool(28, {full(4)})), host},
      {"full_window", short_pool(48, hybrid), usual},
      {"full_window_host", with_host(short_pool(48, hybrid)), host},
      {"full_chunks", short_pool(48, {full(4), chunked(4, 8)}), usual},
      {"moving_states", short_pool(48, states), {"arrive", "pin", "take_copies", "take_events"}},
      {"moving_states_host",
       with_host(short_pool(48, states)),
       {"arrive", "pin", "swap_in", "swap_out", "take_copies", "take_events"}},
      {"prompt_tails", with_prompt_tails(short_pool(48, hybrid)), usual},
      {"copies_left_lying",
       with_host(short_pool(48, hybrid)),
       {"allocate", "arrive", "fork", "pin", "swap_in", "swap_out", "take_events"},
       false},
      {"exact_hits", short_pool(28, {full(4)}), usual, true, true}};
}

/// Two managers in one life: one calm, and one whose every call is refused memory until it gets
/// through. After every operation, and after every refusal, they are alike.
class Twins final : public Subject {
 public:
  /// @param refused_calls gets those that were refused memory
  Twins(const Row& row, std::set<std::string_view>& refused_calls)
      : row_(row),
        calm_(row.config, capacity_of(row)),
        refused_(row.config, capacity_of(row)),
        refused_calls_(refused_calls) {
    calm_.observe(state_);
  }

  Outcome apply(const Operation& operation) override {
    const std::string_view name = kOperationNames[operation.index()];
    Outcome outcome;
    try {
      outcome.result = calm_.apply(operation);
    } catch (const ContractViolation& violation) {
      return {result_of_error(violation.what()), {}};
    }
    EXPECT_EQ(insist(name, [&] { return refused_.apply(operation); }), outcome.result) << name;
    calm_.observe(state_);
    refused_.observe(seen_);
    EXPECT_EQ(seen_, state_) << "after " << name;
    outcome.events = compare_events();
    if (row_.takes_copies) compare_copies();
    return outcome;
  }
  void observe(Snapshot& out) const override { out = state_; }

 private:
  std::vector<Event> compare_events() {
    std::vector<Event> events = calm_.calls()->take_events();
    EXPECT_EQ(events, insist("take_events", [&] { return refused_.calls()->take_events(); }));
    return events;
  }
  void compare_copies() {
    const auto copies = calm_.calls()->take_copies();
    const auto others = insist("take_copies", [&] { return refused_.calls()->take_copies(); });
    EXPECT_TRUE(std::ranges::equal(copies, others, [](const auto& a, const auto& b) {
      return a.group == b.group && a.from == b.from && a.to == b.to;
    }));
  }

  /// Grants one allocation more each time, until that is enough.
  template <class Call>
  std::invoke_result_t<Call> insist(std::string_view name, const Call& call) {
    std::uint64_t& granted = refused_.calls().granted;
    for (granted = 0;; ++granted) {
      try {
        return call();
      } catch (const std::bad_alloc&) {
        refused_calls_.insert(name);
        refused_.observe(seen_);
        EXPECT_EQ(seen_, state_) << name << " was refused allocation " << granted + 1;
      }
    }
  }

  const Row& row_;
  optimized::ManagerCalls<Failing> calm_;
  optimized::ManagerCalls<Failing> refused_;
  Snapshot state_;  // of the calm one
  Snapshot seen_;   // of the other
  std::set<std::string_view>& refused_calls_;
};

/// Of none, of every unit, of some units.
ExtraKeys extra_keys(std::uint32_t arrivals) {
  switch (arrivals % 4) {
    case 0: return {.lora = "an adapter whose name does not fit into a string object"};
    case 1: return {.salt = "salt", .mm = {{"an image in the first unit", 0, 3}}};
    default: return {};
  }
}

bool decodes(const Row& row) { return row.config.num_host_blocks == 0; }  // there nobody is away

void live(const Row& row, const std::vector<Choice>& choices, std::set<std::string_view>& refused,
          std::uint64_t& batches) {
  Twins twins(row, refused);
  Swarm swarm = usual_swarm();
  swarm.calls.early_forks = false;  // their children copy more blocks than a step does
  // What another holds is copied before it is written.
  for (const Kind often : {Kind::fork, Kind::touch, Kind::pin}) swarm.of(often) = 9;
  if (decodes(row)) swarm.of(Kind::decode) = 1;
  // Without a cache a reset is all that is announced, and seldom drawn.
  if (!row.config.enable_caching) swarm.of(Kind::reset) = 0;
  Audit audit(row.config, twins, {.laws = false, .model = false, .content = false},
              optimized::make_manager_subject<optimized::Xxh3Digest>(row.config, capacity_of(row)));
  const Generator generator(row.config, swarm);
  const Source drawn = from_choices(generator, choices);
  const auto next = [&](const Audit& before) {
    auto operation = drawn(before);
    auto* arrival = operation ? std::get_if<op::Arrive>(&*operation) : nullptr;
    if (arrival != nullptr) arrival->extra = extra_keys(before.history().book.arrivals());
    return operation;
  };
  const auto go_on = [](const Operation&) { return !testing::Test::HasFailure(); };
  const auto failure = play_out(row.config, audit, next, go_on);
  ASSERT_FALSE(failure) << failure->text;
  batches += audit.counts().asked[operation_index("decode")];
}

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class AllocationFailure : public testing::TestWithParam<Row> {};

// Every call that allocates is refused, and no other one is: what a step calls cannot fail.
TEST_P(AllocationFailure, LeavesNoTrace) {
  const Row& row = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed_from_environment()));
  ChoiceStream stream(seed_from_environment());
  std::set<std::string_view> refused;
  std::uint64_t batches = 0;
  constexpr int kLives = 30;  // memory is mostly asked for what is new
  for (int i = 0; i < kLives && !HasFailure(); ++i) live(row, stream.take(500), refused, batches);
  EXPECT_TRUE(!decodes(row) || batches > 20) << batches;
  EXPECT_EQ(refused, row.allocate);
}

INSTANTIATE_TEST_SUITE_P(Managers, AllocationFailure, testing::ValuesIn(rows()),
                         [](const auto& tested) { return tested.param.name; });

// More leases at one time than a random run has: what pin() has made room for, unpin() uses.
TEST(Leases, GoBackAndAreGivenAgainWithoutMemory) {
  optimized::ManagerCalls<Failing> manager(short_pool(8, {full(4)}), {.max_requests = 1});
  manager.apply(op::Take{1});
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  const std::vector<BlockId> held = {1};
  std::uint64_t& granted = manager.calls().granted;
  for (const std::string& name : names) {
    bool pinned = false;
    for (granted = 0; !pinned; ++granted) {
      try {
        manager.apply(op::Pin{held, name});
        pinned = true;
      } catch (const std::bad_alloc&) {
      }
    }
  }
  granted = 0;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) EXPECT_NO_THROW(manager.apply(op::Unpin{name}));
    for (const std::string& name : names) EXPECT_NO_THROW(manager.apply(op::Pin{held, name}));
  }
}

// A handle of which the caller was never told is no request.
TEST(Requests, ThatWereRefusedMemoryAreUnknown) {
  const std::vector<TokenId> prompt = {1, 2, 3, 4};
  const ExtraKeys extra{.lora = "an adapter whose name does not fit into a string object"};
  for (std::uint64_t granted = 0;; ++granted) {
    Manager manager(short_pool(8, {full(4)}), {.max_requests = 2});
    allocations_left = granted;
    try {
      manager.arrive({.tokens = prompt, .extra = &extra});
      allocations_left = kNoLimit;
      EXPECT_GT(granted, 2U) << "of which the buffer is the last";
      return;
    } catch (const std::bad_alloc&) {
      allocations_left = kNoLimit;
    }
    const AllocateArgs step{.new_tokens = 1, .status = RequestStatus::running};
    EXPECT_THROW(manager.append(0, {prompt.data(), 1}), ContractViolation) << granted;
    EXPECT_THROW(manager.advance(0, 1), ContractViolation) << granted;
    EXPECT_THROW(manager.allocate(0, step), ContractViolation) << granted;
    EXPECT_THROW(manager.free(0), ContractViolation) << granted;
    const auto id = manager.arrive({.tokens = prompt});
    EXPECT_EQ(manager.common_prefix(id), 0U);
    EXPECT_TRUE(manager.allocate(id, step));
  }
}

}  // namespace
}  // namespace kvproof::properties
