// SPDX-License-Identifier: Apache-2.0
// Every law of a run has a scene: the sound run of runs/sound.jsonl with a line or two changed,
// which that law, and no other, reports first.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "properties/shadow/kvproof_live.h"
#include "properties/shadow/verdict.h"
#include "reference/trace_json.h"

namespace kvproof::live {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

const std::string kSound = KVPROOF_SOURCE_DIR "/properties/shadow/runs/sound.jsonl";

Lines sound_lines() {
  std::ifstream file(kSound);
  Lines out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

/// In the one line that has all of `where`, `from` becomes `to`. An empty `from` puts the line `to`
/// before it; an empty `to` takes the line out.
struct Change {
  std::string where;
  std::string from;
  std::string to;
};

Lines changed(Lines lines, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const auto has = [&](const std::string& line) { return line.find(change.where) != line.npos; };
    EXPECT_EQ(std::ranges::count_if(lines, has), 1) << change.where;
    const auto at = std::ranges::find_if(lines, has);
    if (at == lines.end()) continue;
    if (change.from.empty()) {
      lines.insert(at, change.to);
    } else if (change.to.empty()) {
      lines.erase(at);
    } else {
      const std::size_t found = at->find(change.from);
      EXPECT_NE(found, at->npos) << change.from;
      if (found != at->npos) at->replace(found, change.from.size(), change.to);
    }
  }
  return lines;
}

Judge judged(const Lines& lines) {
  Judge judge(parse_run_header(lines.at(0)));
  for (std::size_t i = 1; i < lines.size(); ++i) judge.take_line(lines[i]);
  return judge;
}

struct Scene {
  LawId law;
  const char* name;
  std::string about;  // the request that is named, empty = whichever
  std::vector<Change> changes;
};

const std::vector<Change> kEmptySteps = [] {
  std::vector<Change> out;
  for (int step = 11; step < 17; ++step) {
    const std::string number = std::to_string(step);
    out.push_back(
        {R"("finish","req":"e")", "", R"({"op":"dispatch","step":)" + number + R"(,"rows":[]})"});
    out.push_back({R"("finish","req":"e")", "", R"({"op":"retire","step":)" + number + "}"});
  }
  return out;
}();

const std::string kLoad = R"({"op":"start","transfer":"y","kind":"load","group":0,"pairs":)";
const std::string kInto1 = kLoad + "[[1,1,0,1]]}";
const std::string kInto4 = kLoad + "[[1,1,0,4]]}";
const std::string kMoved = R"({"op":"move","transfer":"y","pairs":[0]})";

// clang-format off
const Scene kScenes[] = {
    {kContent, "a fault in the worker's table alone", "b",
     {{R"("step":3,"rows")", R"("b","start":10,"n":1)",
       R"("b","start":10,"n":1,"tables":[[1,19,6],[3,7]])"}}},
    {kContent, "another block in the worker's own table", "b",
     {{R"("run","step":3)", "3", R"(3,"tables":{"b":[[1,19,6],[3,7]]})"}}},
    {kContent, "a slot mapping that sends a write elsewhere", "b",
     {{R"("run","step":3)", "3", R"(3,"slots":{"b":[[0,10,19,2]]})"}}},
    {kContent, "a placeholder that is counted as a token", "a",
     {{R"("step":1,"rows")", R"("n":1)", R"("n":2)"}}},
    {kOverwritten, "a load into a block that a running request has behind it", "e",
     {{R"("op":"run","step":9)", "", kInto1}, {R"("op":"run","step":9)", "", kMoved},
      {R"("send","blocks":[[0,1]])", R"([0,1])", R"([0,2])"}}},
    {kOverwritten, "a slot mapping that sends a write over another's token", "a",
     {{R"("run","step":2)", "2", R"(2,"slots":{"b":[[0,8,4,0]]})"}}},
    {kOverwritten, "a slot mapping that sends a write over the request's own token", "b",
     {{R"("run","step":3)", "3", R"(3,"slots":{"b":[[0,10,6,1]]})"}}},
    {kSource, "a step writes what a store has yet to read", "a",
     {{R"("transfer":"s0","kind")", "[0,2,1,2]", "[0,4,1,2]"}}},
    {kTarget, "a row goes on over a block that failed to load", "d",
     {{R"("step":7,"rows")", R"("start":0,"n":9)", R"("start":8,"n":1)"}}},
    {kTarget, "a step runs before the load that it waits for", "d",
     {{R"("move","transfer":"l2")", "[0,1]", "[0]"}}},
    {kGivenBack, "blocks of an aborted request are loaded into before its step has run", "a",
     {{R"("run","step":3)", "", kInto4}, {R"("run","step":3)", "", kMoved}}},
    {kOnce, "a transfer settles twice", "",
     {{R"("settle","transfer":"s1")", "", R"({"op":"settle","transfer":"s0","outcome":"done"})"}}},
    {kOnce, "a transfer starts twice", "",
     {{R"("transfer":"s1","kind")", R"("s1")", R"("s0")"},
      {R"("settle","transfer":"s1")", "{", ""}}},
    {kOrder, "a store reads before the step that fills its block", "a",
     {{R"("transfer":"s0","kind")", R"("after":0)", R"("after":1)"}}},
    {kHit, "a hit on another prompt's blocks", "b",
     {{R"("req":"b","tokens":[1)", "7,8,20", "7,9,20"}}},
    {kHit, "a hit of one token more than lies in the cache", "b",
     {{R"("hit","req":"b")", "8}", "9}"}}},
    {kHit, "a hit of more tokens than the request has", "b",
     {{R"("hit","req":"b")", "8}", "11}"}}},
    {kHit, "a hit that a load brings, of more tokens than the request has", "d",
     {{R"("hit","req":"d")", "8", "10"}}},
    {kPublished, "a key for a block that was never written", "a",
     {{R"("publish","tier":1,"block":2)", R"("block":2)", R"("block":6)"}}},
    {kPublished, "a key outlives its block", "a", {{R"("unpublish","tier":0,"block":1)", "{", ""}}},
    {kMirror, "a key is announced twice", "a",
     {{R"("publish","tier":1,"block":2)", "",
       R"({"op":"publish","tier":1,"block":1,"group":0,"req":"a","to":4})"}}},
    {kMirror, "a key is withdrawn that was not announced", "a",
     {{R"("unpublish","tier":0,"block":3)", R"("to":8)", R"("to":4)"}}},
    {kTable, "a table that is too short", "a",
     {{R"("step":1,"rows")", R"("more":[[4],[5]])", R"("more":[[],[5]])"}}},
    {kTable, "the null block among what is written", "a",
     {{R"("step":1,"rows")", R"([[4],[5]])", R"([[0],[5]])"}}},
    {kTable, "a row writes another's block", "",
     {{R"("req":"b","start":8)", "[1,2,6]", "[1,2,4]"}}},
    {kTable, "the worker's own table is too short", "b",
     {{R"("run","step":3)", "3", R"(3,"tables":{"b":[[1,2],[3,7]]})"}}},
    {kTable, "the worker's own table names what it writes of another", "b",
     {{R"("run","step":2)", "2", R"(2,"tables":{"b":[[1,2,4],[3,7]]})"}}},
    {kTable, "a slot mapping into the null block", "b",
     {{R"("run","step":3)", "3", R"(3,"slots":{"b":[[0,10,0,2]]})"}}},
    {kTable, "a row of a request that was aborted", "a",
     {{R"("step":4,"rows")", R"("rows":[)", R"("rows":[{"req":"a","start":10,"n":1},)"}}},
    {kDiscarded, "an answer over a failed load is kept", "d",
     {{R"("discarded":["d"])", R"(["d"])", "[]"}}},
    {kState, "a state one block old", "e",
     {{R"("step":10,"rows")", R"("n":1)", R"("n":1,"tables":[[1,2,4],[5,3]])"}}},
    {kState, "a state that the slot mapping puts elsewhere", "e",
     {{R"("run","step":9)", "9", R"(9,"slots":{"e":[[1,9,20,0]]})"}}},
    {kAnswer, "a token that was not sampled", "a", {{R"("append":[9])", "[9]", "[99]"}}},
    {kAnswer, "a token is taken twice", "a", {{R"("append":[9])", "[9]", "[9,9]"}}},
    {kHeld, "a block is freed while a load into it is in flight", "",
     {{R"("hit","req":"d")", "", R"({"op":"freed","tier":0,"blocks":[18]})"}}},
    {kRaised, "an assertion of the engine", "",
     {{R"("op":"quiet")", "", R"({"op":"raised","what":"AssertionError"})"}}},
    {kExists, "a table names a block outside of the pool", "b",
     {{R"("req":"b","start":8)", "[1,2,6]", "[1,2,24]"}}},
    {kExists, "a row of a request that never arrived", "nobody",
     {{R"("step":4,"rows")", R"("rows":[)", R"("rows":[{"req":"nobody","start":0,"n":1},)"}}},
    {kExists, "a request that ends twice", "b",
     {{R"("unpublish","tier":0,"block":1)", "", R"({"op":"abort","req":"b"})"}}},
    {kExists, "a step that runs before the one in front of it", "",
     {{R"("run","step":8)", "{", ""}}},
    {kEnds, "a request never ends", "e", {{R"("finish","req":"e")", "{", ""}}},
    {kProgress, "empty steps while a request waits", "e", kEmptySteps},
    {kDrain, "a block is lost", "", {{R"("op":"end")", "[23,7]", "[22,7]"}}},
    {kSettled, "a send never settles", "", {{R"("settle","transfer":"x0")", "{", ""}}},
};
// clang-format on

TEST(LiveTest, the_sound_run_holds_and_every_law_speaks) {
  const Judge judge = judge_file(kSound);
  for (const Found& found : judge.findings()) ADD_FAILURE() << in_words(found, judge);
  EXPECT_TRUE(judge.ended());
  for (std::size_t i = 0; i < kNumLaws; ++i) {
    EXPECT_GT(judge.spoke(static_cast<LawId>(i)), 0) << kRunLaws[i].id;
  }
}

TEST(LiveTest, every_law_reports_its_scenes_first) {
  std::set<LawId> broken;
  for (const Scene& scene : kScenes) {
    SCOPED_TRACE(scene.name);
    broken.insert(scene.law);
    const Judge judge = judged(changed(sound_lines(), scene.changes));
    ASSERT_FALSE(judge.findings().empty());
    const Found& first = judge.findings().front();
    EXPECT_EQ(kRunLaws[first.law].id, kRunLaws[scene.law].id) << in_words(first, judge);
    const bool named = scene.about.empty() || first.req == scene.about;
    EXPECT_TRUE(named) << in_words(first, judge);
  }
  EXPECT_EQ(broken.size(), kNumLaws) << "a law has no scene";
}

TEST(LiveTest, a_finding_says_who_wrote_the_slot_and_what_became_of_the_block) {
  const Judge judge =
      judged(changed(sound_lines(), {{R"("req":"b","tokens":[1)", "7,8,20", "7,9,20"}}));
  const json verdict = verdict_json(judge);
  const json& first = verdict.at("findings").at(0);
  EXPECT_EQ(first.at("law"), "S8");
  EXPECT_EQ(first.at("position"), 7);
  EXPECT_EQ(first.at("wrote"), "written by a at line 10 (step 0)");
  EXPECT_EQ(first.at("block"), json({0, 2}));
  EXPECT_FALSE(first.at("before").empty());
  EXPECT_FALSE(verdict.at("holds"));
}

TEST(LiveTest, a_run_is_judged_up_to_where_it_was_cut_off) {
  Lines lines = sound_lines();
  for (; lines.size() > 1; lines.pop_back()) {
    const Judge judge = judged(lines);
    EXPECT_TRUE(judge.findings().empty()) << lines.size();
    const std::string line = reason_of(judge);
    const bool ended = lines.back().find(R"("end")") != std::string::npos;
    EXPECT_EQ(line.find("cut off") == std::string::npos, ended);
    EXPECT_EQ(verdict_of(judge), judge.ran() ? "holds" : "cannot_tell");
    EXPECT_EQ(verdict_json(judge).at("holds"), judge.ran());
    EXPECT_EQ(judge.ran(), lines.size() > 9) << "line 9 is the first that runs a step";
  }
}

/// Runs requests of 3 million tokens through a cache of two blocks, one after the other.
Judge after_many(std::uint32_t requests) {
  constexpr std::uint32_t kLength = 1U << 16U;
  Judge judge({"", "", {{"device", 2}}, {{kLength}}});
  const auto take = [&judge](const Event& event) { judge.take(event); };
  for (std::uint32_t r = 0; r < requests; ++r) {
    judge.names().add("r" + std::to_string(r));
    take(event::Request{r, std::vector<TokenId>(kLength, static_cast<TokenId>(r)), ""});
    take(event::Dispatch{r, {{r, 0, kLength, 0, event::Row::Tables::replaced, {{r % 2}}}}, {}, {}});
    take(event::Retire{r, {}, {}});
    take(event::Publish{true, {0, r % 2}, 0, r, kLength});
    take(event::Leave{event::Way::finish, r});
    EXPECT_LE(judge.room_of_gone(), std::size_t{1U << 20U});
    if (r > 0) take(event::Publish{false, {0, (r - 1) % 2}, 0, r - 1, kLength});
  }
  return judge;
}

TEST(LiveTest, what_is_kept_of_requests_that_ended_is_bounded) {
  Judge judge = after_many(48);
  EXPECT_TRUE(judge.findings().empty());
  EXPECT_EQ(judge.requests(), 48U);
  // The tokens of the first are forgotten, so that its key is not judged; that of the last is.
  judge.take(Event(event::Publish{true, {0, 0}, 0, 0, 4}));
  EXPECT_TRUE(judge.findings().empty());
  judge.take(Event(event::Publish{true, {0, 0}, 0, 47, 4}));
  ASSERT_EQ(judge.findings().size(), 1U);
  EXPECT_EQ(judge.findings()[0].law, kPublished);
  EXPECT_EQ(judge.findings()[0].wrote, "written by r46 at line 279 (step 46)");
}

// The row goes on from token 8: a state that lies before is in none of the blocks that it uses.
TEST(LiveTest, a_hit_may_end_before_the_state_that_a_row_goes_on_from) {
  for (int tokens = 0; tokens <= 8; ++tokens) {
    const std::string hit = R"({"op":"hit","req":"b","tokens":)" + std::to_string(tokens) + "}";
    Lines lines = sound_lines();
    const auto at = std::ranges::find(lines, R"({"op":"hit","req":"b","tokens":8})");
    ASSERT_NE(at, lines.end());
    *at = hit;
    EXPECT_TRUE(judged(lines).findings().empty()) << hit;
  }
}

const std::string kSmall =
    R"({"kvproof_run":1,"tiers":[{"name":"d","blocks":9}],"groups":[{"block_size":2}],)"
    R"("patience":9,"depth":2})";

/// The same tokens under another adapter, and equal tokens behind another prefix.
TEST(LiveTest, equal_tokens_of_another_prefix_are_other_content) {
  const auto run = [](const std::string& second) {
    return judged(
        {kSmall,
         R"({"op":"request","req":"first","tokens":[9]})",  // did not write the copy
         R"({"op":"request","req":"a","tokens":[1,2,3,4,5]})",
         R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":0,"n":5,"tables":[[1,2,3]]}]})",
         R"({"op":"run","step":0})", second,
         R"({"op":"dispatch","step":1,"rows":[{"req":"b","start":4,"n":1,"tables":[[5,2,4]]}],)"
         R"("copies":[[0,1,5]]})",
         R"({"op":"run","step":1})"});
  };
  EXPECT_TRUE(run(R"({"op":"request","req":"b","tokens":[1,2,3,4,6]})").findings().empty());
  for (const char* second : {R"({"op":"request","req":"b","tokens":[1,2,3,4,6],"keys":"lora"})",
                             R"({"op":"request","req":"b","tokens":[7,2,3,4,6]})"}) {
    const Judge judge = run(second);
    ASSERT_FALSE(judge.findings().empty());
    EXPECT_EQ(judge.findings().front().law, kContent);
    EXPECT_EQ(judge.findings().front().wrote, "written by a at line 8 (step 1)");
  }
}

/// A request that shares what another loads goes before the load moves: it wanted the same content.
TEST(LiveTest, a_load_of_what_a_step_waits_for_is_no_fault_of_it) {
  const auto run = [](const std::string& carried) {
    return judged(
        {kSmall, R"({"op":"request","req":"a","tokens":[1,2,3]})",
         R"({"op":"request","req":"b","tokens":[1,2,4]})",
         R"({"op":"request","req":"c","tokens":[5,6,7]})",
         R"({"op":"start","transfer":"t","kind":"receive","req":"a","group":0,)"
         R"("blocks":[[0,1]],"carries":[")" +
             carried + R"(",0]})",
         R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":2,"n":1,"tables":[[1,2]]},)"
         R"({"req":"b","start":2,"n":1,"tables":[[1,3]]}]})",
         R"({"op":"abort","req":"b"})", R"({"op":"move","transfer":"t","pairs":[0]})"});
  };
  EXPECT_TRUE(run("a").findings().empty());
  const Judge other = run("c");
  ASSERT_FALSE(other.findings().empty());
  EXPECT_EQ(other.findings().front().law, kGivenBack);
}

/// A failed load spoils what a step wrote; the step is run anew; another load fails beside it.
TEST(LiveTest, a_failed_load_spoils_no_step_that_came_after_the_mend) {
  EXPECT_TRUE(
      judged({kSmall, R"({"op":"request","req":"a","tokens":[1,2,3]})",
              R"({"op":"request","req":"b","tokens":[5,6,7]})",
              R"({"op":"start","transfer":"t","kind":"receive","req":"a","group":0,)"
              R"("blocks":[[0,1]],"carries":["a",0]})",
              R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":2,"n":1,"tables":[[1,2]]}]})",
              R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":3,"n":1}]})",
              R"({"op":"move","transfer":"t","pairs":[0]})", R"({"op":"run","step":0})",
              R"({"op":"settle","transfer":"t","outcome":"failed"})",
              R"({"op":"retire","step":0,"sampled":{"a":[9]},"discarded":["a"]})",
              R"({"op":"run","step":1,"inputs":{"a":[9]}})",
              R"({"op":"retire","step":1,"sampled":{"a":[9]},"discarded":["a"]})",
              R"({"op":"start","transfer":"u","kind":"receive","req":"b","group":0,)"
              R"("blocks":[[0,3]],"carries":["b",0]})",
              R"({"op":"dispatch","step":2,"rows":[{"req":"a","start":0,"n":3}]})",
              R"({"op":"run","step":2})", R"({"op":"settle","transfer":"u","outcome":"failed"})",
              R"({"op":"retire","step":2,"sampled":{"a":[8]}})"})
          .findings()
          .empty());
}

TEST(LiveTest, a_workers_own_table_holds_for_one_step) {
  const auto run = [](const std::string& first, const std::string& second) {
    return judged(
        {kSmall, R"({"op":"request","req":"a","tokens":[1,2,3,4,5,6]})",
         R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":0,"n":4,"tables":[[1,2,3]]}]})",
         R"({"op":"run","step":0})",
         R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":4,"n":1}]})",
         R"({"op":"run","step":1)" + first + "}",
         R"({"op":"dispatch","step":2,"rows":[{"req":"a","start":5,"n":1}]})",
         R"({"op":"run","step":2)" + second + "}"});
  };
  const std::string own = R"(,"tables":{"a":[[1,2,4]]})";
  EXPECT_TRUE(run("", "").findings().empty());
  EXPECT_TRUE(run(own, own).findings().empty());
  for (const auto& [first, second] : {std::pair(own, std::string()), {"", own}}) {
    const Judge judge = run(first, second);
    ASSERT_EQ(judge.findings().size(), 1U);
    const Found& found = judge.findings()[0];
    EXPECT_EQ(found.law, kContent);
    EXPECT_EQ(found.step, 2U);
    EXPECT_EQ(found.position, 4U);
    EXPECT_EQ(found.what.find("worker's own table") == found.what.npos, second.empty());
  }
  const Judge of_no_row = run(R"(,"slots":{"a":[[0,5,4,0]]})", "");
  ASSERT_FALSE(of_no_row.findings().empty());
  EXPECT_EQ(of_no_row.findings()[0].law, kExists);
}

TEST(LiveTest, nothing_is_judged_behind_a_loss) {
  Lines lines = changed(sound_lines(), {{R"("append":[9])", "[9]", "[99]"},
                                        {R"("op":"end")", "", R"({"op":"lost","what":"more"})"}});
  const auto at = std::ranges::find(lines, R"({"op":"run","step":0})");
  ASSERT_NE(at, lines.end());
  lines.insert(at, {R"({"op":"lost","events":7,"what":"the queue was full"})",
                    R"({"op":"finish","req":"nobody"})", R"({"op":"lost","events":2})"});
  const Judge judge = judged(lines);
  EXPECT_EQ(verdict_of(judge), "cannot_tell");
  EXPECT_EQ(reason_of(judge), "cannot tell from line 10 on: the queue was full");
  EXPECT_EQ(judge.events(), lines.size());
  EXPECT_FALSE(verdict_json(judge).at("holds"));
  EXPECT_EQ(verdict_json(judge).at("dropped"), 9);
  lines.insert(lines.begin() + 1, R"({"op":"raised","what":"AssertionError"})");
  EXPECT_EQ(verdict_of(judged(lines)), "broken");
  EXPECT_EQ(reason_of(judged(lines)),
            "S16 (raised) first, cannot tell from line 11 on: the queue was full");
  lines.back() = "{";
  EXPECT_THROW(judged(lines), TextError);
}

const std::string kStates =
    R"({"kvproof_run":1,"tiers":[{"name":"d","blocks":12}],"null_block":true,"patience":9,)"
    R"("groups":)";

/// vLLM's mode "align": a copy brings the state into the block in which the row goes on.
TEST(LiveTest, a_state_in_place_is_what_the_copies_brought) {
  const Lines sound = {
      kStates + R"([{"block_size":4,"state":true,"in_place":true}]})",
      R"({"op":"request","req":"a","tokens":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]})",
      R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":0,"n":8,"tables":[[0,1]]}]})",
      R"({"op":"publish","tier":0,"block":1,"group":0,"req":"a","to":8})",
      R"({"op":"run","step":0})",
      R"({"op":"request","req":"b","tokens":[1,2,3,4,5,6,7,8,20]})",
      R"({"op":"hit","req":"b","tokens":8})",
      R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":8,"n":3,"more":[[2]]},)"
      R"({"req":"b","start":8,"n":1,"tables":[[0,9,10]]}],"copies":[[0,1,2],[0,1,9],[0,9,10]]})",
      R"({"op":"run","step":1,"slots":{"a":[[0,9,11,0]]}})",
      R"({"op":"publish","tier":0,"block":11,"group":0,"req":"a","to":10})",
      R"({"op":"dispatch","step":2,"rows":[{"req":"a","start":11,"n":1}]})",
      R"({"op":"run","step":2})",
      R"({"op":"dispatch","step":3,"rows":[{"req":"a","start":12,"n":3,"drafts":2,)"
      R"("more":[[3,4,5]]}],"copies":[[0,2,3]]})",
      R"({"op":"run","step":3})",
      R"({"op":"dispatch","step":4,"rows":[{"req":"a","start":14,"n":3,"more":[[5]]}]})",
      R"({"op":"run","step":4,"copies":[[0,5,4]]})"};
  EXPECT_TRUE(judged(sound).findings().empty());
  const auto first = [&sound](const std::vector<Change>& changes) {
    const Judge judge = judged(changed(sound, changes));
    return judge.findings().empty() ? "" : kRunLaws[judge.findings()[0].law].id;
  };
  EXPECT_EQ(first({{R"("step":3,"rows)", "[0,2,3]", "[0,1,3]"}}), "S13") << "one block old";
  EXPECT_EQ(first({{R"("step":3,"rows)", "[[0,2,3]]", "[]"}}), "S13") << "no copy";
  EXPECT_EQ(first({{R"("step":1,"rows)", ",[0,9,10]]", ",[0,9,8]]"}}), "S13");
  EXPECT_EQ(first({{R"("slots")", R"("slots":{"a":[[0,9,11,0]]})", R"("slots":{})"}}), "S9")
      << "checkpoint";
  EXPECT_EQ(first({{R"("run","step":4)", R"("copies":[[0,5,4]])", R"("copies":[[0,6,4]])"}}),
            "S13");
  EXPECT_EQ(first({{R"("step":4,"rows)", "[[5]]", "[[4]]"}}), "S11") << "a block behind, too";
}

/// vLLM's mode "none": the one block of a request holds its state, whatever its length.
TEST(LiveTest, a_state_of_one_block_goes_on_in_it) {
  const auto run = [](const std::string& last) {
    return judged(
        {kStates + R"([{"block_size":64,"state":true}]})",
         R"({"op":"request","req":"a","tokens":[1,2,3,4,5,6]})",
         R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":0,"n":3,"tables":[[1]]}]})",
         R"({"op":"run","step":0})",
         R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":3,"n":2}]})",
         R"({"op":"run","step":1})", R"({"op":"dispatch","step":2,"rows":[{"req":"a",)" + last,
         R"({"op":"run","step":2})"});
  };
  EXPECT_TRUE(run(R"("start":5,"n":1}]})").findings().empty());
  EXPECT_TRUE(run(R"("start":0,"n":6,"tables":[[2]]}]})").findings().empty());
  for (const char* last : {R"("start":5,"n":1,"tables":[[2]]}]})", R"("start":4,"n":2}]})"}) {
    ASSERT_FALSE(run(last).findings().empty()) << last;
    EXPECT_EQ(run(last).findings()[0].law, kState);
  }
}

/// A row that has looked at its table looks again at what somebody else has done to it since.
TEST(LiveTest, what_was_right_is_looked_at_again_when_it_is_disturbed) {
  const std::string start = R"({"op":"start","transfer":"t","kind":"load","group":0,"pairs":)";
  const std::string settle = R"({"op":"settle","transfer":"t","outcome":)";
  const auto at_the_end = [](const Lines& between, const std::string& copies) {
    Lines lines = {
        R"({"kvproof_run":1,"tiers":[{"name":"d","blocks":9},{"name":"h","blocks":1}],)"
        R"("groups":[{"block_size":2}],"patience":9})",
        R"({"op":"request","req":"a","tokens":[1,2,3,4,5,6,7]})",
        R"({"op":"dispatch","step":0,"rows":[{"req":"a","start":0,"n":5,"tables":[[1,2,3,4]]}]})",
        R"({"op":"run","step":0})"};
    lines.insert(lines.end(), between.begin(), between.end());
    lines.push_back(R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":5,"n":1}],"copies":)" +
                    copies + "}");
    lines.push_back(R"({"op":"run","step":1})");
    const Judge judge = judged(lines);
    const bool found = !judge.findings().empty() && judge.findings().back().step == 1U;
    return found ? kRunLaws[judge.findings().back().law].id : "";
  };
  EXPECT_EQ(at_the_end({}, "[]"), "");
  EXPECT_EQ(at_the_end({start + "[[1,0,0,1]]}"}, "[]"), "S4");
  EXPECT_EQ(at_the_end({start + "[[1,0,0,1]]}", settle + R"("failed"})"}, "[]"), "S4");
  EXPECT_EQ(at_the_end({start + "[[1,0,0,1]]}", settle + R"("done"})"}, "[]"), "S1");
  EXPECT_EQ(at_the_end({start + "[[1,0,0,8]]}", settle + R"("done"})"}, "[]"), "");
  EXPECT_EQ(at_the_end({}, "[[0,8,1]]"), "S1");
}

struct Refusal {
  std::string line;
  std::string field;
};

TEST(LiveTest, what_cannot_be_understood_is_refused_by_name) {
  const Lines sound = sound_lines();
  const Refusal refusals[] = {
      {R"({"op":"run","step":0,"steps":1})", "steps"},
      {R"({"op":"runs","step":0})", "op"},
      {R"({"op":"run"})", "step"},
      {R"({"op":"run","step":1.5})", "step"},
      {R"({"op":"run","step":18446744073709551616})", "step"},
      {R"({"op":"finish","req":7})", "req"},
      {R"({"op":"request","req":"a","tokens":[""]})", "tokens"},
      {R"({"op":"freed","tier":1,"blocks":8})", "blocks"},
      {R"({"op":"publish","tier":9,"block":"","group":0,"req":"a","to":1})", "block"},
      {R"({"op":"start","transfer":"t","kind":"send","group":0,"blocks":[[0]]})", "blocks"},
      {R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":0,"n":1,"x":[[1]]}]})", "x"},
      {R"({"op":"end","free":[1]})", "free"},
      {R"({"op":"settle","transfer":"t","outcome":"maybe"})", "outcome"},
      {R"({"op":"run","step":0,"tables":{"nobody":[1]}})", "tables"},
      {R"({"op":"run","step":0,"slots":{"a":[[0,1,2]]}})", "slots"},
      {R"({"op":"lost","events":"","what":""})", "events"},
      {R"({"op":"run","step":0)", ""},
      {"", ""}};
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(refusal.line);
    Lines lines = {sound[0], sound[1], refusal.line};
    if (refusal.line.find("\"request\"") != std::string::npos) lines.erase(lines.begin() + 1);
    try {
      static_cast<void>(judged(lines));
      ADD_FAILURE() << "it was taken";
    } catch (const TextError& error) {
      EXPECT_EQ(error.field(), refusal.field) << error.what();
    }
  }
  for (const char* header :
       {R"({"kvproof_run":2})", R"({"op":"end"})",
        R"({"kvproof_run":1,"patience":1,"groups":[{"block_size":0}],"tiers":[]})",
        R"({"kvproof_run":1,"patience":1,"groups":[{"block_size":1,"in_place":true}],"tiers":[]})",
        R"({"kvproof_run":1,"patience":1,"groups":[{"block_size":4096}],
            "tiers":[{"name":"d","blocks":4194304}]})"}) {
    EXPECT_THROW(static_cast<void>(parse_run_header(header)), TextError) << header;
  }
}

struct Named {
  std::string line;
  std::string req;
};
const Named kNamed[] = {
    {R"({"op":"run","step":-1})", ""},
    {R"({"op":"run","step":7})", ""},
    {R"({"op":"retire","step":18446744073709551615})", ""},
    {R"({"op":"finish","req":"nobody"})", "nobody"},
    {R"({"op":"tokens","req":"nobody","append":[1]})", "nobody"},
    {R"({"op":"tokens","req":"a","append":[],"length":9})", "a"},
    {R"({"op":"request","req":"a","tokens":[1]})", "a"},
    {R"({"op":"request","req":"b","tokens":[4294967296]})", "b"},
    {R"({"op":"freed","tier":2,"blocks":[]})", ""},
    {R"({"op":"freed","tier":1,"blocks":[8]})", ""},
    {R"({"op":"publish","tier":0,"block":24,"group":0,"req":"a","to":4})", "a"},
    {R"({"op":"publish","tier":0,"block":1,"group":2,"req":"a","to":4})", "a"},
    {R"({"op":"publish","tier":0,"block":1,"group":0,"req":"a","to":0})", "a"},
    {R"({"op":"reset","tiers":[9]})", ""},
    {R"({"op":"move","transfer":"t","pairs":[0]})", ""},
    {R"({"op":"hit","req":"a","tokens":0,"transfer":"t"})", "a"},
    {R"({"op":"hit","req":"a","tokens":16777217})", "a"},
    {R"({"op":"start","transfer":"t","kind":"load","group":0,"pairs":[[1,-1,0,1]]})", ""},
    {R"({"op":"start","transfer":"t","kind":"send","group":9,"blocks":[]})", ""},
    {R"({"op":"start","transfer":"t","kind":"send","group":0,"req":"x","blocks":[]})", "x"},
    {R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":0,"n":1,"more":[[]]}]})", "a"},
    {R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":0,"n":1,"drafts":2,)"
     R"("tables":[[1],[2]]}]})",
     "a"},
    {R"({"op":"dispatch","step":1,"rows":[{"req":"a","start":0,"n":4294967296}]})", "a"},
    {R"({"op":"dispatch","step":1,"rows":[],"copies":[[0,1,24]]})", ""},
    {R"({"op":"end","free":[25,8]})", ""},
    {R"({"op":"end","free":[24,8],"unfinished":["nobody"]})", "nobody"},
};

/// Behind the header nothing that an engine can say is refused: it is a finding that names a line.
TEST(LiveTest, what_an_engine_names_and_does_not_exist_is_a_finding) {
  const Lines sound = sound_lines();
  for (const Named& each : kNamed) {
    SCOPED_TRACE(each.line);
    const Judge judge = judged({sound[0], sound[1], each.line});
    ASSERT_FALSE(judge.findings().empty());
    EXPECT_EQ(judge.findings()[0].law, kExists) << in_words(judge.findings()[0], judge);
    EXPECT_EQ(judge.findings()[0].req, each.req);
    EXPECT_EQ(judge.findings()[0].event, 3U);
  }
  const char* const of_a_row[] = {R"(,"tables":{"nobody":[[1],[3]]})",
                                  R"(,"tables":{"a":[[1]]})",
                                  R"(,"inputs":{"a":[1]})",
                                  R"(,"tables":{"a":[[1,24],[3]]})",
                                  R"(,"tables":{"b":[[1],[3]]})",
                                  R"(,"slots":{"a":[[0,1,24,0]]})",
                                  R"(,"slots":{"a":[[0,1,2,4]]})",
                                  R"(,"slots":{"a":[[1,1,2,1]]})",
                                  R"(,"slots":{"a":[[0,9,2,1]]})"};
  for (const char* of_row : of_a_row) {
    SCOPED_TRACE(of_row);
    const Judge judge = judged({sound[0], sound[1], R"({"op":"request","req":"b","tokens":[7]})",
                                sound[3], std::string(R"({"op":"run","step":0)") + of_row + "}"});
    ASSERT_FALSE(judge.findings().empty());
    EXPECT_EQ(judge.findings()[0].law, kExists) << in_words(judge.findings()[0], judge);
    EXPECT_EQ(judge.findings()[0].step, 0U);
  }
  Lines behind = sound;
  behind.push_back(R"({"op":"quiet"})");
  EXPECT_EQ(judged(behind).findings().at(0).law, kExists) << "behind the end";
}

/// What a transfer brings for a request of which the tokens are no longer kept is not judged.
TEST(LiveTest, a_transfer_for_a_request_that_is_forgotten_is_not_judged) {
  Judge judge = after_many(20);
  judge.take_line(R"({"op":"start","transfer":"t","kind":"receive","group":0,"blocks":[[0,0]],)"
                  R"("carries":["r0",0]})");
  judge.take_line(R"({"op":"settle","transfer":"t","outcome":"done"})");
  EXPECT_TRUE(judge.findings().empty());
}

/// Calls `each` for every integer below a value, with the names that lead there.
void for_each_integer(json& value, const std::string& name,
                      const std::function<void(json&, const std::string&)>& each) {
  if (value.is_number_integer()) each(value, name);
  if (!value.is_structured()) return;
  for (const auto& item : value.items()) {
    const bool named = value.is_object() && item.key().size() > 1;  // not a request
    for_each_integer(item.value(), named ? name + "." + item.key() : name, each);
  }
}

/// A law bounds each number of each event: none is so large or so small that a run with it holds.
TEST(LiveTest, no_number_of_an_event_is_out_of_every_laws_reach) {
  const Lines sound = sound_lines();
  const json extremes = {std::numeric_limits<std::int64_t>::min(),
                         -1,
                         1U << 20U,
                         1U << 24U,
                         std::numeric_limits<std::int32_t>::max(),
                         std::numeric_limits<std::uint32_t>::max(),
                         std::numeric_limits<std::int64_t>::max(),
                         std::numeric_limits<std::uint64_t>::max()};
  std::size_t tried = 0;
  for (std::size_t line = 1; line < sound.size(); ++line) {
    json event = json::parse(sound[line]);
    for_each_integer(event, event["op"], [&](json& number, const std::string& name) {
      const json before = number;
      for (const json& extreme : extremes) {
        // A token is any number of 32 bits: of a prompt, of the next turn of a session, and of an
        // answer that is thrown away.
        const bool is_token = name == "request.tokens" || name == "retire.sampled" ||
                              (name == "tokens.append" && event.contains("length"));
        const auto token = static_cast<TokenId>(extreme.get<std::int64_t>());
        if (is_token && std::to_string(token) == extreme.dump()) continue;
        number = extreme;
        Lines lines = sound;
        lines[line] = event.dump();
        const Judge judge = judged(lines);
        EXPECT_FALSE(judge.findings().empty())
            << name << " in line " << line + 1 << ": " << lines[line];
        ++tried;
      }
      number = before;
    });
  }
  EXPECT_GT(tried, 1000U);
}

TEST(LiveTest, the_c_functions_judge_event_by_event) {
  const Lines lines = sound_lines();
  kvproof_live* run = kvproof_live_open(lines[0].c_str());
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(kvproof_live_event(run, lines[i].c_str()), 0) << lines[i];
  }
  EXPECT_EQ(kvproof_live_error(run), nullptr);
  EXPECT_TRUE(json::parse(kvproof_live_verdict(run)).at("holds"));
  EXPECT_EQ(kvproof_live_event(run, "{}"), -1);
  EXPECT_NE(kvproof_live_error(run), nullptr);
  kvproof_live_close(run);
  run = kvproof_live_open("{");
  EXPECT_EQ(kvproof_live_verdict(run), nullptr);
  EXPECT_EQ(kvproof_live_event(run, "{}"), -1);
  kvproof_live_close(run);
}

}  // namespace
}  // namespace kvproof::live
