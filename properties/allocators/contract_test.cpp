// SPDX-License-Identifier: Apache-2.0
// Every way to break a precondition: each is named, in release builds too, and changes nothing.
#include "reference/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <limits>
#include <set>

#include "optimized/cache_manager.h"
#include "properties/allocators/manager_driver.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

constexpr std::uint32_t kMinusOne = std::numeric_limits<std::uint32_t>::max();

/// Operations that hold, and one that does not.
struct BrokenCall {
  Breach breach;
  const char* what;
  std::vector<Operation> before;
  Operation breaks;
  std::vector<GroupConfig> groups = {full(4)};
  std::uint32_t num_host_blocks = 8;
};

op::Arrive arrive(const char* name, std::uint32_t tokens) {
  return {.req = name, .tokens = range(0, tokens), .extra = {}};
}
op::Allocate first(const char* name, std::uint32_t tokens) {
  return {name, {.new_tokens = tokens}};
}

/// A request of ten tokens in blocks [1, 2, 3], of which two are published and ten are computed.
const std::vector<Operation> kOne = {arrive("a", 10), first("a", 10), op::Advance{"a", 10}};

std::vector<Operation> one_and(std::vector<Operation> more) {
  std::vector<Operation> out = kOne;
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

void add_requests(std::vector<BrokenCall>& out) {
  const auto unknown = [&](const char* what, std::vector<Operation> before, Operation breaks) {
    out.push_back({Breach::unknown_request, what, std::move(before), std::move(breaks)});
  };
  const Operation to_nobody[] = {
      op::Append{"nobody", {1}},   op::Advance{"nobody", 0},  op::Lookup{"nobody"},
      first("nobody", 1),          op::Free{"nobody"},        op::Finish{"nobody"},
      op::Recycle{"nobody", 0},    op::Cache{"nobody", 0},    op::CommonPrefix{"nobody"},
      op::Fork{"nobody", "child"}, op::Truncate{"nobody", 0}, op::SwapOut{"nobody", "t"},
      op::SwapIn{"nobody", "t"}};
  for (const Operation& operation : to_nobody) unknown("nobody of that name", kOne, operation);
  unknown("finish twice", one_and({op::Finish{"a"}}), op::Finish{"a"});
  unknown("free after finish", one_and({op::Finish{"a"}}), op::Free{"a"});

  const auto add = [&](Breach breach, const char* what, std::vector<Operation> before,
                       Operation breaks) {
    out.push_back({breach, what, std::move(before), std::move(breaks)});
  };
  add(Breach::duplicate_request, "arrive twice", kOne, arrive("a", 3));
  add(Breach::duplicate_request, "fork to itself", kOne, op::Fork{"a", "a"});
  add(Breach::duplicate_request, "fork to another", one_and({arrive("b", 3)}), op::Fork{"a", "b"});
  add(Breach::computed_beyond_tokens, "one too many", kOne, op::Advance{"a", 11});
  add(Breach::computed_beyond_tokens, "a negative count", kOne, op::Advance{"a", kMinusOne});
  add(Breach::capacity, "a prompt beyond the limit", kOne, arrive("b", 65));
  add(Breach::capacity, "append beyond the limit", kOne, op::Append{"a", range(0, 55)});
  add(Breach::capacity, "loaded tokens beyond the limit", one_and({arrive("b", 10)}),
      op::Allocate{"b", {.external = 65}});
  add(Breach::capacity, "a negative number of loaded tokens", one_and({arrive("b", 10)}),
      op::Allocate{"b", {.external = kMinusOne}});
  add(Breach::capacity, "a negative number of tokens behind computed ones", kOne,
      op::Allocate{"a", {.external = kMinusOne}});
}

void add_admission(std::vector<BrokenCall>& out) {
  const auto add = [&](Breach breach, const char* what, std::vector<Operation> before,
                       Operation breaks) {
    out.push_back({breach, what, std::move(before), std::move(breaks)});
  };
  const op::Allocate rest{"b", {.new_tokens = 2, .use_lookup = true}};
  add(Breach::nothing_to_allocate, "nothing", kOne, op::Allocate{"a", {}});
  add(Breach::nothing_to_allocate, "lookahead alone", kOne, op::Allocate{"a", {.lookahead = 4}});
  add(Breach::hit_on_running, "a hit twice",
      one_and({arrive("b", 10), op::Lookup{"b"}, rest, op::Lookup{"b"}}), rest);
  add(Breach::stale_lookup, "evicted since",
      one_and({arrive("b", 10), op::Lookup{"b"}, op::Evict{{2}}}), rest);
  add(Breach::stale_lookup, "taken since",
      one_and(
          {arrive("b", 10), op::Lookup{"b"}, op::Finish{"a"}, op::Take{11}, op::Release{{4, 5}}}),
      rest);
  add(Breach::published_tail, "computed", kOne, op::Truncate{"a", 9});
  add(Breach::published_tail, "published", one_and({op::Advance{"a", 0}}), op::Truncate{"a", 4});
}

void add_blocks(std::vector<BrokenCall>& out) {
  const auto add = [&](Breach breach, const char* what, std::vector<Operation> before,
                       Operation breaks) {
    out.push_back({breach, what, std::move(before), std::move(breaks)});
  };
  constexpr Breach kRange = Breach::block_out_of_range;
  add(kRange, "evict behind the last", kOne, op::Evict{{12}});
  add(kRange, "evict a good one first", kOne, op::Evict{{1, BlockId(kMinusOne)}});
  add(kRange, "touch the null block", kOne, op::Touch{{kNullBlock}});
  add(kRange, "touch behind the last", kOne, op::Touch{{12}});
  add(kRange, "touch a good one first", kOne, op::Touch{{1, BlockId(kMinusOne)}});
  add(kRange, "pin the null block", kOne, op::Pin{{kNullBlock}, "l"});
  add(kRange, "pin a good one first", kOne, op::Pin{{1, 12}, "l"});
  add(Breach::no_content, "pin a free block that was never used", kOne, op::Pin{{1, 4}, "l"});

  constexpr Breach kHeld = Breach::not_held;
  add(kHeld, "release a free block", kOne, op::Release{{4}});
  add(kHeld, "release a block of a request", kOne, op::Release{{1}});
  add(kHeld, "release the null block", kOne, op::Release{{kNullBlock}});
  add(kHeld, "release behind the last", kOne, op::Release{{12}});
  add(kHeld, "release twice in one call", one_and({op::Take{1}}), op::Release{{4, 4}});
  add(kHeld, "release twice", one_and({op::Take{2}, op::Release{{4}}}), op::Release{{5, 4}});
  add(kHeld, "release what a lease holds", one_and({op::Pin{{1}, "l"}}), op::Release{{1}});

  add(Breach::unknown_lease, "never given", kOne, op::Unpin{"l"});
  add(Breach::unknown_lease, "returned twice", one_and({op::Pin{{1}, "l"}, op::Unpin{"l"}}),
      op::Unpin{"l"});
  add(Breach::duplicate_lease, "given twice", one_and({op::Pin{{1}, "l"}}), op::Pin{{2}, "l"});
}

void add_transfers(std::vector<BrokenCall>& out) {
  const auto add = [&](Breach breach, const char* what, std::vector<Operation> before,
                       Operation breaks) {
    out.push_back({breach, what, std::move(before), std::move(breaks)});
  };
  const std::vector<Operation> leaving = one_and({op::SwapOut{"a", "t"}});
  std::vector<Operation> away = leaving;
  away.push_back(op::Complete{"t", true});
  std::vector<Operation> returning = away;
  returning.push_back(op::SwapIn{"a", "t"});

  const Operation on_device[] = {first("a", 1),      op::Recycle{"a", 4},   op::Cache{"a", 8},
                                 op::Fork{"a", "b"}, op::Truncate{"a", 10}, op::SwapOut{"a", "u"}};
  for (const Operation& operation : on_device) {
    add(Breach::in_transfer, "while it leaves", leaving, operation);
    add(Breach::in_transfer, "while it is on the host", away, operation);
    add(Breach::in_transfer, "while it returns", returning, operation);
  }
  for (const Operation& operation :
       {Operation(op::Free{"a"}), Operation(op::Finish{"a"}), Operation(op::SwapIn{"a", "u"})}) {
    add(Breach::in_transfer, "while it leaves", leaving, operation);
    add(Breach::in_transfer, "while it returns", returning, operation);
  }
  add(Breach::not_in_transfer, "swap in what is here", kOne, op::SwapIn{"a", "t"});
  add(Breach::not_in_transfer, "swap out nothing", one_and({arrive("b", 3)}),
      op::SwapOut{"b", "t"});
  add(Breach::unknown_transfer, "never started", kOne, op::Complete{"t", true});
  add(Breach::unknown_transfer, "completed twice", away, op::Complete{"t", true});
  std::vector<Operation> two = leaving;
  two.insert(two.end(), {arrive("b", 3), first("b", 3)});
  add(Breach::duplicate_transfer, "two under one name", two, op::SwapOut{"b", "t"});
  add(Breach::duplicate_transfer, "out without a name", kOne, op::SwapOut{"a", ""});
  add(Breach::duplicate_transfer, "in without a name", away, op::SwapIn{"a", ""});
  add(Breach::not_supported, "no host tier", kOne, op::SwapOut{"a", "t"});
  out.back().num_host_blocks = 0;
  add(Breach::not_supported, "fork of a running state", kOne, op::Fork{"a", "b"});
  out.back().groups = {full(4), mamba(4, MambaMode::align)};
}

std::vector<BrokenCall> all_broken() {
  std::vector<BrokenCall> out;
  add_requests(out);
  add_admission(out);
  add_blocks(out);
  add_transfers(out);
  return out;
}

CacheConfig config_of(const BrokenCall& broken) {
  CacheConfig config = pool(12, broken.groups);
  config.max_model_len = 64;
  config.num_host_blocks = broken.num_host_blocks;
  return config;
}

class Contract : public testing::TestWithParam<Way> {};

TEST_P(Contract, ABrokenCallIsNamedAndChangesNothing) {
  for (const BrokenCall& broken : all_broken()) {
    SCOPED_TRACE(std::string(to_string(broken.breach)) + ": " + broken.what);
    Driver m(GetParam(), config_of(broken));
    for (const Operation& operation : broken.before) {
      const Result result = m.apply(operation).result;
      ASSERT_FALSE(is_undone(result)) << error_text(result);
      ASSERT_FALSE(std::holds_alternative<Refused>(result));
    }
    const Snapshot before = m.state();
    const Outcome outcome = m.apply(broken.breaks);
    ASSERT_TRUE(is_undone(outcome.result)) << "it went through";
    const std::string error = error_text(outcome.result);
    EXPECT_EQ(error.rfind(std::string(to_string(broken.breach)) + ": ", 0), 0U) << error;
    EXPECT_TRUE(outcome.events.empty());
    EXPECT_TRUE(m.state() == before) << "the rejected call changed the manager";
  }
}

// What the call was refused for does not stand in the way of the calls that hold.
TEST_P(Contract, AfterABrokenCallEverythingCanBeWoundUp) {
  for (const BrokenCall& broken : all_broken()) {
    SCOPED_TRACE(std::string(to_string(broken.breach)) + ": " + broken.what);
    Driver m(GetParam(), config_of(broken));
    for (const Operation& operation : broken.before) m.apply(operation);
    m.apply(broken.breaks);
    m.apply(op::Complete{"t", false});
    m.apply(op::Unpin{"l"});
    m.apply(op::Release{m.state().raw});
    while (!m.state().requests.empty()) m.finish(m.state().requests.front().name);
    EXPECT_TRUE(m.reset());
    Blocks queue = m.queue();
    std::ranges::sort(queue);
    EXPECT_EQ(queue, (Blocks{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
    Blocks backward = m.state().queue_backward;
    std::ranges::reverse(backward);
    EXPECT_EQ(backward, m.queue());
  }
}

// A negative count where a shortage is an answer is a shortage.
TEST_P(Contract, ANegativeNumberOfBlocksIsRefused) {
  CacheConfig config = pool(12, {full(4)});
  config.max_model_len = 64;  // more than the pool has
  Driver m(GetParam(), config);
  m.apply(arrive("a", 10));
  const Snapshot before = m.state();
  for (const Operation& operation :
       {Operation(op::Take{kMinusOne}), Operation(first("a", kMinusOne)),
        Operation(op::Allocate{"a", {.new_tokens = 1, .lookahead = kMinusOne}})}) {
    EXPECT_TRUE(std::holds_alternative<Refused>(m.apply(operation).result));
    EXPECT_TRUE(m.state() == before);
  }
}

INSTANTIATE_TEST_SUITE_P(Managers, Contract, testing::ValuesIn(ways()), [](const auto& tested) {
  std::string name = tested.param.name();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(ContractTable, EveryBreachIsProvoked) {
  std::set<Breach> provoked;
  for (const BrokenCall& broken : all_broken()) provoked.insert(broken.breach);
  int count = 0;
  for (; to_string(static_cast<Breach>(count)) != "unnamed"; ++count) {
    EXPECT_TRUE(provoked.contains(static_cast<Breach>(count)))
        << to_string(static_cast<Breach>(count)) << " is provoked by no row";
  }
  EXPECT_EQ(static_cast<std::size_t>(count), provoked.size());
}

// ---- the same below the names: handles and raw blocks ----

using Manager = optimized::CacheManager<optimized::Xxh3Digest>;

template <class Call>
void expect_breach(Breach breach, const Call& call) {
  try {
    call();
    ADD_FAILURE() << to_string(breach) << " was not noticed";
  } catch (const ContractViolation& violation) {
    EXPECT_EQ(violation.breach(), breach) << violation.what();
  }
}

TEST(ContractOfHandles, ADeadHandleIsUnknownEverywhere) {
  CacheConfig config = pool(12, {full(4)});
  config.num_host_blocks = 4;
  Manager m(config, {.max_requests = 2});
  const std::vector<TokenId> tokens = range(0, 10);
  const auto dead = m.arrive({.tokens = tokens});
  m.finish(dead);
  const TokenId one[] = {1};
  for (const auto id : {dead, RequestId(2), RequestId(kMinusOne)}) {
    const std::function<void()> calls[] = {
        [&] { m.append(id, one); },
        [&] { m.advance(id, 0); },
        [&] { m.advance(id, 1); },
        [&] { m.lookup(id); },
        [&] { m.allocate(id, {.new_tokens = 1}); },
        [&] { m.allocate(id, {.new_tokens = 1, .status = RequestStatus::running}); },
        [&] { m.free(id); },
        [&] { m.finish(id); },
        [&] { m.recycle(id, 1); },
        [&] { m.cache(id, 1); },
        [&] { m.fork(id); },
        [&] { m.truncate(id, 1); },
        [&] { m.swap_out(id); },
        [&] { m.swap_in(id); },
        [&] { m.complete(id, true); },
    };
    for (const auto& call : calls) expect_breach(Breach::unknown_request, call);
  }
  EXPECT_EQ(m.pool().num_free(), 11U);
  m.pool().audit();
}

TEST(ContractOfHandles, WrongReleasesLeaveTheQueueWhole) {
  Manager m(pool(12, {full(4)}), {.max_requests = 2});
  Blocks raw(1);
  ASSERT_TRUE(m.take(raw));
  const BlockId held = raw[0];
  expect_breach(Breach::not_held, [&] { m.release(std::array{held, held}); });
  m.pool().audit();
  EXPECT_EQ(m.pool().num_free(), 11U) << "the first of the two was held";
  expect_breach(Breach::not_held, [&] { m.release(std::array{held}); });
  expect_breach(Breach::block_out_of_range, [&] { m.release(std::array{BlockId{12}}); });
  expect_breach(Breach::block_out_of_range, [&] { m.release(std::array{kNullBlock}); });
  expect_breach(Breach::unknown_lease, [&] { m.unpin(0); });
  m.pool().audit();

  // Somebody releases a block of a request: the request finds out when it leaves.
  const std::vector<TokenId> tokens = range(0, 10);
  const auto id = m.arrive({.tokens = tokens});
  ASSERT_TRUE(m.allocate(id, {.new_tokens = 10}));
  m.release(m.table(id).subspan(1, 1));
  m.pool().audit();
  expect_breach(Breach::not_held, [&] { m.finish(id); });
  m.pool().audit();
}

}  // namespace
}  // namespace kvproof::properties
