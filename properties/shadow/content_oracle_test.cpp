// SPDX-License-Identifier: Apache-2.0
// The content oracle accepts a correct run and sees each way of reading somebody else's bytes.
#include "properties/shadow/content_oracle.h"

#include <gtest/gtest.h>

#include <utility>

#include "properties/laws/law_scenes.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

CacheConfig config_of(std::uint32_t num_blocks, std::uint32_t block_size) {
  CacheConfig config;
  config.num_blocks = num_blocks;
  config.max_model_len = num_blocks * block_size;
  config.hash_block_size = block_size;
  config.groups = {GroupConfig{.kind = LayerKind::full, .block_size = block_size}};
  return config;
}

std::vector<TokenId> counting(std::uint32_t n, TokenId first = 0) {
  std::vector<TokenId> out;
  for (std::uint32_t i = 0; i < n; ++i) out.push_back(first + static_cast<TokenId>(i));
  return out;
}

/// The naive manager under the content oracle; answers and states can be falsified on the way.
class ContentScene {
 public:
  using Lie = void (*)(Outcome&, Snapshot&);

  explicit ContentScene(CacheConfig config = config_of(8, 2))
      : model_(config), book_(config), oracle_(config) {
    model_.observe(after_);
  }

  Finding play(const Operation& operation, Lie lie = nullptr) {
    before_ = after_;
    Outcome outcome = model_.apply(operation);
    model_.observe(after_);
    Snapshot shown = after_;
    if (lie != nullptr) lie(outcome, shown);
    book_.fold(operation, outcome.result);
    return oracle_.follow(operation, outcome, before_, shown, book_);
  }

  /// Plays operations that must all be judged right.
  void expect_right(std::initializer_list<Operation> operations) {
    for (const Operation& operation : operations) EXPECT_EQ(play(operation), std::nullopt);
  }

  /// a holds [1, 2, 3] with five computed tokens.
  void admit_a() {
    expect_right({op::Arrive{"a", counting(5)}, op::Lookup{"a"}, allocate("a", 5, true),
                  op::Advance{"a", 5}});
  }

  ContentOracle& oracle() { return oracle_; }

 private:
  reference::CacheManager model_;
  CallerBook book_;
  ContentOracle oracle_;
  Snapshot before_;
  Snapshot after_;
};

std::vector<BlockId>& table(Snapshot& s, std::size_t request) {
  return s.requests[request].tables.front();
}

TEST(ContentOracle, AcceptsSharingDraftsExternalTokensAndPreemption) {
  ContentScene s;
  s.admit_a();
  s.expect_right(
      {op::Arrive{"b", counting(6)}, op::Lookup{"b"}, allocate("b", 2, true), op::Advance{"b", 6}});
  s.expect_right({op::Append{"b", {7}}, allocate("b", 3), op::Append{"b", {8}}, op::Advance{"b", 8},
                  op::Append{"b", {9}}, allocate("b", 1), op::Advance{"b", 9}});
  op::Allocate load = allocate("c", 1);
  load.args.external = 3;
  load.args.delay_cache = true;
  s.expect_right(
      {op::Free{"a"}, op::Arrive{"c", counting(4, 40)}, load, op::Cache{"c", 4}, op::Finish{"b"}});
  s.expect_right({op::Lookup{"a"}, allocate("a", 1, true), op::Advance{"a", 5}, op::Finish{"a"},
                  op::Finish{"c"}});
  EXPECT_EQ(s.oracle().breach_of_caller(), "");
}

TEST(ContentOracle, SeesABlockWithTwoOwners) {
  ContentScene s;
  s.admit_a();
  s.expect_right({op::Arrive{"b", counting(2, 50)}});
  const Finding finding =
      s.play(allocate("b", 2), [](Outcome&, Snapshot& shown) { table(shown, 1)[0] = 2; });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("request a reads position 2 from block 2"), std::string::npos)
      << *finding;
  EXPECT_NE(finding->find("position 0 of b"), std::string::npos) << *finding;
}

TEST(ContentOracle, SeesABlockTakenAwayFromItsReader) {
  ContentScene s;
  s.admit_a();
  const Finding finding =
      s.play(op::Take{1}, [](Outcome& answer, Snapshot&) { answer.result = Granted{{{3}}}; });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("block 3 offset 0, which holds poison"), std::string::npos) << *finding;
}

TEST(ContentOracle, SeesAStaleHit) {
  ContentScene s;
  s.admit_a();
  s.expect_right({op::Arrive{"b", counting(5, 60)}});
  const Finding finding = s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
    answer.result = Hit{2, {{1}}};
  });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("position 0 of a"), std::string::npos) << *finding;
}

TEST(ContentOracle, SeesAHitPastAHole) {
  ContentScene s;
  s.admit_a();
  s.expect_right({op::Arrive{"b", counting(5)}});
  EXPECT_TRUE(s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
                 answer.result = Hit{2, {{2}}};
               }).has_value());
  EXPECT_TRUE(s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
                 answer.result = Hit{4, {{1}}};
               }).has_value());
  EXPECT_TRUE(s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
                 answer.result = Hit{4, {}};
               }).has_value());
  EXPECT_TRUE(s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
                 answer.result = Hit{64, {{1, 2}}};
               }).has_value());
}

TEST(ContentOracle, SeesThatTheSameTokensUnderAnotherAdapterAreOtherBytes) {
  ContentScene s;
  s.admit_a();
  ExtraKeys adapter;
  adapter.lora = "adapter";
  s.expect_right({op::Arrive{"b", counting(5), adapter}});
  EXPECT_TRUE(s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
                 answer.result = Hit{4, {{1, 2}}};
               }).has_value());
}

TEST(ContentOracle, SeesATableThatLostOrSwappedBlocks) {
  for (ContentScene::Lie lie :
       {ContentScene::Lie([](Outcome&, Snapshot& shown) { table(shown, 0).pop_back(); }),
        ContentScene::Lie(
            [](Outcome&, Snapshot& shown) { std::swap(table(shown, 0)[0], table(shown, 0)[1]); }),
        ContentScene::Lie([](Outcome&, Snapshot& shown) { table(shown, 0)[1] = 0; }),
        ContentScene::Lie([](Outcome&, Snapshot& shown) { table(shown, 0)[1] = 99; })}) {
    ContentScene s;
    s.admit_a();
    s.expect_right({op::Append{"a", {5}}});
    EXPECT_TRUE(s.play(allocate("a", 1), lie).has_value());
  }
}

// A draft's slot holds garbage until the draft is accepted; publishing it earlier is the caller's
// fault, reading it through a hit is the allocator's.
TEST(ContentOracle, SeesARejectedDraftThatIsRead) {
  ContentScene s;
  s.expect_right({op::Arrive{"a", counting(2)}, allocate("a", 4), op::Advance{"a", 2}});
  s.expect_right({op::Arrive{"b", counting(5)}});
  const Finding finding = s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot&) {
    answer.result = Hit{4, {{1, 2}}};
  });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("reads position 2 from block 2"), std::string::npos) << *finding;
}

TEST(ContentOracle, BlamesNobodyAfterTheCallerAdvancedOverNothing) {
  ContentScene s;
  s.expect_right({op::Arrive{"a", counting(4)}, op::Advance{"a", 4}});
  EXPECT_EQ(s.oracle().breach_of_caller(), kNeverComputed);
  ContentScene published;
  published.expect_right({op::Arrive{"a", counting(4)}, allocate("a", 1), op::Cache{"a", 4}});
  EXPECT_EQ(published.oracle().breach_of_caller(), kNeverComputed);
}

// Requests beyond the first arena: runs move and the arena is rebuilt, the rows move along.
TEST(ContentOracle, KeepsItsRowsWhenTheContiguousReferenceMovesThem) {
  ContentScene s(config_of(3000, 2));
  std::uint32_t length[] = {700, 500, 300};
  const char* names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; ++i) {
    s.expect_right({op::Arrive{names[i], counting(length[i], 1000 * i)},
                    allocate(names[i], length[i]), op::Advance{names[i], length[i]}});
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3; ++i) {
      s.expect_right({op::Append{names[i], counting(200)}, allocate(names[i], 200),
                      op::Advance{names[i], length[i] += 200}});
    }
  }
  s.expect_right({op::Append{"b", {1}}});
  const Finding finding = s.play(allocate("b", 1), [](Outcome&, Snapshot& shown) {
    std::swap(table(shown, 1)[3], table(shown, 2)[3]);
  });
  EXPECT_TRUE(finding.has_value());
}

CacheConfig with_window() {
  CacheConfig config = config_of(20, 2);
  config.groups.push_back({.kind = LayerKind::sliding_window, .block_size = 2, .window = 3});
  return config;
}

CacheConfig with_host() {
  CacheConfig config = config_of(8, 2);
  config.num_host_blocks = 8;
  return config;
}

// Behind the window nothing is read, inside of it everything; groups have bytes of their own.
TEST(ContentOracle, ReadsWhatAWindowStillReadsAndNothingElse) {
  const auto decoded = [](ContentScene& s) {
    s.expect_right({op::Arrive{"a", counting(8)}, allocate("a", 8), op::Advance{"a", 8},
                    op::Append{"a", {9}}});
  };
  ContentScene right(with_window());
  decoded(right);
  right.expect_right({allocate("a", 1), op::Recycle{"a", 8}});
  ContentScene null(with_window());
  decoded(null);
  EXPECT_TRUE(null.play(allocate("a", 1),
                        [](Outcome&, Snapshot& shown) { shown.requests[0].tables[1][3] = 0; })
                  .has_value());
  ContentScene other_group(with_window());
  decoded(other_group);
  EXPECT_TRUE(other_group
                  .play(allocate("a", 1),
                        [](Outcome&, Snapshot& shown) {
                          shown.requests[0].tables[1][3] = shown.requests[0].tables[0][3];
                        })
                  .has_value());
}

TEST(ContentOracle, SeesAWriteIntoABlockThatARelativeReads) {
  const auto forked = [](ContentScene& s) {
    s.admit_a();
    s.expect_right({op::Fork{"a", "b"}, op::Append{"a", {70}}, op::Append{"b", {71}}});
  };
  ContentScene right;
  forked(right);
  right.expect_right({allocate("b", 1), op::Advance{"b", 6}, allocate("a", 1), op::Advance{"a", 6},
                      op::Truncate{"a", 6}, op::Finish{"a"}});
  ContentScene shared;
  forked(shared);
  shared.expect_right({allocate("a", 1)});
  const Finding finding = shared.play(allocate("b", 1), [](Outcome& answer, Snapshot& shown) {
    shown.requests[1].tables[0][2] = shown.requests[0].tables[0][2];
    answer.result = Granted{{{}}};
  });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("position 5 of b"), std::string::npos) << *finding;
}

TEST(ContentOracle, SeesACopyThatWasNotMade) {
  ContentScene s;
  s.admit_a();
  s.expect_right({op::Fork{"a", "b"}, op::Append{"b", {71}}});
  const Finding finding = s.play(allocate("b", 1), [](Outcome& answer, Snapshot&) {
    std::get<Granted>(answer.result).copies.clear();
  });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("holds poison"), std::string::npos) << *finding;
}

TEST(ContentOracle, FollowsBytesThroughTheHostTierAndBack) {
  ContentScene right(with_host());
  right.admit_a();
  right.expect_right({op::SwapOut{"a", "t"}, op::Complete{"t", false}, op::SwapOut{"a", "u"},
                      op::Complete{"u", true}, op::Take{7}, op::Release{{1, 2, 3, 4, 5, 6, 7}},
                      op::SwapIn{"a", "v"}, op::Complete{"v", false}, op::SwapIn{"a", "w"},
                      op::Complete{"w", true}, op::Append{"a", {6}}, allocate("a", 1)});
  for (ContentScene::Lie lie :
       {ContentScene::Lie([](Outcome&, Snapshot& shown) {
          std::swap(shown.requests[0].host_tables[0][0], shown.requests[0].host_tables[0][1]);
        }),
        ContentScene::Lie(
            [](Outcome&, Snapshot& shown) { shown.requests[0].host_tables.clear(); })}) {
    ContentScene s(with_host());
    s.admit_a();
    s.expect_right({op::SwapOut{"a", "t"}});
    EXPECT_TRUE(s.play(op::Complete{"t", true}, lie).has_value());
  }
  ContentScene lost(with_host());
  lost.admit_a();
  EXPECT_EQ(lost.play(op::SwapOut{"a", "t"},
                      [](Outcome& answer, Snapshot&) {
                        std::get<Granted>(answer.result).copies.pop_back();
                      }),
            std::nullopt)
      << "until it lands the device is read";
  EXPECT_TRUE(lost.play(op::Complete{"t", true}).has_value());
}

// A draft's slot becomes right when the draft is accepted, also for the one that shares it; then
// the other goes its own way, and what was published must not be written.
TEST(ContentOracle, SeesAPublishedBlockThatARelativeWritesInto) {
  ContentScene s(config_of(8, 4));
  s.expect_right({op::Arrive{"a", {0}}, allocate("a", 4), op::Advance{"a", 1}, op::Fork{"a", "b"},
                  op::Append{"a", {0, 0, 0}}, op::Advance{"a", 4}, op::Cache{"a", 4},
                  op::Finish{"a"}, op::Append{"b", {1, 1, 1, 1}}, allocate("b", 4),
                  op::Arrive{"c", {0, 0, 0, 0, 0}}, op::Lookup{"c"}});
  EXPECT_EQ(s.oracle().breach_of_caller(), "");
}

TEST(ContentOracle, ReadsStatesThatALookupHandsOver) {
  CacheConfig states = config_of(20, 2);
  states.profile = *find_profile("vllm-0.24");
  states.groups.push_back({.kind = LayerKind::mamba, .block_size = 2, .mode = MambaMode::all});
  ContentScene s(states);
  s.expect_right({op::Arrive{"a", counting(6)}, allocate("a", 6), op::Advance{"a", 6}, op::Step{},
                  op::Arrive{"b", counting(5)}});
  EXPECT_EQ(s.play(op::Lookup{"b"}), std::nullopt);
  EXPECT_TRUE(s.play(op::Lookup{"b"}, [](Outcome& answer, Snapshot& shown) {
                 auto& hit = std::get<Hit>(answer.result).blocks[1].back();
                 for (BlockId other : shown.requests[0].tables[1]) {
                   if (other != hit) hit = other;
                 }
               }).has_value());
}

CacheConfig moving_states() {
  CacheConfig out = config_of(20, 4);
  out.groups.push_back({.kind = LayerKind::mamba, .block_size = 4, .mode = MambaMode::align});
  return out;
}

// A state is that of the token at which its chunk ended, whatever key it is published under.
TEST(ContentOracle, SeesAStateOfAnotherLength) {
  ContentScene sound(moving_states());
  sound.expect_right({op::Arrive{"a", counting(9)}, allocate("a", 4), op::Advance{"a", 4},
                      allocate("a", 5), op::Advance{"a", 9}, op::Append{"a", counting(3)},
                      allocate("a", 1), op::Advance{"a", 10}});
  ContentScene early(moving_states());
  early.expect_right({op::Arrive{"a", counting(9)}});
  EXPECT_TRUE(early
                  .play(allocate("a", 3),
                        [](Outcome& answer, Snapshot& shown) {
                          const BlockId block = shown.requests[0].tables[1].back();
                          answer.events.emplace_back(event::Stored{1, 0, 4, {{block, 4}}});
                        })
                  .has_value());
}

// The next step goes on from where the last one left the state.
TEST(ContentOracle, SeesARunningStateThatIsNotWhereItWasWritten) {
  for (ContentScene::Lie lie :
       {ContentScene::Lie([](Outcome&, Snapshot& shown) {
          std::swap(shown.requests[0].tables[0][1], shown.requests[0].tables[1][1]);
        }),
        ContentScene::Lie([](Outcome&, Snapshot& shown) { shown.requests[0].tables[1][1] = 0; })}) {
    ContentScene s(moving_states());
    s.expect_right({op::Arrive{"a", counting(6)}, allocate("a", 4), op::Advance{"a", 4},
                    allocate("a", 2), op::Advance{"a", 6}});
    const Finding finding = s.play(op::Take{1}, lie);
    ASSERT_TRUE(finding.has_value());
    EXPECT_NE(finding->find("position"), std::string::npos) << *finding;
  }
  ContentScene taken(moving_states());
  taken.expect_right({op::Arrive{"a", counting(6)}, allocate("a", 6), op::Advance{"a", 6}});
  const Finding finding = taken.play(op::Take{1}, [](Outcome& answer, Snapshot& shown) {
    answer.result = Granted{{{shown.requests[0].tables[1].back()}}};
  });
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(finding->find("reads position 5"), std::string::npos) << *finding;
}

TEST(ContentOracle, SeesAWriteUnderALease) {
  ContentScene right;
  right.admit_a();
  right.expect_right({op::Pin{{3}, "l"}, op::Append{"a", {70}}, allocate("a", 1),
                      op::Advance{"a", 6}, op::Finish{"a"}, op::Unpin{"l"}, op::Take{7}});
  ContentScene s;  // a reader of the rejected draft
  s.expect_right({op::Arrive{"a", counting(5)}, allocate("a", 6), op::Advance{"a", 5},
                  op::Pin{{3}, "l"}, op::Append{"a", {70}}});
  const Finding written = s.play(allocate("a", 1), [](Outcome& answer, Snapshot& shown) {
    shown.requests[0].tables[0][2] = 3;
    answer.result = Granted{{{}}};
  });
  ASSERT_TRUE(written.has_value());
  EXPECT_NE(written->find("block 3 offset 1 was written while lease l"), std::string::npos)
      << *written;
  ContentScene given_away;
  given_away.admit_a();
  given_away.expect_right({op::Pin{{3}, "l"}, op::Finish{"a"}});
  EXPECT_TRUE(
      given_away
          .play(op::Take{1}, [](Outcome& answer, Snapshot&) { answer.result = Granted{{{3}}}; })
          .has_value());
}

// It is the caller's mistake to leave a block half way: the state of that block is never written.
TEST(ContentOracle, NamesAChunkThatLosesAState) {
  ContentScene s(moving_states());
  s.expect_right({op::Arrive{"a", counting(9)}, allocate("a", 3), op::Advance{"a", 3}});
  EXPECT_EQ(s.oracle().breach_of_caller(), "");
  s.expect_right({allocate("a", 3)});
  EXPECT_EQ(s.oracle().breach_of_caller(), kUnalignedChunk);
  ContentScene back(moving_states());
  back.expect_right(
      {op::Arrive{"a", counting(9)}, allocate("a", 8), op::Advance{"a", 4}, allocate("a", 4)});
  EXPECT_EQ(back.oracle().breach_of_caller(), kStateMovedBack);
}

// A rejected draft has a block for its state, which a longer chunk would publish unwritten.
TEST(ContentOracle, NamesAChunkThatPassesOverADraft) {
  ContentScene s(moving_states());
  s.expect_right({op::Arrive{"a", counting(4)}, allocate("a", 4), op::Advance{"a", 4},
                  allocate("a", 1), op::Append{"a", {4, 5, 6, 7, 8}}});
  EXPECT_EQ(s.oracle().breach_of_caller(), "");
  s.expect_right({allocate("a", 5)});
  EXPECT_EQ(s.oracle().breach_of_caller(), kUnalignedChunk);
}

TEST(ContentOracle, KnowsTheStateOfADraftThatIsAcceptedInTheHostTier) {
  CacheConfig config = moving_states();
  config.num_host_blocks = 20;
  ContentScene s(config);
  s.expect_right({op::Arrive{"a", counting(7)}, allocate("a", 7), op::Advance{"a", 7},
                  allocate("a", 1), op::SwapOut{"a", "t"}, op::Complete{"t", true},
                  op::Append{"a", {7}}, op::Advance{"a", 8}, op::SwapIn{"a", "u"},
                  op::Complete{"u", true}, allocate("a", 1)});
  EXPECT_EQ(s.oracle().breach_of_caller(), "");
}

TEST(ContentOracle, ReadsEncoderRows) {
  CacheConfig cross = config_of(20, 2);
  cross.enable_caching = false;
  cross.groups.push_back({.kind = LayerKind::cross, .block_size = 2});
  ContentScene e(cross);
  e.expect_right({op::Arrive{.req = "a", .tokens = counting(2), .encoder_tokens = 5},
                  allocate("a", 2), op::Advance{"a", 2}, op::Append{"a", {3}}});
  EXPECT_TRUE(e.play(allocate("a", 1), [](Outcome&, Snapshot& shown) {
                 std::swap(shown.requests[0].tables[1][0], shown.requests[0].tables[1][1]);
               }).has_value());
}

}  // namespace
}  // namespace kvproof::properties
