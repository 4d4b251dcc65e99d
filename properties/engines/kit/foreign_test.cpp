// SPDX-License-Identifier: Apache-2.0
// What a foreign allocator may say, and what is not taken from it; and that nothing of ours is lost
// on the way through the text.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "optimized/subjects.h"
#include "properties/audit/audit.h"
#include "properties/caller/caller_book.h"
#include "properties/engines/kit/foreign_state.h"
#include "properties/engines/kit/foreign_subject.h"
#include "properties/sources/random/generators.h"
#include "properties/sources/random/ways.h"
#include "reference/operations.h"
#include "reference/trace_json.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

std::string refusal_of_promises(const std::string& line) {
  try {
    static_cast<void>(parse_promises(line));
    return "taken";
  } catch (const TextError& error) {
    return error.what();
  }
}

constexpr const char* kLeast = R"("operations":["arrive","append","advance","allocate","finish"])";

TEST(Readme, SaysOfEachOperationOnceWhatItMeans) {
  std::ifstream file(KVPROOF_SOURCE_DIR "/properties/engines/kit/README.md");
  std::map<std::string, int> rows;  // of that section, by how they begin: "| `arrive` |"
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("##")) inside = line == "### The operations";
    if (inside) ++rows[line.substr(0, line.find('|', 1) + 1)];
  }
  for (const std::string_view name : kOperationNames) {
    EXPECT_EQ(rows["| `" + std::string(name) + "` |"], 1) << name;
  }
}

TEST(Promises, AreReadAsTheyAreMeant) {
  const Promises p = parse_promises(std::string(R"({"promises":"profile:vllm-0.24",)") + kLeast +
                                    R"(,"block_ids":true})");
  EXPECT_EQ(p.level, Level::profile);
  EXPECT_EQ(p.profile, "vllm-0.24");
  EXPECT_TRUE(p.events);
  EXPECT_EQ(p.operations.count(), 5U);
  const Promises again = parse_promises(promises_json(p));
  EXPECT_EQ(again.operations, p.operations);
  EXPECT_EQ(again.profile, p.profile);
}

TEST(Promises, WithoutBlockIdsNothingIsAskedThatNamesBlocks) {
  const Promises p = parse_promises(
      R"({"promises":"safety","operations":["arrive","append","advance","allocate","finish",)"
      R"("evict","pin","take"],"block_ids":false})");
  EXPECT_EQ(p.operations.count(), 5U);
}

TEST(Promises, ThatCannotBeReadAreRefusedByField) {
  const std::string ids = R"(,"block_ids":true})";
  const std::string deep = std::string(10'000, '[') + std::string(10'000, ']');
  const std::pair<std::string, std::string> kCases[] = {
      {"", "a JSON object, found an empty line"},
      {"[]", "a JSON object, found an array"},
      {"hello", "found at byte 1: syntax error"},
      {"{\"a\":" + deep + "}", "at most 16 brackets"},
      {"{}", "promises"},
      {std::string(R"({"promises":"everything",)") + kLeast + ids, "one of safety, hits, policy"},
      {std::string(R"({"promises":"profile:vllm-9",)") + kLeast + ids, "profile:vllm-0.24"},
      {std::string(R"({"promises":1,)") + kLeast + ids, "promises"},
      {R"({"promises":"safety","block_ids":true})", "operations"},
      {R"({"promises":"safety","operations":"arrive","block_ids":true})", "operations"},
      {R"({"promises":"safety","operations":["arrive"],"block_ids":true})", "append is missing"},
      {R"({"promises":"safety","operations":["dance"],"block_ids":true})", "dance"},
      {R"({"promises":"safety","operations":[7],"block_ids":true})", "operations"},
      {std::string(R"({"promises":"safety",)") + kLeast + "}", "block_ids"},
      {std::string(R"({"promises":"safety",)") + kLeast + R"(,"block_ids":1})", "block_ids"},
      {R"({"error":""})", "a text that says why"},
      {R"({"error":7})", "a string"},
  };
  for (const auto& [line, expected] : kCases) {
    const std::string said = refusal_of_promises(line);
    EXPECT_NE(said.find(expected), std::string::npos) << line.substr(0, 80) << "\n" << said;
  }
}

std::string header_with(const std::string& member) {
  return std::string(R"({"promises":"safety",)") + kLeast + R"(,"block_ids":true,)" + member + "}";
}

TEST(Traits, AreReadByNameAndWrittenAsTheyAreDeclared) {
  const Promises p = parse_promises(
      header_with(R"("traits":{"duplicates":"newest_keeps","lookup":"within_allocate"})"));
  EXPECT_TRUE(p.traits.newest_keeps() && p.traits.looks_up_within());
  EXPECT_FALSE(p.traits.reserves_prompt() || p.traits.table_repointed());
  EXPECT_TRUE(p.operations.test(operation_index("lookup"))) << "an admission is judged as one";
  EXPECT_EQ(traits_text(p.traits), R"("duplicates":"newest_keeps","lookup":"within_allocate")");
  EXPECT_EQ(traits_text({}), "");
  EXPECT_EQ(
      parse_promises(header_with(R"("traits":{"granularity":"token"})")).abilities.block_sizes,
      std::vector<std::uint32_t>{1});
}

TEST(Traits, KeysOfEveryTokenNeedManagersThatHaveThem) {
  const Promises p = parse_promises(header_with(R"("traits":{"granularity":"partial"})"));
  Configuration row = *find_configuration("full");
  row.within = &p.abilities;
  bool longer = false;
  for (Choice setup = 0; setup < 20; ++setup) {
    const CacheConfig config = draw_config(kProfiles[0], row, mix64(setup));
    EXPECT_EQ(config.hash_block_size, 1U);
    EXPECT_EQ(why_beyond(p.abilities, config), "");
    longer = longer || config.groups.front().block_size > 1;
  }
  EXPECT_TRUE(longer);
  EXPECT_NE(why_beyond(p.abilities, pool(9, {full(3)})), "");
}

TEST(Abilities, BoundWhatIsDrawn) {
  const Promises p = parse_promises(
      header_with(R"("abilities":{"block_sizes":[3],"kinds":["mla"],"caching":[true],"groups":1,)"
                  R"("blocks":[20,22],"chunks":false,"forks":"computed","watermark":false})"));
  Configuration row = *find_configuration("full");
  row.within = &p.abilities;
  for (Choice setup = 0; setup < 200; ++setup) {
    const CacheConfig config = draw_config(kProfiles[0], row, setup);
    EXPECT_EQ(config.groups.front().block_size, 3U);
    EXPECT_EQ(config.groups.front().kind, LayerKind::mla);
    EXPECT_TRUE(config.num_blocks >= 20 && config.num_blocks <= 22) << config.num_blocks;
    EXPECT_EQ(config.watermark, 0.0);
    EXPECT_EQ(why_beyond(p.abilities, config), "");
    const Calls calls = draw_swarm(row, setup).calls;
    EXPECT_FALSE(calls.chunks || calls.early_forks || knows_all_calls(calls));
  }
  EXPECT_EQ(left_out_by(p.abilities).size(), 4U);
  EXPECT_EQ(left_out_by({}).size(), 0U);
  EXPECT_NE(why_beyond(p.abilities, pool(21, {full(3)})), "");
}

TEST(Abilities, RoomForNoRequestIsRoomForOne) {
  const Promises none = parse_promises(header_with(R"("capacity":{"requests":0})"));
  Configuration row = *find_configuration("full");
  row.within = &none.abilities;
  const CacheConfig config = draw_config(kProfiles[0], row, 1);
  const Generator generator(config, draw_swarm(row, 1));
  Snapshot empty;
  empty.blocks.resize(config.num_blocks);
  const Operation first = generator.next(1, empty, History(config));
  EXPECT_TRUE(std::holds_alternative<op::Arrive>(first));
}

TEST(Abilities, AreStatedWithARefusal) {
  const Promises p = parse_promises(
      R"({"unsupported":true,"reason":"blocks of 16","abilities":{"block_sizes":[16]}})");
  EXPECT_EQ(p.unsupported, "blocks of 16");
  EXPECT_EQ(p.abilities.block_sizes, std::vector<std::uint32_t>{16});
}

TEST(Traits, AndAbilitiesThatCannotBeReadAreRefusedByField) {
  const std::pair<std::string, std::string> kCases[] = {
      {R"("traits":[])", "an object"},
      {R"("traits":{"duplicate":"newest_keeps"})", "one of duplicates, reserves"},
      {R"("traits":{"duplicates":"newest"})", "duplicates: one of each_keeps, oldest_keeps"},
      {R"("traits":{"reserves":""})", "one of chunk, prompt, found ''"},
      {R"("traits":{"reserves":1})", "one of chunk, prompt"},
      {R"("abilities":7)", "an object"},
      {R"("abilities":{"block_size":[1]})", "one of block_sizes"},
      {R"("abilities":{"block_sizes":[]})", "at least one size"},
      {R"("abilities":{"block_sizes":[0]})", "sizes from 1 to 1024"},
      {R"("abilities":{"block_sizes":[4294967295]})", "sizes from 1 to 1024"},
      {R"("abilities":{"kinds":["half"]})", "kinds of layers, found 'half'"},
      {R"("abilities":{"caching":[]})", "[true,false]"},
      {R"("abilities":{"blocks":[9,3]})", "[least, most]"},
      {R"("abilities":{"blocks":[5000,9000]})", "at most 4096"},
      {R"("abilities":{"groups":0})", "at least one group"},
      {R"("abilities":{"forks":"never"})", "any or computed, found 'never'"},
      {R"("abilities":{"chunks":"no"})", "true or false"},
  };
  for (const auto& [member, expected] : kCases) {
    const std::string said = refusal_of_promises(header_with(member));
    EXPECT_NE(said.find(expected), std::string::npos) << member << "\n" << said;
  }
}

TEST(Promises, CanBeThatNothingWorks) {
  EXPECT_EQ(parse_promises(R"({"error":"libx.so: exports no such thing"})").error,
            "libx.so: exports no such thing");
}

/// A pool of four blocks, one group, and a request r0 that was granted one.
struct ForeignScene {
  CacheConfig config = pool(4, {full(2)});
  CallerBook book{config};
  ForeignState state{config};
  Promises promises;

  ForeignScene() {
    book.fold(op::Arrive{.req = "r0", .tokens = {1, 2}, .extra = {}}, {});
    book.fold(op::Allocate{"r0", {.new_tokens = 2}}, Granted{{{1}}, {}});
  }
  void read(const std::string& line) {
    const TraceLine answer = parse_answer(op::Advance{"r0", 2}, line);
    state.check({answer.result.value_or(Result()), answer.events.value_or(std::vector<Event>())});
    state.read(answer.state.value(), promises, book);
  }
  std::string refusal(const std::string& line) {
    try {
      read(line);
      return "taken";
    } catch (const TextError& error) {
      return error.what();
    }
  }
};

TEST(ForeignState, TakesWhatTheCallerKnowsFromTheCaller) {
  ForeignScene scene;
  scene.read(R"({"state":{"free":2,"queue":[2,3],"ref":[[1,1]],"tables":{"r0":[[1]]}}})");
  const Snapshot& s = scene.state.snapshot();
  ASSERT_EQ(s.requests.size(), 1U);
  EXPECT_EQ(s.requests[0].num_tokens, 2U);
  EXPECT_EQ(s.requests[0].tables, (std::vector<std::vector<BlockId>>{{1}}));
  EXPECT_EQ(s.blocks[1].ref_cnt, 1);
  EXPECT_EQ(s.queue_backward, (std::vector<BlockId>{3, 2}));
  EXPECT_EQ(scene.state.shown(), Parts{kIds | kQueue | kReferences});
  // What is not listed again is as it was; what was finished is gone.
  scene.read(R"({"state":{"free":2,"queue":[2,3],"ref":[[1,1]]}})");
  EXPECT_EQ(scene.state.snapshot().requests[0].tables.front().size(), 1U);
  scene.book.fold(op::Finish{"r0"}, {});
  scene.read(R"({"state":{"free":3,"queue":[2,3,1],"ref":[]}})");
  EXPECT_TRUE(scene.state.snapshot().requests.empty());
  scene.read(R"({"state":{"free":3,"queue":[2,3,1],"ref":[],"tables":{"r0":[[1]]}}})");
  EXPECT_EQ(scene.state.snapshot().requests.size(), 1U) << "what leaks must be seen";
}

TEST(ForeignState, RefusesWhatCannotBeAStateOfThisManager) {
  const std::pair<std::string, std::string> kCases[] = {
      {R"({"state":{}})", "free"},
      {R"({"state":{"free":-1}})", "free"},
      {R"({"state":{"free":1e99}})", "free"},
      {R"({"state":{"free":1,"queue":[4]}})", "block ids below 4"},
      {R"({"state":{"free":1,"queue":[4294967295]}})", "block ids below 4"},
      {R"({"state":{"free":1,"queue":{}}})", "queue"},
      {R"({"state":{"free":1,"ref":[[9,1]]}})", "ref"},
      {R"({"state":{"free":1,"ref":[[1]]}})", "ref"},
      {R"({"state":{"free":1,"cached":[[1,1]]}})", "groups below 1"},
      {R"({"state":{"free":1,"key":[[1,null]]}})", "key"},
      {R"({"state":{"free":1,"index":[[0,"k",[7]]]}})", "index"},
      {R"({"state":{"free":1,"tables":{"r0":[]}}})", "one list for each of 1 groups"},
      {R"({"state":{"free":1,"tables":{"r0":[[1],[2]]}}})", "one list for each of 1 groups"},
      {R"({"state":{"free":1,"tables":{"r0":[[77]]}}})", "block ids below 4"},
      {R"({"state":{"free":1,"progress":{"r0":[1,2]}}})", "progress"},
      {R"({"state":{"free":1,"raw":[8]}})", "raw"},
      {R"({"state":{"free":1,"copying":[8]}})", "copying"},
      {R"({"state":{"free":1,"leases":{"l":[8]}}})", "leases"},
      {R"({"state":{"free":1},"events":[{"type":"removed","group":3,"block":1,"prefix":2}]})",
       "groups below 1"},
      {R"({"state":{"free":1},"events":7})", "events"},
      {R"({"state":[]})", "state"},
      {R"({"state":{"free":1,"contents":{}}})", "in the answer to the header, too"},
      {R"({"state":{"free":1,"contents":[]}})", "contents"},
      {R"({"state":{"free":1,"contents":{"r0":7}}})", "contents"},
      {R"({"state":{"free":1,"contents":{"r0":[[1]]}}})", "[token, position] or null"},
      {R"({"state":{"free":1,"contents":{"r0":[[1,0.5]]}}})", "an integer"},
  };
  for (const auto& [line, expected] : kCases) {
    ForeignScene scene;
    const std::string said = scene.refusal(line);
    EXPECT_NE(said.find(expected), std::string::npos) << line << "\n" << said;
  }
  ForeignScene scene;
  scene.read(R"({"state":{"free":3,"queue":[1,2,3]}})");
  EXPECT_NE(scene.refusal(R"({"state":{"free":3}})").find("the free queue"), std::string::npos);
  ForeignScene reads_back;
  reads_back.promises.contents = true;
  EXPECT_NE(reads_back.refusal(R"({"state":{"free":3}})").find("contents"), std::string::npos);
}

TEST(ForeignState, WithoutIdsTablesHaveLengthsOnly) {
  ForeignScene scene;
  scene.promises.block_ids = false;
  scene.read(R"({"state":{"free":2,"lens":{"r0":[3]}}})");
  EXPECT_EQ(scene.state.snapshot().requests[0].tables.front(), (std::vector<BlockId>{0, 0, 0}));
  EXPECT_NE(scene.refusal(R"({"state":{"free":2,"lens":{"r0":[4000000000]}}})").find("lens"),
            std::string::npos)
      << "nothing is allocated for what is only claimed";
}

void expect_nothing_is_lost(const Profile& profile, const Configuration& row) {
  ChoiceStream choices(7);
  const Choice setup = choices.next();
  const CacheConfig config = draw_config(profile, row, setup);
  const auto subject = optimized::find_subject("naive")->make(config);
  Audit audit(config, *subject);
  const Generator generator(config, draw_swarm(row, setup));
  ForeignState state(config);
  CallerBook book(config);
  Promises promises;
  for (int i = 0; i < 80; ++i) {
    const Operation operation = generator.next(choices.next(), audit.state(), audit.history());
    const Outcome outcome = audit.apply(operation);
    const TraceLine read = parse_answer(operation, to_json(outcome, audit.state()));
    ASSERT_EQ(read.result.value_or(Result()), outcome.result) << to_json(operation);
    ASSERT_EQ(read.events, outcome.events);
    book.fold(operation, outcome.result);
    state.read(*read.state, promises, book);
    Snapshot expected = audit.state();
    expected.work.reset();                // others are not asked for it
    expected.blocks.front().ref_cnt = 0;  // not maintained
    if (!expected.host.blocks.empty()) expected.host.blocks.front().ref_cnt = 0;
    ASSERT_EQ(state.snapshot(), expected) << row.name << ' ' << to_json(operation);
  }
}

// Every part of a state survives being written and read: leases, both tiers, second keys, blocks
// that are held for their copies.
TEST(StateText, LosesNothing) {
  for (const Profile& profile : kProfiles) {
    for (const Configuration& row : kConfigurations) expect_nothing_is_lost(profile, row);
  }
}

}  // namespace
}  // namespace kvproof::properties
