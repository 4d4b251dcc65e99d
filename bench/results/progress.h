// SPDX-License-Identifier: Apache-2.0
// A progress bar with an estimate, on stderr if that is a terminal.
#pragma once

#include <chrono>
#include <string>

namespace kvproof::bench {

class Progress {
 public:
  Progress();
  /// For tests: a bar that is drawn, or not, without regard to stderr.
  explicit Progress(bool visible);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// @param fraction of the whole that is done, 0 to 1 @param what the program is doing now
  void update(double fraction, const std::string& what);

  /// Removes the bar, so that results can be printed.
  void clear();

  /// The line that update() draws. @param elapsed_seconds since the start; an estimate needs some.
  [[nodiscard]] static std::string line(double fraction, double elapsed_seconds,
                                        const std::string& what);

 private:
  using Clock = std::chrono::steady_clock;

  bool visible_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
};

}  // namespace kvproof::bench
