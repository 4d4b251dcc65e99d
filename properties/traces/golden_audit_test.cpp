// SPDX-License-Identifier: Apache-2.0
// The oracles are sound: on calls that a real engine's own run made, none of them objects to
// anything.
//
// The recordings are read from KVPROOF_SHARED/golden, or from beside the checkout; absent, this is
// skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "optimized/subjects.h"
#include "properties/oracles/audit.h"
#include "properties/traces/line_reader.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

// Not the model: whether it equals the recordings is what replaying them shows.
const Oracles kLawsAndContent{true, false, true};

fs::path golden_folder() {
  const char* shared = std::getenv("KVPROOF_SHARED");
  return (shared != nullptr ? fs::path(shared) : fs::path(KVPROOF_SOURCE_DIR) / ".." / "shared") /
         "golden";
}

struct Tour {
  std::uint64_t traces = 0;
  std::uint64_t skipped = 0;
  Counts counts;
};

/// Performs the calls of every supported trace of a file under the oracles.
void audit_file(const fs::path& file, const optimized::SubjectRow& row, Tour& tour) {
  LineReader lines(file.string());
  std::unique_ptr<Subject> subject;
  std::unique_ptr<Audit> audit;
  for (std::string_view text; lines.next(text);) {
    const TraceLine line = parse_trace_line(text);
    if (line.kind == TraceLine::Kind::header) {
      const bool can = line.header.unsupported.empty() && !unsupported(line.header.config);
      ++(can ? tour.traces : tour.skipped);
      subject = can ? row.make(line.header.config) : nullptr;
      audit =
          can ? std::make_unique<Audit>(line.header.config, *subject, kLawsAndContent) : nullptr;
    } else if (audit && line.kind == TraceLine::Kind::operation) {
      ASSERT_NO_THROW(audit->apply(line.operation)) << file << ":" << lines.line_number();
    } else if (audit) {
      tour.counts += audit->counts();
    }
  }
}

TEST(GoldenAudit, NoOracleObjectsToTheCallsOfARealEngine) {
  const fs::path folder = golden_folder();
  if (!fs::is_directory(folder)) GTEST_SKIP() << "no recordings in " << folder;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool trace =
        name.find(".jsonl") != std::string::npos && name.find("known_defects") == std::string::npos;
    if (entry.is_regular_file() && trace) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  Tour tour;
  for (const fs::path& file : files) audit_file(file, *optimized::find_subject("naive"), tour);
  std::cout << tour.traces << " traces with " << tour.counts.operations << " operations audited, "
            << tour.skipped << " traces of other managers skipped\n";
  EXPECT_GT(tour.traces, 0U);
  EXPECT_GT(tour.counts.hits, 0U);
  EXPECT_GT(tour.counts.evictions, 0U);
  EXPECT_GT(tour.counts.refusals, 0U);
  EXPECT_EQ(tour.counts.blind, 0U);
}

}  // namespace
}  // namespace kvproof::properties
