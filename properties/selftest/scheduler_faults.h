// SPDX-License-Identifier: Apache-2.0
// What replacements in serving.patches are too long to say, or have to remember.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "properties/selftest/museum_faults.h"

namespace kvproof::patched {

template <class Live>
void remember_aborted(const Live& request) {
  if (request.in_flight > 0)
    memory().aborted.push_back({request.index, request.handle, request.known});
}

/// Frees what the handles of aborted requests name now, which may be other requests.
template <class Queue, class Memory>
void free_again(const Queue& running, Memory& of) {
  std::vector<Aborted>& aborted = memory().aborted;
  for (const auto& request : running) {
    const bool again = std::ranges::find(aborted, std::uint32_t{request.handle},
                                         &Aborted::handle) != aborted.end();
    if (again) of.preempt(request.handle);
  }
  aborted.clear();
}

/// What is left to compute, where more than that counts as computed.
constexpr std::uint32_t at_least_one(std::uint32_t known, std::uint32_t computed) {
  return computed < known ? known - computed : 1;
}

}  // namespace kvproof::patched
