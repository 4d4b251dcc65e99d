// SPDX-License-Identifier: Apache-2.0
// Published claims about memory: the share of it that holds tokens, and the savings of paging.
#include <cmath>
#include <iterator>

#include "bench/requests/workloads.h"
#include "bench/studies/published.h"

namespace kvproof::bench {
namespace {

/// exp(N(mu, sigma)) with that mean, at least 4 tokens.
std::int64_t drawn_length(WorkloadRandom& random, double mean, double sigma, std::int64_t most) {
  return random.lognormal(std::log(mean) - sigma * sigma / 2, sigma, 4, most);
}

/// @param sigma of the lengths; the source gives their means alone
DrawRequest sharegpt_lengths(double sigma) {
  return [sigma](WorkloadRandom& random, Request& request) {
    request.input_tokens = drawn_length(random, 161.31, sigma, 1'024);
    request.output_tokens = drawn_length(random, 337.99, sigma, 1'023);
  };
}

/// Blocks of all requests at their final lengths, as a share of static buffers.
double share_of_static(RequestSource& source, std::uint32_t block_size, std::uint64_t buffer) {
  std::uint64_t paged = 0;
  std::uint64_t requests = 0;
  for (Request request; source.next(request); ++requests) {
    const auto tokens = static_cast<std::uint64_t>(request.input_tokens + request.output_tokens);
    paged += ceil_div<std::uint64_t>(tokens, block_size) * block_size;
  }
  return static_cast<double>(paged) / static_cast<double>(requests * buffer);
}

}  // namespace

// OPT-13B on an A100 of 40 GB, whose cache has 15.7 thousand slots; ShareGPT requests of 161 and
// 338 tokens on average; 2,048 tokens at most. The engine is saturated. Unknown: the spread of the
// lengths, sigma 0.7 to 1.3. Ours places first fit; Orca's rows in the source place by buddies.
PublishedRows effective_memory(const StudyOptions& options) {
  struct Row {
    const char* series;
    double published;
  };
  constexpr Row kRows[] = {{"contiguous_max_length", 0.204},
                           {"contiguous_power_of_two", 0.268},
                           {"contiguous_oracle", 0.382},
                           {"paged", 0.963}};
  PublishedRows out;
  for (const Row& row : kRows) {
    std::vector<double> shares;
    for (const double sigma : {1.0, 0.7, 1.3}) {
      SimulationOptions run;
      run.engine.time = {.card = *find_card("a100-40g"), .model = *find_served_model("opt-13b")};
      run.engine.token_budget = 2'048;
      run.capacity_blocks = 15'700 / run.block_size;
      run.clients = 256;
      run.storage = storage_of(row.series);
      run.reserved_tokens = 2'048;
      const Simulation served =
          serve_drawn(options.seed, options.smoke ? 40 : 1'000, 0, sharegpt_lengths(sigma), run);
      const double capacity = static_cast<double>(served.capacity_blocks) * run.block_size;
      shares.push_back(while_waiting(served, &ServingMoment::tokens) / capacity);
    }
    out.push_back({"effective_memory", row.series, "share of memory that holds tokens", "ratio",
                   Band::over(shares), Band::exactly(row.published)});
  }
  return out;
}

// Half of the requests have up to 128 tokens, 30 % up to 512, 15 % up to 2,048, 5 % up to 8,192;
// static buffers are of 8,192. Each request counted once, and as they are served, where a long one
// is in memory longer. Unknown: how many run at once; 16 to 256.
PublishedRows mixed_lengths(const StudyOptions& options) {
  constexpr std::uint32_t kBuffer = 8'192;  // [tokens]
  const Workload* mix = find_workload("long_tail");
  const std::int64_t requests = options.smoke ? 100 : 2'000;
  std::vector<double> shares;
  for (const std::uint32_t clients : {64U, 16U, 256U}) {
    const auto held_each = [&](std::string_view storage) {
      SimulationOptions run;
      run.clients = clients;
      run.capacity_blocks = clients * kBuffer / run.block_size;
      run.storage = storage;
      run.reserved_tokens = kBuffer;
      const ServingMoment mean = simulate(mix->source(options.seed, requests), run).average;
      return (mean.tokens + mean.tail + mean.reserved) / mean.running;
    };
    shares.push_back(held_each("paged_shared") / held_each("contiguous_max_length"));
  }
  const Band published{0.125, 0.10, 0.15};
  const double each = share_of_static(*mix->open(options.seed, requests), 16, kBuffer);
  return {{"mixed_lengths", "paged", "share of static buffers, each request once", "ratio",
           Band::exactly(each), published},
          {"mixed_lengths", "paged", "share of static buffers, as they are served", "ratio",
           Band::over(shares), published}};
}

// The tokens that the last block of a request leaves unused, on the built-in chat workload.
PublishedRows block_size_tail(const StudyOptions& options) {
  const Workload* chat = find_workload("chat");
  const std::int64_t requests = options.smoke ? chat->smoke_requests : 2'000;
  PublishedRows out;
  for (const std::uint32_t block_size : {16U, 32U, 64U}) {
    SimulationOptions run;
    run.block_size = block_size;
    const ServingMoment mean = simulate(chat->source(options.seed, requests), run).average;
    out.push_back({"block_size", "paged", "block size " + std::to_string(block_size), "tokens",
                   Band::exactly(mean.tail / mean.running), Band::exactly((block_size - 1) / 2.0)});
  }
  return out;
}

}  // namespace kvproof::bench
