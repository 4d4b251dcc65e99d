// SPDX-License-Identifier: Apache-2.0
// The content oracle accepts a correct run and sees each way of reading somebody else's bytes.
#include "properties/shadow/content_oracle.h"

#include <gtest/gtest.h>

#include <functional>
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

/// Then a holds [1, 2, 3] with five computed tokens.
const std::vector<Operation> kAdmitA = {op::Arrive{"a", counting(5)}, op::Lookup{"a"},
                                        allocate("a", 5, true), op::Advance{"a", 5}};

/// The naive manager under the content oracle; answers and states can be falsified on the way.
class ContentScene {
 public:
  using Lie = std::function<void(Outcome&, Snapshot&)>;

  explicit ContentScene(CacheConfig config = config_of(8, 2))
      : model_(config), book_(config), oracle_(config) {
    model_.observe(after_);
  }

  Finding play(const Operation& operation, const Lie& lie = {}) {
    before_ = after_;
    Outcome outcome = model_.apply(operation);
    model_.observe(after_);
    Snapshot shown = after_;
    if (lie) lie(outcome, shown);
    book_.fold(operation, outcome.result);
    return oracle_.follow(operation, outcome, before_, shown, book_);
  }

  /// Plays operations that must all be judged right.
  void expect_right(const std::vector<Operation>& operations) {
    for (const Operation& operation : operations) EXPECT_EQ(play(operation), std::nullopt);
  }

  void expect_wrong(const Operation& operation, const Lie& lie, const std::string& words = "") {
    const std::string said = play(operation, lie).value_or("right");
    EXPECT_NE(said, "right");
    EXPECT_NE(said.find(words), std::string::npos) << said << " is not: " << words;
  }

  void admit_a() { expect_right(kAdmitA); }

  ContentOracle& oracle() { return oracle_; }

 private:
  reference::CacheManager model_;
  CallerBook book_;
  ContentOracle oracle_;
  Snapshot before_;
  Snapshot after_;
};

using Blocks = std::vector<std::vector<BlockId>>;  // one list a group

std::vector<BlockId>& table(Snapshot& s, std::size_t request, GroupId group = 0) {
  return s.requests[request].tables[group];
}

ContentScene::Lie hits(std::uint32_t tokens, Blocks blocks) {
  return [=](Outcome& answer, Snapshot&) { answer.result = Hit{tokens, blocks}; };
}
ContentScene::Lie grants(Blocks blocks) {
  return [=](Outcome& answer, Snapshot&) { answer.result = Granted{blocks}; };
}
ContentScene::Lie names(std::size_t request, GroupId group, std::size_t entry, BlockId block) {
  return [=](Outcome&, Snapshot& shown) { table(shown, request, group)[entry] = block; };
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

/// What a subject shows or answers after sound operations, and what is said of it.
struct Wrong {
  std::vector<Operation> before;
  Operation operation;
  ContentScene::Lie lie;
  std::string words = "";
};

std::vector<Operation> after_a(std::vector<Operation> operations) {
  operations.insert(operations.begin(), kAdmitA.begin(), kAdmitA.end());
  return operations;
}

TEST(ContentOracle, SeesEachWayOfReadingOtherBytes) {
  const ContentScene::Lie loses_block = [](Outcome&, Snapshot& s) { table(s, 0).pop_back(); };
  const ContentScene::Lie swaps = [](Outcome&, Snapshot& s) {
    std::swap(table(s, 0)[0], table(s, 0)[1]);
  };
  const ContentScene::Lie copies_nothing = [](Outcome& answer, Snapshot&) {
    std::get<Granted>(answer.result).copies.clear();
  };
  const ContentScene::Lie keeps_block_3 = [](Outcome& answer, Snapshot& shown) {
    table(shown, 0)[2] = 3;
    answer.result = Granted{{{}}};
  };
  const ExtraKeys adapter{.lora = "adapter"};
  const auto prompt = after_a({op::Arrive{"b", counting(5)}});
  const auto longer = after_a({op::Append{"a", {5}}});
  const Wrong rows[] = {
      // a block with two owners, and one that is taken away from its reader
      {after_a({op::Arrive{"b", counting(2, 50)}}), allocate("b", 2), names(1, 0, 0, 2),
       "request a reads position 2 from block 2 offset 0, which holds position 0 of b"},
      {kAdmitA, op::Take{1}, grants({{3}}), "block 3 offset 0, which holds poison"},
      // a stale hit, hits past a hole, and the same tokens under another adapter
      {after_a({op::Arrive{"b", counting(5, 60)}}), op::Lookup{"b"}, hits(2, {{1}}),
       "position 0 of a"},
      {prompt, op::Lookup{"b"}, hits(2, {{2}})},
      {prompt, op::Lookup{"b"}, hits(4, {{1}})},
      {prompt, op::Lookup{"b"}, hits(4, {})},
      {prompt, op::Lookup{"b"}, hits(64, {{1, 2}})},
      {after_a({op::Arrive{"b", counting(5), adapter}}), op::Lookup{"b"}, hits(4, {{1, 2}})},
      // tables that lost, swapped or renamed blocks
      {longer, allocate("a", 1), loses_block},
      {longer, allocate("a", 1), swaps},
      {longer, allocate("a", 1), names(0, 0, 1, 0)},
      {longer, allocate("a", 1), names(0, 0, 1, 99)},
      // a rejected draft's slot holds garbage; a copy before a write is not made
      {{op::Arrive{"a", counting(2)}, allocate("a", 4), op::Advance{"a", 2},
        op::Arrive{"b", counting(5)}},
       op::Lookup{"b"},
       hits(4, {{1, 2}}),
       "reads position 2 from block 2"},
      {after_a({op::Fork{"a", "b"}, op::Append{"b", {71}}}), allocate("b", 1), copies_nothing,
       "holds poison"},
      // under a lease: a write over what was a draft, and a block that is given away
      {{op::Arrive{"a", counting(5)}, allocate("a", 6), op::Advance{"a", 5}, op::Pin{{3}, "l"},
        op::Append{"a", {70}}},
       allocate("a", 1),
       keeps_block_3,
       "block 3 offset 1 was written while lease l"},
      {after_a({op::Pin{{3}, "l"}, op::Finish{"a"}}), op::Take{1}, grants({{3}})}};
  for (const Wrong& row : rows) {
    SCOPED_TRACE(&row - rows);
    ContentScene s;
    s.expect_right(row.before);
    s.expect_wrong(row.operation, row.lie, row.words);
  }
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
  s.expect_wrong(allocate("b", 1), [](Outcome&, Snapshot& shown) {
    std::swap(table(shown, 1)[3], table(shown, 2)[3]);
  });
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
  const auto decoded = [] {
    ContentScene s(with_window());
    s.expect_right({op::Arrive{"a", counting(8)}, allocate("a", 8), op::Advance{"a", 8},
                    op::Append{"a", {9}}});
    return s;
  };
  decoded().expect_right({allocate("a", 1), op::Recycle{"a", 8}});
  decoded().expect_wrong(allocate("a", 1), names(0, 1, 3, 0));
  decoded().expect_wrong(allocate("a", 1), [](Outcome&, Snapshot& shown) {
    table(shown, 0, 1)[3] = table(shown, 0)[3];  // of the other group
  });
}

TEST(ContentOracle, SeesAWriteIntoABlockThatARelativeReads) {
  const auto forked = [] {
    ContentScene s;
    s.admit_a();
    s.expect_right({op::Fork{"a", "b"}, op::Append{"a", {70}}, op::Append{"b", {71}}});
    return s;
  };
  forked().expect_right({allocate("b", 1), op::Advance{"b", 6}, allocate("a", 1),
                         op::Advance{"a", 6}, op::Truncate{"a", 6}, op::Finish{"a"}});
  ContentScene shared = forked();
  shared.expect_right({allocate("a", 1)});
  const ContentScene::Lie lie = [](Outcome& answer, Snapshot& shown) {
    table(shown, 1)[2] = table(shown, 0)[2];
    answer.result = Granted{{{}}};
  };
  shared.expect_wrong(allocate("b", 1), lie, "position 5 of b");
}

TEST(ContentOracle, FollowsBytesThroughTheHostTierAndBack) {
  ContentScene right(with_host());
  right.admit_a();
  right.expect_right({op::SwapOut{"a", "t"}, op::Complete{"t", false}, op::SwapOut{"a", "u"},
                      op::Complete{"u", true}, op::Take{7}, op::Release{{1, 2, 3, 4, 5, 6, 7}},
                      op::SwapIn{"a", "v"}, op::Complete{"v", false}, op::SwapIn{"a", "w"},
                      op::Complete{"w", true}, op::Append{"a", {6}}, allocate("a", 1)});
  for (const ContentScene::Lie& lie :
       {ContentScene::Lie([](Outcome&, Snapshot& shown) {
          std::swap(shown.requests[0].host_tables[0][0], shown.requests[0].host_tables[0][1]);
        }),
        ContentScene::Lie(
            [](Outcome&, Snapshot& shown) { shown.requests[0].host_tables.clear(); })}) {
    ContentScene s(with_host());
    s.admit_a();
    s.expect_right({op::SwapOut{"a", "t"}});
    s.expect_wrong(op::Complete{"t", true}, lie);
  }
  ContentScene lost(with_host());
  lost.admit_a();
  EXPECT_EQ(lost.play(op::SwapOut{"a", "t"},
                      [](Outcome& answer, Snapshot&) {
                        std::get<Granted>(answer.result).copies.pop_back();
                      }),
            std::nullopt)
      << "until it lands the device is read";
  lost.expect_wrong(op::Complete{"t", true}, {});
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
  s.expect_wrong(op::Lookup{"b"}, [](Outcome& answer, Snapshot& shown) {
    auto& hit = std::get<Hit>(answer.result).blocks[1].back();
    for (const BlockId other : table(shown, 0, 1)) {
      if (other != hit) hit = other;
    }
  });
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
  early.expect_wrong(allocate("a", 3), [](Outcome& answer, Snapshot& shown) {
    const BlockId block = table(shown, 0, 1).back();
    answer.events.emplace_back(event::Stored{1, 0, 4, {{block, 4}}});
  });
}

// The next step goes on from where the last one left the state.
TEST(ContentOracle, SeesARunningStateThatIsNotWhereItWasWritten) {
  for (const ContentScene::Lie& lie : {ContentScene::Lie([](Outcome&, Snapshot& shown) {
                                         std::swap(table(shown, 0)[1], table(shown, 0, 1)[1]);
                                       }),
                                       names(0, 1, 1, 0)}) {
    ContentScene s(moving_states());
    s.expect_right({op::Arrive{"a", counting(6)}, allocate("a", 4), op::Advance{"a", 4},
                    allocate("a", 2), op::Advance{"a", 6}});
    s.expect_wrong(op::Take{1}, lie, "position");
  }
  ContentScene taken(moving_states());
  taken.expect_right({op::Arrive{"a", counting(6)}, allocate("a", 6), op::Advance{"a", 6}});
  const ContentScene::Lie lie = [](Outcome& answer, Snapshot& shown) {
    answer.result = Granted{{{table(shown, 0, 1).back()}}};
  };
  taken.expect_wrong(op::Take{1}, lie, "reads position 5");
}

TEST(ContentOracle, AcceptsWritesBesideALease) {
  ContentScene right;
  right.admit_a();
  right.expect_right({op::Pin{{3}, "l"}, op::Append{"a", {70}}, allocate("a", 1),
                      op::Advance{"a", 6}, op::Finish{"a"}, op::Unpin{"l"}, op::Take{7}});
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
  e.expect_wrong(allocate("a", 1), [](Outcome&, Snapshot& shown) {
    std::swap(table(shown, 0, 1)[0], table(shown, 0, 1)[1]);
  });
}

}  // namespace
}  // namespace kvproof::properties
