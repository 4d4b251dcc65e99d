// SPDX-License-Identifier: Apache-2.0
// The book of the caller: what it holds back, and what it keeps of each request.
#include "properties/caller/caller_book.h"

#include <gtest/gtest.h>

#include <vector>

#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

CacheConfig pool() {
  CacheConfig config;
  config.num_blocks = 4;
  config.max_model_len = 16;
  config.hash_block_size = 2;
  config.groups = {GroupConfig{.kind = LayerKind::full, .block_size = 2}};
  return config;
}

TEST(CallerBook, HoldsBackCallsThatBreakTheCallersSide) {
  CallerBook book(pool());
  Snapshot state;
  state.blocks.resize(4);
  const auto done = [&](const Operation& operation, const Result& result = {}) {
    EXPECT_EQ(book.breach(operation, state), nullptr) << to_json(operation);
    book.fold(operation, result);
  };
  const auto held_back = [&](const Operation& operation) {
    EXPECT_NE(book.breach(operation, state), nullptr) << to_json(operation);
  };
  held_back(op::Lookup{"r0"});
  held_back(op::Unpin{"l"});
  held_back(op::Complete{"t", true});
  held_back(op::Release{{1}});
  held_back(op::Touch{{0}});
  held_back(op::Evict{{4}});
  done(op::Arrive{.req = "r0", .tokens = {1, 2, 3}, .extra = {}});
  held_back(op::Arrive{.req = "r0", .tokens = {}, .extra = {}});
  held_back(op::Allocate{"r0", {}});
  held_back(op::Allocate{"r0", {.new_tokens = 1, .use_lookup = true}});
  done(op::Lookup{"r0"}, Hit{2, {{1}}});
  done(op::Take{1}, Granted{{{2}}, {}});  // may have evicted what was found
  held_back(op::Allocate{"r0", {.new_tokens = 1, .use_lookup = true}});
  done(op::Lookup{"r0"}, Hit{2, {{1}}});
  done(op::Allocate{"r0", {.new_tokens = 1, .use_lookup = true}}, Granted{{{3}}, {}});
  held_back(op::Advance{"r0", 4});
  done(op::Advance{"r0", 3});
  held_back(op::Truncate{"r0", 2});
  held_back(op::SwapOut{"r0", "t"});  // there is no host tier
  held_back(op::Release{{2, 2}});
  done(op::Release{{2}});
  done(op::Arrive{.req = "r9", .tokens = {1, 2, 3}, .extra = {}});
  done(op::Lookup{"r9"}, Hit{2, {{1}}});
  done(op::Fork{"r0", "r1"});
  EXPECT_EQ(book.breach(op::Allocate{"r9", {.new_tokens = 1, .use_lookup = true}}, state), nullptr);
  done(op::Fork{"r0", "r8"}, Granted{{}, {{3, 2}}});
  held_back(op::Allocate{"r9", {.new_tokens = 1, .use_lookup = true}});  // the copy took a block
  held_back(op::Fork{"r0", "r1"});
  held_back(op::Pin{{1}, "l"});  // nothing is known to be in it
  state.blocks[1].ref_cnt = 1;
  done(op::Pin{{1}, "l"});
  held_back(op::Pin{{1}, "l"});
  done(op::Unpin{"l"});
  done(op::Finish{"r0"});
  held_back(op::Finish{"r0"});
}

using Numbers = std::vector<std::uint64_t>;

struct BookScene {
  const RequestRecord& play(const Operation& operation, const Result& result = {}) {
    book.fold(operation, result);
    return *book.find("r0");
  }
  CallerBook book{pool()};
};

TEST(CallerBook, KeepsWhatGrantsCoverAndWhatIsWritten) {
  BookScene s;
  s.play(op::Arrive{.req = "r0", .tokens = {1, 2, 3, 4, 5}, .extra = {}});
  s.play(op::Lookup{"r0"}, Hit{2, {{1}}});
  const op::Allocate drafts{"r0", {.new_tokens = 5, .use_lookup = true, .in_flight = 1}};
  const RequestRecord& r = s.play(drafts, Granted{{{2, 3}}});
  EXPECT_FALSE(s.book.before().granted);
  EXPECT_EQ((Numbers{r.scheduled_tokens, r.covered, r.written, r.reach, r.processed}),
            (Numbers{7, 7, 5, 7, 1}));
  s.play(op::Append{"r0", {6}});
  EXPECT_EQ(s.play(op::Advance{"r0", 6}).written, 6U) << "an accepted draft is written after all";
  EXPECT_EQ(s.book.before().written, 5U);
  EXPECT_EQ(r.sequence->tokens, (std::vector<TokenId>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(r.sequence->contents.size(), 3U);
  s.play(op::Allocate{"r0", {.new_tokens = 9, .in_flight = 2}}, Refused{});
  EXPECT_EQ((Numbers{r.scheduled_tokens, r.processed}), (Numbers{7, 4})) << "skipped even so";
  s.play(op::Allocate{"r0", {.new_tokens = 0}}, Granted{});
  EXPECT_EQ((Numbers{r.scheduled_tokens, r.covered}), (Numbers{6, 7})) << "of the last, of any";
  s.play(op::Truncate{"r0", 5});
  EXPECT_EQ((Numbers{r.covered, r.written, r.reach}), (Numbers{5, 5, 7}));
  s.play(op::Free{"r0"});
  EXPECT_EQ((Numbers{r.written, r.hit.tokens, r.num_tokens}), (Numbers{0, 0, 6}));
  EXPECT_EQ(r.status, RequestStatus::preempted);
}

TEST(CallerBook, KeepsDraftsFromAChildAndFollowsATransfer) {
  BookScene s;
  s.play(op::Arrive{.req = "r0", .tokens = {1, 2}, .extra = {}, .encoder_tokens = 3});
  s.play(op::Allocate{"r0", {.new_tokens = 4}}, Granted{{{1, 2}}});
  s.play(op::Fork{"r0", "r1"});
  const RequestRecord& child = *s.book.find("r1");
  EXPECT_EQ((Numbers{child.id, child.encoder, child.scheduled_tokens}), (Numbers{1, 0, 2}));
  s.play(op::Append{"r1", {3}});
  EXPECT_EQ(s.book.find("r0")->sequence->tokens.size(), 2U) << "its parent's are its own no more";
  EXPECT_TRUE(s.play(op::SwapOut{"r0", "t"}, Granted{{}, {{1, 2}}}).on_host);
  EXPECT_FALSE(s.book.find("r0")->reads_host()) << "it is on its way";
  EXPECT_EQ(s.book.find_transfer("t")->copies, (std::vector<Copy>{{1, 2}}));
  EXPECT_TRUE(s.play(op::Complete{"t", true}).reads_host());
  EXPECT_EQ(s.book.settled()->req, "r0");
  s.play(op::SwapIn{"r0", "u"});
  EXPECT_TRUE(s.play(op::Complete{"u", false}).reads_host()) << "it has failed";
  s.play(op::Finish{"r1"});
  EXPECT_EQ(s.book.find("r1"), nullptr);
  EXPECT_EQ((Numbers{s.book.arrivals(), s.book.names()}), (Numbers{2, 2}));
}

}  // namespace
}  // namespace kvproof::properties
