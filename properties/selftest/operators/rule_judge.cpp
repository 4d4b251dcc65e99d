// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "properties/selftest/operators/operator_mutants.h"
#include "reference/cache_manager.h"
#include "reference/recordings/golden.h"
#include "reference/recordings/packed.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

struct Recording {
  std::string name;
  CacheConfig config;
  std::vector<TraceLine> lines;
};

/// Those of the releases, read once: the children of a process share them.
const std::vector<Recording>& recordings() {
  static const std::vector<Recording> kAll = [] {
    std::vector<Recording> out;
    for (const auto& file : std::filesystem::directory_iterator(vectors_folder())) {
      if (!file.path().filename().string().starts_with("recorded-")) continue;
      TraceLines lines(file.path().string());
      for (std::string_view text; lines.next(text);) {
        TraceLine line = parse_trace_line(text);
        if (line.kind == TraceLine::Kind::header) {
          out.push_back({line.header.name, line.header.config, {}});
        } else if (line.kind != TraceLine::Kind::end) {
          out.back().lines.push_back(std::move(line));
        }
      }
    }
    return out;
  }();
  return kAll;
}

bool agrees(const Recording& recording) {
  if (unsupported(recording.config)) return false;
  const std::unique_ptr<Subject> subject = reference::make_cache_manager(recording.config);
  Snapshot state;
  return std::ranges::all_of(recording.lines, [&](const TraceLine& line) {
    const Outcome outcome = subject->apply(line.operation);
    subject->observe(state);
    return !compare(line, outcome, state);
  });
}

bool facts_hold() {
  int count = 3;
  std::array<char, 16> name = {"facts"};
  std::array<char, 32> fast = {"--gtest_fail_fast"};
  std::array<char, 32> brief = {"--gtest_brief=1"};
  std::array<char*, 4> words = {name.data(), fast.data(), brief.data(), nullptr};
  testing::InitGoogleTest(&count, words.data());
  return RUN_ALL_TESTS() == 0;
}

}  // namespace

std::size_t num_recordings() { return recordings().size(); }

std::string judge_rules(const std::function<void()>& alive) {
  for (const Recording& recording : recordings()) {
    alive();
    if (!agrees(recording)) return "the recording " + recording.name;
  }
  alive();
  return facts_hold() ? "" : "a fact";
}

}  // namespace kvproof::properties
