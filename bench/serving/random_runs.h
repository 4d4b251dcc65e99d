// SPDX-License-Identifier: Apache-2.0
// Random runs of the simulated engine, and their judgement. Small pools, shared
// prefixes, drafts, steps in flight, deferred frees, aborts.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/requests/listed_source.h"
#include "bench/serving/serving_test_support.h"
#include "properties/shadow/kvproof_live.h"

namespace kvproof::bench {

struct RunSetup {
  std::uint64_t seed = 0;
  std::vector<Request> requests;
  std::uint32_t blocks = 0;  // of 4 tokens
  std::uint32_t token_budget = 0;
  std::uint32_t max_running = 0;
  std::uint32_t drafts = 0;
  std::uint32_t steps_in_flight = 0;
  bool defer_frees = false;
  double aborts = 0;
};

inline RunSetup draw_setup(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint32_t from, std::uint32_t to) {
    return from + static_cast<std::uint32_t>(random() % (to - from + 1));
  };
  RunSetup out{.seed = seed,
               .requests = {},
               .blocks = draw(16, 36),
               .token_budget = draw(6, 40),
               .max_running = draw(2, 5),
               .drafts = draw(0, 3),
               .steps_in_flight = draw(0, 1),
               .defer_frees = false,
               .aborts = draw(0, 2) * 0.04};
  out.defer_frees = out.steps_in_flight > 0 && draw(0, 2) == 0;
  const std::uint32_t count = draw(4, 14);
  for (std::uint32_t i = 0; i < count; ++i) {
    out.requests.push_back({.arrival_seconds = static_cast<double>(i * draw(0, 12)),
                            .input_tokens = draw(3, 40),
                            .output_tokens = draw(1, 16),
                            .block_ids = {draw(0, 1), 10 + draw(0, 2), 20 + draw(0, 9)}});
    Request& request = out.requests.back();  // 16 tokens an id
    request.block_ids.resize(static_cast<std::size_t>(request.input_tokens + 15) / 16);
  }
  return out;
}

struct WrittenRun {
  std::string lines;
  ServingTotals totals;
};

/// Serves the requests with an engine or with a copy of it. A run that does not end is cut off.
template <class Engine, class Options>
WrittenRun write_run(const RunSetup& setup) {
  constexpr std::uint32_t kPatience = 600, kBlockSize = 4, kMostSteps = 4 * kPatience;
  Options options;
  options.scheduler.steps_in_flight = setup.steps_in_flight;
  options.defer_frees = setup.defer_frees;
  options.token_budget = setup.token_budget;
  options.max_running = setup.max_running;
  options.drafts = setup.drafts;
  options.acceptance = 0.6;
  options.seed = options.abort_seed = setup.seed;
  options.aborts = setup.aborts;
  options.time = second_per_token();
  const std::uint32_t tokens = setup.blocks * kBlockSize;
  const auto memory =
      find_storage("paged_shared")
          ->make({.block_size = kBlockSize,
                  .capacity_tokens = tokens,
                  .max_tokens = tokens,
                  .max_requests = static_cast<std::uint32_t>(setup.requests.size()) + 1,
                  .profile = *find_profile(options.scheduler.profile)});
  const auto source = listed(setup.requests).open();
  Arrivals arrivals(*source, 0);
  Recorder recorder;
  std::ostringstream lines;
  RunWriter run(lines, {.block_size = kBlockSize,
                        .blocks = setup.blocks + 1,
                        .depth = setup.steps_in_flight + 1,
                        .patience = kPatience,
                        .seed = setup.seed});
  Engine engine(options, source->info(), arrivals, *memory, recorder, run);
  try {
    for (std::uint32_t step = 0; step < kMostSteps && engine.step(); ++step) {
    }
  } catch (const std::exception& error) {
    run.raised(error.what());
  }
  return {lines.str(), recorder.totals};
}

/// @return the verdict as JSON, or what could not be read
inline nlohmann::json judge_run(const std::string& lines) {
  std::istringstream in(lines);
  std::string line;
  std::getline(in, line);
  const std::unique_ptr<kvproof_live, void (*)(kvproof_live*)> run(kvproof_live_open(line.c_str()),
                                                                   &kvproof_live_close);
  while (std::getline(in, line) && kvproof_live_event(run.get(), line.c_str()) >= 0) {
  }
  const char* error = kvproof_live_error(run.get());
  if (error != nullptr) return {{"error", error}, {"line", line}};
  return nlohmann::json::parse(kvproof_live_verdict(run.get()));
}

/// @return the law that a run breaks first, empty if it holds; what could not be read, in full
inline std::string broken_first(const nlohmann::json& verdict) {
  if (verdict.contains("error")) return verdict.dump();
  return verdict["findings"].empty() ? "" : verdict["findings"][0]["law"].get<std::string>();
}

}  // namespace kvproof::bench
