// SPDX-License-Identifier: Apache-2.0
// Random lives of requests through the real allocator and the real kernels equal the contiguous
// cache and the contiguous kernels after every operation.
#include <gtest/gtest.h>

#include <iostream>

#include "properties/kernels/served_world.h"
#include "properties/random/random_run.h"

namespace kvproof::properties {
namespace {

/// How long to live with which implementations. A CUDA kernel on fibers takes a millisecond.
struct Life {
  const char* rows;
  int operations;
  std::uint64_t every;  // [operations] between decodes of all requests
};

template <class Params>
const kernels::Implementation<Params>* row(std::span<const kernels::Implementation<Params>> list,
                                           std::string_view name) {
  for (const auto& implementation : list) {
    if (implementation.name == name) return &implementation;
  }
  return nullptr;
}

/// Every operation by its implementation of that name.
DataPath path_of(std::string_view name) {
  return {row(kernels::slot_mapping(), name),  row(kernels::reshape_and_cache(), name),
          row(kernels::copy_blocks(), name),   row(kernels::swap_blocks(), name),
          row(kernels::paged_decode(), name),  row(kernels::contiguous_decode(), name),
          row(kernels::paged_prefill(), name), row(kernels::contiguous_prefill(), name)};
}

struct Layers {
  const char* name;
  std::vector<GroupConfig> groups;
  LayoutOrder order = LayoutOrder::nhd;
};

std::vector<Layers> layers() {
  return {{"full", {full(4)}},
          {"window", {window(4, 9)}, LayoutOrder::hnd},
          {"full and window", {full(8), window(4, 9)}}};
}

CacheConfig config_of(const Way& way, const Layers& row) {
  CacheConfig config = pool(row.groups.size() == 1 ? 28 : 56, row.groups);
  config.profile = *way.profile;
  config.max_model_len = 72;
  config.num_host_blocks = config.num_blocks / 2;
  return config;
}

/// The optimized allocator, as in the newest profile.
Way served() {
  for (const Way& way : ways()) {
    if (way.subject->name == "optimized-xxh3") return way;
  }
  return ways().back();
}

void live(const Layers& layer, const Life& life, DriveFault fault, ServedWorld::Counts& counts,
          std::optional<std::string>& wrong) {
  const Way way = served();
  const CacheConfig config = config_of(way, layer);
  ServedWorld world(way.subject->make(config), config, layer.order, path_of(life.rows), life.every,
                    fault);
  RandomRun run(world, config, seed_of_runs());
  for (int i = 0; i < life.operations && !world.wrong(); ++i) run.next();
  if (!world.wrong()) run.wind_up();
  counts = world.counts();
  wrong = world.wrong();
}

class EndToEnd : public testing::TestWithParam<Life> {};

TEST_P(EndToEnd, EveryRequestAttendsToItsOwnTokens) {
  std::cout << "KVPROOF_SEED=" << seed_of_runs() << "\n";
  for (const Layers& layer : layers()) {
    SCOPED_TRACE(layer.name);
    ServedWorld::Counts counts;
    std::optional<std::string> wrong;
    live(layer, GetParam(), DriveFault::none, counts, wrong);
    ASSERT_FALSE(wrong) << *wrong;
    // A run in which these never happened has shown nothing about them.
    EXPECT_GT(counts.prefilled_queries, 100U);
    EXPECT_GT(counts.decoded_queries, 200U);
    for (const std::uint64_t n : {counts.found_tokens, counts.fork_copies, counts.swaps_out,
                                  counts.swaps_in, counts.preemptions}) {
      EXPECT_GT(n, 0U);
    }
    std::cout << layer.name << ": " << counts.written_tokens << " tokens written, "
              << counts.found_tokens << " found, " << counts.prefilled_queries << " prefilled, "
              << counts.decoded_queries << " decoded, " << counts.fork_copies << " blocks copied, "
              << counts.swaps_out << " swaps out, " << counts.swaps_in << " in, "
              << counts.preemptions << " preemptions\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EndToEnd,
                         testing::Values(Life{"cuda/general", 150, 16},
                                         Life{"cpu/general", 2000, 1}),
                         [](const auto& row) {
                           return std::string_view(row.param.rows).starts_with("cuda") ? "Cuda"
                                                                                       : "Cpu";
                         });

class DriveFaults : public testing::TestWithParam<DriveFault> {};

TEST_P(DriveFaults, AreNoticed) {
  for (const Layers& layer : layers()) {
    SCOPED_TRACE(layer.name);
    ServedWorld::Counts counts;
    std::optional<std::string> wrong;
    live(layer, {"cpu/general", 2000, 1}, GetParam(), counts, wrong);
    ASSERT_TRUE(wrong) << "nothing was noticed";
    EXPECT_NE(wrong->find("to something else"), std::string::npos) << *wrong;
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, DriveFaults,
                         testing::Values(DriveFault::fork_copy_skipped,
                                         DriveFault::swap_out_skipped, DriveFault::swap_in_skipped,
                                         DriveFault::slot_shifted));

}  // namespace
}  // namespace kvproof::properties
