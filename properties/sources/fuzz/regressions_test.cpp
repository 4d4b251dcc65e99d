// SPDX-License-Identifier: Apache-2.0
// Every trace below properties/sources/regressions/ once broke an allocator: all of ours must hold
// it now, and where it names a seeded bug, that one must still break.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "optimized/subjects.h"
#include "properties/audit/runner.h"
#include "properties/selftest/mutants.h"
#include "properties/selftest/patches.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> regressions() {
  std::vector<fs::path> out;
  for (const auto& entry :
       fs::directory_iterator(fs::path(KVPROOF_SOURCE_DIR) / "properties/sources/regressions")) {
    if (entry.path().extension() == ".jsonl") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Regressions, HoldOnEverySubject) {
  const auto files = regressions();
  ASSERT_FALSE(files.empty()) << "nothing is replayed";
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    std::ifstream in(file);
    TraceHeader header;
    std::vector<Operation> trace;
    std::uint64_t stated = 0;
    for (std::string text; std::getline(in, text);) {
      TraceLine line = parse_trace_line(text);
      if (line.kind == TraceLine::Kind::header) header = line.header;
      if (line.kind == TraceLine::Kind::operation) trace.push_back(line.operation);
      if (line.kind == TraceLine::Kind::end) stated = line.num_operations;
    }
    ASSERT_FALSE(trace.empty());
    EXPECT_EQ(trace.size(), stated) << "the file is cut short";
    for (const auto& subject : optimized::kSubjects) {
      const auto failure = run_trace(subject.make, header.config, trace, {});
      EXPECT_FALSE(failure.has_value()) << subject.name << ": " << failure->text;
    }
    for (const Mutant& mutant : kMutants) {
      if (mutant.id != header.subject) continue;
      const auto failure =
          run_trace([&](const CacheConfig& c) { return make_museum(mutant.id, c); }, header.config,
                    trace, {});
      ASSERT_TRUE(failure.has_value()) << mutant.id << " is not noticed any more";
      EXPECT_EQ(failure->breaches.front(), header.name);
    }
  }
}

}  // namespace
}  // namespace kvproof::properties
