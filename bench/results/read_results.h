// SPDX-License-Identifier: Apache-2.0
// Reads result files, plain or compressed, whoever wrote them.
#pragma once

#include <string>
#include <vector>

#include "bench/results/result_file.h"

namespace kvproof::bench {

struct ResultDocument {
  Parameters environment;
  std::vector<Result> results;
};

/// Of the form alone; what an experiment's rows may hold says schema.h.
/// Throws InputError that names the file and the field of its mistake.
[[nodiscard]] ResultDocument read_results(const std::string& path);

}  // namespace kvproof::bench
