// SPDX-License-Identifier: Apache-2.0
// The studies against arithmetic: what allocators report must be what pencil and paper give.
#include "bench/studies/studies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "bench/requests/listed_source.h"
#include "bench/requests/open_log.h"
#include "bench/requests/workloads.h"
#include "bench/storage/storage_test_support.h"
#include "bench/studies/play.h"
#include "properties/sources/traces/test_files.h"
#include "reference/ids.h"
#include "reference/model_presets.h"

namespace kvproof::bench {
namespace {

StudyOptions smoke_options() {
  StudyOptions options;
  options.smoke = true;
  options.seed = kWorkloadSeed;
  return options;
}

std::string text(const Result& result, std::string_view name) {
  return std::get<std::string>(*result.parameter(name));
}
std::int64_t count(const Result& result, std::string_view name) {
  return std::get<std::int64_t>(*result.parameter(name));
}
double value(const Result& result, std::string_view name) { return result.metric(name)->value; }

std::vector<Request> requests_of(const ReopenableSource& source) {
  std::vector<Request> requests;
  const auto stream = source.open();
  for (Request request; stream->next(request);) requests.push_back(request);
  return requests;
}

TEST(MemoryOfOneRequest, IsTheClosedForm) {
  const std::vector<Result> results = memory_of_one_request(smoke_options());
  std::map<std::string, std::vector<std::int64_t>> lengths;
  for (const Result& result : results) {
    const auto tokens = static_cast<std::uint64_t>(count(result, "tokens"));
    lengths[text(result, "storage")].push_back(count(result, "tokens"));
    EXPECT_EQ(count(result, "bytes_per_token"), 128'000);
    EXPECT_EQ(value(result, "used_bytes"), static_cast<double>(tokens) * 128'000);
    EXPECT_EQ(
        value(result, "allocated_bytes"),
        static_cast<double>(reserved_for(text(result, "storage"), tokens, 8'192, 8'192)) * 128'000);
  }
  ASSERT_EQ(lengths.size(), 2U);
  EXPECT_EQ(lengths["paged"].size(), 129U);
  EXPECT_EQ(lengths["paged"].front(), 1);
  EXPECT_EQ(lengths["paged"].back(), 8'192);
  EXPECT_EQ(lengths["paged"], lengths["contiguous_max_length"]);
}

TEST(MemoryOfModels, IsLinearCappedOrFlatByTheModel) {
  std::map<std::string, std::map<std::int64_t, const Result*>> models;
  const std::vector<Result> results = memory_of_models(smoke_options());
  for (const Result& result : results) {
    models[text(result, "model")][count(result, "tokens")] = &result;
    EXPECT_GE(value(result, "allocated_bytes"), value(result, "live_bytes"));
  }
  EXPECT_EQ(models.size(), std::size(kModelPresets));
  const auto bytes = [&](const char* model, std::int64_t tokens) {
    return value(*models.at(model).at(tokens), "allocated_bytes");
  };
  for (std::int64_t tokens = 16; tokens <= 131'072; tokens *= 2) {
    const auto n = static_cast<double>(tokens);
    EXPECT_EQ(bytes("llama-3-70b", tokens), n * 327'680);
    EXPECT_EQ(bytes("deepseek-v3", tokens), n * 70'272);
    EXPECT_EQ(bytes("mistral-7b-v0.1", tokens), std::min(n, 4'096.0) * 131'072);
    EXPECT_EQ(bytes("mamba-codestral-7b", tokens), 64.0 * 2'158'592);
    // One group of global layers, six with windows; a block is 10 pages of 128 KiB.
    EXPECT_EQ(bytes("gemma-3-27b", tokens), (n / 16 + 6 * std::min(n / 16, 64.0)) * 1'310'720);
  }
  EXPECT_EQ(bytes("llama-3-70b", 1), 16.0 * 327'680);  // a whole block for the first token
  EXPECT_EQ(bytes("nemotron-h-8b", 512), 7.0 * 4 * 2'162'688);
}

TEST(Utilisation, IsTheClosedForm) {
  const StudyOptions options = smoke_options();
  std::uint64_t used = 0;
  std::map<std::string, std::uint64_t> reserved;
  for (const Request& request : requests_of(workload_source("lognormal", options))) {
    const auto tokens = static_cast<std::uint64_t>(request.input_tokens + request.output_tokens);
    used += tokens;
    for (const StorageRow& row : kStorages) {
      reserved[std::string(row.name)] += reserved_for(row.name, tokens, tokens, 8'192);
    }
  }
  const std::vector<Result> results = utilisation(options);
  ASSERT_EQ(results.size(), 5U);
  for (const Result& result : results) {
    const std::string storage = text(result, "storage");
    EXPECT_EQ(count(result, "requests"), 100);
    EXPECT_EQ(value(result, "used_bytes"), static_cast<double>(used) * 131'072) << storage;
    EXPECT_EQ(value(result, "allocated_bytes"), static_cast<double>(reserved[storage]) * 131'072)
        << storage;
    if (const Metric* arena = result.metric("arena_bytes")) {
      EXPECT_GE(arena->value, value(result, "allocated_bytes"));
    }
  }
  EXPECT_EQ(value(results[0], "allocated_bytes"), 107'374'182'400.0);  // 100 * 8,192 * 131,072 B
  EXPECT_NEAR(value(results[0], "utilisation"), 0.024, 0.001);         // published: 2.4 %
  EXPECT_NEAR(value(results[4], "utilisation"), 0.961, 0.001);         // published: 96.1 %
  EXPECT_NEAR(value(results[4], "saving_factor"), 40.9, 0.5);          // published: 40.9
}

TEST(WasteAgainstBlockSize, IsTheClosedForm) {
  const StudyOptions options = smoke_options();
  std::map<std::string, std::vector<Request>> requests;
  for (const ReopenableSource& source : all_sources(options)) {
    requests[source.name] = requests_of(source);
  }
  const std::vector<Result> results = waste_against_block_size(options);
  EXPECT_EQ(results.size(), std::size(kWorkloads) * 9);
  for (const Result& result : results) {
    const auto block = count(result, "block_size");
    double waste = 0;
    double blocks = 0;
    const auto& listed_requests = requests.at(text(result, "workload"));
    for (const Request& request : listed_requests) {
      const std::int64_t tokens = request.input_tokens + request.output_tokens;
      waste += static_cast<double>(ceil_div(tokens, block) * block - tokens);
      blocks += static_cast<double>(ceil_div(tokens, block));
    }
    const auto n = static_cast<double>(listed_requests.size());
    EXPECT_DOUBLE_EQ(value(result, "mean_waste_tokens"), waste / n);
    EXPECT_DOUBLE_EQ(value(result, "table_entries_per_request"), blocks / n);
    EXPECT_DOUBLE_EQ(value(result, "waste_share"), waste / (blocks * static_cast<double>(block)));
  }
}

/// What is alive at a tick, from the definition of the play.
struct Expected {
  std::uint64_t live = 0;
  std::uint64_t reserved = 0;
};
Expected expected_at(const std::vector<Request>& requests, std::int64_t tick,
                     std::string_view storage, std::uint64_t max_length) {
  Expected out;
  for (const Request& request : requests) {
    const auto arrival_ms = static_cast<std::int64_t>(request.arrival_seconds * 1000 + 0.5);
    const std::int64_t start = ceil_div<std::int64_t>(arrival_ms, kTickMs);
    if (request.input_tokens == 0 || tick < start || tick > start + request.output_tokens) continue;
    const auto tokens = static_cast<std::uint64_t>(request.input_tokens + tick - start);
    const auto final_tokens =
        static_cast<std::uint64_t>(request.input_tokens + request.output_tokens);
    out.live += tokens;
    out.reserved += reserved_for(storage, tokens, final_tokens, max_length);
  }
  return out;
}

TEST(LiveMemory, IsTheClosedFormAtEverySample) {
  const StudyOptions options = smoke_options();
  std::map<std::string, std::vector<Request>> requests;
  for (const ReopenableSource& source : all_sources(options)) {
    requests[source.name] = requests_of(source);
  }
  std::map<std::pair<std::string, std::string>, int> samples;
  for (const Result& result : live_memory(options)) {
    if (result.experiment != "live_memory") continue;
    const std::string source = text(result, "source");
    const std::string storage = text(result, "storage");
    ++samples[{source, storage}];
    const double seconds = std::get<double>(*result.parameter("seconds"));
    const auto tick = static_cast<std::int64_t>(seconds * 1000 / kTickMs + 0.5);
    const Expected expected = expected_at(requests.at(source), tick, storage,
                                          static_cast<std::uint64_t>(count(result, "max_length")));
    ASSERT_EQ(value(result, "live_tokens"), static_cast<double>(expected.live)) << storage;
    const double reserved = value(result, "reserved_tokens");
    if (storage == "paged_shared") {
      ASSERT_LE(reserved, static_cast<double>(expected.reserved));
    } else {
      ASSERT_EQ(reserved, static_cast<double>(expected.reserved)) << source << ' ' << storage;
    }
  }
  EXPECT_EQ(samples.size(), 5U + 6U);  // chat has ids, so prefixes can be shared
  for (const auto& [name, number] : samples) EXPECT_EQ(number, 20) << name.second;
}

TEST(LiveMemory, SaysWhatWasPlayedAndWhereItFits) {
  for (const Result& result : live_memory(smoke_options())) {
    if (result.experiment != "live_memory_run") continue;
    const std::string storage = text(result, "storage");
    EXPECT_GE(value(result, "capacity_tokens"), value(result, "peak_reserved_tokens")) << storage;
    EXPECT_EQ(value(result, "requests"), 200) << storage;
    const bool moves =
        storage == "contiguous_grow_and_copy" || storage == "contiguous_power_of_two";
    EXPECT_EQ(value(result, "moved_tokens") > 0, moves) << storage;
  }
}

TEST(PrefixHitRate, CountsAPartialTailByItsOwnTokens) {
  StudyOptions options = smoke_options();
  // Two ids of 16 tokens and 4 tokens of a third; the second request has all three, the third two.
  options.logs = {
      listed({{0, 0, 36, 1, {1, 2, 3}}, {0, 0, 36, 1, {1, 2, 3}}, {0, 0, 48, 1, {1, 2, 9}}})};
  for (const Result& result : prefix_hit_rate(options)) {
    if (text(result, "source") != "listed" || result.parameter("capacity_share")->index() != 0) {
      continue;
    }
    EXPECT_DOUBLE_EQ(value(result, "hit_rate_tokens"), (36.0 + 32.0) / 120.0);
    EXPECT_DOUBLE_EQ(value(result, "hit_rate_blocks"), 5.0 / 9.0);
    EXPECT_EQ(value(result, "evictions"), 0);
    return;
  }
  FAIL() << "no infinite cache was measured";
}

TEST(Studies, LeaveTheWorkloadsOutIfAsked) {
  StudyOptions options = smoke_options();
  options.workloads = false;
  options.logs = {listed({{0, 0, 36, 1, {1, 2, 3}}, {0, 0, 36, 1, {1, 2, 3}}})};
  for (const Study& study : kStudies) {
    if (study.input != StudyInput::logs_and_workloads) continue;
    for (const Result& result : study.run(options)) {
      const char* name = result.parameter("source") == nullptr ? "workload" : "source";
      EXPECT_EQ(text(result, name), "listed") << study.name;
    }
  }
}

TEST(PrefixHitRate, NeverFallsWithMoreBlocks) {
  double before = 0;
  int sizes = 0;
  for (const Result& result : prefix_hit_rate(smoke_options())) {
    EXPECT_GE(value(result, "hit_rate_tokens"), before) << "at size " << sizes;
    before = value(result, "hit_rate_tokens");
    ++sizes;
  }
  EXPECT_EQ(sizes, 8);
  EXPECT_GT(before, 0.5) << "the chat workload shares its prompts";
}

TEST(PrefixHitRate, EqualsTheKnownAnswersOfARealLog) {
  const std::string path = properties::shared_file("traces/mooncake_conversation_trace.jsonl.zst");
  if (path.empty()) GTEST_SKIP() << properties::kNoPublicLog;
  const std::map<double, double> known = {
      {0.01, 0.0535}, {0.05, 0.1996}, {0.10, 0.2844}, {0.25, 0.3604}, {0.50, 0.3703}};
  StudyOptions options = smoke_options();
  options.logs = {log_source(path, {.max_tokens = std::int64_t{1} << 20})};
  std::size_t compared = 0;
  for (const Result& result : prefix_hit_rate(options)) {
    if (text(result, "source") == "chat") continue;
    const double* share = std::get_if<double>(result.parameter("capacity_share"));
    const double rate = value(result, "hit_rate_tokens");
    if (share == nullptr) {
      EXPECT_NEAR(rate, 0.3736, 0.001) << "infinite";
      ++compared;
    } else if (known.contains(*share)) {
      EXPECT_NEAR(rate, known.at(*share), 0.001) << "at " << *share;
      ++compared;
    }
  }
  EXPECT_EQ(compared, known.size() + 1);
}

/// Ids from 1 to `shared`, then others, and one token more.
Request prompt_of(std::uint64_t shared, std::uint64_t all, std::uint64_t own) {
  Request out{.input_tokens = static_cast<std::int64_t>(16 * all + 1), .output_tokens = 1};
  for (std::uint64_t i = 1; i <= all; ++i) out.block_ids.push_back(i <= shared ? i : own + i);
  return out;
}

TEST(Retention, IsWhatPaperAndPencilGive) {
  StudyOptions options = smoke_options();
  // The second and the third prompt share 80 ids with the first, the last one goes on behind it.
  options.logs = {listed({prompt_of(100, 100, 0), prompt_of(80, 100, 1'000),
                          prompt_of(80, 100, 2'000), prompt_of(110, 110, 0)})};
  constexpr double kTokens = 3 * 1'601 + 1'761;
  // A window of 1,024 tokens reads 64 blocks. At the end of a prompt those before 80 ids are not
  // kept: the second prompt finds nothing, computes all again, and keeps what the third one reads.
  // Blocks of a state are 32 ids, of which the prompts share two whole ones.
  const std::map<std::tuple<std::string, std::string, std::string>, double> known = {
      {{"gemma-3-27b", "whole blocks", "dense"}, 1'280 + 1'280 + 1'600},
      {{"gemma-3-27b", "whole blocks", "8192"}, 0 + 1'280 + 1'600},
      {{"gemma-3-27b", "whole blocks", "0"}, 0 + 1'280 + 1'600},
      {{"gemma-3-27b", "whole blocks", "optimum"}, 1'280 + 1'280 + 1'600},
      {{"nemotron-h-8b", "whole blocks", "dense"}, 0 + 1'024 + 1'536},
      {{"nemotron-h-8b", "whole blocks", "8192"}, 0 + 1'024 + 1'536},
      {{"nemotron-h-8b", "whole blocks", "0"}, 0 + 1'024 + 1'536},
      {{"nemotron-h-8b", "whole blocks", "optimum"}, 1'280 + 1'280 + 1'600},
      {{"nemotron-h-8b", "inside blocks", "dense"}, 0 + 1'024 + 1'600},
      {{"nemotron-h-8b", "inside blocks", "8192"}, 0 + 1'024 + 1'600},
      {{"nemotron-h-8b", "inside blocks", "0"}, 0 + 1'024 + 1'600},
      {{"nemotron-h-8b", "inside blocks", "optimum"}, 1'280 + 1'280 + 1'600}};
  std::size_t compared = 0;
  for (const Result& result : retention(options)) {
    if (text(result, "source") != "listed" || result.parameter("capacity_share")->index() != 0) {
      continue;
    }
    const std::string kept = text(result, "retention");
    EXPECT_DOUBLE_EQ(value(result, "hit_rate_tokens"),
                     known.at({text(result, "model"), text(result, "hits"), kept}) / kTokens)
        << text(result, "model") << ", " << text(result, "hits") << ", " << kept;
    ++compared;
    if (text(result, "model") != "gemma-3-27b" || kept == "optimum") continue;
    EXPECT_EQ(value(result, "kept_blocks"), kept == "dense"
                                                ? 7 * (100 + 20 + 20 + 10)
                                                : (100 + 100 + 20 + 10) + 6 * (64 + 84 + 20 + 10));
  }
  EXPECT_EQ(compared, known.size());
}

TEST(Retention, FindsNoMoreThanTheOptimumOfFullAttention) {
  using Place = std::tuple<std::string, std::string, std::int64_t>;  // model, hits, blocks
  const std::vector<Result> results = retention(smoke_options());
  const auto place = [](const Result& result) {
    return Place(text(result, "model"), text(result, "hits"), count(result, "capacity_blocks"));
  };
  std::map<Place, double> best;
  for (const Result& result : results) {
    if (text(result, "retention") == "optimum")
      best[place(result)] = value(result, "hit_rate_tokens");
  }
  std::size_t compared = 0;
  for (const Result& result : results) {
    const auto bound = best.find(place(result));
    if (bound == best.end()) continue;  // an infinite pool, whose size depends on the hybrid
    EXPECT_LE(value(result, "hit_rate_tokens"), bound->second)
        << text(result, "retention") << " at " << count(result, "capacity_blocks");
    ++compared;
  }
  EXPECT_GT(compared, 60U);
}

}  // namespace
}  // namespace kvproof::bench
