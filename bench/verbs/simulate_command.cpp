// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/simulate_command.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "bench/results/environment.h"

namespace kvproof::bench {
namespace {

StepTime step_time(const SimulateArguments& arguments) {
  StepTime out = arguments.options.engine.time;
  out.card = *find_card(arguments.card);
  out.model = *find_served_model(arguments.model);
  if (arguments.bandwidth_gb_per_s) out.card.bytes_per_second = *arguments.bandwidth_gb_per_s * 1e9;
  if (arguments.peak_tflop_per_s) out.card.flops_per_second = *arguments.peak_tflop_per_s * 1e12;
  out.overhead_seconds = arguments.overhead_us * 1e-6;
  return out;
}

std::uint32_t blocks_in(double gib, const StepTime& time, std::uint32_t block_size) {
  const double blocks = gib * 0x1p30 / (time.model.kv_bytes_per_token * block_size);
  if (blocks < 1) throw std::invalid_argument("--memory-gib: not one block fits");
  if (blocks > 0x1p30) throw std::invalid_argument("--memory-gib: more than 2^30 blocks");
  return static_cast<std::uint32_t>(blocks);
}

SimulationOptions complete(const SimulateArguments& arguments) {
  SimulationOptions out = arguments.options;
  out.engine.scheduler = arguments.scheduler();
  out.engine.time = step_time(arguments);
  if (arguments.memory_gib) {
    out.capacity_blocks = blocks_in(*arguments.memory_gib, out.engine.time, out.block_size);
  }
  out.storage = arguments.storage;
  if (arguments.storage == "paged" && !arguments.no_prefix_cache) out.storage = "paged_shared";
  out.whole_sequence_must_fit = !arguments.admit_by_chunk;
  out.engine.swap = arguments.preempt == "swap";
  if (out.engine.swap && out.host_blocks == 0) {
    throw std::invalid_argument("--preempt=swap goes with --host-blocks");
  }
  if (arguments.laws && !out.audited.given()) {
    out.audited.subject = out.manager->name;
  }
  return out;
}

std::string audited_name(const properties::SubjectOptions& subject) {
  if (!subject.given()) return "no";
  return subject.subject.empty() ? subject.subject_command : subject.subject;
}

Parameters parameters_of(const SimulateArguments& arguments, const SimulationOptions& options,
                         const SourceInfo& info) {
  const EngineOptions& engine = options.engine;
  Parameters out = {{"source", info.name},
                    {"format", info.format},
                    {"block_size", std::int64_t{options.block_size}},
                    {"storage", arguments.storage},
                    {"audited", audited_name(options.audited)},
                    {"capacity", std::string(options.capacity_blocks ? "given" : "infinite")},
                    {"card", arguments.card},
                    {"model", arguments.model},
                    {"bandwidth", engine.time.card.bytes_per_second},
                    {"peak_flops", engine.time.card.flops_per_second},
                    {"bandwidth_share", engine.time.bandwidth_share},
                    {"compute_share", engine.time.compute_share},
                    {"step_overhead_us", arguments.overhead_us},
                    {"step_tokens", std::int64_t{engine.token_budget}},
                    {"max_running", std::int64_t{engine.max_running}},
                    {"clients", std::int64_t{options.clients}},
                    {"watermark", options.watermark},
                    {"preempt", arguments.preempt},
                    {"prefix_cache", std::string(arguments.no_prefix_cache ? "off" : "on")},
                    {"draft_tokens", std::int64_t{engine.drafts}}};
  if (engine.scheduler.profile != kUnnamedProfile) {
    out.emplace_back("profile", arguments.profile);
    out.emplace_back("steps_in_flight", std::int64_t{engine.scheduler.steps_in_flight});
    out.emplace_back("frees", std::string(engine.defer_frees ? "deferred" : "at once"));
  }
  if (engine.drafts > 0) {
    out.emplace_back("draft_acceptance", engine.acceptance);
    out.emplace_back("seed", static_cast<std::int64_t>(engine.seed));
  }
  return out;
}

/// Adds the options of the simulation, under their heading.
class SimulationGroup {
 public:
  SimulationGroup(CommandLine& line, const RelatedOptions& related, SimulateArguments& arguments)
      : line_(line),
        related_(related),
        arguments_(arguments),
        simulate_(line.flag("--simulate", arguments.simulate,
                            "serve the requests of --trace in simulated time")) {
    simulate_.heading(kName).goes_with({related.trace});
  }

  CommandLine::Option add() {
    flag("--over-time", arguments_.over_time, "also write up to 256 samples of what was held when");
    add_time();
    add_scheduler();
    add_drafts();
    add_memory();
    add_preemption();
    const auto laws =
        flag("--laws", arguments_.laws,
             "audit every operation by the laws, the model and the content oracle: for small pools")
            .only_if(paged(), kPaged);
    option("--record", arguments_.record_path,
           "also write every operation with its result and the state after it, for kvproof replay")
        .placeholder("FILE")
        .only_if(
            [laws, related = related_] {
              return laws.given() || related.subject.given() || related.command.given();
            },
            "--laws, --subject or --subject-command");
    option("--run", arguments_.run_path,
           "also write what the scheduler gives to its worker, for kvproof live")
        .placeholder("FILE")
        .only_if(paged(), kPaged)
        .only_if([&arguments = arguments_] { return arguments.preempt != "swap"; },
                 "--preempt=recompute");
    for (CommandLine::Option option : {related_.hash, related_.subject, related_.command}) {
      option.only_if(paged(), kPaged);
    }
    return simulate_;
  }

 private:
  static constexpr const char* kName = "Serving simulation (--simulate)";
  static constexpr const char* kPaged = "a paged --storage";
  static constexpr std::uint32_t kMostTokens = 1 << 24;

  template <class T>
  CommandLine::Option option(const char* name, T& value, const char* text) {
    return line_.option(name, value, text).heading(kName).goes_with({simulate_});
  }
  CommandLine::Option flag(const char* name, bool& value, const char* text) {
    return line_.flag(name, value, text).heading(kName).goes_with({simulate_});
  }
  [[nodiscard]] std::function<bool()> paged() const {
    return [&arguments = arguments_] { return !find_storage(arguments.storage)->contiguous; };
  }

  void add_time();
  void add_scheduler();
  void add_drafts();
  void add_memory();
  void add_preemption();

  CommandLine& line_;
  RelatedOptions related_;
  SimulateArguments& arguments_;
  CommandLine::Option simulate_;
};

void SimulationGroup::add_time() {
  StepTime& time = arguments_.options.engine.time;
  option("--card", arguments_.card, "whose rates set the time of a step, default h100")
      .one_of(row_names(kCards));
  option("--model", arguments_.model, "what is served, default llama-3-8b")
      .one_of(row_names(kServedModels));
  option("--bandwidth-gb-per-s", arguments_.bandwidth_gb_per_s, "in place of the card's")
      .between(1e-3, 1e6);
  option("--peak-tflop-per-s", arguments_.peak_tflop_per_s, "in place of the card's")
      .between(1e-3, 1e6);
  option("--bandwidth-share", time.bandwidth_share, "of it that is reached, default 1")
      .between(0.01, 1.0);
  option("--compute-share", time.compute_share, "of the peak that is reached, default 1")
      .between(0.01, 1.0);
  option("--step-overhead-us", arguments_.overhead_us, "[us] that every step takes besides")
      .between(0.0, 1e9);
}

/// How many tokens a step has, and how many requests run at once.
void SimulationGroup::add_scheduler() {
  SimulationOptions& run = arguments_.options;
  option("--profile", arguments_.profile,
         "of the vLLM whose scheduler and cache manager serve, default vllm-0.33")
      .one_of(row_names(kProfiles));
  option("--steps-in-flight", arguments_.steps_in_flight,
         "steps that run while the next one is granted, default 1, with --preempt=swap 0")
      .between(0U, kMostStepsInFlight)
      .only_if([&arguments =
                    arguments_] { return find_scheduler(arguments.profile)->steps_in_flight > 0; },
               "--profile=vllm-0.33")
      .only_if(
          [&arguments = arguments_] {
            return arguments.preempt != "swap" || arguments.steps_in_flight.value_or(0) == 0;
          },
          "--preempt=recompute");
  flag("--defer-frees", run.engine.defer_frees,
       "keep the blocks of a request that ends until the step in flight is over")
      .only_if([&arguments = arguments_] { return arguments.scheduler().steps_in_flight > 0; },
               "a step in flight")
      .only_if(paged(), kPaged);
  option("--step-tokens", run.engine.token_budget, "[tokens] that one step computes, default 8192")
      .between(1U, kMostTokens);
  option("--max-running", run.engine.max_running, "requests that run at once, default 256")
      .between(1, 1 << 16);
  option("--closed-loop-clients", run.clients,
         "so many clients, each waiting for its answer, in place of the log's times")
      .between(1, 1 << 20);
  flag("--admit-by-chunk", arguments_.admit_by_chunk,
       "admit when the first chunk fits, not only when the whole prompt does")
      .only_if(paged(), kPaged);
}

void SimulationGroup::add_drafts() {
  EngineOptions& engine = arguments_.options.engine;
  const auto drafts =
      option("--draft-tokens", engine.drafts, "verified in each decode step, default 0")
          .between(1, 64);
  option("--draft-acceptance", engine.acceptance, "chance of each draft, default 0.7")
      .between(0.0, 1.0)
      .goes_with({drafts});
  option("--seed", engine.seed, "of the drafts, default 0").goes_with({drafts});
}

void SimulationGroup::add_memory() {
  SimulationOptions& run = arguments_.options;
  option("--memory-gib", arguments_.memory_gib, "[GiB] of the cache, in place of --capacity-blocks")
      .between(1e-6, 1e6)
      .not_with({related_.capacity});
  option("--storage", arguments_.storage,
         "the allocator, default paged, which shares prefixes unless told otherwise")
      .one_of(row_names(kStorages));
  option("--reserve-tokens", run.reserved_tokens,
         "[tokens] that contiguous_max_length reserves, default: the longest request")
      .between(1U, kMostTokens)
      .only_if([&arguments = arguments_] { return arguments.storage == "contiguous_max_length"; },
               "--storage=contiguous_max_length");
  flag("--no-prefix-cache", arguments_.no_prefix_cache, "share nothing")
      .only_if([&arguments = arguments_] { return arguments.storage == "paged"; },
               "--storage=paged");
}

void SimulationGroup::add_preemption() {
  SimulationOptions& run = arguments_.options;
  option("--watermark", run.watermark, "share of the blocks that an admission leaves free")
      .between(0.0, 1.0)
      .only_if(paged(), kPaged);
  option("--preempt", arguments_.preempt, "recompute or swap, default recompute")
      .one_of({"recompute", "swap"})
      .only_if(paged(), kPaged);
  option("--host-blocks", run.host_blocks, "blocks of the host tier, for swaps")
      .between(1, 1 << 30)
      .only_if([&arguments = arguments_] { return arguments.preempt == "swap"; }, "--preempt=swap");
}

}  // namespace

CommandLine::Option add_simulation_options(CommandLine& line, const RelatedOptions& related,
                                           SimulateArguments& arguments) {
  return SimulationGroup(line, related, arguments).add();
}

std::vector<Result> run_simulation(SimulateArguments arguments, const ReopenableSource& source,
                                   Progress& progress) {
  SimulationOptions options = complete(arguments);
  std::optional<ResultFile> record;
  std::ostringstream recording;
  if (!arguments.record_path.empty()) {
    record.emplace(arguments.record_path);
    options.recording = &recording;
  }
  std::optional<ResultFile> run_file;
  std::ostringstream run_lines;
  if (!arguments.run_path.empty()) {
    run_file.emplace(arguments.run_path);
    options.run = &run_lines;
  }
  options.on_progress = [&progress](double fraction) { progress.update(fraction, "serving"); };
  const Simulation run = simulate(source, options);
  progress.clear();
  if (record) record->commit_text(recording.str());
  if (run_file) run_file->commit_text(run_lines.str());
  const Parameters parameters = parameters_of(arguments, options, source.open()->info());
  std::vector<Result> out = {{"serving", parameters, metrics_of(run)}};
  if (!arguments.over_time) return out;
  std::ranges::move(samples_of(run, parameters), std::back_inserter(out));
  return out;
}

}  // namespace kvproof::bench
