// SPDX-License-Identifier: Apache-2.0
// What result files can hold, as JSON for whoever reads them.
#pragma once

#include <string>

#include "bench/results/result_file.h"

namespace kvproof::bench {

/// {"schema":1,"environment":{...},"verdicts":{"broken":1,...},"experiments":{...}}
[[nodiscard]] std::string schema_json(const Parameters& environment);

}  // namespace kvproof::bench
