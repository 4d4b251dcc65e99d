// SPDX-License-Identifier: Apache-2.0
// The list of implementations: every row is found, and can be made in both sizes.
#include "optimized/subjects.h"

#include <gtest/gtest.h>

#include "properties/allocators/manager/configs.h"
#include "reference/operations.h"

namespace kvproof::optimized {
namespace {

TEST(Subjects, EveryRowIsFoundAndMade) {
  const CacheConfig config = properties::small_config();
  for (const SubjectRow& row : kAllSubjects) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(find_subject(row.name), &row);
    for (const auto& subject : {row.make(config), row.make_small(config, 1)}) {
      const Outcome outcome = subject->apply(op::Arrive{"a", {1, 2, 3}});
      EXPECT_FALSE(is_undone(outcome.result));
    }
    int visits = 0;
    EXPECT_EQ(visit_manager(row, [&](auto) { ++visits; }), !row.digest.empty());
    EXPECT_EQ(visits, row.digest.empty() ? 0 : 1);
    EXPECT_EQ(find_manager(row.hash), row.hash.empty() ? nullptr : &row);
  }
  EXPECT_EQ(find_subject("nobody"), nullptr);
  EXPECT_EQ(find_manager("nothing"), nullptr);
  EXPECT_EQ(subject_of(Role::model).name, "naive");
}

}  // namespace
}  // namespace kvproof::optimized
