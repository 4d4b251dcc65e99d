// SPDX-License-Identifier: Apache-2.0
// Divides the work of an operation among the threads of a CPU implementation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

namespace kvproof::kernels {

/// Calls f(begin, end) on disjoint shares of [0, count), whose sizes differ by one at most, on up
/// to num_threads threads, the calling thread included.
template <class F>
void for_each_share(int num_threads, std::int64_t count, F&& f) {
  constexpr std::int64_t kMostThreads = 64;
  const std::int64_t shares =
      std::clamp<std::int64_t>(std::min<std::int64_t>(num_threads, count), 1, kMostThreads);
  std::thread others[kMostThreads];
  for (std::int64_t i = 1; i < shares; ++i) {
    others[i] = std::thread([&f, i, count, shares] {
      f(count / shares * i + std::min(i, count % shares),
        count / shares * (i + 1) + std::min(i + 1, count % shares));
    });
  }
  f(std::int64_t{0}, count / shares + std::min(std::int64_t{1}, count % shares));
  for (std::int64_t i = 1; i < shares; ++i) others[i].join();
}

}  // namespace kvproof::kernels
