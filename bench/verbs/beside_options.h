// SPDX-License-Identifier: Apache-2.0
// The options that name a second allocator; check and replay have them.
#pragma once

#include "bench/verbs/command_line.h"
#include "properties/check/subject_options.h"

namespace kvproof::bench {

/// @param names the options that name the first one. @return those that name the second
inline std::vector<CommandLine::Option> add_beside_options(
    CommandLine& line, properties::SubjectOptions& subject,
    const std::vector<CommandLine::Option>& names) {
  auto beside = line.option("--beside", subject.beside,
                            "give the same operations to this one, too; answers and states that "
                            "differ are a finding");
  auto command =
      line.option("--beside-command", subject.beside_command, "the same, with a program");
  beside.goes_with(names);
  command.goes_with(names).not_with({beside});
  line.flag("--beside-counts", subject.beside_counts,
            "compare how many blocks the two name, not which")
      .goes_with({beside, command});
  return {beside, command};
}

}  // namespace kvproof::bench
