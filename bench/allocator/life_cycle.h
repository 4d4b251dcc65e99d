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
#include <string>

namespace kvproof::bench {

/// The body that callgrind counts: a fixed number of requests of case `name` on a warm pool. Called
/// in a child process by the suite life_cycle. @return the process's exit code
int count_life_cycle(const std::string& name, std::uint64_t seed);

}  // namespace kvproof::bench
