// SPDX-License-Identifier: Apache-2.0
// How long a program may take for an answer, how long the answer may be, and how much memory the
// program may take.
#pragma once

#include <cstddef>

namespace kvproof::properties {

struct AnswerLimits {
  double answer_seconds = 10;
  double start_seconds = 60;  // until the first header is answered: an interpreter loads libraries
  std::size_t answer_bytes = std::size_t{4} << 20;
  double memory_gib = 8;  // [2^30 bytes]
};

}  // namespace kvproof::properties
