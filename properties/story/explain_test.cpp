// SPDX-License-Identifier: Apache-2.0
// Hits and causes counted by hand, and the history of the index against every recorded answer.
#include <gtest/gtest.h>

#include <filesystem>

#include "properties/sources/traces/test_files.h"
#include "properties/story/lookups.h"
#include "reference/operations.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

const std::string kFolder = KVPROOF_SOURCE_DIR "/properties/";

std::unique_ptr<Subject> naive(const TraceHeader& header) {
  return reference::make_cache_manager(header.config);
}

std::string line_of(const Explained& e) {
  return say(e.operation, ' ', e.request, ' ', e.hit, '/', e.tokens, ' ',
             kCauses[static_cast<std::size_t>(e.cause)].name, e.why.empty() ? "" : ": ", e.why);
}

std::vector<std::string> lines_of(const std::vector<Explained>& lookups) {
  std::vector<std::string> out;
  for (const Explained& e : lookups) out.push_back(line_of(e));
  return out;
}

std::vector<Explained> explained(const std::string& file) {
  std::vector<Explained> out;
  explain_traces(file, naive, [&](const TraceHeader&, const Explanations& told) {
    EXPECT_EQ(told.ends, "");
    out.insert(out.end(), told.lookups.begin(), told.lookups.end());
  });
  return out;
}

TEST(Explain, GivesTheCausesThatAreCountedByHand) {
  // The queue after a has finished is [3, 4, 2, 1]. Blocks 1 and 2 hold its tokens 0 to 7, and g
  // takes 3, 4 and 2.
  const std::vector<std::string> expected = {
      "1 a 0/9 never_computed: block 0 (tokens 0 to 3)",
      "4 b 0/9 pending: block 0 (tokens 0 to 3), by a",
      "7 b 8/9 last_token: no more than 8 tokens may hit",
      "9 c 0/5 key_differs: block 0 (tokens 0 to 3) is there under another salt, that of a",
      "11 d 0/5 key_differs: block 0 (tokens 0 to 3) has tokens that stand under another parent, "
      "in a: token 0 is the first that differs",
      "13 e 0/5 never_computed: block 0 (tokens 0 to 3)",
      "15 f 0/5 caching_off",
      "18 g 0/12 never_computed: block 0 (tokens 0 to 3)",
      "20 b 4/9 evicted: block 1 (tokens 4 to 7) at operation 19 for g, 3 blocks after its last "
      "use",
      "1 a 0/9 never_computed: block 0 (tokens 0 to 3)",
      "6 b 4/9 no_state: full attention has 8 tokens; group 1 (sliding_window) does not: its "
      "block was evicted at operation 4 for a call of evict",
      "1 a 0/5 caching_off",
  };
  const auto lookups = explained(kFolder + "story/explained.jsonl");
  EXPECT_EQ(lines_of(lookups), expected);
  ASSERT_EQ(lookups.size(), expected.size());
  EXPECT_EQ(lookups[8].kept_by_twice, 4U) << "the block left only just before";
  EXPECT_EQ(lookups[10].kept_by_twice, 0U) << "no pool keeps what a call evicts";
}

TEST(Explain, FindsTheHitOfEveryRecordedLookup) {
  std::uint64_t lookups = 0;
  std::uint64_t hits = 0;
  std::vector<std::uint64_t> by_cause(std::size(kCauses));
  for (const auto& file : std::filesystem::directory_iterator(kFolder + "sources/traces/vectors")) {
    for (const Explained& e : explained(file.path().string())) {
      ASSERT_NE(e.cause, Cause::unexplained) << file.path() << ' ' << line_of(e);
      ASSERT_LE(e.hit, e.tokens);
      ++by_cause[static_cast<std::size_t>(e.cause)];
      ++lookups;
      hits += e.hit;
    }
  }
  EXPECT_GT(lookups, 500U);
  EXPECT_GT(hits, 5000U);
  for (const Cause cause : {Cause::caching_off, Cause::last_token, Cause::no_state, Cause::pending,
                            Cause::evicted, Cause::key_differs, Cause::never_computed}) {
    EXPECT_GT(by_cause[static_cast<std::size_t>(cause)], 0U)
        << kCauses[static_cast<std::size_t>(cause)].words;
  }
}

TEST(Explain, ExplainsNoHitThatTheIndexContradicts) {
  IndexHistory history(1, 0);
  const ContentId block = history.learn(7, kNoContent, {}, 0);
  history.enter(block, 0, {});
  const Explainer explainer({.hash_block_size = 4, .groups = {{LayerKind::full, 4, false}}},
                            history, {}, 0);
  const Explained told = explainer.explain(
      {.request = "a", .now = {}, .tokens = 5, .limit = 4, .contents = {&block, 1}});
  EXPECT_EQ(line_of(told), "0 a 0/5 unexplained: the index held 4 tokens of it");
}

TEST(Explain, ExplainsTheAdmissionsOfARun) {
  const std::vector<std::string> expected = {
      "4 a 0/8 last_token: no more than 0 tokens may hit",
      "24 b 8/10 last_token: no more than 8 tokens may hit",
      "47 c 8/9 last_token: no more than 8 tokens may hit",
      "53 c 0/10 evicted: block 0 (tokens 0 to 3) at line 38",
      "61 d 8/9 last_token: no more than 8 tokens may hit",
      "80 e 8/9 last_token: no more than 8 tokens may hit",
  };
  const std::string sound = kFolder + "shadow/runs/sound.jsonl";
  EXPECT_TRUE(is_run(sound));
  EXPECT_FALSE(is_run(kFolder + "story/explained.jsonl"));
  EXPECT_EQ(lines_of(explain_run(sound).lookups), expected);
}

TEST(Explain, TellsKeysOfARunApartAndWhoComputes) {
  TemporaryFolder folder;
  const std::string file = folder.write(
      "run.jsonl",
      R"({"kvproof_run":1,"engine":"by hand",)"
      R"("tiers":[{"name":"device","blocks":9}],"groups":[{"block_size":2}],"null_block":true,)"
      R"("depth":1,"patience":4,"seed":1}
{"op":"request","req":"a","tokens":[1,2,3]}
{"op":"dispatch","step":0,"rows":[{"req":"a","start":0,"n":3,"tables":[[1,2]]}]}
{"op":"request","req":"b","tokens":[1,2,4]}
{"op":"dispatch","step":1,"rows":[{"req":"b","start":0,"n":3,"tables":[[3,4]]}]}
{"op":"publish","tier":0,"block":1,"group":0,"req":"a","to":2}
{"op":"finish","req":"a"}
{"op":"request","req":"c","tokens":[1,2,4],"keys":"adapter"}
{"op":"dispatch","step":2,"rows":[{"req":"c","start":0,"n":3,"tables":[[5,6]]}]}
{"op":"reset","tiers":[0]}
{"op":"request","req":"d","tokens":[1,2,5]}
{"op":"dispatch","step":3,"rows":[{"req":"d","start":0,"n":3,"tables":[[7,8]]}]}
{"op":"lost","what":"the queue was full"}
{"op":"request","req":"e","tokens":[1,2,5]}
)");
  const Explanations told = explain_run(file);
  const std::vector<std::string> expected = {
      "3 a 0/3 never_computed: block 0 (tokens 0 to 1)",
      "5 b 0/3 pending: block 0 (tokens 0 to 1), by a",
      "9 c 0/3 key_differs: block 0 (tokens 0 to 1) is there under another extra key, that of a",
      "12 d 0/3 pending: block 0 (tokens 0 to 1), by b",
  };
  EXPECT_EQ(lines_of(told.lookups), expected);
  EXPECT_EQ(told.ends, "from there on events are missing: the queue was full");
}

}  // namespace
}  // namespace kvproof::properties
