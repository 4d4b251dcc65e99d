// SPDX-License-Identifier: Apache-2.0
// The life of a request through the whole cache manager: what one block costs from arrival to
// release.
//
// Workload: 1,024 prompt tokens of which a shared prefix of 512 is cached, 256 tokens decoded one
//           at a time, block size 16, 128 live requests, a warm and full pool. Timed through the
//           calls that replay makes: arrive, lookup, allocate, 256 times (append, allocate,
//           advance), finish. The divisor is the 80 blocks of a request, whether they were hit or
//           taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/results/result_file.h"

namespace kvproof::bench {

struct LifeCycleOptions {
  bool smoke = false;          // a pool of 4,096 blocks and few requests: does it run at all
  std::uint64_t seed = 1;      // of the prompts
  std::filesystem::path self;  // this program, to be counted by callgrind; empty = do not count
};

/// One result per case (hash function, pool size): "ns_per_block", "ns_per_decode_token",
/// "instructions_per_block" (where valgrind is installed), "bytes_per_block", counts and a
/// checksum. Throws std::logic_error when a count or an audit is not as it must be.
[[nodiscard]] std::vector<Result> run_life_cycle(const LifeCycleOptions& options);

/// The body that callgrind counts: a fixed number of requests of case `name` on a warm pool. Called
/// in a child process by run_life_cycle. @return the process's exit code
int count_life_cycle(const std::string& name, std::uint64_t seed);

}  // namespace kvproof::bench
