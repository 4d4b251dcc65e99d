// SPDX-License-Identifier: Apache-2.0
// Recordings of engines that ran (properties/sources/traces/format.md): equality with the
// profile, and
// their laws, which are two verdicts; and that a recording that breaks a law is rejected.
#include "properties/check/recording_judge.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "optimized/subjects.h"
#include "properties/sources/traces/test_files.h"
#include "reference/recordings/golden.h"
#include "reference/support/line_reader.h"

namespace kvproof::properties {
namespace {

const std::string kEngines =
    std::string(KVPROOF_SOURCE_DIR) + "/properties/sources/traces/engines/";

std::vector<std::string> lines_of(const std::string& name) {
  LineReader reader(kEngines + name + ".jsonl.zst");
  std::vector<std::string> out;
  for (std::string_view line; reader.next(line);) out.emplace_back(line);
  return out;
}

struct Verdicts {
  TraceVerdict equality;
  std::string broken;  // the law and what was found; empty = the laws hold
  std::string summary;
};

Verdicts judge(const std::vector<std::string>& lines) {
  const TemporaryFolder folder;
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  GoldenReader reader(folder.write("trace.jsonl", text));
  std::optional<RecordingJudge> judge;
  const auto make = [&](const TraceHeader& header) {
    judge.emplace(header);
    return optimized::subject_of(optimized::Role::standard).make(header.config);
  };
  const auto watch = [&](const TraceLine& line, const TraceVerdict&) { judge->follow(line); };
  Verdicts out{*reader.next(make, watch), "", ""};
  if (judge->broken()) out.broken = judge->broken()->what();
  out.summary = judge->summary();
  return out;
}

TEST(RecordingJudge, EnginesKeepTheLawsAndTheProfile) {
  const struct {
    const char* name;
    std::optional<std::uint64_t> differs_at;
    const char* why;
  } recordings[] = {
      {"full", {}, "a small pool: hits, refusals, preemptions"},
      {"asynchronous", {}, "steps in flight while the next is granted"},
      {"drafts", {}, "ngram drafts"},
      {"windows", {}, "full attention and windows"},
      {"convolutions", 3942, "0.32 refuses an admission that 0.33 grants"},
  };
  for (const auto& recording : recordings) {
    const Verdicts found = judge(lines_of(recording.name));
    EXPECT_TRUE(found.equality.ended) << recording.name;
    EXPECT_EQ(found.broken, "") << recording.name;
    EXPECT_TRUE(found.summary.starts_with("36 laws hold")) << found.summary;
    std::optional<std::uint64_t> differs_at;
    if (found.equality.difference) differs_at = found.equality.difference->operation;
    EXPECT_EQ(differs_at, recording.differs_at) << recording.name << ": " << recording.why;
  }
}

/// Replaces the first such text behind a line.
std::vector<std::string> changed(std::vector<std::string> lines, std::size_t behind,
                                 const std::string& from, const std::string& to) {
  for (std::size_t i = behind; i < lines.size(); ++i) {
    const std::size_t at = lines[i].find(from);
    if (at == std::string::npos) continue;
    lines[i].replace(at, from.size(), to);
    return lines;
  }
  ADD_FAILURE() << "no line has " << from;
  return lines;
}

TEST(RecordingJudge, NamesTheLawThatARecordingBreaks) {
  const std::vector<std::string> sound = lines_of("full");
  const struct {
    const char* from;
    const char* to;
    const char* named;
  } cases[] = {
      {R"("ref":[[1,)", R"("ref":[[1,9)", "I6"},
      {R"("free":)", R"("free":9)", "I5"},
      {R"("cached":[[1,0],)", R"("cached":[)", "I9"},
      {R"("out":{"hit_tokens":64,)", R"("out":{"hit_tokens":96,)", "I18"},
      {R"("out":{"blocks":[[)", R"("out":{"raised":"ValueError: none","blocks":[[)", "raised"},
  };
  for (const auto& c : cases) {
    const Verdicts found = judge(changed(sound, 300, c.from, c.to));
    EXPECT_NE(found.broken.find(c.named), std::string::npos) << c.to << ": " << found.broken;
    EXPECT_TRUE(found.equality.difference) << c.to;
  }
}

TEST(RecordingJudge, LawsWithoutTheirPartsAreNotEvaluated) {
  std::vector<std::string> lines = lines_of("drafts");
  const auto with_detail = [&](const std::string& detail) {
    return judge(changed(lines, 0, R"("detail":"full")", R"("detail":")" + detail + '"'));
  };
  EXPECT_TRUE(with_detail("own").summary.starts_with("14 laws hold; not evaluated: I1, I2"));
  EXPECT_EQ(with_detail("sampled").summary, "no law is evaluated: its states are sampled");
  lines = changed(lines, 2, R"("tables":{"r0":[[1,)", R"("tables":{"r0":[[1,1,)");
  EXPECT_NE(with_detail("own").broken, "") << "tables alone show a block twice in one of them";
}

}  // namespace
}  // namespace kvproof::properties
