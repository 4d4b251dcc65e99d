// SPDX-License-Identifier: Apache-2.0
// One request of a trace or of a built-in workload, and the stream that every one of them is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvproof::bench {

struct Request {
  std::uint64_t index = 0;     // position in its source, from 0; also its identity
  double arrival_seconds = 0;  // since the first request of the source
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::vector<std::uint64_t> block_ids;  // shape [num_ids]; equal id = equal tokens and prefix
};

struct TraceInfo {
  std::string name;                 // a path, or the name of a workload
  std::string format;               // "mooncake_jsonl", "azure_csv" or "workload"
  std::int64_t ids_block_size = 0;  // [tokens per id]; 0 = the source has no ids
  // true:  num_ids = ceil(input_tokens / ids_block_size), the last id may cover fewer tokens;
  // false: num_ids = floor(...), the tokens after the last full block have no id.
  bool partial_tail = false;
};

/// Requests in order of arrival, produced one at a time.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  [[nodiscard]] virtual const TraceInfo& info() const = 0;

  /// Overwrites `request` with the next one, reusing the capacity of its block_ids; false at the
  /// end. Throws properties::InputError when a file is malformed from here on.
  [[nodiscard]] virtual bool next(Request& request) = 0;

  /// Share produced so far, 0 to 1, for a progress bar.
  [[nodiscard]] virtual double fraction() const = 0;
};

}  // namespace kvproof::bench
