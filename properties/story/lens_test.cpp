// SPDX-License-Identifier: Apache-2.0
// Lenses are unpacked as their page does it, and every state is compared with what the subject
// showed then.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "properties/audit/shrink.h"
#include "properties/laws/laws.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/traces/test_files.h"
#include "properties/story/beside.h"
#include "properties/story/story.h"
#include "reference/trace_state.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string unpacked(const std::string& page) {
  const std::string_view begin = "id=\"lens-data\">";
  const std::size_t from = page.find(begin) + begin.size();
  std::string text = page.substr(from, page.find("</script>", from) - from);
  std::string zipped(text.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(zipped.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  EXPECT_GT(size, 0);
  std::string out(std::size_t{64} << 20, '\0');
  uLongf length = out.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(out.data()), &length,
                       reinterpret_cast<const Bytef*>(zipped.data()), zipped.size()),
            Z_OK);
  out.resize(length);
  return out;
}

std::vector<json> lines_of(const std::string& page) {
  std::vector<json> out;
  std::istringstream in(unpacked(page));
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}
std::vector<json> lines_of(const Story& story) { return lines_of(lens_page(story)); }

std::vector<json> lines_in(const fs::path& page) {
  std::ifstream in(page);
  return lines_of(std::string(std::istreambuf_iterator<char>(in), {}));
}

json spliced(json list, const json& splices) {
  for (const json& splice : splices) {
    const auto at = list.begin() + splice[0].get<int>();
    list.erase(at, at + splice[1].get<int>());
    list.insert(list.begin() + splice[0].get<int>(), splice[2].begin(), splice[2].end());
  }
  return list;
}

json tables_after(const json& before, const json& changes) {
  json out = json::array();
  for (std::size_t g = 0; g < changes.size(); ++g) {
    out.push_back(spliced(g < before.size() ? before[g] : json::array(), changes[g]));
  }
  return out;
}

/// What the page holds of a state, from the state itself.
json expected(const Snapshot& state, KeyNumbers& keys) {
  see_keys(state, keys);
  json out = {{"raw", state.raw}, {"cp", state.copying}};
  out["r"] = out["l"] = json::object();
  for (const std::string tier : {"", "h"}) {
    const PoolState& pool = tier.empty() ? state : state.host;
    if (pool.blocks.empty()) continue;
    out[tier + "f"] = pool.num_free;
    out[tier + "q"] = pool.queue;
    const std::vector<BlockId> backward(pool.queue.rbegin(), pool.queue.rend());
    out[tier + "qb"] = backward == pool.queue_backward ? json() : json(pool.queue_backward);
    json& rows = out[tier + "b"] = json::object();
    for (std::uint32_t b = 1; b < pool.blocks.size(); ++b) {
      const BlockState& block = pool.blocks[b];
      json further = json::array();
      for (const FurtherKey& key : pool.further_keys) {
        if (key.block == b) further.push_back(keys(key.key));
      }
      const json row = {b,
                        block.ref_cnt,
                        block.hashed ? keys(block.key) : 0,
                        block.hashed ? std::uint32_t{block.group} : 0,
                        block.hashed ? block.prefix_tokens : 0,
                        block.tail_key ? keys(*block.tail_key) : 0,
                        further};
      if (row != json{b, 0, 0, 0, 0, 0, json::array()}) rows[std::to_string(b)] = row;
    }
  }
  for (const RequestState& r : state.requests) {
    json progress = json::array();
    for (const auto& position : r.progress) progress.push_back(position ? json(*position) : json());
    out["r"][r.name] = {r.num_tokens, r.computed, r.tables, progress, r.host_tables};
  }
  for (const LeaseState& lease : state.leases) out["l"][lease.name] = lease.blocks;
  return out;
}

/// Goes through the lines as the page does.
class Page {
 public:
  explicit Page(const std::vector<json>& lines) : lines_(lines) {}

  [[nodiscard]] const json& head() const { return lines_[0]; }
  [[nodiscard]] const json& state() const { return state_; }

  /// @return the next step, or null behind the last
  json next() {
    if (at_ < lines_.size() && lines_[at_].contains("F")) {
      json frame = {{"f", 0}, {"q", json::array()}, {"qb", json()}};
      if (head()["host"]) frame.update({{"hf", 0}, {"hq", json::array()}, {"hqb", json()}});
      for (const char* map : {"b", "r", "l", "hb"}) {
        if (*map != 'h' || head()["host"]) frame[map] = json::object();
      }
      frame["raw"] = frame["cp"] = json::array();
      apply(lines_[at_++]["F"], frame);
      if (at_ > 2) {
        EXPECT_EQ(frame, state_) << "a frame is the state that the steps led to";
      }
      state_ = std::move(frame);
    }
    if (at_ == lines_.size()) return {};
    apply(lines_[at_], state_);
    return lines_[at_++];
  }

 private:
  static void apply(const json& step, json& state) {
    for (const char* plain : {"f", "hf", "qb", "hqb", "raw", "cp"}) {
      if (step.contains(plain)) state[plain] = step[plain];
    }
    for (const char* queue : {"q", "hq"}) {
      if (step.contains(queue)) state[queue] = spliced(state[queue], step[queue]);
    }
    for (const char* blocks : {"b", "hb"}) {
      for (const json& row : step.value(blocks, json::array())) {
        const std::string id = std::to_string(row[0].get<int>());
        state[blocks][id] = row;
        if (row == json{row[0], 0, 0, 0, 0, 0, json::array()}) state[blocks].erase(id);
      }
    }
    const json requests = step.value("r", json::object());
    for (const auto& [name, now] : requests.items()) {
      const json was = state["r"].value(name, json{0, 0, json::array(), json(), json::array()});
      state["r"].erase(name);
      if (now.is_null()) continue;
      state["r"][name] = {now[0], now[1], tables_after(was[2], now[2]), now[3],
                          tables_after(was[4], now[4])};
    }
    const json leases = step.value("l", json::object());
    for (const auto& [name, now] : leases.items()) {
      state["l"].erase(name);
      if (!now.is_null()) state["l"][name] = now;
    }
  }

  const std::vector<json>& lines_;
  std::size_t at_ = 1;
  json state_;
};

/// A run with its story and what the subject showed after each operation.
struct ShownRun {
  std::shared_ptr<Story> story;
  std::vector<json> states;
};

ShownRun random_run(const char* row, std::uint64_t seed, std::size_t operations) {
  ShownRun out;
  const Configuration& configuration = *find_configuration(row);
  const CacheConfig config = draw_config(kDefaultProfile, configuration, seed);
  const auto subject = with_story(config, {reference::make_cache_manager(config)}, out.story);
  Swarm swarm = usual_swarm();
  ChoiceStream stream(seed);
  const auto choices = stream.take(operations);
  const Generator generator(config, swarm);
  Audit audit(config, *subject, Oracles{false, false, false});
  KeyNumbers keys;
  const auto failure =
      play_out(config, audit, from_choices(generator, choices), [&](const Operation&) {
        out.states.push_back(expected(audit.state(), keys));
        return true;
      });
  EXPECT_FALSE(failure.has_value());
  return out;
}

TEST(Lens, EachDifferenceLeadsToTheStateThatFollowed) {
  std::map<std::string, int> seen;
  for (const char* row : {"full_host", "full_window_host", "prompt_tails", "full2_mamba2_align"}) {
    const ShownRun run = random_run(row, 7, 1100);
    const auto lines = lines_of(*run.story);
    Page page(lines);
    ASSERT_EQ(page.head()["steps"], run.states.size());
    ASSERT_GT(run.states.size(), Story::kFrame) << "there is a second frame";
    for (std::size_t i = 0; i < run.states.size(); ++i) {
      const json step = page.next();
      ASSERT_EQ(page.state(), run.states[i]) << row << ", operation " << i << ": " << step;
      for (const auto& [name, value] : step.items()) ++seen[name];
      ++seen[step["op"]["op"]];
      const std::string flags = step.value("x", "");
      for (const char flag : flags) ++seen[std::string(1, flag)];
    }
  }
  for (const char* part :
       {"f",   "q",    "b",    "r",   "l", "raw", "cp", "hf",   "hq",  "hb",       "t",       "ev",
        "out", "want", "need", "why", "e", "h",   "p",  "fork", "pin", "swap_out", "truncate"}) {
    EXPECT_GT(seen[part], 0) << part << " was not in any run";
  }
}

TEST(Lens, ShowsWhatALiarShows) {
  const CacheConfig config = draw_config(kDefaultProfile, *find_configuration("full"), 1);
  Snapshot before;
  before.blocks.resize(4);
  before.queue = {1, 2, 3};
  before.queue_backward = {3, 2, 1};
  before.requests.emplace_back().name = "r \"0\"";
  before.requests[0].tables = {{1, 2}};
  Snapshot after = before;
  after.queue = {2, 2, 1};
  after.queue_backward = {9};
  after.blocks[1].ref_cnt = -1;
  after.blocks[2].tail_key = 5;
  after.further_keys = {{3, 6}, {3, 5}};
  after.requests[0].tables = {{9}, {1, 1}};
  after.requests[0].progress = {std::nullopt};
  after.leases = {{"l", {1, 1}}};
  Story story(config, before);
  KeyNumbers keys;
  const json expectation = expected(after, keys);
  story.add({.request = {}, .state = after, .transfers = {}, .event = "{}"});
  const auto lines = lines_of(story);
  Page page(lines);
  (void)page.next();
  EXPECT_EQ(page.state(), expectation);
}

TEST(Lens, NamesAKeyByItsParentAndItsLastTokens) {
  CacheConfig config;
  config.num_blocks = 4;
  config.max_model_len = 100;
  config.hash_block_size = 2;
  config.groups = {{.block_size = 2}, {.block_size = 4}};
  std::shared_ptr<Story> story;
  const auto subject = with_story(config, {reference::make_cache_manager(config)}, story);
  (void)subject->apply(op::Arrive{"r", {7, 8, 1000000, 2000000}});
  (void)subject->apply(op::Allocate{"r", {.new_tokens = 4}});
  const json head = lines_of(*story)[0];
  // The two groups have one key where they have equal content; it is that of the first block.
  EXPECT_EQ(head["keys"], json({{0, 0, 2, "7 8"}, {1, 0, 4, "1000000 2000000"}}));
}

TEST(Splices, LeadFromAnyQueueToAnyOther) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<BlockId> queues[2];
    for (auto& queue : queues) {
      for (std::uint32_t id = 1; id < 9; ++id) queue.emplace_back(id);
      if (random() % 2 == 0) std::ranges::shuffle(queue, random);
      queue.resize(random() % 9);
    }
    const json splices = json::parse(splices_of_queue(queues[0], queues[1]));
    EXPECT_EQ(spliced(queues[0], splices), json(queues[1])) << splices;
  }
  EXPECT_EQ(splices_of_queue({1, 2, 3, 4}, {3, 4, 1}), "[[0,2,[]],[2,0,[1]]]");
  EXPECT_EQ(splices_of_queue({1, 2, 3, 4}, {9, 1, 3, 4}), "[[0,0,[9]],[2,1,[]]]");
}

TEST(Lens, OfADoubleFreeNamesTheLawAndTheBlock) {
  const TemporaryFolder folder;
  const MakeSubject make = [](const CacheConfig& c) { return make_museum("B002", c); };
  const auto found =
      run_trace(make, draw_config(kProfiles[0], *find_configuration("full"), 1),
                {{op::Take{2}, op::Touch{{2}}, op::Release{{2, 2}}, op::Step{}}}, {});
  ASSERT_TRUE(found.has_value());
  const Kept kept = keep_failure(*found, 1, folder.path(), show_all(make), "--audit");
  const fs::path page_path = folder.path() / "kvproof-failure-1.html";
  EXPECT_EQ(kept.lens, page_path.string());
  EXPECT_EQ(kept.told, "look at it: file://" + page_path.string() + "\n");
  const auto lines = lines_in(page_path);
  Page page(lines);
  const json& verdict = page.head()["verdicts"][0];
  EXPECT_EQ(verdict["law"], "I2");
  EXPECT_EQ(verdict["step"], 2);
  EXPECT_EQ(verdict["blocks"], json::array({2})) << verdict;
  EXPECT_EQ(verdict["right"], json({{2, 0, 0}}));
  EXPECT_EQ(verdict["sentence"], std::string(find_law("I2")->sentence));
  EXPECT_EQ(page.head()["open"], 2);
  EXPECT_EQ(page.head()["command"],
            "./kvproof replay --audit " + (folder.path() / "kvproof-failure-1.jsonl").string());
  for (int i = 0; i < 3; ++i) (void)page.next();
  const auto twice = page.state()["q"].get<std::vector<int>>();
  EXPECT_EQ(std::ranges::count(twice, 2), 2);
}

CacheConfig eight_blocks() {
  CacheConfig config;
  config.num_blocks = 9;
  config.max_model_len = 100;
  config.hash_block_size = 4;
  config.groups = {{.block_size = 4}};
  return config;
}

/// The lens of a pool of eight blocks in which a request asks for four, by a manager of so many.
std::vector<json> lens_of_four(std::uint32_t num_blocks, std::uint32_t reserved) {
  const CacheConfig config = eight_blocks();
  CacheConfig smaller = config;
  smaller.num_blocks = num_blocks;
  std::shared_ptr<Story> story;
  const auto subject = with_story(config, {reference::make_cache_manager(smaller)}, story);
  (void)subject->apply(op::Arrive{"r", std::vector<TokenId>(16, TokenId(1))});
  (void)subject->apply(op::Allocate{"r", {.new_tokens = 16, .reserved = reserved}});
  (void)subject->apply(op::Free{"r"});
  return lines_of(*story);
}

TEST(Lens, ShowsWhatWouldHaveBeenRight) {
  const auto lines = lens_of_four(4, 0);  // it refuses what the pool of eight grants
  EXPECT_EQ(lines[2]["want"], 1);
  EXPECT_TRUE(lines[3]["out"].is_null());
  EXPECT_EQ(lines[3]["want"]["out"]["blocks"], json({{1, 2, 3, 4}}));
  EXPECT_EQ(lines[3]["need"], json({4, 8}));
  EXPECT_FALSE(lines[4].contains("want")) << "the model does not follow another history";
  const auto refused = lens_of_four(9, 5);
  EXPECT_EQ(refused[3]["x"], "r");
  EXPECT_EQ(refused[3]["need"], json({9, 8}));
}

/// It holds one request at most.
class OfOneRequest final : public Subject {
 public:
  Outcome apply(const Operation& operation) override {
    if (std::holds_alternative<op::Arrive>(operation) && ++arrivals_ > 1) {
      return {Rejected{Breach::capacity, "one request"}, {}};
    }
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override { inner_->observe(snapshot); }

 private:
  std::unique_ptr<Subject> inner_ = reference::make_cache_manager(eight_blocks());
  int arrivals_ = 0;
};

TEST(Lens, DoesNotCallALimitOfTheSubjectADifferenceFromTheModel) {
  std::shared_ptr<Story> story;
  const auto subject = with_story(eight_blocks(), {std::make_unique<OfOneRequest>()}, story);
  (void)subject->apply(op::Arrive{"a", {TokenId(1)}});
  (void)subject->apply(op::Arrive{"b", {TokenId(1)}});
  (void)subject->apply(op::Allocate{"a", {.new_tokens = 1}});
  const auto lines = lines_of(*story);
  EXPECT_FALSE(lines[3].contains("want")) << lines[3];
  EXPECT_EQ(lines[4]["want"], 1) << "the model goes on beside it";
}

TEST(Lens, OfASubjectThatDiesEndsBeforeItsDeath) {
  const TemporaryFolder folder;
  Failure failure;
  failure.config = draw_config(kDefaultProfile, *find_configuration("full"), 1);
  failure.trace = {op::Take{1}, op::Take{1}};
  failure.add("died", "", "the process died");
  int performed = 0;
  const Show show = [&performed](const CacheConfig& config) {
    ++performed;
    return Shown{reference::make_cache_manager(config), kAllParts & ~Parts{kQueue}};
  };
  const fs::path trace = folder.path() / "a.jsonl";
  EXPECT_NE(write_lens_beside(trace, failure, show).find("look at it"), std::string::npos);
  EXPECT_EQ(performed, 1);
  const auto lines = lines_in(folder.path() / "a.html");
  EXPECT_EQ(lines[0]["hidden"], json::array({"the free queue"}));
  EXPECT_EQ(lines.back()["raised"], "died: the process died");
  EXPECT_FALSE(lines.back().contains("f")) << "its state is unknown";
}

TEST(Lens, ThatCannotBeWrittenIsToldAndLeavesNothing) {
  const TemporaryFolder folder;
  Failure failure;
  failure.config = draw_config(kDefaultProfile, *find_configuration("full"), 1);
  failure.trace = {op::Step{}};
  failure.add("model", "", "wrong");
  const std::string said = write_lens_beside(folder.path() / "none" / "a.jsonl", failure,
                                             show_all(&reference::make_cache_manager));
  EXPECT_NE(said.find("there is no lens of it"), std::string::npos) << said;
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Lens, OfARunShowsTablesAndNamesItsFindings) {
  const std::string run = KVPROOF_SOURCE_DIR "/properties/shadow/runs/sound.jsonl";
  const auto sound = story_of_run(run);
  EXPECT_EQ(lines_of(*sound)[0]["verdicts"], json::array());
  std::ifstream in(run);
  std::string text(std::istreambuf_iterator<char>(in), {});
  const std::string line = "{\"op\":\"run\",\"step\":1}\n";
  text.insert(text.find(line), "{\"op\":\"raised\",\"what\":\"an assertion about b\"}\n");
  const TemporaryFolder folder;
  const auto broken = lines_of(*story_of_run(folder.write("run.jsonl", text)));
  ASSERT_EQ(broken[0]["verdicts"].size(), 1U);
  const json& verdict = broken[0]["verdicts"][0];
  EXPECT_EQ(verdict["law"], "S16");
  EXPECT_EQ(broken[0]["live"], true);
  Page page(broken);
  json step;
  for (int i = 0; i <= verdict["step"]; ++i) step = page.next();
  EXPECT_EQ(step["op"]["op"], "raised");
  EXPECT_EQ(page.state()["r"]["a"][2], json({{1, 2, 4}, {3, 5}})) << page.state();
}

TEST(Lens, OfARunSaysWhatASlotShouldHaveHeld) {
  const TemporaryFolder folder;
  const std::string run = folder.write(
      "run.jsonl",
      R"({"kvproof_run":1,"engine":"by hand","tiers":[{"name":"device","blocks":9},)"
      R"({"name":"host","blocks":5}],"groups":[{"block_size":2},{"block_size":4,"state":true},)"
      R"({"block_size":2,"window":4}],"null_block":true,"depth":1,"patience":4,"seed":1}
{"op":"request","req":"a","tokens":[1,2,3]}
{"op":"dispatch","step":0,"rows":[{"req":"a","start":2,"n":1,"tables":[[1,2],[3],[4,5]]}]}
{"op":"run","step":0}
)");
  const json head = lines_of(*story_of_run(run))[0];
  const json& groups = head["config"]["groups"];
  EXPECT_EQ(head["config"]["num_host_blocks"], 5);
  EXPECT_EQ(head["config"]["hash_block_size"], 2);
  EXPECT_EQ(groups[1]["kind"], "mamba");
  EXPECT_EQ(groups[1]["mode"], "all");
  EXPECT_EQ(groups[2]["window"], 4);
  ASSERT_EQ(head["verdicts"].size(), 3U) << "a state is read first, then each other group";
  const json& state = head["verdicts"][0];
  EXPECT_EQ(state["law"], "S13");
  EXPECT_EQ(state["expected"], "the state of the first 2 tokens of a");
  const json& content = head["verdicts"][1];
  EXPECT_EQ(content["law"], "S1");
  EXPECT_EQ(content["blocks"], json{1});
  EXPECT_EQ(content["requests"], json{"a"});
  EXPECT_EQ(content["expected"], "what a has at position 0, behind its own tokens before it");
  EXPECT_EQ(content["found"], "nobody has written it\nline 3: put into a table");
}

TEST(Lens, KeepsTheLastStepsOfALongRun) {
  const CacheConfig config = draw_config(kDefaultProfile, *find_configuration("full"), 1);
  Story story(config, {});
  story.head["title"] = "long";
  const std::uint64_t steps = Story::kMostSteps + 1500;
  for (std::uint64_t i = 0; i < steps; ++i) {
    story.add({.request = {}, .state = {}, .transfers = {}, .event = std::to_string(i)});
  }
  story.add_verdict({"I2"});
  const std::string payload = story.payload();
  const json head = json::parse(payload.substr(0, payload.find('\n')));
  EXPECT_EQ(head["steps"], Story::kMostSteps - 500);
  EXPECT_EQ(head["verdicts"][0]["step"], Story::kMostSteps - 501);
  EXPECT_EQ(head["title"], "long, the last 199500 of 201500 operations");
  EXPECT_EQ(payload.substr(payload.rfind('\n') + 1), "{\"op\":201499}");
}

// The pages count with their code, of at most 60 kB; ten times the second are 8 MB.
TEST(Lens, IsSmall) {
  const auto size = [](std::size_t operations) {
    return lens_page(*random_run("full_window_host", 3, operations).story).size();
  };
  EXPECT_LT(size(1'000), 400'000U);
  EXPECT_LT(size(10'000), 800'000U);
}

}  // namespace
}  // namespace kvproof::properties
