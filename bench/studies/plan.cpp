// SPDX-License-Identifier: Apache-2.0
#include "bench/studies/plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "bench/requests/workloads.h"

namespace kvproof::bench {
namespace {

Result plan_at(const PlanInput& input, std::uint32_t block_size) {
  const PoolLayout layout = lay_out(input.model, block_size);
  const std::uint64_t blocks = num_blocks(layout, input.memory_bytes);
  const std::uint64_t contiguous = contiguous_requests(input);
  const double expected = expected_requests(input, layout, blocks);
  RequestLimits furthest = input.limits;
  furthest.max_tokens =
      std::max<std::uint64_t>(input.limits.max_tokens, input.preset->context_tokens);
  Result result;
  result.experiment = "plan";
  result.parameters = {
      {"model", std::string(input.preset->name)},
      {"dtype", input.dtype},
      {"memory_bytes", static_cast<std::int64_t>(input.memory_bytes)},
      {"max_len_tokens", static_cast<std::int64_t>(input.limits.max_tokens)},
      {"in_flight_tokens", static_cast<std::int64_t>(input.limits.in_flight_tokens)},
      {"lengths", input.lengths.name},
      {"block_size", std::int64_t{block_size}}};
  result.metrics = {
      {"tokens_per_block", metric(layout.groups.front().block_size, "tokens")},
      {"block_bytes", metric(layout.block_bytes, "bytes")},
      {"num_blocks", metric(blocks, "blocks")},
      {"longest_request_tokens", metric(longest_request(layout, blocks, furthest), "tokens")},
      {"contiguous_requests", metric(contiguous, "requests")},
      {"worst_case_requests", metric(whole_requests(layout, blocks, input.limits), "requests")},
      {"max_concurrency", metric(max_concurrency(layout, blocks, input.limits), "ratio")},
      {"expected_requests", metric(expected, "requests")}};
  if (contiguous > 0) {
    result.metrics.push_back({"gain", metric(expected / static_cast<double>(contiguous), "ratio")});
  }
  return result;
}

}  // namespace

double Lengths::mean() const {
  const auto sum = std::accumulate(tokens.begin(), tokens.end(), std::uint64_t{0});
  return tokens.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(tokens.size());
}

Lengths lengths_of_workload(std::string_view name) {
  const Workload& row = *find_workload(name);
  Lengths lengths{std::string(name), {}};
  const auto source = row.open(kWorkloadSeed, row.full_requests);
  for (Request request; source->next(request);) {
    lengths.tokens.push_back(
        static_cast<std::uint64_t>(request.input_tokens + request.output_tokens));
  }
  return lengths;
}

std::uint64_t contiguous_requests(const PlanInput& input) {
  const std::uint64_t bytes = input.model.contiguous_bytes(input.limits);
  return bytes == 0 ? 0 : input.memory_bytes / bytes;
}

double expected_requests(const PlanInput& input, const PoolLayout& layout,
                         std::uint64_t num_blocks) {
  std::map<std::uint64_t, std::uint64_t> times;  // length -> requests that have it
  for (const std::uint64_t tokens : input.lengths.tokens) {
    ++times[std::min(tokens, input.limits.max_tokens)];
  }
  double blocks = 0;
  for (const auto& [tokens, requests] : times) {
    blocks += static_cast<double>(requests) *
              static_cast<double>(layout.blocks_held(tokens, input.limits.encoder_tokens));
  }
  if (blocks == 0 || num_blocks == 0) return 0;
  const double mean = blocks / static_cast<double>(input.lengths.tokens.size());
  return static_cast<double>(num_blocks - 1) / mean;
}

std::vector<Result> plan(const PlanInput& input) {
  std::vector<Result> results;
  for (const std::uint32_t block_size : input.block_sizes) {
    results.push_back(plan_at(input, block_size));
  }
  return results;
}

}  // namespace kvproof::bench
