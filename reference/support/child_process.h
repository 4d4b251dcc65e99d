// SPDX-License-Identifier: Apache-2.0
// A program that is asked one line at a time. It may do anything: die, hang, flood.
//
// Model:   ask() sends a line and waits for the answer; the caller limits the time and the bytes.
//          The program runs in a process group of its own, which is killed with this object, so
//          that no process stays behind.
// Leaves out: the meaning of the lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "reference/support/child_program.h"

namespace kvproof {

/// The program did not answer with a line; what() says what it did instead.
class ChildTrouble : public std::runtime_error {
 public:
  /// @param kind "crash", "hang" or "nonsense"
  ChildTrouble(std::string kind, const std::string& text)
      : std::runtime_error(text), kind_(std::move(kind)) {}
  [[nodiscard]] const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

class ChildProcess {
 public:
  /// Starts it. @throws ChildTrouble if it cannot be started
  explicit ChildProcess(const ChildCommand& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// @return the answer without its newline; valid until the next call. @throws ChildTrouble; the
  /// program cannot be asked again after that
  std::string_view ask(std::string_view line, double limit_seconds, std::size_t max_answer_bytes);

  /// What it has written to stderr since it was asked last, up to some length.
  [[nodiscard]] const std::string& said_lately() const { return lately_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string_view exchange(std::string_view line, double limit_seconds,
                            std::size_t max_answer_bytes);
  void wait_for_events(bool sending, Clock::time_point deadline, double limit_seconds);
  bool send_some(std::string_view& rest);
  bool receive_some(std::size_t max_answer_bytes);
  void hear_complaints();
  [[nodiscard]] std::string how_it_ended();
  [[nodiscard]] std::string last_words() const;

  StartedChild child_;
  std::uint64_t memory_bytes_;
  std::string received_;
  std::string answer_;
  std::string said_;    // the end of its stderr
  std::string lately_;  // and the beginning of that since the last question
};

}  // namespace kvproof
