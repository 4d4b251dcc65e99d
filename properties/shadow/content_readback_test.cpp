// SPDX-License-Identifier: Apache-2.0
// What is read back from tensors is held against the tokens of its request.
#include "properties/shadow/content_readback.h"

#include <gtest/gtest.h>

#include "reference/operations.h"

namespace kvproof::properties {
namespace {

constexpr ReadBack kGone{.kept = false};

/// Request r0 with the prompt 5 6 7 and 8 appended, all computed.
struct ReadScene {
  explicit ReadScene(std::vector<GroupConfig> groups, std::uint32_t sinks = 0)
      : config{.num_blocks = 9, .groups = std::move(groups)}, readback(config, sinks) {
    book.fold(op::Arrive{.req = "r0", .tokens = {5, 6, 7}, .extra = {}}, {});
    book.fold(op::Append{"r0", {8}}, {});
    state.requests = {{"r0", 4, 4, {}, {{1, 2}}, {}, {}}};
    r0 = {{true, 5, 0}, {true, 6, 1}, {true, 7, 2}, {true, 8, 3}};
  }
  std::string with(std::size_t position, ReadBack read) {
    r0[position] = read;
    return readback.read(state, book).value_or("right");
  }

  CacheConfig config;
  CallerBook book{config};
  ContentReadback readback;
  Snapshot state;
  std::vector<ReadBack>& r0 = state.contents.of["r0"];
};

GroupConfig layers(LayerKind kind, std::uint32_t window = 0) {
  return {.kind = kind, .block_size = 2, .window = window};
}

TEST(ContentReadback, NamesThePositionThatReadsWrong) {
  ReadScene scene({layers(LayerKind::full)});
  EXPECT_EQ(scene.with(2, {true, 7, 2}), "right");
  EXPECT_EQ(scene.readback.compared(), 4U);
  const std::string reads = " at position 2 of the tensors, expected [7, 2]";
  EXPECT_EQ(scene.with(2, {true, 6, 2}), "request r0 reads [6, 2]" + reads);
  EXPECT_EQ(scene.with(2, {true, 7, 3}), "request r0 reads [7, 3]" + reads);
  EXPECT_NE(scene.with(2, {true, -1, 2}).find("do not agree"), std::string::npos);
  EXPECT_EQ(scene.with(2, kGone), "request r0 reads nothing" + reads);
}

TEST(ContentReadback, GoneIsOnlyWhatNoLayerReadsAgain) {
  const GroupConfig window = layers(LayerKind::sliding_window, 3);  // the next token reads 2 and 3
  EXPECT_EQ(ReadScene({window}).with(1, kGone), "right");
  EXPECT_NE(ReadScene({window}).with(2, kGone), "right");
  EXPECT_EQ(ReadScene({window}, 1).with(1, kGone), "right");
  EXPECT_NE(ReadScene({window}, 2).with(1, kGone), "right") << "it is a sink";
  EXPECT_NE(ReadScene({window, layers(LayerKind::full)}).with(1, kGone), "right");
  EXPECT_NE(ReadScene({layers(LayerKind::rswa, 1)}).with(2, kGone), "right") << "of the prompt";
}

TEST(ContentReadback, FollowsARequestToItsEnd) {
  ReadScene scene({layers(LayerKind::full)});
  const auto finding = [&] {
    return scene.readback.read(scene.state, scene.book).value_or("right");
  };
  scene.book.fold(op::Fork{"r0", "r1"}, {});
  scene.book.fold(op::Append{"r1", {9}}, Declined{"no"});
  scene.book.fold(op::Append{"r1", {3}}, {});
  scene.state.requests.push_back({"r1", 5, 5, {}, {{1}}, {}, {}});
  scene.state.contents.of["r1"] = scene.r0;
  EXPECT_EQ(finding(), "request r1 shows the contents of 4 positions; 5 are computed");
  scene.state.contents.of["r1"].push_back({true, 3, 4});
  EXPECT_EQ(finding(), "right") << "it reads its parent's tokens, and its own";
  scene.state.requests[0].tables = {{}};
  EXPECT_EQ(finding(), "request r0 shows the contents of 4 positions; it holds no blocks");
  scene.r0.clear();
  scene.state.requests.pop_back();
  EXPECT_EQ(finding(), "contents of r1 are shown, and there is no such request");
}

}  // namespace
}  // namespace kvproof::properties
