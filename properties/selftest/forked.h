// SPDX-License-Identifier: Apache-2.0
// Work on mutants in processes of their own: a mutant may crash or hang, which is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace kvproof::properties {

/// What is left of a process that has ended.
struct Ended {
  std::string bytes;  // what it wrote into its pipe
  int status = 0;     // how it ended, as waitpid() says it
  double seconds = 0;
};

/// Runs work(index, pipe) for every index below `count` in a process of its own, so many at a time;
/// 0 = as many as there are cores. They end with this process. @param done is called after each
void run_forked(std::size_t count, std::uint32_t processes,
                const std::function<void(std::size_t index, int pipe)>& work,
                const std::function<void(std::size_t index, const Ended& ended)>& done);

}  // namespace kvproof::properties
