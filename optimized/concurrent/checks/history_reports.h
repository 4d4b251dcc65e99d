// SPDX-License-Identifier: Apache-2.0
// For the tests of histories: their reports, the number of histories, and the hunt for a broken
// pool.
//
// KVPROOF_SEED is the first seed; KVPROOF_HISTORIES how many histories each test checks.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "optimized/concurrent/checks/history_run.h"
#include "optimized/concurrent/checks/sanitizer.h"

/// The hunt for a broken pool must end with a rejection, not by running out and not by a crash.
#define EXPECT_REJECTED(...)                      \
  GTEST_FLAG_SET(death_test_style, "threadsafe"); \
  EXPECT_EXIT((__VA_ARGS__), testing::ExitedWithCode(1), "rejected")

namespace kvproof::properties::concurrency {

/// Far more than any broken pool has needed; the tests print how many it took.
inline constexpr std::uint64_t kMostHuntedHistories = 20'000;

struct HistorySettings {
  std::uint64_t seed = 1;
  std::uint64_t num_histories = KVPROOF_UNDER_ASAN || KVPROOF_UNDER_TSAN ? 2'000 : 20'000;
};

[[nodiscard]] inline HistorySettings history_settings() {
  HistorySettings settings;
  const auto read = [](const char* name, std::uint64_t& value) {
    if (const char* text = std::getenv(name)) value = std::strtoull(text, nullptr, 10);
  };
  read("KVPROOF_SEED", settings.seed);
  read("KVPROOF_HISTORIES", settings.num_histories);
  return settings;
}

/// The command that runs the failing test from that history on.
[[nodiscard]] inline std::string again(std::uint64_t seed) {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return say("again: KVPROOF_SEED=", seed, " ", testing::internal::GetArgvs().front(),
             " --gtest_filter=", info->test_suite_name(), ".", info->name());
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline void print(const char* what, std::uint64_t seed, const HistoryReport& report,
                  double seconds) {
  std::printf(
      "%s: seeds from %llu, %llu histories, %llu calls (%llu overlapping, %llu hits, %llu "
      "refused), %llu states; %.0f histories/s\n",
      what, static_cast<unsigned long long>(seed),
      static_cast<unsigned long long>(report.num_histories),
      static_cast<unsigned long long>(report.num_calls),
      static_cast<unsigned long long>(report.num_overlapping),
      static_cast<unsigned long long>(report.num_hits),
      static_cast<unsigned long long>(report.num_refused),
      static_cast<unsigned long long>(report.num_visited),
      static_cast<double>(report.num_histories) / seconds);
}

/// Requires that the calls of the histories overlapped and gave answers of every kind.
inline void expect_busy(const HistoryReport& report) {
  EXPECT_GT(report.num_overlapping, report.num_histories / 20);
  EXPECT_GT(report.num_hits, report.num_histories / 4);
  EXPECT_GT(report.num_refused, report.num_histories / 4);
}

/// Ends the process of a hunt and says after how many histories; 0 if there was no rejection.
[[noreturn]] inline void end_hunt(const char* name, const HistoryReport& report) {
  if (report.complaint.empty()) std::_Exit(0);
  std::printf("%s: rejected at history %llu: %s\n", name,
              static_cast<unsigned long long>(report.num_histories),
              report.complaint.substr(0, report.complaint.find('\n')).c_str());
  std::fflush(stdout);
  std::fprintf(stderr, "rejected\n%s\n", report.complaint.c_str());
  std::_Exit(1);
}

}  // namespace kvproof::properties::concurrency
