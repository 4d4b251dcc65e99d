// SPDX-License-Identifier: Apache-2.0
// One request of a log or of a built-in workload, and the stream of requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvproof::bench {

struct Request {
  std::uint64_t index = 0;     // position in its source, from 0; also its identity
  double arrival_seconds = 0;  // since the first request of the source
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::vector<std::uint64_t> block_ids = {};  // shape [num_ids]; equal id = equal tokens and prefix
  // As block_ids, but of the tokens of the block alone; empty where the log does not say them.
  std::vector<std::uint64_t> own_ids = {};

  // Sources with sessions only (SourceInfo::sessions), else zero and empty.
  std::uint64_t session = 0;  // conversation it belongs to, from 0
  std::uint32_t agent = 0;    // the agent of its session: 0 = the main one, k = the k-th sub-agent
  // Indices of the earlier requests of its session whose answers it waits for: the one before it of
  // the same agent; for the first of a sub-agent the one that spawned it; for the first after
  // sub-agents have ended also the last of each of them (join).
  std::vector<std::uint64_t> after = {};
};

/// Requests that a filter kept from being produced, by the first reason that applied.
struct LeftOut {
  std::uint64_t zero_input = 0;
  std::uint64_t zero_output = 0;
  std::uint64_t over_context = 0;

  [[nodiscard]] std::uint64_t total() const { return zero_input + zero_output + over_context; }
};

struct SourceInfo {
  std::string name;    // a path, or the name of a workload
  std::string format;  // "workload", or one of the formats of bench/requests/formats/README.md
  std::int64_t ids_block_size = 0;  // [tokens per id]; 0 = the source has no ids
  // true:  num_ids = ceil(input_tokens / ids_block_size), the last id may cover fewer tokens;
  // false: num_ids = floor(...), the tokens after the last full block have no id.
  bool partial_tail = false;
  bool timed = true;      // false: no times are known and every request arrives at 0
  bool sessions = false;  // session, agent and after of a request are filled in
};

/// Requests in order of arrival, produced one at a time.
class RequestSource {
 public:
  virtual ~RequestSource() = default;

  [[nodiscard]] virtual const SourceInfo& info() const = 0;

  /// Overwrites `request` with the next one, reusing the capacity of its block_ids; false at the
  /// end. Throws InputError when a file is malformed from here on.
  [[nodiscard]] virtual bool next(Request& request) = 0;

  /// Share produced so far, 0 to 1, for a progress bar.
  [[nodiscard]] virtual double fraction() const = 0;

  /// The requests that filters have left out so far.
  [[nodiscard]] virtual LeftOut left_out() const { return {}; }
};

/// Requests that can be read more than once: each opening starts again at the first.
struct ReopenableSource {
  std::string name;  // of the workload, or of the log's file without its folder
  std::function<std::unique_ptr<RequestSource>()> open;
};

}  // namespace kvproof::bench
