// SPDX-License-Identifier: Apache-2.0
// The decode steps of a batch in lockstep: what one token costs through the whole cache manager.
//
// Workload: a warm and full pool of 65,536 blocks of 16 tokens, and a batch of requests that all
//           get one token in each step. Requests start at different places within a block, so that
//           a sixteenth of them completes a block in each step, and another sixteenth takes one,
//           which evicts content. Measured are whole steps, by one call or by three calls for each
//           request, with all of their block ends and hashes.
#pragma once

#include <cstdint>
#include <string>

namespace kvproof::bench {

/// The body that callgrind counts: a fixed number of steps of case `name` on a warm pool. Called in
/// a child process by the suite decode_step. @return the process's exit code
int count_decode_step(const std::string& name, std::uint64_t seed);

}  // namespace kvproof::bench
