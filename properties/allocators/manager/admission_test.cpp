// SPDX-License-Identifier: Apache-2.0
// Demands and gates: arithmetic that no pool has a part in.
#include "optimized/manager/admission.h"

#include <gtest/gtest.h>

#include "properties/allocators/manager/configs.h"

namespace kvproof::optimized {
namespace {

TEST(Admission, TellsARefusalFromAGrantOfNothing) {
  EXPECT_TRUE(Admission(0));
  EXPECT_EQ(*Admission(7), 7U);
  EXPECT_FALSE(Admission::refused());
}

TEST(Admission, ADemandCountsTheHitAndTheLoadedTokensAsComputed) {
  const Standing request{.num_tokens = 40,
                         .computed = 0,
                         .encoder_tokens = 0,
                         .prompt_tokens = 0,
                         .hit_tokens = 16,
                         .uses_hit = true,
                         .idle = true};
  const AllocateArgs args{.new_tokens = 20, .lookahead = 3, .external = 4};
  const Demand demand = demand_of(args, request, 64);
  EXPECT_EQ(demand.computed, 20U);
  EXPECT_EQ(demand.main, 40U);
  EXPECT_EQ(demand.slots, 43U);
  EXPECT_TRUE(demand.starts);
  EXPECT_EQ(demand_of(args, request, 41).slots, 41U) << "no slots beyond the limit";
  EXPECT_THROW(static_cast<void>(demand_of(args, request, 19)), ContractViolation);
  Standing other = request;
  other.idle = false;
  EXPECT_FALSE(demand_of(args, other, 64).starts) << "it runs";
  other = {};
  other.idle = true;
  EXPECT_FALSE(demand_of({.new_tokens = 1}, other, 64).starts) << "nothing to start from";

  const Demand all = whole_sequence(demand, request);
  EXPECT_EQ(all.slots, 40U);
  EXPECT_TRUE(all.capped);
}

TEST(Admission, GatesKeepBackTheWatermarkAndTheReserve) {
  CacheConfig config = properties::small_config();
  config.watermark = 0.25;
  const AllocateArgs beside_others{.new_tokens = 1, .has_scheduled = true, .reserved = 2};
  const Gates gates = gates_of(config, beside_others);
  EXPECT_TRUE(gates.admit_sequence(11, 15));
  EXPECT_FALSE(gates.admit_sequence(12, 15));
  EXPECT_TRUE(gates.admit_step(9, 15));
  EXPECT_FALSE(gates.admit_step(10, 15));

  AllocateArgs running = beside_others;
  running.status = RequestStatus::running;
  EXPECT_TRUE(gates_of(config, running).admit_step(13, 15)) << "no watermark for what runs";
  config.profile = *find_profile("vllm-0.22");
  EXPECT_TRUE(gates_of(config, beside_others).admit_step(15, 15)) << "a profile without gates";
}

TEST(Admission, AStepOfARunningRequestPassesNoGate) {
  const AllocateArgs step{.new_tokens = 1, .status = RequestStatus::running};
  EXPECT_TRUE(is_ungated_step(step));
  for (const auto change : {+[](AllocateArgs& args) { args.new_tokens = 0; },
                            +[](AllocateArgs& args) { args.reserved = 1; },
                            +[](AllocateArgs& args) { args.external = 1; },
                            +[](AllocateArgs& args) { args.use_lookup = true; },
                            +[](AllocateArgs& args) { args.full_sequence_must_fit = true; },
                            +[](AllocateArgs& args) { args.status = RequestStatus::waiting; }}) {
    AllocateArgs changed = step;
    change(changed);
    EXPECT_FALSE(is_ungated_step(changed));
  }
}

}  // namespace
}  // namespace kvproof::optimized
