// SPDX-License-Identifier: Apache-2.0
// The oracles are sound: on calls that a real engine's own run made, none of them objects to
// anything.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "optimized/subjects.h"
#include "properties/audit/audit.h"
#include "reference/recordings/packed.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

// Not the model: whether it equals the recordings is what replaying them shows.
const Oracles kLawsAndContent{true, false, true};

struct Tour {
  std::uint64_t traces = 0;
  std::uint64_t skipped = 0;
  Counts counts;
};

/// Performs the calls of every supported trace of a file under the oracles.
void audit_file(const fs::path& file, const optimized::SubjectRow& row, Tour& tour) {
  TraceLines lines(file.string());
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
  Tour tour;
  audit_file(fs::path(KVPROOF_SOURCE_DIR) / "properties" / "sources" / "traces" / "recordings",
             *optimized::find_subject("naive"), tour);
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
