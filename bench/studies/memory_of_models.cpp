// SPDX-License-Identifier: Apache-2.0
// Study: the memory of one request of each model preset as it grows, in pages and in live rows.
#include <algorithm>
#include <cmath>
#include <set>

#include "bench/studies/studies.h"
#include "reference/model_presets.h"
#include "reference/pool_sizing.h"

namespace kvproof::bench {
namespace {

constexpr std::uint64_t kLongestTokens = 131'072;  // for every model, even beyond its context
constexpr int kSamplesPerDoubling = 4;

/// The kind of cache of the model's layers, in the words of the figure.
std::string_view cache_of(const ModelSpec& model) {
  const auto any = [&](LayerKind kind) {
    return std::ranges::any_of(model.layers,
                               [kind](const KvSpec& spec) { return spec.kind == kind; });
  };
  const bool full = any(LayerKind::full);
  if (any(LayerKind::mla)) return "MLA";
  if (any(LayerKind::mamba)) return full ? "full and Mamba" : "Mamba";
  if (any(LayerKind::sliding_window)) return full ? "full and window" : "window";
  return "full attention";
}

/// A few lengths to each doubling, and both sides of the ends of the first blocks, to show the
/// steps.
std::set<std::uint64_t> sampled_lengths() {
  std::set<std::uint64_t> lengths;
  for (std::uint64_t tokens = kBlockSize; tokens <= 4 * kBlockSize; tokens += kBlockSize) {
    lengths.insert({tokens, tokens + 1});
  }
  const double most = std::log2(kLongestTokens) * kSamplesPerDoubling;
  for (int i = 0; i <= std::lround(most); ++i) {
    const double tokens = std::exp2(static_cast<double>(i) / kSamplesPerDoubling);
    lengths.insert(static_cast<std::uint64_t>(std::llround(tokens)));
  }
  return lengths;
}

}  // namespace

std::vector<Result> memory_of_models(const StudyOptions&) {
  std::vector<Result> results;
  for (const ModelPreset& preset : kModelPresets) {
    const ModelSpec model = preset.spec();
    const PoolLayout layout = lay_out(model, kBlockSize);
    for (const std::uint64_t tokens : sampled_lengths()) {
      results.push_back(
          {"memory_of_models",
           {{"model", std::string(preset.name)},
            {"cache", std::string(cache_of(model))},
            {"tokens", static_cast<std::int64_t>(tokens)},
            {"block_size", std::int64_t{kBlockSize}},
            {"context_tokens", std::int64_t{preset.context_tokens}}},
           {{"allocated_bytes", metric(layout.blocks_held(tokens) * layout.block_bytes, "bytes")},
            {"live_bytes", metric(model.live_bytes(tokens), "bytes")}}});
    }
  }
  return results;
}

}  // namespace kvproof::bench
