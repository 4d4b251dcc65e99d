// SPDX-License-Identifier: Apache-2.0
// Lays results out in columns.
#include "bench/results/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

namespace kvproof::bench {
namespace {

using Row = std::vector<std::string>;

/// Whole numbers in full, others to four digits.
std::string text_of(double value) {
  char text[40];
  const bool whole = value == std::trunc(value) && std::abs(value) < 1e15;
  const bool long_fraction = std::abs(value) >= 1000 && std::abs(value) < 1e15;
  std::snprintf(text, sizeof text, whole || long_fraction ? "%.0f" : "%.4g", value);
  return text;
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return text_of(std::get<double>(value));
}

std::string text_of(const Metric& metric) {
  std::string text = text_of(metric.value);
  if (metric.min && metric.max) {
    text += " [" + text_of(*metric.min) + ", " + text_of(*metric.max) + "]";
  }
  return text;
}

Row heading(const Result& result) {
  Row row;
  for (const auto& [name, value] : result.parameters) row.push_back(name);
  for (const auto& [name, metric] : result.metrics) {
    const bool said = name.starts_with(metric.unit + "_") || name.ends_with("_" + metric.unit) ||
                      metric.unit == "count" || metric.unit == "ratio";
    row.push_back(said ? name : name + " " + metric.unit);
  }
  return row;
}

Row cells(const Result& result) {
  Row row;
  for (const auto& [name, value] : result.parameters) row.push_back(text_of(value));
  for (const auto& [name, metric] : result.metrics) row.push_back(text_of(metric));
  return row;
}

/// Shows a case with too many columns as one line for each column.
void print_downwards(std::ostream& out, const Result& result) {
  const Row names = heading(result);
  const Row values = cells(result);
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  out << result.experiment << '\n';
  for (std::size_t i = 0; i < names.size(); ++i) {
    out << "  " << names[i] << std::string(width - names[i].size() + 2, ' ') << values[i] << '\n';
  }
  out << '\n';
}

void print(std::ostream& out, const std::string& title, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  out << title << '\n';
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out << "  " << std::string(widths[i] - row[i].size(), ' ') << row[i];
    }
    out << '\n';
  }
  out << '\n';
}

}  // namespace

void print_results(std::ostream& out, std::span<const Result> results) {
  constexpr std::size_t kMostColumns = 30;
  if (results.size() == 1 && heading(results.front()).size() > kMostColumns) {
    return print_downwards(out, results.front());
  }
  for (std::size_t first = 0; first < results.size();) {
    std::vector<Row> rows = {heading(results[first])};
    std::size_t next = first;
    for (; next < results.size() && results[next].experiment == results[first].experiment &&
           heading(results[next]) == rows.front();
         ++next) {
      rows.push_back(cells(results[next]));
    }
    print(out, results[first].experiment, rows);
    first = next;
  }
}

}  // namespace kvproof::bench
