// SPDX-License-Identifier: Apache-2.0
// The results of a measurement, and the one file format of all results.
//
// Schema 1: {"schema":1,"environment":{...},"results":[{"experiment":"...","parameters":{...},
// "metrics":{"ns_per_block":{"value":...,"unit":"ns","min":...,"max":...}}}]}; min and max are
// optional.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace kvproof::bench {

using Value = std::variant<std::string, std::int64_t, double>;

/// Names and values in the order in which they are written and printed.
using Parameters = std::vector<std::pair<std::string, Value>>;

struct Metric {
  double value = 0;
  std::string unit;           // "ns", "bytes", "tokens", "blocks", "ratio", "count", "s"
  std::optional<double> min;  // over the repetitions, if there were several
  std::optional<double> max;
};
/// A number that has no spread.
template <class Number>
requires std::is_arithmetic_v<Number>
[[nodiscard]] Metric metric(Number value, const char* unit) {
  return {static_cast<double>(value), unit, {}, {}};
}
[[nodiscard]] inline Metric count(std::uint64_t n) { return metric(n, "count"); }
using Metrics = std::vector<std::pair<std::string, Metric>>;

struct Result {
  std::string experiment;
  Parameters parameters;
  Metrics metrics;

  /// @return the metric of that name, or nullptr.
  [[nodiscard]] const Metric* metric(std::string_view name) const;
  /// @return the parameter of that name, or nullptr.
  [[nodiscard]] const Value* parameter(std::string_view name) const;
};

/// A path that cannot be written. what() is one line that names it.
class OutputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A result file that exists only when it is complete: written under another name, then renamed.
/// What is no regular file (a device, a pipe, this process's standard output) is written in place.
class ResultFile {
 public:
  /// Finds out whether the file can be written, before anything is measured; nothing is left where
  /// it is. Throws OutputError.
  explicit ResultFile(const std::filesystem::path& path);

  /// Writes everything and gives the file its name. Throws OutputError, and leaves nothing then; and
  /// std::logic_error for a row that its experiment does not allow (schema.h).
  void commit(const Parameters& environment, std::span<const Result> results) const;
  /// As commit(), for a file of any text.
  void commit_text(const std::string& text) const;

 private:
  [[nodiscard]] std::filesystem::path unfinished() const;

  std::filesystem::path shown_;  // as the user named it
  std::filesystem::path path_;   // of the file itself, if that is a link
  bool in_place_ = false;
  int descriptor_ = -1;  // of a stream that this process has open already, as /dev/stdout; or -1
};

/// The text of a result file. Throws std::logic_error for a value that JSON cannot hold.
[[nodiscard]] std::string to_json(const Parameters& environment, std::span<const Result> results);

}  // namespace kvproof::bench
