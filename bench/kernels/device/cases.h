// SPDX-License-Identifier: Apache-2.0
// The parts of kvproof-device-bench. Each prints its results as it goes.
#pragma once

#include "bench/kernels/device/device.h"

namespace kvproof::bench {

/// The data that all parts share.
struct Bench {
  int num_processors = 0;
  int rounds = 0;
  double copy_bytes_per_us = 0;  // of the fastest large copy, read and written bytes together
  Stopwatch& stopwatch;
};

/// Large reads and copies. @return bytes per microsecond of the fastest copy
[[nodiscard]] double measure_ceilings(Bench& bench);
/// Decode over block tables against decode over one buffer, and both against a read of as much.
void measure_decode(const Bench& bench, bool smoke);
/// reshape_and_cache against a copy of as much.
void measure_reshape(const Bench& bench, bool smoke);

}  // namespace kvproof::bench
