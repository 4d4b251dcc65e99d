// SPDX-License-Identifier: Apache-2.0
// The list of published claims about paged caches, each run again here for the study `published`.
//
// Model:   each claim is a serving simulation with the model, the card and the lengths that its
//          source states. They are fixed in its file before anything runs and never fitted to a
//          published figure. Settings that a source does not state are varied over a stated range,
//          which gives the band. Every claim has a source.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/requests/sources.h"
#include "bench/serving/simulate.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {

/// A value, and the range that it takes over the settings that are not known.
struct Band {
  double value = 0;
  double low = 0;
  double high = 0;

  [[nodiscard]] static Band exactly(double value) { return {value, value, value}; }
  /// The range of all, with the first as its value. @pre values is not empty
  [[nodiscard]] static Band over(const std::vector<double>& values) {
    const auto [low, high] = std::ranges::minmax(values);
    return {values.front(), low, high};
  }
};

struct PublishedRow {
  std::string_view claim;  // key of the figure
  std::string series;      // e.g. "paged"
  std::string at;          // the case, e.g. "watermark 0.02"
  std::string unit;
  Band here;
  std::optional<Band> published;
};

using PublishedRows = std::vector<PublishedRow>;

/// One claim: a rule from a seed to its rows. A smoke run serves fewer requests.
struct PublishedClaim {
  std::string_view key;
  std::string_view source;
  PublishedRows (*run)(const StudyOptions& options);
};

[[nodiscard]] PublishedRows effective_memory(const StudyOptions& options);
[[nodiscard]] PublishedRows mixed_lengths(const StudyOptions& options);
[[nodiscard]] PublishedRows concurrency_8b(const StudyOptions& options);
[[nodiscard]] PublishedRows concurrency_70b(const StudyOptions& options);
[[nodiscard]] PublishedRows watermark_preemptions(const StudyOptions& options);
[[nodiscard]] PublishedRows system_prompt_hits(const StudyOptions& options);
[[nodiscard]] PublishedRows first_token(const StudyOptions& options);
[[nodiscard]] PublishedRows block_size_tail(const StudyOptions& options);

inline constexpr PublishedClaim kPublishedClaims[] = {
    {"effective_memory", "Kwon et al., SOSP'23, Fig. 2 (arXiv:2309.06180)", &effective_memory},
    {"mixed_lengths", "published for a mix of lengths 50/30/15/5", &mixed_lengths},
    {"concurrency_8b", "published for one H100, an 8B model and 60 GB of cache", &concurrency_8b},
    {"concurrency_70b", "published for a 70B model and 45 GB of cache", &concurrency_70b},
    {"watermark", "vLLM pull request 44594", &watermark_preemptions},
    {"system_prompt", "published for a system prompt of 500 tokens", &system_prompt_hits},
    {"first_token", "published first-token times", &first_token},
    {"block_size", "SGLang pull request 35635: (page - 1) / 2 tokens", &block_size_tail},
};

/// The samples in which a request waited: a saturated engine, without its start and its end.
[[nodiscard]] double while_waiting(const Simulation& run, double ServingMoment::*part);

/// The simulation of requests drawn by a rule.
[[nodiscard]] Simulation serve_drawn(std::uint64_t seed, std::uint64_t num_requests,
                                     std::int64_t ids_block_size, const DrawRequest& draw,
                                     const SimulationOptions& options);

/// The storage behind a series of a published figure: the paged engines share prefixes.
[[nodiscard]] constexpr std::string_view storage_of(std::string_view series) {
  return series == "paged" ? "paged_shared" : series;
}

/// The blocks for so many bytes of a model's cache, at the block size of the options. [blocks]
[[nodiscard]] std::uint32_t blocks_for(double bytes, const SimulationOptions& options);

}  // namespace kvproof::bench
