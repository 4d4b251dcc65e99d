// SPDX-License-Identifier: Apache-2.0
// An allocator in another process as a subject: operations out, outcomes and states in.
//
// Model:   one program serves one manager at a time; each header that it is sent begins a new one.
//          An arrival and a finish of a request without tokens show which parts it answers with.
// Refuses: every answer that is not a valid one. A crash, a hang and nonsense are violations by
//          these names, and the program is started anew for the next manager.
#pragma once

#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/caller/promises.h"
#include "properties/engines/kit/answer_limits.h"
#include "properties/engines/kit/unusable_subject.h"
#include "properties/laws/violation.h"
#include "reference/config.h"
#include "reference/subject.h"
#include "reference/support/child_process.h"

namespace kvproof::properties {

class ForeignProgram {
 public:
  /// @param name of the subject in messages @param argv what is run
  ForeignProgram(std::string name, std::vector<std::string> argv, AnswerLimits limits);

  struct Opening {
    std::unique_ptr<Subject> subject;  // null if it cannot be built from this configuration
    Promises promises;
    Parts shown = 0;
  };
  /// A run of the program, which has one manager at a time.
  struct Child {
    std::unique_ptr<ChildProcess> process;  // null until something is asked
    bool engine = false;                    // it answers calls of hooks
    std::ofstream recording;
  };

  /// Begins a new manager, in another run of the program if that of the one before is still there.
  /// @throws UnusableSubject
  [[nodiscard]] Opening open(const CacheConfig& config);

  /// Sends one line and waits for the answer. @throws Violation; the run is gone after that
  std::string_view ask(Child& child, const std::string& line, double limit_seconds);

  /// Where KVPROOF_RECORDINGS names a folder, operations and answers with all states in full are
  /// written into a file there, one for each run.
  void record(Child& child, const CacheConfig& config);
  void record(Child& child, const Operation& operation, const Outcome& outcome,
              const Snapshot& state) const;

  /// Shows on stderr the traceback that came with an error, unless the same was shown before.
  void show_traceback(const Child& child);

  /// Called while many runs are expected to hang: a run then gets little more time than the answers
  /// so far have taken.
  void hurry(bool on) { hurries_ = on; }

  /// From the next manager on it is judged as if it had declared these traits; nullopt = its own.
  void suppose(std::optional<Traits> traits) { supposed_ = traits; }

  [[nodiscard]] const AnswerLimits& limits() const { return limits_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] Promises greet(Child& child, const CacheConfig& config);
  [[nodiscard]] std::shared_ptr<Child> idle_child();
  [[nodiscard]] ChildCommand command() const;

  std::string name_;
  std::vector<std::string> argv_;
  AnswerLimits limits_;
  std::vector<std::shared_ptr<Child>> children_;  // a subject has a share in its own
  std::uint32_t recordings_ = 0;
  bool hurries_ = false;
  std::optional<Traits> supposed_;
  std::set<std::string> shown_;  // tracebacks, without what the exception says
  double longest_answer_seconds_ = 0;
  bool has_promised_ = false;  // some header was answered: from now on trouble is a verdict
};

/// The argv that serves a shared library in a process of its own: the program `kvproof-check` that
/// lies beside the running one.
[[nodiscard]] std::vector<std::string> plugin_argv(const std::string& path);
/// The argv of a command line for the shell.
[[nodiscard]] std::vector<std::string> command_argv(const std::string& command);

}  // namespace kvproof::properties
