// SPDX-License-Identifier: Apache-2.0
// The liars are heard: what does not lie holds, and what lies is named.
#include <gtest/gtest.h>

#include <iostream>

#include "properties/check/check.h"
#include "properties/selftest/lies/liar_matrix.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

CheckReport check_liar(const Lie& lie, std::string_view operation, const View& view,
                       std::uint64_t operations) {
  std::uint64_t told = 0;
  const Candidate candidate = liar(lie, operation_index(operation), view, kFrequencies[2], 1, told);
  CheckOptions options;
  options.operations = operations;
  options.profiles = {find_profile("vllm-0.24")};
  return check(candidate, options);
}

// Without this, the matrix could be full because everything is noticed, lie or not.
TEST(Liars, WhoTellsTheTruthHoldsOnEveryLevel) {
  const Lie truth{.name = "the truth", .sentence = ""};
  for (const View& view : kViews) {
    const CheckReport report = check_liar(truth, "allocate", view, 4000);
    EXPECT_EQ(report.failure(), nullptr) << view.name << ": " << report.failure()->where << ": "
                                         << report.failure()->failure.text << [&] {
                                              std::string t;
                                              for (const auto& o : report.failure()->failure.trace)
                                                t += "\n" + to_json(o);
                                              return t;
                                            }();
    EXPECT_TRUE(report.not_exercised().empty());
  }
}

}  // namespace
}  // namespace kvproof::properties
