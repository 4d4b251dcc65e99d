// SPDX-License-Identifier: Apache-2.0
// What result files can hold: each experiment with its parameters, metrics, units and ranges. The
// writer of result files holds its rows to it, and readers get it from `kvproof describe --json`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/results/result_file.h"

namespace kvproof::bench {

/// A row must have what is listed and may have more. A column is "name:kind:unit", kinds are listed
/// in schema.cpp; without one it is a text, or what its name says. Of a parameter, words joined by |
/// stand in place of the unit: it may be one of them, too. Behind ? is a metric that a row may lack.
struct Experiment {
  std::string_view name;
  std::string_view parameters, metrics;  // columns, joined by ", "
  int most = 100'000;                    // a page can show at most so many rows
  int most_names = 1000;                 // and at most so many different texts of one parameter
  bool cites = false;                    // the sources are publications, not traces
};

/// Of all verbs, also those in Python.
[[nodiscard]] std::span<const Experiment> experiments();

/// @return the first column that its experiment does not allow so, "experiment", or nothing
[[nodiscard]] std::string_view refused_column(const Result& row);

/// {"schema":1,"environment":{...},"verdicts":{"broken":1,...},"experiments":{...}}
[[nodiscard]] std::string schema_json(const Parameters& environment);

}  // namespace kvproof::bench
