// SPDX-License-Identifier: Apache-2.0
// Study: the share of the prompt tokens that a prefix cache serves, by its size.
//
// Requests come one at a time and hold no blocks afterwards, so only the eviction order of the
// allocator decides. Every id of the source is one full block; when a partial last block hits, only
// its own tokens count.
#include <unordered_set>
#include <utility>

#include "bench/hit_rate/replay_prompts.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

/// The sizes of the cache, in percent of the distinct ids.
constexpr std::uint64_t kPercents[] = {1, 2, 5, 10, 25, 50, 100};

std::uint64_t distinct_ids(const ReopenableSource& source) {
  const auto stream = source.open();
  std::unordered_set<std::uint64_t> seen;
  for (Request request; stream->next(request);) {
    seen.insert(request.block_ids.begin(), request.block_ids.end());
  }
  return seen.size();
}

/// @param capacity_blocks nullopt = nothing is ever evicted
Result measure(const ReopenableSource& source, std::optional<std::uint32_t> capacity_blocks,
               Value capacity_share) {
  ReplayOptions options;
  options.block_size = static_cast<std::uint32_t>(source.open()->info().ids_block_size);
  options.capacity_blocks = capacity_blocks;
  options.tokens = TokenMode::whole_blocks;
  const ReplayCounts counts = replay_prompts(source, options);
  return {"prefix_hit_rate",
          {{"source", source.name},
           {"capacity_blocks", static_cast<std::int64_t>(counts.capacity_blocks)},
           {"capacity_share", std::move(capacity_share)},
           {"block_size", std::int64_t{options.block_size}}},
          {{"hit_rate_tokens", metric(counts.hit_rate_tokens(), "ratio")},
           {"hit_rate_blocks", metric(counts.hit_rate_blocks(), "ratio")},
           {"evictions", count(counts.evictions)},
           {"requests_refused", count(counts.refused)}}};
}

}  // namespace

std::vector<Result> prefix_hit_rate(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = all_sources(options);
  std::erase_if(sources,
                [](const ReopenableSource& s) { return s.open()->info().ids_block_size == 0; });
  std::vector<Result> results;
  double done = 0;
  const double all = static_cast<double>(sources.size() * (std::size(kPercents) + 1));
  for (const ReopenableSource& source : sources) {
    const std::uint64_t ids = distinct_ids(source);
    for (const std::uint64_t percent : kPercents) {
      options.report(done++ / all);
      const auto blocks = static_cast<std::uint32_t>(ids * percent / 100);
      if (blocks == 0) continue;
      results.push_back(measure(source, blocks, static_cast<double>(percent) / 100));
    }
    options.report(done++ / all);
    if (ids > 0) results.push_back(measure(source, std::nullopt, "infinite"));
  }
  return results;
}

}  // namespace kvproof::bench
