// SPDX-License-Identifier: Apache-2.0
// One session of kv-cache-tester in memory: its requests in order of time, and which request waits
// for which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvproof::bench {

struct SessionRequest {
  double seconds = 0;  // since the session began
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::uint32_t agent = 0;   // 0 = the main one
  std::uint32_t parent = 0;  // the agent that spawned this one
  std::size_t first_run = 0;
  std::size_t num_runs = 0;
  std::vector<std::size_t> after;  // positions of earlier requests of the session
};

struct Session {
  struct Run {  // num successive ids
    std::uint32_t first = 0;
    std::uint32_t num = 0;
  };
  std::vector<SessionRequest> requests;
  std::vector<Run> runs;
  std::uint64_t num_ids = 0;  // all ids are below

  /// Sorts the requests by time and fills in `after`: the rule of Request::after.
  void order();
};

}  // namespace kvproof::bench
