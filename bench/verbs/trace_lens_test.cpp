// SPDX-License-Identifier: Apache-2.0
// Which trace of a file a lens shows, where it opens, and what stands beside its answers.
#include "bench/verbs/trace_lens.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& payload) {
  std::vector<json> out;
  std::istringstream in(payload);
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

TEST(TraceLens, OfARecordingOpensWhereItDiffers) {
  const std::string engines = KVPROOF_SOURCE_DIR "/properties/traces/engines/";
  const auto differs = lines_of(lens_of_file(engines + "convolutions.jsonl.zst", {})->payload());
  const json& difference = differs[0]["difference"];
  EXPECT_EQ(difference["step"], differs[0]["open"]);
  EXPECT_EQ(difference["step"].get<std::size_t>() + 1, differs[0]["steps"]);
  EXPECT_TRUE(differs.back()["rec"].contains("out")) << differs.back();
  const auto equal = lines_of(lens_of_file(engines + "drafts.jsonl.zst", {})->payload());
  EXPECT_TRUE(equal[0]["difference"].is_null());
  EXPECT_EQ(equal[0]["open"], -1);
  EXPECT_EQ(equal.back()["rec"], 1);
  EXPECT_THROW((void)lens_of_file(engines + "drafts.jsonl.zst", {{}, 1}), InputError);
}

}  // namespace
}  // namespace kvproof::bench
