// SPDX-License-Identifier: Apache-2.0
#include "properties/sources/fuzz/history_input.h"

namespace kvproof::properties::concurrency {

void run_history_input(Runner& runner, std::span<const std::uint8_t> bytes) {
  const auto byte = [&](std::size_t i) -> std::uint32_t { return i < bytes.size() ? bytes[i] : 0; };
  const Plan plan{.seed = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24,
                  .num_threads = 2 + byte(4) % 2};
  std::size_t at = 5;
  std::uint32_t stays = byte(at) >> 2;
  runner.on_fibers(plan, [&](std::uint32_t options, bool forced) -> std::uint32_t {
    if (at >= bytes.size()) return 0;
    if (!forced && stays-- > 0) return 0;
    const std::uint32_t whom = bytes[at] & 3;
    stays = byte(++at) >> 2;
    return forced ? whom % options : 1 + whom % (options - 1);
  });
}

}  // namespace kvproof::properties::concurrency
