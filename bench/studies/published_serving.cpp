// SPDX-License-Identifier: Apache-2.0
// Published claims about serving: concurrency, throughput, preemptions, hits, first-token times.
#include <cmath>
#include <string>

#include "bench/studies/published.h"

namespace kvproof::bench {
namespace {

/// Input and output together uniform around a mean.
DrawRequest lengths_around(std::int64_t mean_tokens, double output_share) {
  return [=](WorkloadRandom& random, Request& request) {
    const std::int64_t total = random.between(mean_tokens / 2, mean_tokens * 3 / 2);
    request.output_tokens = std::llround(output_share * static_cast<double>(total));
    request.input_tokens = total - request.output_tokens;
  };
}

struct Saturated {
  std::vector<double> running;
  std::vector<double> tokens_per_second;
};

/// An engine in which requests always wait, over the settings that the sources do not state: the
/// share of the tokens that is output, and the share of the card's rates that is reached.
/// @param means of the lengths [tokens] that are tried; the first gives the value
Saturated saturate(const StudyOptions& options, const StepTime& time, double cache_bytes,
                   std::string_view series, std::initializer_list<std::int64_t> means) {
  Saturated out;
  for (const std::int64_t mean : means) {
    for (const double output_share : {0.5, 0.25, 0.75}) {
      for (const double rate_share : {1.0, 0.6}) {
        SimulationOptions run;
        run.engine.time = time;
        run.engine.time.bandwidth_share = run.engine.time.compute_share = rate_share;
        run.engine.max_running = 1'024;
        run.capacity_blocks = blocks_for(cache_bytes, run);
        run.storage = storage_of(series);
        run.reserved_tokens = 32'768;
        run.clients = 2'048;
        const Simulation served = serve_drawn(options.seed, options.smoke ? 60 : 1'000, 0,
                                              lengths_around(mean, output_share), run);
        out.running.push_back(while_waiting(served, &ServingMoment::running));
        out.tokens_per_second.push_back(static_cast<double>(served.totals.output_tokens) /
                                        served.totals.seconds);
      }
    }
  }
  return out;
}

}  // namespace

// One H100, an 8B model, 60 GB of cache, static buffers of 32,768 tokens: 12 of them fit where a
// token takes 147,456 bytes (Qwen3-8B). Unknown: the lengths, on average 2k to 8k tokens, a quarter
// to three quarters of them output; what share of the card's rates is reached, 0.6 to 1.
PublishedRows concurrency_8b(const StudyOptions& options) {
  const StepTime time{.card = *find_card("h100"), .model = *find_served_model("qwen3-8b")};
  PublishedRows out;
  const auto add = [&](const char* series, double running, double tokens_per_second) {
    const Saturated found = saturate(options, time, 60e9, series, {4'096, 2'048, 8'192});
    out.push_back({"concurrency_8b", series, "requests that run at once", "count",
                   Band::over(found.running), Band::exactly(running)});
    out.push_back({"concurrency_8b", series, "output throughput", "tokens/s",
                   Band::over(found.tokens_per_second), Band::exactly(tokens_per_second)});
  };
  add("contiguous_max_length", 12, 1'500);
  add("paged", 64, 8'000);
  return out;
}

// A 70B model with 45 GB of cache, static buffers of 32,768 tokens. Unknown: the lengths, on
// average 512 to 2,048 tokens. The weights alone need more than one card: only the number that runs
// at once is compared.
PublishedRows concurrency_70b(const StudyOptions& options) {
  const StepTime time{.card = *find_card("h100"), .model = *find_served_model("llama-3-70b")};
  PublishedRows out;
  const auto add = [&](const char* series, double published) {
    const Saturated found = saturate(options, time, 45e9, series, {1'024, 512, 2'048});
    out.push_back({"concurrency_70b", series, "requests that run at once", "count",
                   Band::over(found.running), Band::exactly(published)});
  };
  add("contiguous_max_length", 4);
  add("paged", 200);
  return out;
}

// Qwen2.5-7B on one GB200: 299,584 tokens of cache, no prefix cache, 450 requests of 1,000 +- 20 %
// in and 5,000 +- 20 % out, 128 clients. Unknown: their seed; three of ours.
PublishedRows watermark_preemptions(const StudyOptions& options) {
  struct Row {
    double watermark;
    double published;
  };
  constexpr Row kRows[] = {{0, 1065}, {0.02, 400}, {0.05, 187}, {0.10, 168}, {0.15, 168}};
  PublishedRows out;
  for (const Row& row : kRows) {
    std::vector<double> preemptions;
    for (const std::uint64_t seed : {0U, 1U, 2U}) {
      SimulationOptions run;
      run.engine.time = {.card = *find_card("gb200"), .model = *find_served_model("qwen2.5-7b")};
      run.capacity_blocks = 299'584 / run.block_size;
      run.storage = "paged";
      run.watermark = row.watermark;
      run.clients = 128;
      const auto draw = [](WorkloadRandom& random, Request& request) {
        request.input_tokens = random.between(800, 1'200);
        request.output_tokens = random.between(4'000, 6'000);
      };
      const Simulation served =
          serve_drawn(options.seed + seed, options.smoke ? 150 : 450, 0, draw, run);
      preemptions.push_back(static_cast<double>(served.totals.preemptions));
    }
    char at[32];
    std::snprintf(at, sizeof at, "watermark %.2f", row.watermark);
    out.push_back(
        {"watermark", "paged", at, "count", Band::over(preemptions), Band::exactly(row.published)});
  }
  return out;
}

// Every prompt begins with the same 500 tokens. Unknown: what follows them, 128 to 512 tokens on
// average.
PublishedRows system_prompt_hits(const StudyOptions& options) {
  constexpr std::int64_t kIdTokens = 4;  // divides 500
  std::vector<double> rates;
  for (const std::int64_t mean : {256, 128, 512}) {
    SimulationOptions run;
    run.capacity_blocks = blocks_for(60e9, run);
    double now = 0;
    std::uint64_t own_ids = 1'000;
    const auto draw = [&, mean](WorkloadRandom& random, Request& request) {
      request.arrival_seconds = now += 0.05;
      request.input_tokens = 500 + random.between(mean / 2, mean * 3 / 2);
      request.output_tokens = 128;
      for (std::int64_t token = 0; token + kIdTokens <= request.input_tokens; token += kIdTokens) {
        request.block_ids.push_back(token < 500 ? static_cast<std::uint64_t>(token) : ++own_ids);
      }
    };
    const Simulation served =
        serve_drawn(options.seed, options.smoke ? 100 : 1'000, kIdTokens, draw, run);
    rates.push_back(served.totals.hit_rate_tokens());
  }
  return {{"system_prompt", "paged", "hit rate by tokens", "ratio", Band::over(rates),
           Band{0.7, 0.6, 0.8}}};
}

// Two claims without model, card or load. First: static against paged, 45 and 42 ms; an 8B model on
// an H100 with 60 GB, prompts of 1k to 3k tokens, 1 to 5 of them a second. Second: a prefix of 500
// tokens that is cached or not, 10 and 1 ms; the same model, on an A100, an H100, an H200.
PublishedRows first_token(const StudyOptions& options) {
  PublishedRows out;
  const auto under_load = [&](const char* series, double published_ms) {
    std::vector<double> ms;
    for (const double per_second : {3.0, 1.0, 5.0}) {
      SimulationOptions run;
      run.capacity_blocks = blocks_for(60e9, run);
      run.storage = storage_of(series);
      run.reserved_tokens = 32'768;
      double now = 0;
      const auto draw = [&](WorkloadRandom& random, Request& request) {
        request.arrival_seconds = now += static_cast<double>(random.gap_ms(per_second)) / 1e3;
        request.input_tokens = random.between(1'000, 3'000);
        request.output_tokens = random.between(100, 300);
      };
      ms.push_back(
          serve_drawn(options.seed, options.smoke ? 50 : 500, 0, draw, run).first_token.mean * 1e3);
    }
    out.push_back(
        {"first_token", series, "under load", "ms", Band::over(ms), Band::exactly(published_ms)});
  };
  under_load("contiguous_max_length", 45);
  under_load("paged", 42);

  const auto prefix = [&](bool cached, double published_ms) {
    std::vector<double> ms;
    for (const char* card : {"h100", "a100-80g", "h200"}) {
      const StepTime time{.card = *find_card(card)};
      const std::uint64_t hit = cached ? 496 : 0;  // 31 blocks of 16
      const std::uint64_t tokens = 512 - hit;
      const std::uint64_t pairs = tokens * hit + tokens * (tokens + 1) / 2;
      ms.push_back(
          1e3 * time.seconds({.tokens = tokens, .attended_pairs = pairs, .context_tokens = hit}));
    }
    out.push_back({"first_token", "paged", cached ? "500 tokens cached" : "500 tokens computed",
                   "ms", Band::over(ms), Band::exactly(published_ms)});
  };
  prefix(false, 10);
  prefix(true, 1);
  return out;
}

}  // namespace kvproof::bench
