// SPDX-License-Identifier: Apache-2.0
// The list of studies: the experiments behind the figures of the report, on the real allocators.
//
// A study is a pure function of its options: the same sources and seed give the same results on
// every machine. Studies have no clock; pool_bench.cpp measures the time of the allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/requests/request.h"
#include "bench/results/result_file.h"

namespace kvproof::bench {

struct StudyOptions {
  bool smoke = false;  // few requests and samples: enough to see that it works
  std::uint64_t seed = 0;
  std::vector<ReopenableSource> logs;
  std::function<void(double)> report = [](double) {};  // told the share that is done, 0 to 1
  bool workloads = true;  // that are built in are played beside the logs
};

/// What every study has that plays requests on storages.
inline constexpr std::uint32_t kBlockSize = 16;     // [tokens]
inline constexpr std::uint32_t kMaxLength = 8'192;  // [tokens] where a storage must know it
inline constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 62;  // [tokens] of capacity

/// What a study depends on.
enum class StudyInput { nothing, workloads, logs_and_workloads };

struct Study {
  std::string_view name;  // also the experiment of its results
  std::string_view sentence;
  StudyInput input;
  std::vector<Result> (*run)(const StudyOptions& options);
};

// clang-format off
#define KVPROOF_STUDIES(ROW)                                                                      \
  ROW(memory_of_one_request, nothing, "what one request occupies while it grows")                 \
  ROW(memory_of_models, nothing, "what one request of each model preset takes, by its length")    \
  ROW(utilisation, workloads, "what share of its memory a batch of short requests uses")          \
  ROW(waste_against_block_size, logs_and_workloads, "what the last block of a request wastes")    \
  ROW(live_memory, logs_and_workloads, "what each storage reserves while requests come and go")   \
  ROW(prefix_hit_rate, logs_and_workloads, "what share of prompts a cache of a given size serves") \
  ROW(eviction, logs_and_workloads,                                                               \
      "what that share is under other eviction policies, and at best")                            \
  ROW(retention, logs_and_workloads,                                                              \
      "what that share is for hybrids that keep all, some or few of their windows and states")    \
  ROW(serving, logs_and_workloads,                                                                \
      "the same requests served from the same memory by every storage")                           \
  ROW(published, workloads, "what others have published, simulated with what they stated")
// clang-format on

#define KVPROOF_DECLARE(name, input, sentence) \
  [[nodiscard]] std::vector<Result> name(const StudyOptions& options);
KVPROOF_STUDIES(KVPROOF_DECLARE)
#undef KVPROOF_DECLARE

#define KVPROOF_STUDY(name, input, sentence) {#name, sentence, StudyInput::input, &name},
inline constexpr Study kStudies[] = {KVPROOF_STUDIES(KVPROOF_STUDY)};
#undef KVPROOF_STUDY

/// The built-in workload of that name at this study's size. @pre it exists
[[nodiscard]] ReopenableSource workload_source(std::string_view name, const StudyOptions& options);

/// The logs of the options, then every built-in workload unless they are left out.
[[nodiscard]] std::vector<ReopenableSource> all_sources(const StudyOptions& options);

/// Its first requests, until they have had so many blocks.
[[nodiscard]] ReopenableSource first_requests(const ReopenableSource& source,
                                              std::uint64_t most_blocks);

}  // namespace kvproof::bench
