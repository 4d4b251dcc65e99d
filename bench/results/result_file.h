// SPDX-License-Identifier: Apache-2.0
// The results of a measurement, and the one file format of all results.
//
// Schema 1: {"schema":1,"environment":{...},"results":[{"experiment":"...","parameters":{...},
// "metrics":{"ns_per_block":{"value":...,"unit":"ns","min":...,"max":...}}}]}; min and max are
// optional.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
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
[[nodiscard]] inline Metric count(std::uint64_t n) {
  return {static_cast<double>(n), "count", {}, {}};
}
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
/// A device or a pipe cannot be replaced by renaming, so it is written in place.
class ResultFile {
 public:
  /// Opens the file, so that a path that cannot be written is found before anything is measured.
  /// Throws OutputError.
  explicit ResultFile(const std::filesystem::path& path);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Writes everything and gives the file its name. Throws OutputError. @pre called once
  void commit(const Parameters& environment, std::span<const Result> results);
  /// As commit(), for a file of any text.
  void commit_text(const std::string& text);

 private:
  std::filesystem::path path_;       // the name of the complete file
  std::filesystem::path temporary_;  // the name until it is complete; may equal path_
  std::ofstream stream_;
  bool committed_ = false;
};

/// The text of a result file. Throws std::logic_error for a value that JSON cannot hold.
[[nodiscard]] std::string to_json(const Parameters& environment, std::span<const Result> results);

}  // namespace kvproof::bench
