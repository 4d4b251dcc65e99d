// SPDX-License-Identifier: Apache-2.0
// Results as aligned text tables for people, with the units in the headings.
#pragma once

#include <iosfwd>
#include <span>

#include "bench/results/result_file.h"

namespace kvproof::bench {

/// One table for each run of results with the same experiment and the same columns.
void print_results(std::ostream& out, std::span<const Result> results);

}  // namespace kvproof::bench
