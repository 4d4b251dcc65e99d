// SPDX-License-Identifier: Apache-2.0
// Draws the progress bar.
#include "bench/results/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kvproof::bench {
namespace {

constexpr double kBarCells = 24;
constexpr double kEarliestEstimateSeconds = 1;

std::string duration(double seconds) {
  const long whole = std::lround(std::clamp(seconds, 0.0, 359'999.0));
  char text[32];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

}  // namespace

Progress::Progress() : Progress(isatty(STDERR_FILENO) == 1) {}
Progress::Progress(bool visible) : visible_(visible) {}

void Progress::update(double fraction, const std::string& what) {
  constexpr std::chrono::milliseconds kSmallestStep(100);
  const Clock::time_point now = Clock::now();
  if (!visible_ || (drawn_ && now - last_ < kSmallestStep)) return;
  last_ = now;
  drawn_ = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::fprintf(stderr, "\r\033[K%s", line(fraction, elapsed, what).c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

std::string Progress::line(double fraction, double elapsed_seconds, const std::string& what) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(fraction * kBarCells);
  std::string bar(static_cast<std::size_t>(kBarCells), '.');
  std::fill_n(bar.begin(), filled, '#');
  char percent[8];
  std::snprintf(percent, sizeof percent, "%3.0f %%", 100 * fraction);
  std::string text = "[" + bar + "] " + percent;
  if (fraction > 0 && elapsed_seconds >= kEarliestEstimateSeconds) {
    text += ", " + duration(elapsed_seconds * (1 - fraction) / fraction) + " left";
  }
  return text + "  " + what;
}

}  // namespace kvproof::bench
