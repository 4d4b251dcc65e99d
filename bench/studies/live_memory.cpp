// SPDX-License-Identifier: Apache-2.0
// Study: the memory that each storage reserves while requests come and go.
//
// No request is refused, so this shows the demand. Each storage is played once with room to spare,
// to learn how much of it is ever touched, then again with exactly that much: first fit places
// every request as before, and external fragmentation is that of the memory in use. Only
// paged_shared has a prefix cache.
#include <algorithm>

#include "bench/studies/play.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

struct Staging {
  const ReopenableSource& source;
  PlayPlan plan;
  std::uint32_t num_samples;
};

struct Played {
  std::uint64_t capacity_tokens;
  std::vector<PlaySample> samples;
};

Played play_on(const StorageRow& row, const Staging& scene,
               const std::function<void(double)>& report) {
  MemoryOptions memory{.block_size = kBlockSize,
                       .capacity_tokens = row.contiguous ? kUnbounded : scene.plan.peak_tokens,
                       .max_tokens = scene.plan.max_length,
                       .max_requests = scene.plan.peak_requests};
  const auto half = [&](double start) {
    return [&report, start](double share) { report(start + share / 2); };
  };
  const auto roomy = row.make(memory);
  (void)play(scene.source, scene.plan, *roomy, 2, half(0));
  memory.capacity_tokens = roomy->top_tokens();
  const auto exact = row.make(memory);
  return {memory.capacity_tokens,
          play(scene.source, scene.plan, *exact, scene.num_samples, half(0.5))};
}

Metric tokens(std::uint64_t count) { return metric(count, "tokens"); }
Metric ratio(double value) { return metric(value, "ratio"); }

Result result_of(const PlaySample& sample, const StorageRow& row, const Staging& scene) {
  const MemoryUse& use = sample.use;
  Result result{"live_memory",
                {{"source", scene.source.name},
                 {"storage", std::string(row.name)},
                 {"seconds", sample.seconds},
                 {"max_length", std::int64_t{scene.plan.max_length}}},
                {{"live_tokens", tokens(use.known)},
                 {"reserved_tokens", tokens(use.held())},
                 {"external_fragmentation", ratio(use.external_fragmentation())},
                 {"moved_tokens", tokens(sample.moved_tokens)}}};
  if (use.largest_free_run) {
    result.metrics.push_back({"largest_free_run_tokens", tokens(*use.largest_free_run)});
  }
  return result;
}

/// The requests that were played and left out, and the samples in a few numbers.
Result summary_of(const Played& played, const StorageRow& row, const Staging& scene) {
  std::uint64_t peak_live = 0;
  std::uint64_t peak_reserved = 0;
  double live = 0;
  double reserved = 0;
  double fragmentation = 0;
  for (const PlaySample& sample : played.samples) {
    peak_live = std::max(peak_live, sample.use.known);
    peak_reserved = std::max(peak_reserved, sample.use.held());
    live += static_cast<double>(sample.use.known);
    reserved += static_cast<double>(sample.use.held());
    fragmentation += sample.use.external_fragmentation();
  }
  Result result{"live_memory_run",
                {{"source", scene.source.name},
                 {"storage", std::string(row.name)},
                 {"max_length", std::int64_t{scene.plan.max_length}},
                 {"block_size", std::int64_t{kBlockSize}},
                 {"ms_per_token", kTickMs}},
                {{"requests", count(scene.plan.num_played())},
                 {"requests_skipped", count(scene.plan.num_skipped)},
                 {"requests_cut", count(scene.plan.num_cut)},
                 {"peak_live_tokens", tokens(peak_live)},
                 {"peak_reserved_tokens", tokens(peak_reserved)},
                 {"capacity_tokens", tokens(played.capacity_tokens)},
                 {"live_over_reserved", ratio(reserved > 0 ? live / reserved : 0)},
                 {"mean_external_fragmentation",
                  ratio(fragmentation / static_cast<double>(played.samples.size()))},
                 {"moved_tokens", tokens(played.samples.back().moved_tokens)}}};
  return result;
}

/// Whether there is any time to play; a workload may have all its requests at once.
bool arrives_over_time(const ReopenableSource& source) {
  const auto stream = source.open();
  for (Request request; stream->next(request);) {
    if (request.arrival_seconds > 0) return true;
  }
  return false;
}

}  // namespace

std::vector<Result> live_memory(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = options.logs;
  for (const ReopenableSource& workload : all_sources({options.smoke, options.seed, {}, {}})) {
    if (options.workloads && arrives_over_time(workload)) sources.push_back(workload);
  }
  PlayLimits limits;
  if (options.smoke) limits.requests = 200;
  std::vector<Result> results;
  std::vector<Result> summaries;
  double done = 0;
  const double all = static_cast<double>(sources.size() * std::size(kStorages));
  for (const ReopenableSource& source : sources) {
    const Staging scene{source, plan_play(source, kBlockSize, limits), options.smoke ? 20U : 200U};
    for (const StorageRow& row : kStorages) {
      const double base = done++ / all;
      if ((row.needs_ids && !scene.plan.has_ids) || scene.plan.num_played() == 0) continue;
      const Played played =
          play_on(row, scene, [&](double share) { options.report(base + share / all); });
      for (const PlaySample& sample : played.samples) {
        results.push_back(result_of(sample, row, scene));
      }
      summaries.push_back(summary_of(played, row, scene));
    }
  }
  results.insert(results.end(), summaries.begin(), summaries.end());
  return results;
}

}  // namespace kvproof::bench
