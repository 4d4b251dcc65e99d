// SPDX-License-Identifier: Apache-2.0
// What the verbs that read a request log are told of it, and how they replay it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/hit_rate/replay_prompts.h"
#include "bench/requests/open_log.h"
#include "bench/verbs/command_line.h"

namespace kvproof::bench {

struct LogArguments {
  std::string log;
  std::string hash;  // empty = not given
  std::uint32_t block_size = 16;
  std::optional<std::uint32_t> capacity_blocks;
  std::optional<std::uint64_t> most_requests;
  LogOptions log_options;

  /// The manager that a log is replayed on.
  [[nodiscard]] const optimized::SubjectRow& manager() const;
  /// The requests of the log, or of a built-in workload.
  [[nodiscard]] ReopenableSource source() const;
  /// The ids as whole blocks, as published hit rates count them. If the block size is not that of
  /// the log: the real partial tails.
  [[nodiscard]] ReplayOptions replay_options(const ReopenableSource& source) const;
};

struct LogOptionNames {
  CommandLine::Option trace;
  CommandLine::Option capacity;
};

/// The option --trace, and those that say what to read of a log and how.
/// @param files the operation traces, in whose place a log stands @param arguments outlives the
/// parse
LogOptionNames add_log_options(CommandLine& line, CommandLine::Option files,
                               LogArguments& arguments);

}  // namespace kvproof::bench
