// SPDX-License-Identifier: Apache-2.0
// Study: the share of the prompts that a prefix cache serves under each eviction policy, by its
//          size,
// beside the bounds of all policies.
//
// The policies run in the allocator's own pool; only the bounds are computed beside it. As in
// prefix_hit_rate, requests come one at a time and hold no blocks afterwards.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "bench/hit_rate/bounds.h"
#include "bench/hit_rate/policies.h"
#include "bench/hit_rate/replay_prompts.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

constexpr std::uint64_t kMostBlocks = 4'000'000;  // of a long log

/// The sizes: a thousand blocks, doubled and halved as long as that is less than the distinct
///          blocks
/// and at least a 256th of them.
std::vector<std::uint64_t> capacities(std::uint64_t distinct_blocks, bool smoke) {
  const std::uint64_t least = std::max<std::uint64_t>(distinct_blocks / (smoke ? 16 : 256), 1);
  std::uint64_t blocks = 1'000;
  while (blocks / 2 >= least) blocks /= 2;
  while (blocks < least) blocks *= 2;
  std::vector<std::uint64_t> out;
  for (; blocks < distinct_blocks; blocks *= 2) out.push_back(blocks);
  return out;
}

Result row(const ReopenableSource& source, std::string policy, std::uint32_t block_size,
           const ReplayCounts& counts) {
  Result out{"eviction",
             {{"source", source.name},
              {"policy", std::move(policy)},
              {"capacity_blocks", static_cast<std::int64_t>(counts.capacity_blocks)},
              {"block_size", std::int64_t{block_size}},
              {"requests", static_cast<std::int64_t>(counts.requests)}},
             {{"hit_rate_tokens", metric(counts.hit_rate_tokens(), "ratio")},
              {"hit_rate_blocks", metric(counts.hit_rate_blocks(), "ratio")}}};
  return out;
}

void measure(const ReopenableSource& source, const StudyOptions& options,
             const std::function<void(double)>& report, std::vector<Result>& results) {
  const PromptFuture future(*source.open());
  ReplayOptions replay;
  replay.block_size = static_cast<std::uint32_t>(source.open()->info().ids_block_size);
  replay.tokens = TokenMode::whole_blocks;
  const std::uint64_t distinct = future.distinct_blocks();
  if (distinct == 0) return;
  const auto sizes = capacities(distinct, options.smoke);
  double done = 0;
  for (const std::uint64_t blocks : sizes) {
    for (const EvictionPolicy& policy : kEvictionPolicies) {
      report(done++ / static_cast<double>(sizes.size() * std::size(kEvictionPolicies)));
      replay.capacity_blocks = static_cast<std::uint32_t>(blocks);
      replay.policy = &policy;
      const ReplayCounts counts = replay_prompts(source, replay);
      results.push_back(row(source, std::string(policy.name), replay.block_size, counts));
      results.back().metrics.insert(
          results.back().metrics.end(),
          {{"evictions", count(counts.evictions)}, {"requests_refused", count(counts.refused)}});
    }
    results.push_back(row(source, "optimum", replay.block_size, future.optimum(blocks)));
  }
  results.push_back(row(source, "infinite", replay.block_size, future.optimum(distinct)));
}

}  // namespace

std::vector<Result> eviction(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = options.logs;
  std::erase_if(sources,
                [](const ReopenableSource& s) { return s.open()->info().ids_block_size == 0; });
  if (sources.empty() && options.workloads) sources.push_back(workload_source("chat", options));
  std::vector<Result> results;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto report = [&](double part) {
      options.report((static_cast<double>(i) + part) / static_cast<double>(sources.size()));
    };
    measure(first_requests(sources[i], kMostBlocks), options, report, results);
  }
  return results;
}

}  // namespace kvproof::bench
