// SPDX-License-Identifier: Apache-2.0
#include "bench/results/read_results.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "reference/json_fault.h"
#include "reference/support/line_reader.h"

namespace kvproof::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr int kDeepest = 16;  // brackets within brackets; the format needs 5

/// Reads the fields of one document, and names the one that is wrong.
class FieldReader {
 public:
  explicit FieldReader(const std::string& path) : path_(path) {}

  [[noreturn]] void refuse(const std::string& where, const std::string& expected) const {
    throw InputError(path_, 0, where, expected);
  }

  [[nodiscard]] Parameters parameters(const Json& object, const std::string& where) const {
    if (!object.is_object()) refuse(where, "an object");
    Parameters out;
    for (const auto& [name, value] : object.items()) {
      out.emplace_back(name, parameter(value, where + "." + name));
    }
    return out;
  }

  [[nodiscard]] Result result(const Json& row, const std::string& where) const {
    if (!row.is_object()) refuse(where, "an object");
    const Json name = row.value("experiment", Json());
    if (!name.is_string()) refuse(where + ".experiment", "a text");
    Result out{name.get<std::string>(),
               parameters(row.value("parameters", Json()), where + ".parameters"),
               {}};
    const Json metrics = row.value("metrics", Json());
    if (!metrics.is_object()) refuse(where + ".metrics", "an object");
    for (const auto& [key, value] : metrics.items()) {
      out.metrics.emplace_back(key, metric(value, where + ".metrics." + key));
    }
    return out;
  }

 private:
  [[nodiscard]] Value parameter(const Json& value, const std::string& where) const {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return std::string(value.get<bool>() ? "true" : "false");
    if (value.is_number_unsigned() && value.get<std::uint64_t>() >> 63U != 0) {
      return value.dump();  // a seed may be that large
    }
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number()) return value.get<double>();
    refuse(where, "a text or a number");
  }
  [[nodiscard]] Metric metric(const Json& value, const std::string& where) const {
    const auto number = [&](const char* name) -> std::optional<double> {
      if (!value.contains(name) || value[name].is_null()) return {};
      if (!value[name].is_number()) refuse(where + "." + name, "a number");
      return value[name].get<double>();
    };
    if (!value.is_object()) refuse(where, "an object with value and unit");
    const Json unit = value.value("unit", Json());
    if (!unit.is_string()) refuse(where + ".unit", "a text");
    const std::optional<double> measured = number("value");
    if (!measured) refuse(where + ".value", "a number");
    return {*measured, unit.get<std::string>(), number("min"), number("max")};
  }

  const std::string& path_;
};

Json parse(const std::string& path) {
  LineReader reader(path);
  std::string text;
  for (std::string_view line; reader.next(line);) {
    if (text.size() + line.size() >= kMostBytes) {
      throw InputError(path, 0, "", "a result file of at most 64 MiB");
    }
    text.append(line) += '\n';
  }
  if (const auto fault = fault_of_text(text)) throw InputError(path, 0, "", *fault);
  try {
    return Json::parse(text, [&path](int depth, Json::parse_event_t, const Json&) {
      if (depth <= kDeepest) return true;
      throw InputError(path, 0, "", "at most 16 brackets within each other");
    });
  } catch (const nlohmann::json::exception& damage) {
    throw InputError(path, 0, "", fault_of(damage));
  }
}

}  // namespace

ResultDocument read_results(const std::string& path) {
  const Json document = parse(path);
  const FieldReader reader(path);
  if (!document.is_object() || document.value("schema", Json()) != Json(1)) {
    reader.refuse("schema", "1, found no result file");
  }
  ResultDocument out{reader.parameters(document.value("environment", Json()), "environment"), {}};
  const auto results = document.find("results");
  if (results == document.end() || !results->is_array()) reader.refuse("results", "a list");
  for (std::size_t i = 0; i < results->size(); ++i) {
    out.results.push_back(reader.result((*results)[i], "results[" + std::to_string(i) + "]"));
  }
  return out;
}

}  // namespace kvproof::bench
