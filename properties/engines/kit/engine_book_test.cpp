// SPDX-License-Identifier: Apache-2.0
// What the book asks of an engine, what it makes of the answers, and what it declines by itself.
#include "properties/engines/kit/engine_book.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "properties/caller/configurations.h"
#include "properties/sources/random/ways.h"

namespace kvproof::properties {
namespace {

using nlohmann::json;

constexpr const char* kEmpty = R"({"state":{"free":5,"tables":{}}})";

/// An engine of five blocks of two tokens, whose answers the test gives.
struct Scene {
  explicit Scene(const std::string& says = "")
      : promises(parse_promises(
            R"({"level":"engine","promises":"safety","block_ids":true,"operations":["arrive",)"
            R"("append","advance","lookup","allocate","free","finish","fork"])" +
            says + R"(})")) {
    answer = kEmpty;
    engine.build();
    perform(op::Arrive{.req = "a", .tokens = {1, 2, 3}, .extra = {}}, kEmpty);
  }

  TraceLine perform(const Operation& operation, const std::string& answered) {
    answer = answered;
    TraceLine read = engine.perform(operation);
    if (read.unsupported.empty()) book.fold(operation, read.result.value_or(Result()));
    return read;
  }
  TraceLine allocate(std::uint32_t new_tokens, const std::string& answered,
                     AllocateArgs args = {}) {
    args.new_tokens = new_tokens;
    return perform(op::Allocate{"a", args}, answered);
  }
  std::string_view hear(const std::string& said) {
    line = said;
    return answer;
  }
  [[nodiscard]] json asked() const { return json::parse(line); }

  CacheConfig config = pool(6, {full(2)});
  Promises promises;
  CallerBook book{config};
  std::string line, answer;
  EngineBook engine{config, promises, book, [this](const auto& said) { return hear(said); }};
};

constexpr const char* kAdmitted = R"({"out":0,"state":{"free":3,"tables":{"a":[[1,2]]}}})";

TEST(EngineBook, TellsTheFactsBeforeAndBehindACall) {
  Scene scene;
  const TraceLine read = scene.allocate(3, kAdmitted, {.lookahead = 1});
  const json asked = scene.asked();
  EXPECT_EQ(asked["hooks"], json({"admit"}));
  EXPECT_EQ(asked["with"], json::parse("[4,[]]"));
  EXPECT_EQ(asked["is"]["a"]["ahead"], 1);
  EXPECT_EQ(asked["then"]["a"], json::parse(R"({"holds":true,"granted":3,"room":4})"));
  EXPECT_EQ(std::get<Granted>(*read.result).blocks, (std::vector<std::vector<BlockId>>{{1, 2}}));
  EXPECT_EQ(read.state->tables.at("a"), (std::vector<std::vector<BlockId>>{{1, 2}}));
}

TEST(EngineBook, ARefusedRequestIsAdmittedAnew) {
  Scene scene;
  EXPECT_EQ(scene.allocate(3, R"({"out":null,"state":{"free":1,"tables":{}}})").result,
            Result(Refused{}));
  scene.allocate(3, kAdmitted);
  EXPECT_EQ(scene.asked()["hooks"], json({"admit"}));
  scene.allocate(4, R"({"out":false,"state":{"free":0,"tables":{"a":[[1,2]]}}})");
  EXPECT_EQ(scene.asked()["hooks"], json({"grow"}));
}

TEST(EngineBook, AsksNothingOfWhoHasRoomUnlessItShares) {
  Scene scene;
  scene.allocate(2, kAdmitted, {.lookahead = 2});
  scene.allocate(3, kAdmitted);
  EXPECT_EQ(scene.asked()["hooks"], json::array());
  scene.perform(op::Fork{"a", "b"},
                R"({"copies":[[2,3]],"state":{"free":2,"tables":{"a":[[1,2]],"b":[[1,3]]}}})");
  EXPECT_EQ(scene.asked()["is"]["b"]["tokens"], json({1, 2, 3}));
  scene.allocate(3, R"({"out":true,"copies":[[1,4]],"state":{"free":1,"tables":{"a":[[4,2]]}}})");
  EXPECT_EQ(scene.asked()["hooks"], json({"grow"}));
}

TEST(EngineBook, CopiesComeFirstInAGrant) {
  Scene scene;
  scene.allocate(3, kAdmitted);
  const TraceLine read = scene.allocate(
      5, R"({"out":true,"copies":[[2,4]],"state":{"free":1,"tables":{"a":[[1,4,3]]}}})");
  EXPECT_EQ(std::get<Granted>(*read.result),
            (Granted{{{4, 3}}, {{.from = 2, .to = 4}}, std::nullopt}));
}

TEST(EngineBook, AnAdmissionThatLooksUpSaysWhatItFound) {
  Scene scene(R"(,"traits":{"lookup":"within_allocate"})");
  EXPECT_EQ(scene.allocate(3, kAdmitted).unsupported, "a prefix is always looked up");
  const TraceLine read = scene.allocate(3, R"({"out":2,"state":{"free":0,"tables":{"a":[[4,1]]}}})",
                                        {.use_lookup = true});
  EXPECT_EQ(scene.asked()["with"], json::parse("[3,null]"));
  EXPECT_EQ(std::get<Granted>(*read.result), (Granted{{{1}}, {}, Hit{2, {{4}}}}));
}

TEST(EngineBook, DeclinesWhatTheEngineLacks) {
  Scene scene(R"(,"abilities":{"external":false,"chunks":false,"drafts":false,"appends":"one",)"
              R"("advance":"whole","without_lookup":false,"extra":false})");
  EXPECT_EQ(scene.allocate(3, "", {.external = 2}).unsupported, "no connector");
  EXPECT_EQ(scene.allocate(4, "").unsupported, "no drafts");
  EXPECT_EQ(scene.allocate(2, "").unsupported, "a prompt is admitted whole");
  EXPECT_EQ(scene.perform(op::Step{}, "").unsupported, "no step");
  EXPECT_EQ(scene.perform(op::Arrive{.req = "b", .extra = {.salt = "s"}}, "").unsupported,
            "no extra keys");
  const std::string found = R"({"out":[1],"state":{"free":4,"tables":{}}})";
  EXPECT_EQ(scene.allocate(3, found).unsupported, "whatever is found is used");
  const std::string none = R"({"out":[],"state":{"free":4,"tables":{}}})";
  scene.allocate(3, none);
  EXPECT_NE(scene.engine.why_not(pool(6, {full(2), full(2)}), scene.promises), "");
}

TEST(EngineBook, StepsAreTakenInTheOrderOfTheEngine) {
  Scene scene(R"(,"abilities":{"appends":"one","advance":"whole"})");
  scene.allocate(3, kAdmitted);
  EXPECT_NE(scene.perform(op::Append{"a", {4}}, "").unsupported, "");
  EXPECT_NE(scene.perform(op::Advance{"a", 2}, "").unsupported, "");
  scene.perform(op::Advance{"a", 3}, kAdmitted);
  EXPECT_NE(scene.perform(op::Append{"a", {4, 5}}, "").unsupported, "");
  EXPECT_EQ(scene.perform(op::Append{"a", {4}}, kAdmitted).unsupported, "");
  scene.allocate(1, R"({"out":true,"state":{"free":3,"tables":{"a":[[1,2]]}}})");
  const TraceLine read = scene.perform(
      op::Finish{"a"}, R"({"events":[{"type":"cleared"}],"state":{"free":5,"tables":{}}})");
  EXPECT_EQ(read.events->size(), 2U) << "of the advance, too";
  EXPECT_EQ(scene.asked()["hooks"], json({"release", "finish"})) << "all granted is computed first";
  EXPECT_EQ(scene.asked()["is"]["a"]["computed"], 4);
}

TEST(EngineBook, KeysCoverTheTokensThatRequestsHave) {
  Scene scene;
  const TraceLine read =
      scene.perform(op::Append{"a", {4}},
                    R"({"state":{"free":5,"tables":{},"hashes":{"a":[7,8]},"key":[[1,8],[2,9]]}})");
  ASSERT_EQ(read.state->key->size(), 2U);
  EXPECT_EQ(read.state->key->front().prefix_tokens, 4U);
  EXPECT_EQ(read.state->key->back().prefix_tokens, 0U) << "no request has had these tokens";
  EXPECT_EQ(read.state->cached, (RecordedPool::Pairs{{1, 0}, {2, 0}}));
}

TEST(EngineBook, FactsAreStatedAgainAfterACallThatIsDeclined) {
  Scene scene;
  scene.allocate(3, kAdmitted);
  scene.perform(op::Fork{"a", "b"}, R"({"unsupported":true,"reason":"no room"})");
  scene.perform(op::Arrive{.req = "c", .extra = {}}, kAdmitted);
  EXPECT_TRUE(scene.asked()["is"]["b"].is_null());
  EXPECT_TRUE(scene.asked()["is"]["c"].contains("extra")) << "that it is new";
  EXPECT_EQ(scene.asked()["is"]["a"]["tokens"], json({1, 2, 3}));
}

TEST(EngineBook, RefusesWhatCannotBeAnAnswer) {
  for (const char* answer : {R"({"out":0,"state":7})", R"([])",
                             R"({"out":"much","state":{"free":1,"tables":{"a":[[1]]}}})",
                             R"({"out":0,"state":{"free":1,"tables":{"a":7}}})",
                             R"({"out":0,"copies":[[1]],"state":{"free":1,"tables":{}}})"}) {
    Scene scene(R"(,"traits":{"lookup":"within_allocate"})");
    EXPECT_THROW(scene.allocate(3, answer, {.use_lookup = true}), TextError) << answer;
  }
  EXPECT_THROW(static_cast<void>(is_of_level_engine(R"({"level":"none"})")), TextError);
  EXPECT_FALSE(is_of_level_engine(R"({"promises":"safety"})"));
}

}  // namespace
}  // namespace kvproof::properties
