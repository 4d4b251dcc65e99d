// SPDX-License-Identifier: Apache-2.0
// Study: what the prefix cache of a hybrid finds when its windows and states are kept everywhere,
// once a segment, or only where requests end and part, by the size of the pool.
//
// Model:   the layers of two published models. Requests come one at a time, are computed in chunks,
//          and hold no blocks afterwards (replay_prompts.h). A log does not say what is shared
//          inside of ids: a block is as long as an id, beside Mamba as four or more, so that hits
//          may end inside it.
// Bounds:  a hit needs every block of full attention before it, so no hybrid finds more than the
//          optimal cache (bounds.h) that gives the whole pool to full attention.
#include <algorithm>
#include <string>
#include <utility>

#include "bench/hit_rate/bounds.h"
#include "bench/hit_rate/replay_prompts.h"
#include "bench/studies/studies.h"
#include "reference/model_presets.h"
#include "reference/pool_sizing.h"

namespace kvproof::bench {
namespace {

/// The sizes of the pool, in thousandths of what all distinct ids take in every group.
constexpr std::uint64_t kPoolThousandths[] = {2, 5, 10, 20, 50, 100, 200, 500};
constexpr std::uint64_t kMostIds = 1'000'000;  // of a long log
constexpr std::uint32_t kChunk = 8'192;        // [tokens] vLLM's default on large cards
constexpr std::uint32_t kSegment = 8'192;      // [tokens]
constexpr std::uint32_t kStateBlock = 512;     // [tokens] about what the state of the model fills

struct Hybrid {
  std::string_view model;
  bool inside;  // hits end on every id, not only where blocks end
};
constexpr Hybrid kHybrids[] = {
    {"gemma-3-27b", false}, {"nemotron-h-8b", false}, {"nemotron-h-8b", true}};

CacheConfig config_of(const Hybrid& hybrid, std::uint32_t id_tokens) {
  CacheConfig out;
  out.profile = *find_profile("vllm-0.33");
  const PoolLayout layout = lay_out(find_model_preset(hybrid.model)->spec(), kBlockSize);
  const bool states = std::ranges::any_of(
      layout.groups, [](const LayoutGroup& g) { return g.spec.kind == LayerKind::mamba; });
  const std::uint32_t block =
      states ? id_tokens * std::max(4U, ceil_div(kStateBlock, id_tokens)) : id_tokens;
  for (const LayoutGroup& group : layout.groups) {
    out.groups.push_back({.kind = group.spec.kind,
                          .block_size = block,
                          .window = group.spec.window_tokens,
                          .mode = MambaMode::align});
  }
  out.hash_block_size = hybrid.inside ? id_tokens : block;
  out.max_in_flight_tokens = std::max(kChunk, block);
  return out;
}

/// Where one hybrid is measured on one source.
struct Setting {
  const ReopenableSource& source;
  const PromptFuture& future;
  const Hybrid& hybrid;
  CacheConfig config;
  std::uint32_t id_tokens;

  [[nodiscard]] std::uint32_t block() const { return config.groups.front().block_size; }
};

Result retention_row(const Setting& setting, std::string retention, Value share,
                     const ReplayCounts& counts) {
  return {"retention",
          {{"source", setting.source.name},
           {"profile", std::string(setting.config.profile.name)},
           {"model", std::string(setting.hybrid.model)},
           {"hits", setting.hybrid.inside ? "inside blocks" : "whole blocks"},
           {"retention", std::move(retention)},
           {"capacity_blocks", static_cast<std::int64_t>(counts.capacity_blocks)},
           {"capacity_share", std::move(share)},
           {"block_size", std::int64_t{setting.block()}},
           {"groups", static_cast<std::int64_t>(setting.config.groups.size())},
           {"requests", static_cast<std::int64_t>(counts.requests)}},
          {{"hit_rate_tokens", metric(counts.hit_rate_tokens(), "ratio")}}};
}

/// All three ways to keep, in a pool of that many blocks; 0 = nothing is ever lost.
void keep(Setting setting, std::uint32_t blocks, const Value& share, std::vector<Result>& results) {
  setting.config.num_blocks = blocks == 0 ? 0 : blocks + 1;
  const std::uint32_t segment = std::max(kSegment / setting.block(), 1U) * setting.block();
  const std::pair<std::string, std::optional<std::uint32_t>> kept[] = {
      {"dense", std::nullopt}, {std::to_string(segment), segment}, {"0", 0U}};
  for (const auto& [name, retention] : kept) {
    setting.config.retention = retention;
    const ReplayCounts counts = replay_hybrid(setting.source, setting.config);
    results.push_back(retention_row(setting, name, share, counts));
    std::ranges::move(Metrics{{"evictions", count(counts.evictions)},
                              {"kept_blocks", count(counts.kept_blocks)},
                              {"requests_refused", count(counts.refused)}},
                      std::back_inserter(results.back().metrics));
  }
}

/// What no cache of that many blocks can exceed. Whole ids are counted: the last one of a prompt
/// may stand for fewer tokens, so the share may come out a little high, never low.
void bound(const Setting& setting, std::uint64_t blocks, const Value& share,
           std::vector<Result>& results) {
  const std::uint64_t ids = blocks * (setting.block() / setting.id_tokens);
  ReplayCounts counts = setting.future.optimum(ids);
  counts.capacity_blocks = blocks;
  counts.hit_tokens = std::min(counts.hit_blocks * setting.id_tokens, counts.input_tokens);
  results.push_back(retention_row(setting, "optimum", share, counts));
}

void measure_hybrid(const Setting& setting, const std::function<void(double)>& report,
                    std::vector<Result>& results) {
  const std::uint64_t ids = setting.future.distinct_blocks();
  const std::uint64_t all =
      ids * setting.id_tokens / setting.block() * setting.config.groups.size();
  double done = 0;
  std::vector<Result> bounds;
  for (const std::uint64_t thousandths : kPoolThousandths) {
    report(done++ / static_cast<double>(std::size(kPoolThousandths) + 1));
    const std::uint64_t blocks = all * thousandths / 1'000;
    if (blocks == 0) continue;
    const double share = static_cast<double>(thousandths) / 1'000;
    keep(setting, static_cast<std::uint32_t>(blocks), share, results);
    bound(setting, blocks, share, bounds);
  }
  report(done / static_cast<double>(std::size(kPoolThousandths) + 1));
  keep(setting, 0, "infinite", results);
  bound(setting, ids, "infinite", bounds);
  results.insert(results.end(), bounds.begin(), bounds.end());
}

}  // namespace

std::vector<Result> retention(const StudyOptions& options) {
  std::vector<ReopenableSource> sources = all_sources(options);
  std::erase_if(sources,
                [](const ReopenableSource& s) { return s.open()->info().ids_block_size == 0; });
  std::vector<Result> results;
  double done = 0;
  for (const ReopenableSource& all : sources) {
    const ReopenableSource source = first_requests(all, kMostIds);
    const auto id_tokens = static_cast<std::uint32_t>(source.open()->info().ids_block_size);
    const PromptFuture future(*source.open());
    for (const Hybrid& hybrid : kHybrids) {
      const auto report = [&](double part) {
        options.report((done + part) / static_cast<double>(sources.size() * std::size(kHybrids)));
      };
      if (future.distinct_blocks() > 0) {
        measure_hybrid({source, future, hybrid, config_of(hybrid, id_tokens), id_tokens}, report,
                       results);
      }
      ++done;
    }
  }
  return results;
}

}  // namespace kvproof::bench
