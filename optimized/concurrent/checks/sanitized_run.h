// SPDX-License-Identifier: Apache-2.0
// Runs a sanitized program as a process of its own and keeps its output.
//
// ThreadSanitizer needs to know where memory lies: the program is started without randomised
// addresses.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reference/support/child_program.h"

namespace kvproof::properties {

struct SanitizedRun {
  int exit_code = -1;  // as in ChildEnd
  std::string output;

  [[nodiscard]] bool says(const std::string& text) const {
    return output.find(text) != std::string::npos;
  }
  /// Whether addresses stayed randomised, so that ThreadSanitizer could not start.
  [[nodiscard]] bool could_not_start() const { return says("unexpected memory mapping"); }
};

[[nodiscard]] inline SanitizedRun run_sanitized(std::vector<std::string> argv) {
  argv.insert(argv.begin(), {"env", "TSAN_OPTIONS=halt_on_error=1:exitcode=66"});
  const ChildEnd end =
      run_child({.argv = std::move(argv), .limit_seconds = 3600, .fixed_layout = true});
  return {end.exit_code, end.out + end.error};
}

}  // namespace kvproof::properties
