// SPDX-License-Identifier: Apache-2.0
// The built-in workloads are what their sentences say, and the same on every machine.
#include "bench/requests/workloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace kvproof::bench {

static void PrintTo(const Workload& workload, std::ostream* out) { *out << workload.name; }

namespace {

std::vector<Request> all_of(RequestSource& source) {
  std::vector<Request> requests;
  for (Request request; source.next(request);) requests.push_back(request);
  return requests;
}

std::vector<Request> all_of(std::string_view name, std::uint64_t seed, std::int64_t num_requests) {
  const Workload* workload = find_workload(name);
  if (workload == nullptr) return {};
  return all_of(*workload->open(seed, num_requests));
}

/// FNV-1a over every field, byte by byte from the low end, as on any machine.
std::uint64_t checksum(const std::vector<Request>& requests) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte, value >>= 8) hash = (hash ^ (value & 255)) * 0x100000001b3;
  };
  for (const Request& request : requests) {
    add(request.index);
    add(static_cast<std::uint64_t>(std::llround(request.arrival_seconds * 1000)));
    add(static_cast<std::uint64_t>(request.input_tokens));
    add(static_cast<std::uint64_t>(request.output_tokens));
    add(request.block_ids.size());
    for (const std::uint64_t id : request.block_ids) add(id);
  }
  return hash;
}

class EachWorkload : public testing::TestWithParam<Workload> {};

TEST_P(EachWorkload, ProducesWellFormedRequests) {
  const Workload& workload = GetParam();
  const auto source = workload.open(kWorkloadSeed, workload.full_requests);
  EXPECT_EQ(source->info().name, workload.name);
  EXPECT_EQ(source->info().format, "workload");
  EXPECT_EQ(source->fraction(), 0.0);
  const std::vector<Request> requests = all_of(*source);
  ASSERT_EQ(static_cast<std::int64_t>(requests.size()), workload.full_requests);
  EXPECT_EQ(source->fraction(), 1.0);
  EXPECT_EQ(requests.front().arrival_seconds, 0.0);
  const std::int64_t block = source->info().ids_block_size;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    EXPECT_EQ(request.index, i);
    EXPECT_GE(request.arrival_seconds, requests[i == 0 ? 0 : i - 1].arrival_seconds);
    EXPECT_GE(request.input_tokens, 1);
    EXPECT_GE(request.output_tokens, 1);
    EXPECT_LE(request.input_tokens + request.output_tokens, 8'192);
    EXPECT_EQ(static_cast<std::int64_t>(request.block_ids.size()),
              block == 0 ? 0 : request.input_tokens / block);
  }
}

TEST_P(EachWorkload, DependsOnTheSeedAndOnNothingElse) {
  const Workload& workload = GetParam();
  const std::int64_t num_requests = workload.smoke_requests;
  const std::uint64_t first = checksum(all_of(workload.name, 1, num_requests));
  EXPECT_EQ(first, checksum(all_of(workload.name, 1, num_requests)));
  EXPECT_NE(first, checksum(all_of(workload.name, 2, num_requests)));
  std::vector<Request> longer = all_of(workload.name, 1, num_requests * 2);
  longer.resize(static_cast<std::size_t>(num_requests));
  EXPECT_EQ(first, checksum(longer)) << "a longer run begins with the shorter one";
  EXPECT_TRUE(all_of(workload.name, 1, 0).empty());
  EXPECT_TRUE(all_of(workload.name, 1, -1).empty());
}

TEST_P(EachWorkload, IsTheSameOnEveryMachine) {
  const Workload& workload = GetParam();
  EXPECT_EQ(checksum(all_of(workload.name, kWorkloadSeed, workload.smoke_requests)),
            workload.checksum);
}

INSTANTIATE_TEST_SUITE_P(Workloads, EachWorkload, testing::ValuesIn(kWorkloads),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Workloads, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Workload& workload : kWorkloads) {
    EXPECT_TRUE(names.insert(workload.name).second) << workload.name;
    EXPECT_EQ(find_workload(workload.name), &workload);
    EXPECT_LE(workload.smoke_requests, workload.full_requests);
  }
  EXPECT_EQ(find_workload("no such workload"), nullptr);
  EXPECT_EQ(find_workload(""), nullptr);
}

std::int64_t total_tokens(const Request& request) {
  return request.input_tokens + request.output_tokens;
}

struct Lengths {
  std::int64_t min, max;
  double mean;
};

Lengths lengths_of(const std::vector<Request>& requests) {
  Lengths lengths{total_tokens(requests.at(0)), 0, 0};
  for (const Request& request : requests) {
    lengths.min = std::min(lengths.min, total_tokens(request));
    lengths.max = std::max(lengths.max, total_tokens(request));
    lengths.mean += static_cast<double>(total_tokens(request));
  }
  lengths.mean /= static_cast<double>(requests.size());
  return lengths;
}

TEST(Workloads, LognormalResemblesThePublishedRun) {
  // Published: 100 requests, min 34, mean 193, max 631.
  const Lengths published = lengths_of(all_of("lognormal", kWorkloadSeed, 100));
  EXPECT_NEAR(published.mean, 193, 5);
  EXPECT_NEAR(static_cast<double>(published.min), 34, 10);
  EXPECT_NEAR(static_cast<double>(published.max), 631, 60);
  const std::vector<Request> many = all_of("lognormal", kWorkloadSeed, 100'000);
  EXPECT_NEAR(lengths_of(many).mean, 193, 2);
  EXPECT_EQ(lengths_of(many).min, 34);
  EXPECT_EQ(lengths_of(many).max, 631);
  for (const Request& request : many) {
    EXPECT_EQ(request.output_tokens, total_tokens(request) / 4);
    EXPECT_EQ(request.arrival_seconds, 0.0);
  }
}

TEST(Workloads, LongTailHasThePublishedShares) {
  const std::vector<Request> requests = all_of("long_tail", kWorkloadSeed, 100'000);
  std::map<std::int64_t, double> percent;  // by the longest length of the class
  for (const Request& request : requests) {
    const std::int64_t tokens = total_tokens(request);
    const std::int64_t longest = tokens <= 128    ? 128
                                 : tokens <= 512  ? 512
                                 : tokens <= 2048 ? 2048
                                                  : 8192;
    EXPECT_GT(tokens, longest / 2) << "the upper half of the range";
    percent[longest] += 100.0 / static_cast<double>(requests.size());
  }
  EXPECT_NEAR(percent[128], 50, 0.7);
  EXPECT_NEAR(percent[512], 30, 0.7);
  EXPECT_NEAR(percent[2048], 15, 0.7);
  EXPECT_NEAR(percent[8192], 5, 0.7);
  EXPECT_NEAR(static_cast<double>(requests.size()) / requests.back().arrival_seconds, 10, 0.2);
}

TEST(Workloads, ChatIdsAreChained) {
  // Equal ids have equal places and equal parents, so the same prefix all the way down.
  std::unordered_map<std::uint64_t, std::pair<std::size_t, std::uint64_t>> place_and_parent;
  for (const Request& request : all_of("chat", kWorkloadSeed, 10'000)) {
    for (std::size_t i = 0; i < request.block_ids.size(); ++i) {
      const std::pair<std::size_t, std::uint64_t> here = {i, i == 0 ? 0 : request.block_ids[i - 1]};
      const auto [known, added] = place_and_parent.emplace(request.block_ids[i], here);
      EXPECT_TRUE(added || known->second == here) << "id " << request.block_ids[i];
    }
  }
}

TEST(Workloads, ChatSharesSystemPromptsAndExtendsItsTurns) {
  std::set<std::uint64_t> first_ids;
  std::map<std::uint64_t, Request> last_turn;  // by session
  std::int64_t later_turns = 0;
  const std::vector<Request> requests = all_of("chat", kWorkloadSeed, 10'000);
  for (const Request& request : requests) {
    first_ids.insert(request.block_ids.at(0));
    const std::uint64_t session = request.block_ids.back() >> 32;
    if (session == 0) continue;  // a first turn so short that no full block is its own
    if (const auto before = last_turn.find(session); before != last_turn.end()) {
      ++later_turns;
      const Request& previous = before->second;
      EXPECT_GE(request.input_tokens, total_tokens(previous) + 4) << "prompt, answer, new question";
      EXPECT_TRUE(std::equal(previous.block_ids.begin(), previous.block_ids.end(),
                             request.block_ids.begin()));
    }
    last_turn[session] = request;
  }
  EXPECT_EQ(first_ids.size(), 8U);
  const double sessions = static_cast<double>(last_turn.size());
  EXPECT_NEAR(static_cast<double>(later_turns) / sessions, 4, 0.3) << "turns after the first";
}

}  // namespace
}  // namespace kvproof::bench
