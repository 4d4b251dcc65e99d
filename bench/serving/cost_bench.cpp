// SPDX-License-Identifier: Apache-2.0
// Suite: the cost of the serving simulation itself, by the number of blocks that it touches.
//
// The cases play more and more of the same drawn requests on a pool of one size, so a cost that
// grows with anything except the blocks shows as a line that is not flat. The largest case takes 20
// s.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/instruments/latency.h"
#include "bench/requests/sources.h"
#include "bench/serving/simulate.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kBlockSize = 16;  // [tokens]
constexpr std::uint32_t kPoolBlocks = 64 * 1024;
constexpr std::uint64_t kMostBlocks = 100'000'000;
constexpr std::uint64_t kSmokeBlocks = 100'000;
constexpr std::uint64_t kPrefixes = 64;  // half of each prompt is one of them

std::string name_of(std::uint64_t blocks) { return "serving_cost/" + std::to_string(blocks); }

void draw(WorkloadRandom& random, Request& request) {
  request.input_tokens = random.between(128, 512) * kBlockSize;
  request.output_tokens = random.between(1, 256);
  const auto prefix = static_cast<std::uint64_t>(random.between(0, kPrefixes - 1));
  const auto ids = static_cast<std::uint64_t>(request.input_tokens) / kBlockSize;
  for (std::uint64_t i = 0; i < ids / 2; ++i) request.block_ids.push_back(prefix << 16 | i);
}

std::uint64_t blocks_of(const Request& request) {
  return ceil_div<std::uint64_t>(
      static_cast<std::uint64_t>(request.input_tokens + request.output_tokens), kBlockSize);
}

struct Work {
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;
};

/// The number of requests that touch so many blocks.
Work work_for(std::uint64_t blocks, std::uint64_t seed) {
  WorkloadRandom random(seed);
  Work out;
  for (Request request; out.blocks < blocks; ++out.requests) {
    request.block_ids.clear();
    draw(random, request);
    out.blocks += blocks_of(request);
  }
  return out;
}

Result measure(std::uint64_t blocks, const BenchOptions& options) {
  const Work work = work_for(blocks, options.seed);
  SimulationOptions run;
  run.block_size = kBlockSize;
  run.capacity_blocks = kPoolBlocks;
  run.clients = 64;
  std::vector<double> ns;
  std::uint64_t hits = 0;
  const int rounds = blocks <= 1'000'000 ? 5 : blocks <= 10'000'000 ? 3 : 1;
  for (int round = 0; round < rounds; ++round) {
    const double start = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const Simulation served = simulate(drawn(options.seed, work.requests, kBlockSize, draw), run);
    ns.push_back((processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e9 /
                 static_cast<double>(work.blocks));
    if (round > 0 && served.totals.hit_tokens != hits) {
      throw std::logic_error("serving_cost: the same run had other hits");
    }
    hits = served.totals.hit_tokens;
  }
  std::ranges::sort(ns);
  return {"serving_cost",
          {{"blocks", static_cast<std::int64_t>(work.blocks)},
           {"block_size", std::int64_t{kBlockSize}},
           {"pool_blocks", std::int64_t{kPoolBlocks}}},
          {{"ns_per_block", {ns[ns.size() / 2], "ns", ns.front(), ns.back()}},
           {"seconds", metric(ns[ns.size() / 2] * 1e-9 * static_cast<double>(work.blocks), "s")},
           {"requests", count(work.requests)},
           {"hit_tokens", metric(hits, "tokens")}}};
}

}  // namespace

std::vector<std::string> serving_cost_cases(const BenchOptions& options) {
  std::vector<std::string> names;
  const std::uint64_t most = options.smoke ? kSmokeBlocks : kMostBlocks;
  for (std::uint64_t blocks = 10'000; blocks <= most; blocks *= 10) {
    names.push_back(name_of(blocks));
  }
  return names;
}

std::vector<Result> run_serving_cost_suite(std::span<const std::string> selected,
                                           const BenchOptions& options) {
  std::vector<Result> out;
  for (const std::string& name : selected) {
    options.progress->update(static_cast<double>(out.size()) / static_cast<double>(selected.size()),
                             name);
    out.push_back(measure(std::stoull(name.substr(name.find('/') + 1)), options));
  }
  return out;
}

}  // namespace kvproof::bench
