// SPDX-License-Identifier: Apache-2.0
// Which trace of a file a lens shows, where it opens, and what stands beside its answers.
#include "bench/verbs/trace_lens.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "properties/sources/traces/test_files.h"
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
  const std::string vector =
      KVPROOF_SOURCE_DIR "/properties/sources/traces/vectors/gates-vllm-0.24.jsonl";
  const auto equal = lines_of(lens_of_file(vector, {})->payload());
  EXPECT_TRUE(equal[0]["difference"].is_null());
  EXPECT_EQ(equal[0]["open"], -1);
  EXPECT_EQ(equal.back()["rec"], 1);

  // The second of two traces says that another block was granted in its operation 1.
  std::ifstream in(vector);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::string wrong = text;
  const std::string answer = "\"out\":null";
  wrong.replace(wrong.find(answer), answer.size(), R"("out":{"blocks":[[7]]})");
  const properties::TemporaryFolder folder;
  const std::string both = folder.write("both.jsonl", text + wrong);
  const auto differs = lines_of(lens_of_file(both, {})->payload());
  EXPECT_EQ(differs[0]["difference"]["step"], 1);
  EXPECT_EQ(differs[0]["open"], 1);
  EXPECT_EQ(differs[0]["steps"], 2) << "what follows from a difference is not shown";
  EXPECT_EQ(differs.back()["rec"], json::parse(R"({"out":{"blocks":[[7]]}})"));
  EXPECT_TRUE(differs.back()["out"].is_null());

  EXPECT_EQ(lens_of_file(both, {{}, 0})->steps(), equal[0]["steps"]);
  EXPECT_THROW((void)lens_of_file(both, {{}, 2}), InputError);
}

TEST(TraceLens, OfADifferenceShowsOnlyWhatDiffers) {
  const char* const file =
      KVPROOF_SOURCE_DIR "/properties/sources/traces/engines/convolutions.jsonl.zst";
  const json difference = lens_of_file(file, {})->head["difference"];
  EXPECT_EQ(difference["recorded"],
            "  free blocks    21\n"
            "  free queue     [48, 49, 79, 67, 68, 69, 70, 59, 52, 35, 76, 77, 47, 74, 89, 32, 92, "
            "56, 57, 10, 83]\n"
            "  references      ... [23,2] ... [39,2] ... [86,2] ... [90,1] ... \n"
            "  cached          ... [48,1] ... \n"
            "  table r32  [[], []]\n");
}

TEST(TraceLens, EachSceneHasItsCaptionsAndOneWithASeededBugItsVerdict) {
  const auto all = scenes();
  EXPECT_FALSE(all.empty());
  for (const Scene& scene : all) {
    EXPECT_FALSE(scene.about.empty()) << scene.name;
    const std::string payload = lens_of_scene(scene)->payload();
    EXPECT_NE(payload.find("\"say\":\""), std::string::npos) << scene.name;
    const json head = json::parse(payload.substr(0, payload.find('\n')));
    EXPECT_EQ(head["scene"], scene.name);
    const bool has_bug = std::string(head["subject"]).front() == 'B';
    EXPECT_EQ(head["verdicts"].empty(), !has_bug) << head["verdicts"];
    const std::string last = payload.substr(payload.rfind('\n', payload.size() - 2));
    EXPECT_TRUE(!has_bug || last.find("\"say\":\"") != std::string::npos) << last;
    const bool contiguous = payload.find("\"c\":{\"capacity\"") != std::string::npos;
    EXPECT_EQ(contiguous, scene.name == "contiguous");
  }
}

}  // namespace
}  // namespace kvproof::bench
