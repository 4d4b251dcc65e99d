// SPDX-License-Identifier: Apache-2.0
// The options that bound what another's allocator may take; check and gate have them.
#pragma once

#include "bench/verbs/command_line.h"
#include "properties/check/candidate.h"

namespace kvproof::bench {

/// Whether there is an option for the time of an answer; gate has one for each measured process.
enum class AnswerLimit { with, without };

/// They are errors where the subject is one of our own. @param subject must outlive the parse
inline void add_limit_options(CommandLine& line, properties::SubjectOptions& subject,
                              AnswerLimit answer) {
  const auto of_others = [&subject](CommandLine::Option option) {
    return option.only_if(
        [&subject] {
          return !subject.subject_command.empty() || properties::is_library(subject.subject);
        },
        "a shared library or a program");
  };
  properties::AnswerLimits& limits = subject.limits;
  if (answer == AnswerLimit::with) {
    of_others(line.option("--time-limit-seconds", limits.answer_seconds,
                          "time limit for each answer of a foreign allocator, default 10"))
        .between(0.01, 86400.0);
  }
  of_others(line.option("--start-limit-seconds", limits.start_seconds,
                        "time limit for a foreign allocator to start and answer the header, "
                        "default 60"))
      .between(0.01, 86400.0);
  of_others(line.option("--memory-limit-gib", limits.memory_gib,
                        "[GiB] memory limit of a foreign allocator, default 8"))
      .between(0.01, 65536.0);
}

}  // namespace kvproof::bench
