// SPDX-License-Identifier: Apache-2.0
// Random lives of requests through the real allocator and the real kernels equal the contiguous
// cache and the contiguous kernels after every operation.
#include <gtest/gtest.h>

#include <iostream>

#include "properties/audit/runner.h"
#include "properties/kernels/served_world.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/random/ways.h"

namespace kvproof::properties {
namespace {

/// How long to live with which implementations. A CUDA kernel on fibers takes a millisecond.
struct Life {
  const char* rows;
  std::size_t operations;
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

/// Who waits to hear which drafts are accepted stays on the device.
Source without_waiting(Source drawn) {
  return [drawn = std::move(drawn)](const Audit& audit) {
    auto operation = drawn(audit);
    const auto* out = operation ? std::get_if<op::SwapOut>(&*operation) : nullptr;
    const RequestRecord* r = out != nullptr ? audit.history().find(out->req) : nullptr;
    const bool waits =
        r != nullptr && r->scheduled_tokens > audit.state().find(r->name)->num_tokens;
    return waits ? Operation(op::Step{}) : operation;
  };
}

void live(const Layers& layer, const Life& life, DriveFault fault, ServedWorld::Counts& counts,
          std::optional<std::string>& wrong) {
  const Way way = served();
  const CacheConfig config = config_of(way, layer);
  ServedWorld world(way.subject->make(config), config, layer.order, path_of(life.rows), life.every,
                    fault);
  Swarm swarm = usual_swarm();
  for (const Kind often : {Kind::fork, Kind::swap_in, Kind::complete}) {
    swarm.of(often) = 20;
  }
  swarm.calls.external = false;       // there is nowhere to load from
  swarm.calls.part_advances = false;  // a step computes all that it was granted
  swarm.calls.early_forks = false;  // a child of drafts accepts others than those that are written
  Audit audit(config, world, {.laws = false, .model = false, .content = false});
  const Generator generator(config, swarm);
  const auto choices = ChoiceStream(seed_from_environment()).take(life.operations);
  const auto failure = play_out(config, audit, without_waiting(from_choices(generator, choices)),
                                [&](const Operation&) { return !world.wrong(); });
  ASSERT_FALSE(failure) << failure->text;
  counts = world.counts();
  wrong = world.wrong();
}

class EndToEnd : public testing::TestWithParam<Life> {};

TEST_P(EndToEnd, EveryRequestAttendsToItsOwnTokens) {
  std::cout << "KVPROOF_SEED=" << seed_from_environment() << "\n";
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
                         testing::Values(Life{"cuda/general", 400, 16},
                                         Life{"cpu/general", 4000, 1}),
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
    live(layer, {"cpu/general", 4000, 1}, GetParam(), counts, wrong);
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
