// SPDX-License-Identifier: Apache-2.0
// Leases: numbers, the blocks under them, and numbers that are given again.
#include "optimized/manager/leases.h"

#include <gtest/gtest.h>

namespace kvproof::optimized {
namespace {

using Blocks = std::vector<BlockId>;

Blocks listed(const Leases& leases, LeaseId lease) {
  const auto blocks = leases.blocks(lease);
  return {blocks.begin(), blocks.end()};
}

TEST(Leases, ListWhatWasKeptUntilItIsDropped) {
  Leases leases;
  const LeaseId one = leases.keep(Blocks{3, 5});
  const LeaseId two = leases.keep(Blocks{5});
  EXPECT_EQ(listed(leases, one), (Blocks{3, 5}));
  leases.drop(one);
  EXPECT_THROW(static_cast<void>(leases.blocks(one)), ContractViolation);
  EXPECT_EQ(listed(leases, two), (Blocks{5}));

  const LeaseId again = leases.keep(Blocks{7});
  EXPECT_EQ(again, one) << "a number that is free is given before a new one";
  EXPECT_EQ(listed(leases, again), (Blocks{7}));
}

TEST(Leases, KnowTheNumbersThatTheyGave) {
  const Leases leases;
  EXPECT_THROW(static_cast<void>(leases.blocks(0)), ContractViolation);
}

}  // namespace
}  // namespace kvproof::optimized
