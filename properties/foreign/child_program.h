// SPDX-License-Identifier: Apache-2.0
// Starts other programs, and runs one to its end and keeps what it printed; an interrupt ends both.
//
// Model:   a program gets a process group of its own, which is killed at the time limit, on Ctrl-C,
//          and with this process. child_process.h talks with one line by line.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvproof::properties {

struct ChildCommand {
  std::vector<std::string> argv;                             // argv[0] is looked up in PATH
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; nullopt = inherited
  std::filesystem::path folder = {};                         // where it runs; empty = here
  double limit_seconds = 600;
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

/// A program that cannot be started has ended with exit code 127. @throws Interrupted
[[nodiscard]] ChildEnd run_child(const ChildCommand& command);

/// A program that runs, and this process's ends of its streams.
struct StartedChild {
  pid_t pid = -1;
  int to = -1;          // its stdin, a socket: a write to a dead reader is an error, not a signal
  int from = -1;        // its stdout
  int complaints = -1;  // its stderr
};

/// @throws std::runtime_error that says why it cannot be started
[[nodiscard]] StartedChild start_child(const ChildCommand& command);

/// Ctrl-C or a request to end. what() is one line.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// From now on SIGINT, SIGTERM and SIGHUP do not end this process but are found by the next call of
/// throw_if_interrupted(), so that temporary files go away.
void catch_interrupts();
void throw_if_interrupted();

}  // namespace kvproof::properties
