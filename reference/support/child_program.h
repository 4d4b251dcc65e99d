// SPDX-License-Identifier: Apache-2.0
// Starts other programs, and runs one to its end and keeps what it printed; an interrupt ends both.
//
// Model:   a program gets a process group of its own, which is ended at the time limit, by an
//          interrupt (interrupt.h), and with this process. child_process.h talks with one line by
//          line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/support/interrupt.h"

namespace kvproof {

struct ChildCommand {
  std::vector<std::string> argv;                             // argv[0] is looked up in PATH
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; nullopt = inherited
  std::filesystem::path folder = {};                         // where it runs; empty = here
  double limit_seconds = 600;
  /// Of memory that it may write to, where the system can limit that; 0 = no limit.
  std::uint64_t memory_bytes = 0;
  /// Is told of each piece of its output as it comes.
  std::function<void(std::string_view)> on_output = {};
  bool fixed_layout = false;  // without address space randomisation, if the system allows that
};

struct ChildEnd {
  int exit_code = -1;  // -1: it did not end by itself
  int signal = 0;      // that ended it; 0 = none
  bool timed_out = false;
  std::string out;
  std::string error;

  [[nodiscard]] bool ok() const { return exit_code == 0; }
  /// "exit code 3", "signal 11", "no end within 600 s", and the last line of stderr.
  [[nodiscard]] std::string text() const;
};

/// A program that cannot be started has ended with exit code 127.
[[nodiscard]] ChildEnd run_child(const ChildCommand& command);

/// A program that runs, and this process's ends of its streams.
struct StartedChild {
  pid_t pid = -1;
  int to = -1;          // its stdin, a socket: a write to a dead reader is an error, not a signal
  int from = -1;        // its stdout
  int complaints = -1;  // its stderr
  std::unique_ptr<HeldGroup> held = {};
};

/// @throws std::runtime_error that says why it cannot be started
[[nodiscard]] StartedChild start_child(const ChildCommand& command);

}  // namespace kvproof
