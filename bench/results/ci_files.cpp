// SPDX-License-Identifier: Apache-2.0
#include "bench/results/ci_files.h"

#include <nlohmann/json.hpp>

namespace kvproof::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of_value(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return Json(std::get<double>(value)).dump();
}

std::string parameter(const Result& result, std::string_view name) {
  const Value* value = result.parameter(name);
  return value == nullptr ? "" : text_of_value(*value);
}

std::string xml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out + '"';
}

struct Case {
  std::string suite, name;
  std::string outcome;  // failure, error (it cannot tell), skipped; empty = it holds
  std::string message;
};

/// What a finding that is not known says of a law that broke.
std::string finding_of(std::span<const Result> results, const Result& law) {
  for (const Result& row : results) {
    const std::string laws = "+" + parameter(row, "finding") + "+";
    const bool of_it = laws.find("+" + parameter(law, "law") + "+") != std::string::npos &&
                       parameter(row, "subject") == parameter(law, "subject");
    if (row.experiment == "check_finding" && of_it && parameter(row, "known").empty()) {
      return ": " + parameter(row, "text");
    }
  }
  return {};
}

std::optional<Case> case_of(const Result& row, std::span<const Result> results) {
  const std::string verdict = parameter(row, "verdict");
  const std::string suite = "check." + parameter(row, "subject");
  if (row.experiment == "check_law") {
    const bool holds = verdict.starts_with("holds") || verdict.starts_with("broken");
    const char* outcome = verdict == "BROKEN"              ? "failure"
                          : verdict.starts_with("VACUOUS") ? "error"
                          : holds                          ? ""
                                                           : "skipped";
    return Case{suite, parameter(row, "law") + ' ' + parameter(row, "name"), outcome,
                verdict + (verdict == "BROKEN" ? finding_of(results, row) : "")};
  }
  if (row.experiment == "check_finding" && parameter(row, "known").empty() &&
      parameter(row, "behind").empty()) {
    return Case{suite, parameter(row, "finding"), "failure",
                parameter(row, "text") + "; " + parameter(row, "shape")};
  }
  if (row.experiment == "exhaustive") {
    const char* outcome = verdict == "VIOLATED" ? "failure" : verdict == "cut off" ? "error" : "";
    return Case{"check.exhaustive", parameter(row, "space"), outcome, verdict};
  }
  if (row.experiment == "check_deep") {
    const char* outcome = verdict == "VIOLATED" ? "failure" : verdict == "HOLDS" ? "" : "error";
    return Case{"check.deep", parameter(row, "what"), outcome, verdict};
  }
  if (row.experiment != "gate") return std::nullopt;
  const bool bad = verdict == "worse" || verdict == "wrong";
  const char* outcome = bad ? "failure" : verdict == "cannot tell" ? "error" : "";
  const std::string workload = parameter(row, "workload");
  return Case{"gate", workload.empty() ? "correctness" : workload, outcome,
              verdict + ": " + parameter(row, "because")};
}

}  // namespace

std::string junit_of(std::span<const Result> results) {
  std::string text;
  for (const Result& result : results) {
    const auto row = case_of(result, results);
    if (!row) continue;
    text += "  <testcase classname=" + xml_text(row->suite) + " name=" + xml_text(row->name) + ">";
    if (!row->outcome.empty())
      text += "<" + row->outcome + " message=" + xml_text(row->message) + "/>";
    text += "</testcase>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"kvproof\">\n" + text +
         "</testsuite>\n";
}

std::string bmf_of(std::span<const Result> results) {
  Json out = Json::object();
  for (const Result& row : results) {
    if (row.experiment == "gate") continue;  // verdicts
    const std::string workload = parameter(row, "workload");
    if (row.experiment == "gate_measure") {
      out[workload][parameter(row, "measure")]["value"] = row.metric("head")->value;
      continue;
    }
    std::string name = row.experiment;
    for (const auto& [key, value] : row.parameters) name += ' ' + key + '=' + text_of_value(value);
    if (row.experiment == "gate_time") name = workload;
    for (const auto& [key, metric] : row.metrics) {
      Json& entry = out[name][row.experiment == "gate_time" ? "time " + key : key];
      entry["value"] = metric.value;
      if (metric.min) entry["lower_value"] = *metric.min;
      if (metric.max) entry["upper_value"] = *metric.max;
    }
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

CiFiles::CiFiles(const std::string& junit, const std::string& bmf) {
  if (!junit.empty()) junit_.emplace(junit);
  if (!bmf.empty()) bmf_.emplace(bmf);
}

void CiFiles::commit(std::span<const Result> results) const {
  if (junit_) junit_->commit_text(junit_of(results));
  if (bmf_) bmf_->commit_text(bmf_of(results));
}

}  // namespace kvproof::bench
