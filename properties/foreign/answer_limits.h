// SPDX-License-Identifier: Apache-2.0
// How long a program may take for an answer, and how long the answer may be.
#pragma once

#include <cstddef>

namespace kvproof::properties {

struct AnswerLimits {
  double answer_seconds = 10;
  double start_seconds = 60;  // until the first header is answered: an interpreter loads libraries
  std::size_t answer_bytes = std::size_t{4} << 20;
};

}  // namespace kvproof::properties
