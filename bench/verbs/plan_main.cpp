// SPDX-License-Identifier: Apache-2.0
// The verb plan: how many requests of a model of the list fit into a memory budget.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/requests/workloads.h"
#include "bench/results/environment.h"
#include "bench/results/table.h"
#include "bench/studies/plan.h"
#include "bench/studies/studies.h"
#include "bench/verbs/command_line.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

constexpr Program kProgram{.name = "kvproof plan"};
constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;
constexpr double kLeastGib = 1e-6;    // about 1 KiB
constexpr double kMostGib = 1 << 30;  // 2^60 bytes

struct Arguments {
  std::string model;
  std::optional<double> memory_gib;
  std::int64_t max_len = 0;     // 0: the model's own
  std::int64_t block_size = 0;  // 0: several
  std::int64_t in_flight_tokens = 8'192;
  std::int64_t mean_len = 0;  // 0: a workload
  std::string workload = "long_tail";
  std::string dtype = "bf16";
  std::string json_path;
  bool list = false;
};

struct RowType {
  std::string_view name;
  DataType type;
  RowFormat format;
};
constexpr RowType kRowTypes[] = {
    {"bf16", DataType::bf16, RowFormat::plain},
    {"fp16", DataType::fp16, RowFormat::plain},
    {"fp32", DataType::fp32, RowFormat::plain},
    {"fp8_e4m3", DataType::fp8_e4m3, RowFormat::plain},
    {"fp8_e5m2", DataType::fp8_e5m2, RowFormat::plain},
    {"int8", DataType::int8, RowFormat::plain},
    {"fp8_ds_mla", DataType::fp8_e4m3, RowFormat::fp8_ds_mla},
};

/// "1,234,567"
std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string gib(std::uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

std::string what_layers(const KvSpec& spec) {
  const std::string window = grouped(spec.window_tokens) + " tokens";
  if (spec.kind == LayerKind::mla) return "multi-head latent attention";
  if (spec.kind == LayerKind::sliding_window) return "attention within a window of " + window;
  if (spec.kind == LayerKind::chunked_local) return "attention within chunks of " + window;
  if (spec.kind == LayerKind::mamba) return "Mamba";
  return spec.kind == LayerKind::cross ? "cross attention" : "full attention";
}

void print_model(std::ostream& out, const PlanInput& input) {
  out << input.preset->name << ": " << input.preset->sentence << '\n';
  for (const KvSpec& spec : input.model.layers) {
    out << "  " << spec.num_layers << " layers of " << what_layers(spec) << ", "
        << grouped(spec.page_bytes(1)) << " B each "
        << (spec.kind == LayerKind::mamba ? "whatever the length" : "per token") << '\n';
  }
  const std::uint64_t lasting = input.model.lasting_bytes_per_token();
  out << "  bytes per token: " << grouped(input.model.bytes_per_token()) << " B";
  if (lasting != input.model.bytes_per_token()) {
    out << "; " << grouped(lasting) << " B once it has left every window";
  }
  const std::uint64_t longest = input.limits.max_tokens;
  const std::uint64_t request = input.model.live_bytes(longest);
  out << "\n  a request of " << grouped(longest) << " tokens: " << grouped(request) << " B ("
      << gib(request) << ")\n";
  out << "  configuration: " << input.preset->source << ", " << input.dtype << '\n';
  if (longest > input.preset->context_tokens) {
    out << "  note: that configuration ends at " << grouped(input.preset->context_tokens)
        << " tokens\n";
  }
}

/// The columns of the table, without the values that stand above or below it.
std::vector<Result> columns_to_print(std::vector<Result> results) {
  const bool as_asked = std::ranges::all_of(results, [](const Result& result) {
    return result.metric("tokens_per_block")->value ==
           static_cast<double>(std::get<std::int64_t>(*result.parameter("block_size")));
  });
  for (Result& result : results) {
    std::erase_if(result.parameters, [](const auto& row) { return row.first != "block_size"; });
    std::erase_if(result.metrics, [as_asked](const auto& row) {
      return row.first == "longest_request_tokens" || (as_asked && row.first == "tokens_per_block");
    });
  }
  return results;
}

/// The largest metric of that name.
double most(const std::vector<Result>& results, std::string_view name) {
  double value = 0;
  for (const Result& result : results) value = std::max(value, result.metric(name)->value);
  return value;
}

void print_plan(std::ostream& out, const PlanInput& input, const std::vector<Result>& results) {
  print_model(out, input);
  char mean[40];
  std::snprintf(mean, sizeof mean, "%.4g", input.lengths.mean());
  out << "memory for the cache: " << gib(input.memory_bytes) << "\n\n";
  print_results(out, columns_to_print(results));
  const std::string tokens = grouped(input.limits.max_tokens) + " tokens";
  const bool windows = std::ranges::any_of(
      input.model.layers, [](const KvSpec& spec) { return spec.window_tokens > 0; });
  if (windows) {
    out << "a window holds itself and up to " << grouped(input.limits.in_flight_tokens)
        << " tokens that are computed at once, in pages or in a ring\n";
  }
  out << "contiguous: a request reserves " << tokens
      << " whatever its length, so this is its worst case and what is expected\n"
      << "worst case: paged, every request has " << tokens << "; beside the null block\n"
      << "max_concurrency: the worst case as a plain ratio, as vLLM prints it\n"
      << "expected: paged, lengths of " << input.lengths.name << " (mean " << mean
      << " tokens), each with all its tokens, nothing shared\n"
      << "gain: expected over contiguous\n\n"
      << "longest request that fits: "
      << grouped(static_cast<std::uint64_t>(most(results, "longest_request_tokens")))
      << " tokens, of a context of " << grouped(input.preset->context_tokens) << '\n';
}

void print_list(std::ostream& out) {
  std::vector<Result> rows;
  for (const ModelPreset& preset : kModelPresets) {
    const ModelSpec model = preset.spec();
    rows.push_back(
        {"models",
         {{"model", std::string(preset.name)},
          {"context_tokens", std::int64_t{preset.context_tokens}}},
         {{"layers", metric(double(model.num_layers()), "count")},
          {"bytes_per_token", metric(model.bytes_per_token(), "bytes")},
          {"bytes_per_token_beyond_windows", metric(model.lasting_bytes_per_token(), "bytes")},
          {"first_token_bytes", metric(model.live_bytes(1), "bytes")}}});
  }
  print_results(out, rows);
  for (const ModelPreset& preset : kModelPresets) {
    out << preset.name << ": " << preset.sentence << "\n    config.json of " << preset.source
        << '\n';
  }
}

PlanInput input_of(const Arguments& arguments, const ModelPreset& preset, const RowType& row_type,
                   double memory_gib) {
  PlanInput input;
  input.preset = &preset;
  input.model = with_rows_in(preset.spec(), row_type.type, row_type.format);
  input.dtype = row_type.name;
  input.memory_bytes = static_cast<std::uint64_t>(std::llround(memory_gib * (1 << 30)));
  input.limits.max_tokens = arguments.max_len == 0 ? preset.context_tokens
                                                   : static_cast<std::uint64_t>(arguments.max_len);
  input.limits.in_flight_tokens = static_cast<std::uint64_t>(arguments.in_flight_tokens);
  input.block_sizes = {1, 8, 16, 32, 64, 128, 256};
  if (arguments.block_size != 0) {
    input.block_sizes = {static_cast<std::uint32_t>(arguments.block_size)};
  }
  if (arguments.mean_len != 0) {
    input.lengths = {"--mean-len", {static_cast<std::uint64_t>(arguments.mean_len)}};
  } else {
    input.lengths = lengths_of_workload(arguments.workload);
  }
  return input;
}

int run(const Arguments& arguments, int argc, char** argv) {
  const ModelPreset& preset = *find_model_preset(arguments.model);
  const RowType& row_type = *std::ranges::find(kRowTypes, arguments.dtype, &RowType::name);
  if (row_type.format == RowFormat::fp8_ds_mla &&
      !std::ranges::all_of(preset.spec().layers,
                           [](const KvSpec& spec) { return spec.kind == LayerKind::mla; })) {
    throw UsageError(
        "--dtype=fp8_ds_mla: expected a model with multi-head latent attention, found " +
        arguments.model);
  }
  std::optional<ResultFile> file;
  if (!arguments.json_path.empty()) file.emplace(arguments.json_path);
  const PlanInput input = input_of(arguments, preset, row_type, *arguments.memory_gib);
  std::vector<Result> results = plan(input);
  print_plan(std::cout, input, results);
  const bool fits = most(results, "worst_case_requests") >= 1;
  if (!fits) {
    std::cout << "a paged request of " << grouped(input.limits.max_tokens)
              << " tokens does not fit at any of these block sizes\n";
  }
  if (file) {
    const std::vector<Result> curves = memory_of_models({});
    results.insert(results.end(), curves.begin(), curves.end());
    file->commit(describe_environment(argc, argv, kWorkloadSeed), results);
  }
  return fits ? kHolds : kViolated;
}

void add_length_options(CommandLine& line, CommandLine::Option list, Arguments& arguments) {
  line.option("--max-len", arguments.max_len,
              "longest request, input and output [tokens], default: the model's context")
      .between(std::int64_t{1}, kMostTokens)
      .not_with({list});
  line.option("--in-flight-tokens", arguments.in_flight_tokens,
              "computed in one step: what a window may hold beside itself, default 8192")
      .between(std::int64_t{1}, kMostTokens)
      .not_with({list});
  const auto workload =
      line.option("--workload", arguments.workload, "whose lengths are expected, default long_tail")
          .one_of(row_names(kWorkloads))
          .not_with({list});
  line.option("--mean-len", arguments.mean_len, "expect requests of this length instead [tokens]")
      .between(std::int64_t{1}, kMostTokens)
      .not_with({workload, list});
}

void add_options(CommandLine& line, Arguments& arguments) {
  const auto list =
      line.flag("--list", arguments.list, "print the models and where their figures are from");
  line.option("--model", arguments.model, "a name of --list")
      .one_of(row_names(kModelPresets))
      .not_with({list})
      .placeholder("NAME");
  line.option("--memory-gib", arguments.memory_gib,
              "for the cache, what weights and activations leave [2^30 bytes]")
      .between(kLeastGib, kMostGib)
      .not_with({list});
  line.option("--block-size", arguments.block_size,
              "[tokens], default: 1, 8, 16, 32, 64, 128 and 256")
      .between(1, 1 << 16)
      .not_with({list});
  add_length_options(line, list, arguments);
  line.option("--dtype", arguments.dtype, "of the cached rows, default bf16")
      .one_of(row_names(kRowTypes))
      .not_with({list});
  line.option("--json", arguments.json_path,
              "also write the results, and every model's memory by length, to this file")
      .not_with({list});
  line.footer(
      "  --figure=PATH               by ./kvproof: also draw every model's memory by length, PNG "
      "or SVG");
}

int run(int argc, char** argv) {
  Arguments arguments;
  CommandLine line(
      kProgram,
      "Says what of a model's KV cache fits into a memory budget: bytes per token, blocks, and how "
      "many\nrequests at once, contiguous and paged, at each block size. Exit code 1: not one of "
      "the longest.\nExample: kvproof plan --model=llama-3-70b --memory-gib=60 --max-len=32768");
  add_options(line, arguments);
  if (!line.parse(argc, argv)) return kHolds;
  if (arguments.list) {
    print_list(std::cout);
    return kHolds;
  }
  if (arguments.model.empty()) {
    throw UsageError("expected --model=NAME, one of " + names_of(kModelPresets));
  }
  if (!arguments.memory_gib) {
    throw UsageError("expected --memory-gib=NUMBER: what weights and activations leave");
  }
  return run(arguments, argc, argv);
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  using namespace kvproof;
  return bench::run_program(bench::kProgram, [&] { return bench::run(argc, argv); });
}
