// SPDX-License-Identifier: Apache-2.0
// Every law is silent on a correct run, and reports a state or an answer that breaks it on purpose.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "properties/facts/anchors.h"
#include "properties/laws/law_scenes.h"
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

TEST(Laws, EachIsSilentOnACorrectRunAndReportsWhatBreaksIt) {
  for (const Law& row : kLaws) {
    for (const Breakage& b : row.scenes()) {
      SCOPED_TRACE(say(row.id, ": ", b.what));
      Scene scene(b.config());
      b.play(scene);
      EXPECT_EQ(scene.check(row), std::nullopt);
      b.falsify(scene);
      const Finding finding = scene.check(row);
      ASSERT_TRUE(finding.has_value());
      EXPECT_FALSE(finding->empty());
      EXPECT_TRUE(is_about_what_it_names(*finding)) << *finding;
    }
  }
}

TEST(Laws, EveryRowOfTheListIsBrokenByAtLeastOneTest) {
  for (const Law& row : kLaws) {
    EXPECT_GT(row.scenes().size(), 0U) << row.id << " has no breakage";
    EXPECT_EQ(find_law(row.id), &row) << "two laws are called " << row.id;
    EXPECT_FALSE(row.name.empty() || row.sentence.empty() || row.source.empty()) << row.id;
  }
}

TEST(Laws, EachInvariantOfTheDocumentIsALawOrSaysWhyItIsNone) {
  std::set<std::string> carried;  // I13 is the anchor i13
  for (const Law& row : kLaws) {
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
        for (const Law& row : kLaws) EXPECT_EQ(scene.check(row), std::nullopt) << row.id;
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
