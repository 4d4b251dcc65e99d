// SPDX-License-Identifier: Apache-2.0
// Public request traces as streams of requests: Mooncake JSONL and Azure CSV, plain, .gz or .zst.
//
// The format is recognised by the first line, never by the name of the file. Rules for both:
// times are relative to the first request; the order is the file's; equal times are kept in the
// order of the file; a time earlier than the line before is an error, because a sort would need
// the whole file and both publishers sort theirs; so is a file without a single request, and an
// empty line. Whatever the bytes, the answer is a request or a properties::InputError.
// bench/traces/README.md says where each trace is published and describes its format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/request.h"

namespace kvproof::bench {

struct TraceLimits {
  // Longest input and longest output that a line may state. The default is 16 times the longest
  // context we have met (894 k tokens) and keeps the tokens of one request under 64 MiB.
  std::int64_t max_tokens = std::int64_t{1} << 24;
};

/// Throws properties::InputError if the file cannot be read or its first line fits no format.
[[nodiscard]] std::unique_ptr<RequestSource> open_trace(const std::string& path,
                                                        TraceLimits limits = {});

}  // namespace kvproof::bench
