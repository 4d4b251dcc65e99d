// SPDX-License-Identifier: Apache-2.0
// The list of built-in synthetic workloads. A new one is its generator and one row here.
//
// A workload is a RequestSource, like a log. The same name, seed and number of requests give the
// same requests on every machine: the generators use std::mt19937_64, whose output the standard
// fixes, and no std::distribution, whose output it does not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "bench/requests/request.h"

namespace kvproof::bench {

[[nodiscard]] std::unique_ptr<RequestSource> open_lognormal(std::uint64_t seed,
                                                            std::int64_t num_requests);
[[nodiscard]] std::unique_ptr<RequestSource> open_chat(std::uint64_t seed,
                                                       std::int64_t num_requests);
[[nodiscard]] std::unique_ptr<RequestSource> open_long_tail(std::uint64_t seed,
                                                            std::int64_t num_requests);

struct Workload {
  std::string_view name;
  std::string_view sentence;    // what it imitates
  std::string_view provenance;  // whose numbers these are
  std::int64_t smoke_requests;  // enough to see that it works
  std::int64_t full_requests;   // enough to report
  std::unique_ptr<RequestSource> (*open)(std::uint64_t seed, std::int64_t num_requests);
  // Of the smoke requests under kWorkloadSeed. When it changes, published results no longer belong
  // to these requests: only together with a note in the change log.
  std::uint64_t checksum;

  [[nodiscard]] ReopenableSource source(std::uint64_t seed, std::int64_t num_requests) const {
    return {std::string(name),
            [open = open, seed, num_requests] { return open(seed, num_requests); }};
  }
};

// The default seed: of 1 to 7 the one whose 100 lognormal lengths (min 36, mean 191.6, max 591)
// have the mean nearest to the published run's.
inline constexpr std::uint64_t kWorkloadSeed = 6;

inline constexpr Workload kWorkloads[] = {
    {"lognormal",
     "Independent requests that are all there at once; input plus output is lognormal, a quarter "
     "of it output.",
     "Lengths after a published run of 100 requests (min 34, mean 193, max 631 tokens): "
     "exp(N(5.1, 0.58)) clipped to 34..631. The split into input and output is ours.",
     100, 100, &open_lognormal, 0x7f74298fbd403b36},
    {"chat",
     "Sessions of several turns under one of 8 shared system prompts of 400 to 600 tokens; each "
     "prompt extends the previous prompt and its answer.",
     "All figures are ours; prefixes are ids of 16 tokens, full blocks only.", 200, 10'000,
     &open_chat, 0x11c6e045e6fb2b8b},
    {"long_tail",
     "Independent requests: 50 % of up to 128 tokens, 30 % of up to 512, 15 % of up to 2,048 and "
     "5 % of up to 8,192, input plus output, each uniform over the upper half of its range.",
     "The shares 50/30/15/5 are published; the lengths, the output share of a quarter and the "
     "arrivals (Poisson, 10 per second) are ours.",
     200, 10'000, &open_long_tail, 0x91b948d0acf415d1},
};

[[nodiscard]] const Workload* find_workload(std::string_view name);

}  // namespace kvproof::bench
