// SPDX-License-Identifier: Apache-2.0
#include "bench/serving/simulate.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <memory>
#include <stdexcept>

#include "bench/instruments/memory_here.h"
#include "bench/requests/log_size.h"
#include "properties/check/candidate.h"

namespace kvproof::bench {
namespace {

// No content is lost if all prompts and answers fit, and the blocks that two requests compute
// twice.
std::uint32_t blocks_for(const SourceSize& size, const SimulationOptions& options) {
  const std::uint64_t longest = size.max_tokens + options.engine.spare_slots();
  const std::uint64_t everything = size.prompt_blocks + size.output_blocks +
                                   4 * (ceil_div<std::uint64_t>(longest, options.block_size) + 1);
  return usable_blocks(options.capacity_blocks, everything);
}

MemoryOptions memory_options(const SourceSize& size, const SimulationOptions& options) {
  const std::uint64_t longest = size.max_tokens + options.engine.spare_slots();
  if (longest > std::numeric_limits<std::uint32_t>::max() / 2) {
    throw std::invalid_argument("a request of more than 2^31 tokens");
  }
  MemoryOptions out;
  out.block_size = options.block_size;
  out.capacity_tokens = std::uint64_t{blocks_for(size, options)} * options.block_size;
  out.host_blocks = options.host_blocks;
  out.max_tokens = static_cast<std::uint32_t>(longest);
  out.max_requests = options.engine.max_running + 1;
  out.whole_sequence_must_fit = options.whole_sequence_must_fit;
  out.watermark = options.watermark;
  out.reserved_tokens = options.reserved_tokens;
  out.profile = *find_profile(options.engine.scheduler.profile);
  out.manager = options.manager;
  return out;
}

RunWriter run_writer(const SourceSize& size, const SimulationOptions& options,
                     std::uint64_t blocks) {
  if (options.run == nullptr) return {};
  const EngineOptions& engine = options.engine;
  // The oldest request goes on in every second step, and brings a token whenever it is computed.
  const std::uint64_t alive = std::min<std::uint64_t>(engine.max_running + 1ULL, size.requests);
  const std::uint64_t steps = 4 * (alive + 1) * (size.max_tokens + engine.spare_slots() + 2);
  return {*options.run,
          {.block_size = options.block_size,
           .blocks = static_cast<std::uint32_t>(blocks + 1),
           .depth = engine.scheduler.steps_in_flight + 1,
           .patience = static_cast<std::uint32_t>(
               std::min<std::uint64_t>(steps, std::numeric_limits<std::uint32_t>::max())),
           .seed = engine.seed}};
}

void add_quantiles(Metrics& out, const std::string& name, const Quantiles& q) {
  out.insert(out.end(), {{name + "_mean", metric(q.mean, "s")},
                         {name + "_p50", metric(q.p50, "s")},
                         {name + "_p90", metric(q.p90, "s")},
                         {name + "_p99", metric(q.p99, "s")}});
}

void add_moment(Metrics& out, const ServingMoment& moment, const std::string& suffix) {
  out.insert(out.end(), {{"running" + suffix, metric(moment.running, "count")},
                         {"waiting" + suffix, metric(moment.waiting, "count")},
                         {"tokens_in_memory" + suffix, metric(moment.tokens, "tokens")},
                         {"partial_tail" + suffix, metric(moment.tail, "tokens")},
                         {"reserved" + suffix, metric(moment.reserved, "tokens")},
                         {"free" + suffix, metric(moment.free, "tokens")},
                         {"stranded" + suffix, metric(moment.stranded, "tokens")}});
}

double per_second(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

Simulation simulate(const ReopenableSource& requests, const SimulationOptions& options) {
  if (options.block_size == 0) throw std::invalid_argument("a block size of zero");
  if (options.engine.token_budget == 0 || options.engine.max_running == 0) {
    throw std::invalid_argument("a step that may not do anything");
  }
  const auto begin = std::chrono::steady_clock::now();
  const SourceSize size = size_of(*requests.open(), options.block_size, options.engine.tokens);
  const StorageRow* storage = find_storage(options.storage);
  if (storage == nullptr) throw std::invalid_argument("no storage of that name");
  if (options.run != nullptr && (storage->contiguous || options.engine.swap)) {
    throw std::invalid_argument("a run is written of a paged cache without swaps");
  }
  MemoryOptions memory_for = memory_options(size, options);
  const std::uint64_t blocks = memory_for.capacity_tokens / options.block_size;
  if (!storage->contiguous) {
    require_memory(blocks + options.host_blocks,
                   options.audited.given() ? kAuditedBytesPerBlock : kPoolBytesPerBlock);
  }
  std::optional<properties::Candidate> audited;
  if (options.audited.given()) {
    audited = properties::find_candidate(options.audited);
    memory_for.audited = &*audited;
    memory_for.recording = options.recording;
  }
  const auto memory = storage->make(memory_for);
  const auto source = requests.open();
  Arrivals arrivals(*source, options.clients);
  Recorder recorder;
  RunWriter run = run_writer(size, options, blocks);
  Engine engine(options.engine, source->info(), arrivals, *memory, recorder, run);
  constexpr std::uint64_t kReportEvery = 1024;  // [steps]
  for (std::uint64_t steps = 0; engine.step(); ++steps) {
    if (options.on_progress && steps % kReportEvery == 0) options.on_progress(source->fraction());
  }
  Simulation out;
  out.totals = recorder.totals;
  out.average = recorder.average();
  out.peak = recorder.peak();
  out.samples = recorder.samples();
  out.queueing = recorder.queueing();
  out.first_token = recorder.first_token();
  out.per_token = recorder.per_token();
  out.left_out = source->left_out();
  out.capacity_blocks = blocks;
  out.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return out;
}

Metrics metrics_of(const Simulation& run) {
  const ServingTotals& t = run.totals;
  Metrics out = {
      {"requests", metric(t.requests, "count")},
      {"hit_rate_tokens", metric(t.hit_rate_tokens(), "ratio")},
      {"preemptions", metric(t.preemptions, "count")},
      {"swaps", metric(t.swaps, "count")},
      {"recomputed_tokens", metric(t.recomputed_tokens, "tokens")},
      {"refused", metric(t.refused, "count")},
      {"empty", metric(t.empty, "count")},
      {"refused_admissions", metric(t.refused_admissions, "count")},
      {"input_tokens", metric(t.input_tokens, "tokens")},
      {"hit_tokens", metric(t.hit_tokens, "tokens")},
      {"output_tokens", metric(t.output_tokens, "tokens")},
      {"computed_tokens", metric(t.computed_tokens, "tokens")},
      {"drafts", metric(t.drafts, "tokens")},
      {"accepted_drafts", metric(t.accepted_drafts, "tokens")},
      {"steps", metric(t.steps, "count")},
      {"simulated_seconds", metric(t.seconds, "s")},
      {"output_tokens_per_second", metric(per_second(t.output_tokens, t.seconds), "tokens/s")},
      {"requests_per_second",
       metric(per_second(t.requests - t.refused - t.empty, t.seconds), "1/s")},
      {"capacity_blocks", metric(run.capacity_blocks, "blocks")}};
  add_quantiles(out, "queueing_seconds", run.queueing);
  add_quantiles(out, "first_token_seconds", run.first_token);
  add_quantiles(out, "seconds_per_token", run.per_token);
  add_moment(out, run.average, "_mean");
  add_moment(out, run.peak, "_peak");
  std::ranges::move(left_out_metrics(run.left_out), std::back_inserter(out));
  out.emplace_back("wall_seconds", metric(run.wall_seconds, "s"));
  return out;
}

Metrics left_out_metrics(const LeftOut& left_out) {
  return {{"left_out_zero_input", metric(left_out.zero_input, "count")},
          {"left_out_zero_output", metric(left_out.zero_output, "count")},
          {"left_out_over_context", metric(left_out.over_context, "count")}};
}

std::vector<Result> samples_of(const Simulation& run, const Parameters& parameters) {
  std::vector<Result> out;
  for (const ServingMoment& sample : run.samples) {
    Result result{"serving_over_time", parameters, {}};
    result.parameters.emplace_back("seconds", sample.seconds);
    add_moment(result.metrics, sample, "");
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace kvproof::bench
