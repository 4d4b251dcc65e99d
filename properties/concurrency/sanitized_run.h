// SPDX-License-Identifier: Apache-2.0
// Runs a sanitized program as a process of its own and keeps its output.
//
// ThreadSanitizer needs to know where memory lies: the program is started without randomised
// addresses.
#pragma once

#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace kvproof::properties {

struct SanitizedRun {
  int status = 0;  // as from waitpid
  std::string output;

  [[nodiscard]] bool says(const char* text) const { return output.find(text) != std::string::npos; }
  /// Whether addresses stayed randomised, so that ThreadSanitizer could not start.
  [[nodiscard]] bool could_not_start() const { return says("unexpected memory mapping"); }
};

[[nodiscard]] inline SanitizedRun run_sanitized(std::vector<const char*> arguments) {
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  SanitizedRun ended;
  if (pipe(ends.data()) != 0) return ended;
  const pid_t child = fork();
  if (child == 0) {
    personality(ADDR_NO_RANDOMIZE);  // where refused, it may still work
    setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66", 1);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execv(arguments[0], const_cast<char* const*>(arguments.data()));
    std::_Exit(127);
  }
  close(ends[1]);
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    ended.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, &ended.status, 0);
  return ended;
}

}  // namespace kvproof::properties
