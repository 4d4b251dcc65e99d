// SPDX-License-Identifier: Apache-2.0
// Every law is silent on a correct run, and reports what is written to break it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "properties/facts/anchors.h"
#include "properties/laws/law_scenes.h"
#include "properties/selftest/patch.h"
#include "properties/shadow/verdict.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

/// Whether a sentence is about each block and each request that it names behind that word.
testing::AssertionResult is_about_what_it_names(const Sentence& says) {
  const Topic& about = says.about;
  std::set<std::string> carried(about.requests.begin(), about.requests.end());
  for (const auto* blocks : {&about.blocks, &about.host_blocks}) {
    for (const BlockId block : *blocks) carried.insert(std::to_string(block));
  }
  std::istringstream words(says);
  for (std::string word, before; words >> word; before = word) {
    word.erase(word.find_last_not_of(",:;.") + 1);
    const bool number = word.find_first_not_of("0123456789") == std::string::npos;
    const bool named = (before == "block" && number) || before == "request";
    if (named && !carried.contains(word)) return testing::AssertionFailure() << word;
  }
  return testing::AssertionSuccess();
}

/// A run that a change has made, and what must be said of it first.
struct RunScene {
  std::string law;
  std::string request;  // empty = whichever
  std::string lines;
};

std::string read(const char* path) {
  std::ifstream in(std::string(KVPROOF_SOURCE_DIR "/properties/") + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// @return the runs of laws/runs.patches, by what is wrong with them
std::map<std::string, RunScene> run_scenes() {
  const std::string sound = read("shadow/runs/sound.jsonl");
  std::map<std::string, RunScene> out;
  for (const Patch& row : read_patches("runs.patches", read("laws/runs.patches")).rows) {
    const std::size_t end = std::min(row.law.find(' '), row.law.size());
    const std::string request = row.law.substr(std::min(end + 1, row.law.size()));
    RunScene& scene =
        out.try_emplace(row.sentence, row.law.substr(0, end), request, sound).first->second;
    scene.lines = changed_text(row, scene.lines);
  }
  return out;
}

void check(const Law& row, const Breakage& breakage) {
  SCOPED_TRACE(say(row.id, ": ", breakage.what));
  Scene scene(breakage.config());
  breakage.play(scene);
  EXPECT_EQ(scene.check(row), std::nullopt);
  breakage.falsify(scene);
  const Finding finding = scene.check(row);
  ASSERT_TRUE(finding.has_value());
  EXPECT_FALSE(finding->empty());
  EXPECT_TRUE(is_about_what_it_names(*finding)) << *finding;
}

void check(const std::string& what, const RunScene& scene) {
  SCOPED_TRACE(say(scene.law, ": ", what));
  std::istringstream lines(scene.lines);
  std::string line;
  std::getline(lines, line);
  live::Judge judge(live::parse_run_header(line));
  while (std::getline(lines, line)) judge.take_line(line);
  ASSERT_FALSE(judge.findings().empty());
  const live::Found& first = judge.findings().front();
  EXPECT_EQ(kRunLaws[first.law].id, scene.law) << live::in_words(first, judge);
  EXPECT_TRUE(scene.request.empty() || first.req == scene.request) << first.req;
}

TEST(Laws, EachReportsWhatIsWrittenToBreakIt) {
  const auto runs = run_scenes();
  for (const auto& [what, scene] : runs) check(what, scene);
  for (const Law& row : kLaws) {
    std::size_t scenes = 0;
    if (row.judges == Judges::state) {
      for (const Breakage& breakage : row.scenes()) check(row, breakage);
      scenes = row.scenes().size();
    } else {
      scenes = std::ranges::count(runs, row.id, [](const auto& run) { return run.second.law; });
    }
    // Those of streams are the business of engines/live/events/events_test.py.
    EXPECT_TRUE(scenes > 0 || row.judges == Judges::events) << "no scene breaks " << row.id;
    EXPECT_EQ(find_law(row.id, kLaws), &row) << "two laws are called " << row.id;
    EXPECT_FALSE(row.name.empty() || row.sentence.empty() || row.source.empty()) << row.id;
  }
}

TEST(Laws, EachInvariantOfTheDocumentIsALawOrSaysWhyItIsNone) {
  std::set<std::string> carried;  // I13 is the anchor i13
  for (const Law& row : kStateLaws) {
    if (row.id.starts_with('I')) carried.emplace(row.id.substr(1));
  }
  for (const NotALaw& row : kNotLaws) {
    EXPECT_TRUE(carried.emplace(row.id.substr(1)).second) << row.id << " is a law, too";
    EXPECT_FALSE(row.reason.empty()) << row.id;
  }
  EXPECT_EQ(faults_of_anchors(document("v1.md"), "i", carried), std::vector<std::string>{});
}

TEST(Laws, AllAreSilentAtEveryStepOfARunInBothProfiles) {
  for (const Profile& profile : kProfiles) {
    for (bool caching : {true, false}) {
      CacheConfig config = small_config(profile.name);
      config.enable_caching = caching;
      Scene scene(config);
      const auto step = [&](const Operation& operation) {
        scene.play(operation);
        for (const Law& row : kStateLaws) EXPECT_EQ(scene.check(row), std::nullopt) << row.id;
      };
      step(op::Arrive{"a", {0, 1, 2, 0, 1}});
      step(op::Lookup{"a"});
      step(allocate("a", 5, true));
      step(op::Advance{"a", 5});
      step(op::Arrive{"b", {0, 1, 2, 0, 1}});
      step(op::Lookup{"b"});
      step(allocate("b", 3, true));
      step(op::CommonPrefix{"a"});
      step(op::Take{9});
      step(op::Free{"a"});
      step(op::Touch{{1, 1}});
      step(op::Evict{{1}});
      step(op::Release{{1, 1}});
      step(op::Finish{"b"});
      step(op::Reset{});
      step(op::Finish{"a"});
    }
  }
}

// After these operations a law does not hold of a correct manager either, and must know it.
/// What a law finds in the last step of a scene if the subject has promised this.
Finding found(const char* law, const Scene& s, const Promises& promises) {
  History history(s.config, promises);
  history.fold(s.before, s.operation, s.outcome, s.after);
  return find_law(law)->check(Step{s.config, s.before, s.operation, s.outcome, s.after, history});
}

TEST(Laws, SinksStayInATableWhenItsWindowMovesOn) {
  Scene scene(with::window());
  play::decode(scene);
  const Promises none;
  Promises one;
  one.sinks = 1;
  EXPECT_EQ(found("I14", scene, none), std::nullopt);
  EXPECT_NE(found("I14", scene, one), std::nullopt) << "the sink is given back";
  table(scene, 0, 0)[0] = 7;
  table(scene, 0, 0)[1] = kNullBlock;
  EXPECT_EQ(found("I14", scene, one), std::nullopt);
  EXPECT_NE(found("I14", scene, none), std::nullopt) << "a hole, where nothing is a sink";
}

TEST(Laws, ARequestMayPublishAsItEnds) {
  Scene scene;
  play::delay(scene);
  scene.play(op::Finish{"a"});
  const std::vector<std::uint64_t>& hashes = scene.before.requests[0].hashes;
  scene.outcome.events = {event::Stored{0, 0, 4, {{1, 2}, {2, 4}}}};
  for (BlockId block = 1; block <= 2; ++block) {
    scene.block(block).hashed = true;
    scene.block(block).key = hashes[block - 1];
  }
  EXPECT_EQ(found("I25", scene, {}), std::nullopt);
  std::swap(scene.block(1).key, scene.block(2).key);
  EXPECT_NE(found("I25", scene, {}), std::nullopt) << "they carry other keys than were told";
}

TEST(Laws, SuspendedOnesStaySilentWhereTheyDoNotApply) {
  Scene evicted;
  evicted.share().play(op::Evict{{1}});
  for (const char* id : {"I8", "I13", "I17"})
    EXPECT_EQ(evicted.check(*find_law(id)), std::nullopt) << id;
  Scene queued;
  queued.share().play(op::Finish{"a"}).play(op::Finish{"b"}).play(op::Evict{{2}});
  EXPECT_EQ(queued.after.queue.back(), 1U);
  EXPECT_FALSE(queued.block(2).hashed);
  EXPECT_EQ(queued.check(*find_law("I12")), std::nullopt);
}

}  // namespace
}  // namespace kvproof::properties
