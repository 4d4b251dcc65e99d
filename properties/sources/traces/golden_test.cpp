// SPDX-License-Identifier: Apache-2.0
// Recorded traces, ours and those of the real allocator, against every subject, and how they are
// packed.
#include "reference/recordings/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "optimized/subjects.h"
#include "properties/sources/traces/scenarios.h"
#include "properties/sources/traces/test_files.h"
#include "reference/recordings/packed.h"

namespace kvproof::optimized {

void PrintTo(const SubjectRow& row, std::ostream* out) { *out << row.name; }

}  // namespace kvproof::optimized

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

const fs::path kRecordings =
    fs::path(KVPROOF_SOURCE_DIR) / "properties" / "sources" / "traces" / "recordings";
const fs::path kVectors =
    fs::path(KVPROOF_SOURCE_DIR) / "properties" / "sources" / "traces" / "vectors";

std::vector<TraceVerdict> replay(const fs::path& file, const optimized::SubjectRow& row) {
  GoldenReader reader(file.string());
  std::vector<TraceVerdict> out;
  while (auto verdict = reader.next([&](const TraceHeader& h) { return row.make(h.config); })) {
    out.push_back(std::move(*verdict));
  }
  return out;
}

std::string vector_name(const Scenario& scenario) {
  return scenario.name + "-" + std::string(scenario.config.profile.name) + ".jsonl";
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class EverySubject : public testing::TestWithParam<optimized::SubjectRow> {};

INSTANTIATE_TEST_SUITE_P(Golden, EverySubject, testing::ValuesIn(optimized::kSubjects),
                         [](const auto& instance) {
                           std::string name(instance.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// Those of the scenarios, and those that were recorded from releases of vLLM
// (properties/engines/allocators/vllm.md).
TEST_P(EverySubject, ReproducesOurVectors) {
  std::map<std::string, std::size_t> replayed;
  for (const auto& entry : fs::directory_iterator(kVectors)) {
    for (const TraceVerdict& verdict : replay(entry.path(), GetParam())) {
      EXPECT_EQ(verdict.skipped, "") << entry.path();
      EXPECT_GT(verdict.recorded, 0U);
      if (verdict.difference) {
        ADD_FAILURE() << entry.path() << " " << verdict.header.name << ", operation "
                      << verdict.difference->operation << ": " << verdict.difference->what;
      }
      ++replayed[verdict.header.recorded_from];
    }
  }
  const std::map<std::string, std::size_t> expected = {
      {"kvproof reference model", scenarios().size()},
      {"vllm 0.22.1", 12},
      {"vllm 0.24.0", 12},
      {"vllm 0.33.0", 56}};
  EXPECT_EQ(replayed, expected);
}

// Goes red when the model or a scenario changes on purpose. Then look at the difference, and record
// anew: KVPROOF_RECORD=1 traces_test
TEST(Golden, OurVectorsAreWhatTheModelRecords) {
  for (const Scenario& scenario : scenarios()) {
    const fs::path file = kVectors / vector_name(scenario);
    if (std::getenv("KVPROOF_RECORD") != nullptr)  // only these: the rest is not ours to record
      std::ofstream(file, std::ios::binary) << record(scenario);
    EXPECT_EQ(contents(file), record(scenario)) << file;
  }
}

TEST(Golden, ChecksumsCoverTheState) {
  const std::unique_ptr<Subject> subject =
      optimized::find_subject("naive")->make(scenarios().front().config);
  const TemporaryFolder folder;
  LineReader lines(folder.write("trace.jsonl", record(scenarios().front())));
  Snapshot state;
  for (std::string_view text; lines.line_number() < 4 && lines.next(text);) {
    if (lines.line_number() > 1) (void)subject->apply(parse_trace_line(text).operation);
  }
  subject->observe(state);
  ASSERT_EQ(state.requests.at(0).tables.at(0).size(), 4U);
  const struct {
    const char* check;
    std::function<void(Snapshot&)> change;
  } cases[] = {{"pool_check", [](Snapshot& s) { ++s.num_free; }},
               {"pool_check", [](Snapshot& s) { s.usage += 1e-6; }},
               {"pool_check", [](Snapshot& s) { std::swap(s.queue.at(0), s.queue.at(1)); }},
               {"pool_check", [](Snapshot& s) { ++s.blocks.at(1).ref_cnt; }},
               {"pool_check", [](Snapshot& s) { s.blocks.at(1).hashed ^= true; }},
               {"pool_check", [](Snapshot& s) { s.index.emplace_back(); }},
               {"lens_check", [](Snapshot& s) { s.requests[0].tables[0].push_back(9); }},
               {"table_check", [](Snapshot& s) { s.requests[0].tables[0][0] = 9; }},
               {"table_check", [](Snapshot& s) { s.requests[0].progress[0] = 9; }},
               {"tables_check", [](Snapshot& s) { s.requests[0].tables[0][0] = 9; }},
               {"tables_check", [](Snapshot& s) { s.requests[0].name = "r1"; }}};
  for (const auto& c : cases) {
    const auto found = [&c](const Snapshot& s) {
      TraceLine line;
      line.operation = op::Lookup{.req = "r0"};
      line.checks[c.check] = "?";
      return compare(line, {}, s).value_or("equal");
    };
    Snapshot other = state;
    c.change(other);
    EXPECT_TRUE(found(state).starts_with(c.check));
    EXPECT_NE(found(state), found(other)) << c.check << " " << &c - cases;
  }
}

// One pass over the recordings for all subjects: reading them costs more than replaying them.
TEST(Golden, EverySubjectReproducesTheRecordings) {
  const std::vector<optimized::SubjectRow> rows(std::begin(optimized::kSubjects),
                                                std::end(optimized::kSubjects));
  TraceLines lines(kRecordings.string());
  std::vector<std::unique_ptr<Subject>> subjects;  // of this trace; null behind a difference
  std::map<std::string, int> traces;               // by profile
  std::string trace;
  std::uint64_t operation = 0;
  Snapshot state;
  for (std::string_view text; lines.next(text);) {
    const TraceLine line = parse_trace_line(text);
    if (line.kind == TraceLine::Kind::end) continue;
    if (line.kind == TraceLine::Kind::header) {
      ASSERT_EQ(line.header.unsupported, "") << lines.line_number();
      ++traces[std::string(line.header.config.profile.name)];
      trace = line.header.family + "-" + std::to_string(line.header.seed) + line.header.name;
      operation = 0;
      subjects.clear();
      for (const auto& row : rows) subjects.push_back(row.make(line.header.config));
      continue;
    }
    ASSERT_TRUE(line.state || !line.checks.empty()) << "line " << lines.line_number();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (subjects[i] == nullptr) continue;
      const Outcome outcome = subjects[i]->apply(line.operation);
      subjects[i]->observe(state);
      const auto difference = compare(line, outcome, state);
      if (!difference) continue;
      ADD_FAILURE() << trace << ", operation " << operation << ", " << rows[i].name << ": "
                    << *difference;
      subjects[i] = nullptr;
    }
    ++operation;
  }
  const std::map<std::string, int> expected = {
      {"vllm-0.22", 183}, {"vllm-0.24", 204}, {"vllm-0.33", 63}};
  EXPECT_EQ(traces, expected);
}

// ---- packing ----

class Packed : public testing::Test {
 protected:
  static std::string text_of(const fs::path& path) {
    std::string out;
    TraceLines lines(path.string());
    for (std::string_view line; lines.next(line);) out += std::string(line) + "\n";
    return out;
  }
  std::string pack(const std::string& text) {
    const std::string folder = (folder_.path() / std::to_string(++packed_)).string();
    pack_traces({folder_.write("trace.jsonl", text)}, folder);
    return folder;
  }
  std::string error_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  TemporaryFolder folder_;
  int packed_ = 0;
};

// The model's own: they show every operation of the recordings and three profiles.
std::string recorded_like_the_recordings() {
  std::string out;
  for (const fs::path& file :
       {kVectors / "recorded-vllm-0.22.1.jsonl.gz", kVectors / "recorded-vllm-0.33.0"}) {
    TraceLines lines(file.string());
    for (std::string_view line; lines.next(line);) out += std::string(line) + "\n";
  }
  return out;
}

TEST_F(Packed, ComesBackByteForByteAndUnpacksIntoOneFileATrace) {
  const std::string text = recorded_like_the_recordings();
  const std::string folder = pack(text);
  EXPECT_EQ(text_of(folder), text);
  const fs::path out = folder_.path() / "unpacked";
  EXPECT_EQ(unpack_traces({folder}, out.string()), 68U);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_FALSE(replay(entry.path(), *optimized::find_subject("naive")).at(0).difference);
  }
  EXPECT_EQ(files, 68U);
  EXPECT_NE(error_of([&] { unpack_traces({folder}, out.string()); }), "accepted");
}

TEST_F(Packed, DamagedColumnsAreNamed) {
  const std::string folder = pack(text_of(kVectors / "recorded-vllm-0.22.1.jsonl.gz"));
  for (const std::string column : {"operation", "tokens", "out", "events", "state"}) {
    const fs::path file = fs::path(folder) / (column + ".zst");
    const std::string before = contents(file);
    std::vector<std::string> values;
    LineReader lines(file.string());
    for (std::string_view line; lines.next(line);) values.emplace_back(line);
    const auto reads = [&](std::size_t count) {
      std::string text;
      for (std::size_t i = 0; i < count; ++i) text += values[i] + "\n";
      std::ofstream(file, std::ios::binary) << zstd(text);
      return error_of([&] { (void)text_of(folder); });
    };
    const std::size_t all = values.size();
    values.emplace_back(column == "operation" ? R"({"op":"step","state":0})" : "0");
    EXPECT_NE(reads(all - 2).find("value"), std::string::npos) << column << " cut short";
    EXPECT_NE(reads(all + 1).find("value"), std::string::npos) << column << " has more";
    fs::remove(file);
    EXPECT_NE(error_of([&] { (void)text_of(folder); }), "accepted") << column << " missing";
    std::ofstream(file, std::ios::binary) << before;
    EXPECT_EQ(error_of([&] { (void)text_of(folder); }), "accepted");
  }
}

TEST_F(Packed, OnlyWhatComesBackIsPacked) {
  EXPECT_NE(error_of([&] { pack("{ \"kvproof_trace\": 1 }\n"); }), "accepted");
  EXPECT_NE(error_of([&] { pack(R"({"op":"step","more":{"tokens":0},"tokens":[1]})"); }),
            "accepted");
  EXPECT_NE(error_of([&] { pack("word\n"); }), "accepted");
}

// ---- the replayer must reject what is wrong ----

class GoldenRejects : public testing::Test {
 protected:
  TraceVerdict verdict_of(const std::string& text) {
    const fs::path file = folder_.write("trace.jsonl", text);
    return replay(file, *optimized::find_subject("naive")).at(0);
  }
  std::string error_of(const std::string& text) {
    try {
      verdict_of(text);
    } catch (const InputError& error) {
      const std::string what = error.what();
      return what.substr(what.find(": ") + 2);
    }
    return "accepted";
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  }

  TemporaryFolder folder_;
  std::string good_ = record(scenarios().front());
};

TEST_F(GoldenRejects, EveryKindOfWrongRecording) {
  EXPECT_FALSE(verdict_of(good_).difference);
  const struct {
    const char* from;
    const char* to;
    const char* what;
  } cases[] = {
      {"\"hit_tokens\":48", "\"hit_tokens\":32", "out:"},
      {"\"blocks\":[[5]]", "\"blocks\":[[6]]", "out:"},
      {"\"free\":6", "\"free\":7", "free blocks:"},
      {"\"queue\":[5,6,7,8,9,10]", "\"queue\":[5,6,7,8,10,9]", "free queue:"},
      {"\"ref\":[[1,2]", "\"ref\":[[1,1]", "reference counts"},
      {"\"keys\":3", "\"keys\":4", "distinct keys:"},
      {"\"cached\":[[1,0],[2,0],[3,0]]", "\"cached\":[[1,0],[2,0]]", "cached blocks"},
      {"\"tables\":{\"r0\":[[1,2,3,4]]}", "\"tables\":{\"r0\":[[1,2,3]]}", "table of r0:"},
      {"\"progress\":{\"r0\":[3]}", "\"progress\":{\"r0\":[4]}", "progress of r0:"},
      {"\"usage\":0.4", "\"usage\":0.5", "usage:"},
      {"[3,48]]}]", "[3,47]]}]", "events:"},
  };
  for (const auto& c : cases) {
    const TraceVerdict verdict = verdict_of(replaced(good_, c.from, c.to));
    ASSERT_TRUE(verdict.difference) << c.from;
    EXPECT_EQ(verdict.difference->what.rfind(c.what, 0), 0U) << verdict.difference->what;
  }
}

TEST_F(GoldenRejects, ARejectionOfWhatWasRecordedAsPerformed) {
  const std::string performed = R"({"op":"advance","req":"r0","computed":55,)";
  const std::string rejected = replaced(good_, performed, replaced(performed, "55", "10000"));
  const TraceVerdict verdict = verdict_of(rejected);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->what.rfind("out: recorded as performed", 0), 0U);
}

TEST_F(GoldenRejects, TheFirstDifferenceIsNamedWithBothStates) {
  const TraceVerdict verdict = verdict_of(replaced(good_, "\"free\":6", "\"free\":7"));
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->operation, 2U) << "arrive, lookup, allocate";
  EXPECT_EQ(verdict.difference->line, 4U);
  EXPECT_NE(verdict.difference->recorded_state.find("free blocks    7"), std::string::npos);
  EXPECT_NE(verdict.difference->subject_state.find("free blocks    6"), std::string::npos);
}

TEST_F(GoldenRejects, UnreadableTracesAreNamedByLineAndField) {
  const std::string header = good_.substr(0, good_.find('\n') + 1);
  EXPECT_EQ(error_of("{}\n"), "line 1: field op: expected a value, found none");
  EXPECT_EQ(error_of(header + "nonsense\n"),
            "line 2: expected valid JSON, found at byte 2: "
            "syntax error while parsing value - invalid literal; last read: 'no'");
  EXPECT_EQ(error_of(header + "\n"), "line 2: expected a JSON object, found an empty line");
  EXPECT_EQ(error_of(header + std::string("{\0}\n", 4)),
            "line 2: expected valid JSON, found at byte 2: a NUL byte");
  EXPECT_EQ(error_of(header + "{\"op\":\"\xff\"}\n"),
            "line 2: expected valid JSON, found at byte 8: syntax error while parsing value - "
            "invalid string: ill-formed UTF-8 byte; last read: '\"?'");
  EXPECT_EQ(error_of(header + "{\"op\":\"free\"\n"),
            "line 2: expected valid JSON, found at byte 13: syntax error while parsing object - "
            "unexpected end of input; expected '}'");
  EXPECT_EQ(error_of(header + header),
            "line 2: field op: expected the end line of the trace before");
  EXPECT_EQ(error_of(header + "{\"op\":\"end\",\"ops\":3}\n"),
            "line 2: field ops: expected 0, the operations of this trace");
  EXPECT_EQ(error_of(header + "{\"op\":\"advance\",\"req\":\"a\",\"computed\":-1}\n"),
            "line 2: field computed: expected an integer from 0 to 4294967295");
  EXPECT_EQ(error_of(header + "{\"op\":\"append\",\"req\":\"a\",\"tokens\":[1,2.5]}\n"),
            "line 2: field tokens: expected an integer from -2147483648 to 2147483647");
  EXPECT_EQ(error_of(header + "{\"op\":\"fly\"}\n"),
            "line 2: field op: expected a known operation, found fly");
  EXPECT_EQ(error_of(replaced(good_, "\"profile\":\"vllm-0.24\"", "\"profile\":\"vllm-9\"")),
            "line 1: field profile: expected vllm-0.33, vllm-0.24 or vllm-0.22, found vllm-9");
}

// What recordings of engines that run have.
TEST_F(GoldenRejects, WhatARecorderCouldNotWriteIsTold) {
  const std::string header = good_.substr(0, good_.find('\n') + 1);
  const std::string short_of_its_end = good_.substr(0, good_.rfind('{'));
  const TraceVerdict cut = verdict_of(short_of_its_end);
  EXPECT_FALSE(cut.ended || cut.difference);
  EXPECT_EQ(cut.operations, verdict_of(good_).operations);

  const std::string lost = R"({"op":"lost","events":3,"what":"the reader was too slow"})";
  const std::string wrong = R"({"op":"finish","req":"nobody","state":{"free":0}})";
  const TraceVerdict blind =
      verdict_of(header + lost + "\n" + wrong + "\n{\"op\":\"end\",\"ops\":9}\n");
  EXPECT_EQ(blind.lost, "the reader was too slow");
  EXPECT_FALSE(blind.difference);

  const std::string call = R"({"op":"finish","req":"nobody")";
  const TraceVerdict raised =
      verdict_of(header + call + R"(,"out":{"raised":"KeyError: 7"}})" + "\n");
  ASSERT_TRUE(raised.difference);
  EXPECT_EQ(raised.difference->what, "out: the call raised in the engine: KeyError: 7");
  const TraceVerdict rejected = verdict_of(header + call + "}\n");
  ASSERT_TRUE(rejected.difference) << "of an engine, also where no state is recorded";
  EXPECT_TRUE(rejected.difference->what.starts_with("out: recorded as performed"));
}

TEST_F(GoldenRejects, EventsThatWereNotRecordedAreNotCompared) {
  const std::string none = replaced(good_, R"("events":)", R"("unread":)");
  EXPECT_TRUE(verdict_of(none).difference) << "a line without events had none";
  EXPECT_FALSE(verdict_of(replaced(none, "{", R"({"events":false,)")).difference);
}

// Any bytes give a verdict or an InputError, never a crash.
TEST_F(GoldenRejects, MutatedTracesNeverCrash) {
  std::uint64_t state = 1;
  const auto draw = [&state](std::size_t n) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::size_t>(state >> 33) % n;
  };
  int errors = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text = good_;
    for (std::size_t i = 0; i <= draw(4); ++i)
      text[draw(text.size())] = static_cast<char>(draw(256));
    if (draw(4) == 0) text.resize(draw(text.size()));
    errors += error_of(text) == "accepted" ? 0 : 1;
  }
  EXPECT_GT(errors, 300);
}

}  // namespace
}  // namespace kvproof::properties
