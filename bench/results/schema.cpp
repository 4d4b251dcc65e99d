// SPDX-License-Identifier: Apache-2.0
// Holds rows to the list of experiments, and prints it.
#include "bench/results/schema.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/results/verdict.h"

namespace kvproof::bench {
namespace {

constexpr double kMostExact = 9007199254740992.0;  // 2^53: up to here whole numbers are exact
constexpr std::string_view kStorages =
    "contiguous_max_length|contiguous_power_of_two|contiguous_oracle|contiguous_grow_and_copy|"
    "paged|paged_shared";
constexpr std::string_view kDigits = "0123456789";

bool no_text(std::string_view /*text*/) { return false; }
bool no_number(double /*value*/) { return false; }
bool is_whole(double value) { return value == std::trunc(value); }

struct KindRow {
  std::string_view name;
  bool (*holds_text)(std::string_view text);
  bool (*holds_number)(double value);
};
constexpr KindRow kKinds[] = {
    {"text", [](std::string_view text) { return !text.empty(); }, &no_number},
    {"note", [](std::string_view) { return true; }, &no_number},  // it may be empty, or absent
    {"word", &no_text, &no_number},                               // one of those that are listed
    {"verdict",
     [](std::string_view text) {
       return std::ranges::count(kVerdicts, text, &VerdictRow::name) > 0;
     },
     &no_number},
    {"digits",
     [](std::string_view text) {
       return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
     },
     &no_number},
    {"count", &no_text, [](double value) { return value >= 0 && is_whole(value); }},
    {"size", &no_text, [](double value) { return value > 0 && is_whole(value); }},
    {"positive", &no_text, [](double value) { return value > 0; }},
    {"amount", &no_text, [](double value) { return value >= 0; }},
    {"share", &no_text, [](double value) { return value >= 0 && value <= 1; }},
    {"number", &no_text, [](double) { return true; }},
};

/// Cuts off what comes before the next mark, and the mark.
std::string_view cut(std::string_view& text, std::string_view mark) {
  const std::string_view out = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(text.size(), out.size() + mark.size()));
  return out;
}

struct Column {
  std::string_view name;
  const KindRow* kind;
  std::string_view unit;  // or words
  bool optional;

  [[nodiscard]] bool holds(double value) const {
    return std::abs(value) <= kMostExact && kind->holds_number(value);
  }
  [[nodiscard]] bool holds(const Value* value) const {
    if (value == nullptr) return kind->name == "note";
    if (const auto* number = std::get_if<double>(value)) return holds(*number);
    if (const auto* whole = std::get_if<std::int64_t>(value)) {
      return holds(static_cast<double>(*whole));
    }
    const auto& text = std::get<std::string>(*value);
    for (std::string_view words = unit; !words.empty();) {
      if (cut(words, "|") == text) return true;
    }
    return kind->holds_text(text);
  }
  [[nodiscard]] bool holds(const Metric* metric) const {
    if (metric == nullptr) return optional;
    return holds(metric->value) && holds(metric->min.value_or(metric->value)) &&
           holds(metric->max.value_or(metric->value)) && (unit == "*" || unit == metric->unit);
  }
};

std::vector<Column> columns(std::string_view texts, bool metrics) {
  std::vector<Column> out;
  while (!texts.empty()) {
    std::string_view fields = cut(texts, ", ");
    const bool optional = fields.starts_with('?');
    if (optional) fields.remove_prefix(1);
    Column column{cut(fields, ":"), nullptr, {}, optional};
    std::string_view kind = cut(fields, ":");
    if (kind == "storage") {
      kind = "word";
      fields = kStorages;
    }
    if (kind.empty()) kind = column.name == "verdict" ? "verdict" : "text";
    if (column.name == "reason") kind = "note";
    column.kind = std::ranges::find(kKinds, kind, &KindRow::name);
    if (column.kind == std::end(kKinds)) throw std::logic_error("no kind " + std::string(kind));
    column.unit = fields;
    if (metrics && fields.empty()) column.unit = kind == "share" ? "ratio" : "count";
    out.push_back(column);
  }
  return out;
}

nlohmann::ordered_json described(std::string_view texts, bool metrics) {
  auto out = nlohmann::ordered_json::object();
  for (const Column& column : columns(texts, metrics)) {
    nlohmann::ordered_json& entry = out[std::string(column.name)];
    entry["kind"] = column.kind->name;
    if (metrics) entry["unit"] = column.unit;
    if (column.optional) entry["optional"] = true;
    for (std::string_view words = metrics ? "" : column.unit; !words.empty();) {
      entry["words"].push_back(cut(words, "|"));
    }
  }
  return out;
}

}  // namespace

std::string_view refused_column(const Result& row) {
  const auto found = std::ranges::find(experiments(), row.experiment, &Experiment::name);
  if (found == experiments().end()) return "experiment";
  for (const Column& column : columns(found->parameters, false)) {
    if (!column.holds(row.parameter(column.name))) return column.name;
  }
  for (const Column& column : columns(found->metrics, true)) {
    if (!column.holds(row.metric(column.name))) return column.name;
  }
  return {};
}

std::string schema_json(const Parameters& environment) {
  auto out = nlohmann::ordered_json::parse(to_json(environment, {}));
  out.erase("results");
  for (const VerdictRow& row : kVerdicts) out["verdicts"][std::string(row.name)] = row.exit_code;
  for (const Experiment& experiment : experiments()) {
    out["experiments"][std::string(experiment.name)] = {
        {"parameters", described(experiment.parameters, false)},
        {"metrics", described(experiment.metrics, true)},
        {"most", experiment.most},
        {"most_names", experiment.most_names},
        {"cites", experiment.cites}};
  }
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace kvproof::bench
