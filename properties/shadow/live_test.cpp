// SPDX-License-Identifier: Apache-2.0
// The judge of runs: what it finds, says and refuses. Runs that break each of its laws are rows of
// laws/runs.patches.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "properties/selftest/patch.h"
#include "properties/shadow/kvproof_live.h"
#include "properties/shadow/verdict.h"
#include "reference/trace_json.h"

namespace kvproof::live {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

const std::string kSound = KVPROOF_SOURCE_DIR "/properties/shadow/runs/sound.jsonl";

Lines lines_of(std::istream&& in) {
  Lines out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}
Lines sound_lines() { return lines_of(std::ifstream(kSound)); }

/// @param texts changes, as in laws/runs.patches
Lines changed(const Lines& lines, const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  properties::Patch change;
  for (const std::string& text : texts) {
    change.text = text;
    all = properties::changed_text(change, all);
  }
  return lines_of(std::istringstream(all));
}

Judge judged(const Lines& lines) {
  Judge judge(parse_run_header(lines.at(0)));
  for (std::size_t i = 1; i < lines.size(); ++i) judge.take_line(lines[i]);
  return judge;
}

/// @return the law that was broken first; empty = none
std::string_view first_law(const Judge& judge) {
  return judge.findings().empty() ? "" : kRunLaws[judge.findings().front().law].id;
}

TEST(LiveTest, the_sound_run_holds_and_every_law_is_evaluated) {
  const Judge judge = judge_file(kSound);
  for (const Found& found : judge.findings()) ADD_FAILURE() << in_words(found, judge);
  EXPECT_TRUE(judge.ended());
  for (std::size_t i = 0; i < kRunLaws.size(); ++i) {
    EXPECT_GT(judge.count(i).evaluated, 0) << kRunLaws[i].id;
  }
}

TEST(LiveTest, a_finding_says_who_wrote_the_slot_and_what_became_of_the_block) {
  const Judge judge = judged(changed(sound_lines(), {"7,[-8-]{+9+},20"}));
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
    ASSERT_EQ(first_law(judge), "S1");
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
  EXPECT_EQ(first_law(run("c")), "S5");
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
  EXPECT_EQ(first_law(run(R"(,"slots":{"a":[[0,5,4,0]]})", "")), "S17");
}

TEST(LiveTest, nothing_is_judged_behind_a_loss) {
  Lines lines = changed(
      sound_lines(),
      {R"("append":[[-9-]{+99+}])", "{+{\"op\":\"lost\",\"what\":\"more\"}\n+}{\"op\":\"end\""});
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
  const auto first = [&sound](const std::string& change) {
    return first_law(judged(changed(sound, {change})));
  };
  EXPECT_EQ(first("[0,[-2-]{+1+},3]"), "S13") << "one block old";
  EXPECT_EQ(first("[[-[0,2,3]-]]"), "S13") << "no copy";
  EXPECT_EQ(first(",[0,9,[-10-]{+8+}]"), "S13");
  EXPECT_EQ(first(R"([-"a":[[0,9,11,0]]-])"), "S9") << "checkpoint";
  EXPECT_EQ(first("[0,[-5-]{+6+},4]"), "S13");
  EXPECT_EQ(first(R"("n":3,"more":[[[-5-]{+4+}]])"), "S11") << "a block behind, too";
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
    EXPECT_EQ(first_law(run(last)), "S13") << last;
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
    ASSERT_EQ(first_law(judge), "S17");
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
    ASSERT_EQ(first_law(judge), "S17");
    EXPECT_EQ(judge.findings()[0].step, 0U);
  }
  Lines behind = sound;
  behind.push_back(R"({"op":"quiet"})");
  EXPECT_EQ(first_law(judged(behind)), "S17") << "behind the end";
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
