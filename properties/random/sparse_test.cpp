// SPDX-License-Identifier: Apache-2.0
// What vLLM has since 0.33 (retention, keys that cover tokens behind their unit, hits inside of
// blocks, checkpoints of prefills, R-SWA, rings): each mechanism is drawn, and the optimized
// managers agree with the naive one after every operation. The model alone judges: the laws still
// raise a false alarm there in rare sequences.
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>

#include "optimized/subjects.h"
#include "properties/random/shrink.h"
#include "reference/layer_rules.h"

namespace kvproof::properties {
namespace {

const Oracles kModelAlone{.laws = false, .content = false};

/// How many runs had each mechanism: what was never drawn has not been compared.
void note_mechanisms(const CacheConfig& config, std::map<std::string, int>& met) {
  if (config.retention) ++met[*config.retention > 0 ? "an interval" : "retention 0"];
  if (config.hash_lookahead > 0) ++met["lookahead hashes"];
  if (hits_inside_blocks(config)) ++met["hits inside blocks"];
  for (const GroupConfig& group : config.groups) {
    if (group.checkpoint_alignment > 0 && config.enable_caching) ++met["checkpoints"];
    if (group.kind == LayerKind::rswa) ++met["R-SWA"];
    if (group.kind == LayerKind::ring) ++met["a ring"];
  }
}

void compare(const optimized::SubjectRow& subject, const Configuration& listed,
             std::uint64_t operations, std::map<std::string, int>& met) {
  ChoiceStream stream(seed_from_environment());
  Counts counts;
  while (counts.operations < operations) {
    const bool drawn = &listed == &kSwarm;
    const Configuration row = drawn ? draw_row(stream.next()) : listed;
    const Case c = draw_case(stream, 200);
    note_mechanisms(draw_config(*find_profile("vllm-0.33"), row, c.setup), met);
    const auto failure =
        run_case(subject.make, *find_profile("vllm-0.33"), row, c, kModelAlone, counts);
    if (!failure) continue;
    Failure small = shrink(subject.make, *failure, kModelAlone);
    small.subject = subject.name;
    const auto file = write_failure(small, seed_from_environment(), ".");
    FAIL() << row.name << ": " << describe_failure(small, seed_from_environment(), file);
  }
  EXPECT_EQ(counts.skipped, 0U) << "the subject lacks a mechanism";
}

TEST(Since033, TheOptimizedManagersAgreeWithTheNaiveOne) {
  const std::uint64_t share = operations_from_environment() / 5;
  for (const std::string_view name : {"optimized-xxh3", "optimized-sha256"}) {
    std::map<std::string, int> met;
    for (const Configuration& row : kConfigurations) {
      compare(*optimized::find_subject(name), row, share, met);
    }
    compare(*optimized::find_subject(name), kSwarm, 10 * share, met);
    std::cout << name << ", runs with";
    for (const auto& [mechanism, runs] : met) std::cout << ' ' << mechanism << ' ' << runs << ',';
    std::cout << " seed " << seed_from_environment() << '\n';
    EXPECT_EQ(met.size(), 7U) << "a mechanism was never drawn";
  }
}

}  // namespace
}  // namespace kvproof::properties
