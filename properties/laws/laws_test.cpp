// SPDX-License-Identifier: Apache-2.0
// Every law is silent on a correct run, and reports a state or an answer that breaks it on purpose.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "properties/laws/law_scenes.h"

namespace kvproof::properties {
namespace {

void share(Scene& s) { s.share(); }
void share_and_finish(Scene& s) { s.share().play(op::Finish{"a"}); }
void look_up(Scene& s) { s.share().play(op::Arrive{"c", {0, 1, 2, 0, 1}}).play(op::Lookup{"c"}); }
void refuse(Scene& s) {
  s.share().play(op::Arrive{"c", std::vector<TokenId>(12, 1)}).play(allocate("c", 12));
}
void drained(Scene& s) { s.share().play(op::Finish{"a"}).play(op::Free{"b"}); }
void reset(Scene& s) { s.share().play(op::Finish{"a"}).play(op::Finish{"b"}).play(op::Reset{}); }
void common_prefix(Scene& s) { s.share().play(op::CommonPrefix{"a"}); }
void append(Scene& s) { s.share().play(op::Append{"a", {2}}); }
void arrive_other(Scene& s) { s.share().play(op::Arrive{"c", {1, 1}}); }
void arrive_same(Scene& s) { s.share().play(op::Arrive{"c", {0, 1}}); }
void gate(Scene& s) {
  op::Allocate call = allocate("c", 2);
  call.args.full_sequence_must_fit = true;
  s.share().play(op::Arrive{"c", std::vector<TokenId>(12, 1)}).play(call);
}

const Breakage kBreakages[] = {
    {"I1", "counter too high", share, [](Scene& s) { ++s.after.num_free; }},
    {"I1", "backward walk differs", share_and_finish,
     [](Scene& s) { std::swap(s.after.queue_backward[0], s.after.queue_backward[1]); }},
    {"I1", "foreign id", share,
     [](Scene& s) { s.after.queue[0] = s.after.queue_backward.back() = 99; }},
    {"I2", "held block queued", share, [](Scene& s) { s.after.queue.push_back(1); }},
    {"I2", "block queued twice", share, [](Scene& s) { s.after.queue.push_back(5); }},
    {"I2", "unheld block missing", share, [](Scene& s) { s.after.queue.clear(); }},
    {"I2", "null block queued", share, [](Scene& s) { s.after.queue.push_back(0); }},
    {"I3", "linked but not queued", share, [](Scene& s) { s.block(1).linked = true; }},
    {"I3", "queued but not linked", share, [](Scene& s) { s.block(5).linked = false; }},
    {"I4", "null block hashed", share, [](Scene& s) { s.block(0).hashed = true; }},
    {"I4", "null block indexed", share, [](Scene& s) { s.after.index[0].blocks.push_back(0); }},
    {"I4", "null block queued", share, [](Scene& s) { s.after.queue.push_back(0); }},
    {"I5", "a held block more", share, [](Scene& s) { s.block(5).ref_cnt = 1; }},
    {"I5", "a free block less", share, [](Scene& s) { --s.after.num_free; }},
    {"I6", "count too low", share, [](Scene& s) { s.block(1).ref_cnt = 1; }},
    {"I6", "negative count", share, [](Scene& s) { s.block(5).ref_cnt = -1; }},
    {"I6", "raw holder not counted", share, [](Scene& s) { s.after.raw.push_back(4); }},
    {"I6", "table names a foreign block", share, [](Scene& s) { s.table(0).push_back(77); }},
    {"I7", "block twice in a table", share, [](Scene& s) { s.table(0)[2] = 1; }},
    {"I8", "shared without key", share, [](Scene& s) { s.block(1).hashed = false; }},
    {"I9", "key without entry", share,
     [](Scene& s) { s.after.index.erase(s.after.index.begin()); }},
    {"I9", "entry without key", share, [](Scene& s) { s.block(1).hashed = false; }},
    {"I9", "entry under another key", share, [](Scene& s) { ++s.after.index[0].key; }},
    {"I9", "foreign block listed", share, [](Scene& s) { s.after.index[0].blocks.push_back(99); }},
    {"I10", "empty entry", share, [](Scene& s) { s.after.index[0].blocks.clear(); }},
    {"I10", "unknown group", share, [](Scene& s) { s.after.index[0].group = 1; }},
    {"I10", "key twice", share, [](Scene& s) { s.after.index.push_back(s.after.index[0]); }},
    {"I12", "unhashed behind hashed", drained,
     [](Scene& s) { std::reverse(s.after.queue.begin(), s.after.queue.end()); }},
    {"I13", "progress beyond the table", share,
     [](Scene& s) { s.after.requests[0].progress = {4}; }},
    {"I13", "unpublished below progress", share,
     [](Scene& s) { s.after.requests[0].progress = {3}; }},
    {"I13", "published beyond progress", share,
     [](Scene& s) { s.after.requests[0].progress = {1}; }},
    {"I13", "foreign content below progress", share, [](Scene& s) { ++s.block(1).key; }},
    {"I14", "null in a table", share, [](Scene& s) { s.table(1)[0] = 0; }},
    {"I16", "table too long", share, [](Scene& s) { s.table(1).push_back(5); }},
    {"I16", "table too short", share, [](Scene& s) { s.table(1).pop_back(); }},
    {"I16", "another request's table changed", share,
     [](Scene& s) { std::swap(s.table(0)[0], s.table(0)[1]); }},
    {"I16", "answer is not the table's end", share,
     [](Scene& s) { s.outcome.result = Granted{{{3}}}; }},
    {"I16", "request that never arrived", share, [](Scene& s) { s.after.requests[1].name = "z"; }},
    {"I17", "child without parent", share,
     [](Scene& s) {
       s.after.index.erase(s.after.index.begin());
       s.outcome.events.emplace_back(event::Removed{0, 1, 2});
     }},
    {"I18", "hit past a hole", look_up,
     [](Scene& s) { s.after.index.erase(s.after.index.begin()); }},
    {"C10", "hit too short", look_up,
     [](Scene& s) {
       s.hit() = Hit{2, {{1}}};
     }},
    {"I18", "length without blocks", look_up, [](Scene& s) { s.hit().hit_tokens = 6; }},
    {"I18", "last token hit", look_up, [](Scene& s) { s.after.requests[2].num_tokens = 4; }},
    {"I18", "not the oldest copy", look_up,
     [](Scene& s) { s.after.index[0].blocks.insert(s.after.index[0].blocks.begin(), 3); }},
    {"I18", "admitted without its content", share, [](Scene& s) { ++s.block(2).key; }},
    {"I18", "admitted another block", share, [](Scene& s) { s.table(1)[1] = 5; }},
    {"I18", "admitted unheld", share, [](Scene& s) { s.block(2).ref_cnt = 0; }},
    {"I19", "one block too many taken", share, [](Scene& s) { --s.after.num_free; }},
    {"I19", "refused though it fits", share, [](Scene& s) { s.outcome.result = Refused{}; }},
    {"I19", "rejected without cause", share, [](Scene& s) { s.outcome.result = Rejected{"no"}; }},
    {"I19", "granted though it does not fit", refuse,
     [](Scene& s) { s.outcome.result = Granted{{{}}}; }},
    {"I20", "refusal moved the queue", refuse, [](Scene& s) { s.after.queue.push_back(1); }},
    {"I20", "refusal kept a reference", refuse, [](Scene& s) { ++s.block(1).ref_cnt; }},
    {"I20", "refusal was announced", refuse,
     [](Scene& s) { s.outcome.events.emplace_back(event::Cleared{}); }},
    {"I20", "refusal changed a request", refuse, [](Scene& s) { ++s.after.requests[0].computed; }},
    {"I21", "admitted though the whole cannot fit", gate,
     [](Scene& s) { s.outcome.result = Granted{{{5}}}; }},
    {"I22", "lookup took a reference", look_up, [](Scene& s) { ++s.block(1).ref_cnt; }},
    {"I22", "lookup announced", look_up,
     [](Scene& s) { s.outcome.events.emplace_back(event::Cleared{}); }},
    {"I23", "leaked block", drained, [](Scene& s) { --s.after.num_free; }},
    {"I23", "progress left", drained, [](Scene& s) { s.after.requests[0].progress = {1}; }},
    {"I24", "key survived", reset, [](Scene& s) { s.block(1).hashed = true; }},
    {"I24", "entry survived", reset, [](Scene& s) { s.after.index = s.before.index; }},
    {"I24", "queue reordered", reset,
     [](Scene& s) { std::reverse(s.after.queue.begin(), s.after.queue.end()); }},
    {"I24", "wrong answer", reset, [](Scene& s) { s.outcome.result = false; }},
    {"I24", "not announced", reset, [](Scene& s) { s.outcome.events.clear(); }},
    {"I25", "stored not announced", share, [](Scene& s) { s.block(4).hashed = true; }},
    {"I25", "removal of the unknown", share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Removed{0, 5, 2});
     }},
    {"I25", "removal of the present", share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Removed{0, 1, 2});
     }},
    {"I25", "stored twice", share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Stored{0, 0, 2, {{1, 2}}});
     }},
    {"I25", "range without its blocks", share,
     [](Scene& s) {
       s.outcome.events.emplace_back(event::Stored{0, 0, 4, {{4, 2}}});
     }},
    {"I26", "released parents first", share_and_finish,
     [](Scene& s) { std::swap(s.after.queue[0], s.after.queue[1]); }},
    {"I26", "not taken from the head", share, [](Scene& s) { s.after.queue = {4}; }},
    {"I26", "queue moved without cause", look_up, [](Scene& s) { s.after.queue.push_back(2); }},
    {"I29", "hash missing", append, [](Scene& s) { s.after.requests[0].hashes.pop_back(); }},
    {"I29", "hash changed", append, [](Scene& s) { ++s.after.requests[0].hashes[0]; }},
    {"I29", "other content, same key", arrive_other,
     [](Scene& s) { s.after.requests[2].hashes[0] = s.after.requests[0].hashes[0]; }},
    {"I29", "same content, other key", arrive_same,
     [](Scene& s) { ++s.after.requests[2].hashes[0]; }},
    {"I31", "usage off", share, [](Scene& s) { s.after.usage += 0.01; }},
    {"I31", "usage above one", share, [](Scene& s) { s.after.usage = 1.5; }},
    {"C1", "one block too many", common_prefix,
     [](Scene& s) { s.outcome.result = SharedBlocks{3}; }},
};

std::vector<Breakage> all_breakages() {
  std::vector<Breakage> out(std::begin(kBreakages), std::end(kBreakages));
  out.insert(out.end(), wider_breakages().begin(), wider_breakages().end());
  return out;
}

TEST(Laws, EachIsSilentOnACorrectRunAndReportsWhatBreaksIt) {
  for (const Breakage& b : all_breakages()) {
    SCOPED_TRACE(say(b.law, ": ", b.what));
    const Law* row = find_law(b.law);
    ASSERT_NE(row, nullptr);
    Scene scene(b.config());
    b.play(scene);
    EXPECT_EQ(scene.check(*row), std::nullopt);
    b.falsify(scene);
    const Finding finding = scene.check(*row);
    ASSERT_TRUE(finding.has_value());
    EXPECT_FALSE(finding->empty());
  }
}

TEST(Laws, EveryRowOfTheListIsBrokenByAtLeastOneTest) {
  const std::vector<Breakage> breakages = all_breakages();
  for (const Law& row : kLaws) {
    const bool broken = std::any_of(breakages.begin(), breakages.end(),
                                    [&](const Breakage& b) { return row.id == b.law; });
    EXPECT_TRUE(broken) << row.id << " has no breakage";
    EXPECT_EQ(find_law(row.id), &row) << "two laws are called " << row.id;
    EXPECT_FALSE(row.name.empty() || row.sentence.empty() || row.source.empty()) << row.id;
  }
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
