// SPDX-License-Identifier: Apache-2.0
// The studies that serve requests: their order of magnitude by pencil and paper, and that nothing
// in them depends on anything but the seed.
#include "bench/studies/published.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "bench/requests/workloads.h"
#include "bench/storage/storage.h"

namespace kvproof::bench {
namespace {

StudyOptions options(bool smoke) {
  StudyOptions out;
  out.smoke = smoke;
  out.seed = kWorkloadSeed;
  return out;
}

TEST(Published, EveryClaimHasRowsWithinTheirBands) {
  std::set<std::string> claims;
  for (const Result& result : published(options(true))) {
    const Metric& here = *result.metric("here");
    EXPECT_LE(*here.min, here.value);
    EXPECT_GE(*here.max, here.value);
    EXPECT_NE(result.metric("published"), nullptr);
    claims.insert(std::get<std::string>(*result.parameter("claim")));
  }
  EXPECT_EQ(claims.size(), std::size(kPublishedClaims));
}

TEST(Published, StaticBuffersFitAsOftenAsTheyDivideTheMemory) {
  // 60e9 / (147,456 x 32,768) = 12.4 and 45e9 / (327,680 x 32,768) = 4.2.
  EXPECT_NEAR(concurrency_8b(options(true)).front().here.high, 12, 0.5);
  EXPECT_NEAR(concurrency_70b(options(true)).front().here.high, 4, 0.5);
}

TEST(Published, AHigherWatermarkPreemptsLess) {
  const PublishedRows rows = watermark_preemptions(options(false));
  ASSERT_EQ(rows.size(), 5U);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    EXPECT_LT(rows[i].here.low, rows[i - 1].here.low) << rows[i].at;
  }
  EXPECT_GT(rows.front().here.low, 500) << "the pool is to be near-critical";
}

TEST(Published, APartialTailIsHalfABlock) {
  for (const PublishedRow& row : block_size_tail(options(true))) {
    EXPECT_NEAR(row.here.value / row.published->value, 1, 0.1) << row.at;
  }
}

TEST(Serving, EveryStorageServesTheSameAndHoldsWhatItMay) {
  std::map<std::string, std::map<std::string, double>> outputs;
  for (const Result& result : serving(options(true))) {
    const auto storage = std::get<std::string>(*result.parameter("storage"));
    const auto source = std::get<std::string>(*result.parameter("source"));
    EXPECT_NE(find_storage(storage), nullptr) << storage;
    if (result.experiment == "serving_run") {
      outputs[source][storage] = result.metric("output_tokens")->value;
      EXPECT_EQ(result.metric("refused")->value, 0) << storage;
    } else {
      EXPECT_EQ(result.experiment, "serving_over_time");
      const double held = result.metric("tokens_in_memory")->value +
                          result.metric("partial_tail")->value + result.metric("reserved")->value;
      const auto blocks = std::get<std::int64_t>(*result.parameter("capacity_blocks"));
      EXPECT_EQ(held + result.metric("free")->value, static_cast<double>(blocks) * 16);
    }
  }
  EXPECT_EQ(outputs.size(), 2U);
  for (const auto& [source, by_storage] : outputs) {
    EXPECT_EQ(by_storage.size(), std::size(kStorages));
    for (const auto& [storage, tokens] : by_storage) {
      EXPECT_EQ(tokens, by_storage.at("paged")) << source << " on " << storage;
    }
  }
}

}  // namespace
}  // namespace kvproof::bench
