// SPDX-License-Identifier: Apache-2.0
// Published request logs as streams of requests, plain, .gz or .zst; formats/README.md says where
// each one is published and describes its format.
//
// The format is recognised by the first line, never by the name of the file. Rules for all: times
// are relative to the first request; the order is the file's; equal times are kept in the order of
// the file; a time earlier than the line before is an error, because a sort would need the whole
// file and the publishers sort theirs; so is a file without a single request, and an empty line.
// Memory is bounded by one line (by one session at a time if lines are sessions). Any bytes give a
// request or a InputError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "bench/requests/request.h"

namespace kvproof::bench {

/// The formats, for people.
inline constexpr std::string_view kLogFormats =
    "Mooncake, Qwen-Bailian, rtp-llm, LLMServingSim and kv-cache-tester JSON; Azure, BurstGPT and "
    "vidur CSV";

struct LogOptions {
  // Longest input and longest output that a line may state. The default is 16 times the longest
  // context we have met (894 k tokens) and keeps the tokens of one request under 64 MiB.
  std::int64_t max_tokens = std::int64_t{1} << 24;

  // Tokens per id if the file does not say; 0 = as published, or inferred from the first lines.
  std::int64_t ids_block_size = 0;

  // Filters; what they leave out is counted in RequestSource::left_out().
  std::int64_t max_context = 0;  // [tokens] of input and output together; 0 = any
  bool skip_zero_input = false;
  bool skip_zero_output = false;

  // Sessions under way at a time: when one has asked its last, the next of the file begins.
  std::uint32_t sessions_at_once = 1;

  [[nodiscard]] bool operator==(const LogOptions&) const = default;
};

/// Throws InputError if the file cannot be read or its first line fits no format.
[[nodiscard]] std::unique_ptr<RequestSource> open_log(const std::string& path,
                                                      LogOptions options = {});

/// The same log as a source that can be opened repeatedly. It is not opened yet.
[[nodiscard]] ReopenableSource log_source(const std::string& path, const LogOptions& options = {});

}  // namespace kvproof::bench
