// SPDX-License-Identifier: Apache-2.0
#include "bench/verbs/log_arguments.h"

#include "bench/requests/sources.h"
#include "bench/requests/workloads.h"
#include "reference/support/say.h"

namespace kvproof::bench {

const optimized::SubjectRow& LogArguments::manager() const {
  return hash.empty() ? optimized::subject_of(optimized::Role::standard)
                      : *optimized::find_manager(hash);
}

ReopenableSource LogArguments::source() const {
  const Workload* row = find_workload(log);
  const ReopenableSource all = row != nullptr ? row->source(kWorkloadSeed, row->full_requests)
                                              : log_source(log, log_options);
  return most_requests ? leading(all, *most_requests) : all;
}

ReplayOptions LogArguments::replay_options(const ReopenableSource& source) const {
  ReplayOptions options;
  options.block_size = block_size;
  options.capacity_blocks = capacity_blocks;
  options.manager = &manager();
  const bool own_blocks =
      source.open()->info().ids_block_size == static_cast<std::int64_t>(block_size);
  options.tokens = own_blocks ? TokenMode::whole_blocks : TokenMode::as_recorded;
  return options;
}

LogOptionNames add_log_options(CommandLine& line, CommandLine::Option files,
                               LogArguments& arguments) {
  LogOptions& options = arguments.log_options;
  auto trace = line.option(
      "--trace", arguments.log,
      say("a request log (", kLogFormats, "; see bench/requests/formats/README.md) or a workload"));
  files.called("an operation trace").not_with({trace});
  const auto for_logs = [&, trace](CommandLine::Option option) {
    return option.goes_with({trace}).only_if(
        [&arguments] { return find_workload(arguments.log) == nullptr; },
        "a request log, not with a built-in workload");
  };
  for_logs(line.option("--ids-block-size", options.ids_block_size,
                       "[tokens] that an id of the log stands for, default: as published or "
                       "inferred"))
      .between(1, 1 << 20);
  for_logs(line.option("--max-context", options.max_context,
                       "leave out requests of more input and output tokens together"))
      .between(std::int64_t{1}, std::int64_t{1} << 25);
  for_logs(line.flag("--skip-zero-input", options.skip_zero_input,
                     "leave out requests without a prompt"));
  for_logs(line.flag("--skip-zero-output", options.skip_zero_output,
                     "leave out requests that got no answer"));
  for_logs(line.option("--sessions-at-once", options.sessions_at_once,
                       "sessions under way at a time in a log of sessions, default 1"))
      .between(1, 1 << 16);
  line.option("--requests", arguments.most_requests, "only so many, from the first one on")
      .between(std::uint64_t{1}, std::uint64_t{1} << 62)
      .goes_with({trace});
  line.option("--block-size", arguments.block_size, "[tokens], default 16")
      .between(1, 1 << 20)
      .goes_with({trace});
  const auto capacity = line.option("--capacity-blocks", arguments.capacity_blocks,
                                    "usable blocks of the cache, default: nothing is ever evicted")
                            .between(1, 1 << 30)
                            .goes_with({trace});
  return {trace, capacity};
}

}  // namespace kvproof::bench
