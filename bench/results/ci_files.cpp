// SPDX-License-Identifier: Apache-2.0
#include "bench/results/ci_files.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/results/shown.h"
#include "bench/results/table.h"
#include "bench/results/verdict.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of_value(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return Json(std::get<double>(value)).dump();
}

std::string xml_text(std::string_view bytes) {
  // As in the other files, what is no UTF-8 is replaced; and what XML lacks, U+FFFE and U+FFFF.
  std::string text = Json::parse(Json(bytes).dump(-1, ' ', false, Json::error_handler_t::replace));
  for (std::size_t at = 0; (at = text.find("\xEF\xBF", at)) != text.npos; at += 3) {
    if (static_cast<unsigned char>(text[at + 2]) >= 0xBE) text[at + 2] = '\xBD';
  }
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

bool is_finding(const Result& row) { return row.experiment.ends_with("_finding"); }

/// A finding that may be a consequence of another one decides nothing.
bool may_follow(const Result& row) { return !text_in(row, "behind").empty(); }

/// Broken or worse.
bool fails(std::string_view verdict) {
  const auto* at = std::ranges::find(kVerdicts, verdict, &VerdictRow::name);
  return at != std::end(kVerdicts) && at->exit_code == 1;
}

/// The values that name a row, as shown.h says of its experiment; else its experiment.
std::string name_of_row(const Result& row) {
  std::string out;
  for (const Shown& shown : kShown) {
    if (shown.experiment != row.experiment) continue;
    for_each_word(shown.names, [&](std::string_view column) {
      const std::string text = text_in(row, column);
      out += out.empty() || text.empty() ? text : ' ' + text;
    });
  }
  return out.empty() ? row.experiment : out;
}

std::string reason_of(const Result& row) {
  const std::string reason = text_in(row, "reason");
  return reason.empty() ? text_in(row, "verdict") : text_in(row, "verdict") + ": " + reason;
}

/// JUnit's element for a verdict; empty = it passes.
std::string_view element_of(std::string_view verdict) {
  if (fails(verdict)) return "failure";
  if (verdict == name_of(Verdict::cannot_tell)) return "error";
  const bool told = verdict != name_of(Verdict::not_evaluated) &&
                    verdict != name_of(Verdict::not_applicable) &&
                    verdict != name_of(Verdict::skipped);
  return told ? "" : "skipped";
}

/// A path as SARIF names files: without the characters that an address does not have.
std::string address_of(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = path.starts_with('/') ? "file://" : "";
  if (path.starts_with("./")) path.remove_prefix(2);
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || std::string_view("-._~/").find(c) != path.npos;
    out += plain ? std::string(1, c) : std::string{'%', kDigits[byte / 16], kDigits[byte % 16]};
  }
  return out;
}

Json sarif_result(const Result& row, const std::string& rule) {
  const std::string reason = text_in(row, "reason");
  Json out = {{"ruleId", rule},
              {"level", may_follow(row)                  ? "warning"
                        : fails(text_in(row, "verdict")) ? "error"
                                                         : "note"},
              {"message", {{"text", reason.empty() ? name_of_row(row) : reason}}}};
  if (const std::string file = text_in(row, "file"); !file.empty()) {
    Json place = {{"artifactLocation", {{"uri", address_of(file)}}}};
    for (const char* column : {"line", "event"}) {
      const Value* line = row.parameter(column);
      const std::int64_t* number = line != nullptr ? std::get_if<std::int64_t>(line) : nullptr;
      if (number != nullptr && *number > 0 && !place.contains("region")) {
        place["region"] = {{"startLine", *number}};
      }
    }
    out["locations"] = Json::array({{{"physicalLocation", place}}});
  }
  if (const std::string known = text_in(row, "known"); !known.empty()) {
    out["suppressions"] = Json::array({{{"kind", "external"}, {"justification", known}}});
  }
  return out;
}

}  // namespace

std::string junit_of(std::span<const Result> results) {
  std::string text;
  std::map<std::string, std::size_t> cases;  // by what becomes of them; those that hold by ""
  for (const Result& row : results) {
    const std::string verdict = text_in(row, "verdict");
    if (verdict.empty() || may_follow(row)) continue;
    const std::string subject = text_in(row, "subject");
    const std::string suite = row.experiment + (subject.empty() ? "" : "." + subject);
    text +=
        "  <testcase classname=" + xml_text(suite) + " name=" + xml_text(name_of_row(row)) + ">";
    const std::string element(element_of(verdict));
    ++cases[element];
    if (!element.empty()) text += "<" + element + " message=" + xml_text(reason_of(row)) + "/>";
    text += "</testcase>\n";
  }
  return say("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"kvproof\" tests=\"",
             cases[""] + cases["failure"] + cases["error"] + cases["skipped"], "\" failures=\"",
             cases["failure"], "\" errors=\"", cases["error"], "\" skipped=\"", cases["skipped"],
             "\">\n", text, "</testsuite>\n");
}

std::string sarif_of(const Parameters& environment, std::span<const Result> results) {
  Json rules = Json::array();
  std::set<std::string> named;
  const auto add_rule = [&](const std::string& id, const Result& row) {
    if (!named.insert(id).second) return;
    const std::string name = text_in(row, "name");
    const std::string sentence = text_in(row, "sentence");
    Json rule = {{"id", id}};
    if (!name.empty()) rule["name"] = name;
    if (!sentence.empty()) rule["shortDescription"] = {{"text", sentence}};
    rules.push_back(std::move(rule));
  };
  for (const Result& row : results) {
    const std::string law = text_in(row, "law");
    if (!law.empty() && !is_finding(row)) add_rule(law, row);
  }
  const bool has_findings = std::ranges::any_of(results, is_finding);
  Json found = Json::array();
  for (const Result& row : results) {
    const std::string verdict = text_in(row, "verdict");
    const bool known = verdict == name_of(Verdict::known);
    if (has_findings ? !is_finding(row) : !fails(verdict) && !known) continue;
    const std::string law = text_in(row, "law");
    const std::string rule = law.empty() ? row.experiment : law.substr(0, law.find('+'));
    add_rule(rule, row);
    found.push_back(sarif_result(row, rule));
  }
  std::string version = "unknown";
  for (const auto& [name, value] : environment) {
    if (name == "version") version = text_of_value(value);
  }
  const Json driver = {{"name", "kvproof"}, {"version", version}, {"rules", rules}};
  const Json run = {{"tool", {{"driver", driver}}}, {"results", found}};
  const Json whole = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                      {"version", "2.1.0"},
                      {"runs", Json::array({run})}};
  return whole.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string bmf_of(std::span<const Result> results) {
  Json out = Json::object();
  for (const Result& row : results) {
    if (row.experiment == "gate") continue;  // verdicts
    const std::string workload = text_in(row, "workload");
    if (row.experiment == "gate_measure") {
      out[workload][text_in(row, "measure")]["value"] = row.metric("head")->value;
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

OutputFiles::OutputFiles(const OutputPaths& paths) {
  if (!paths.json.empty()) json_.emplace(paths.json);
  if (!paths.junit.empty()) junit_.emplace(paths.junit);
  if (!paths.sarif.empty()) sarif_.emplace(paths.sarif);
  if (!paths.bmf.empty()) bmf_.emplace(paths.bmf);
}

void OutputFiles::commit(const Parameters& environment, std::span<const Result> results) const {
  if (json_) json_->commit(environment, results);
  if (junit_) junit_->commit_text(junit_of(results));
  if (sarif_) sarif_->commit_text(sarif_of(environment, results));
  if (bmf_) bmf_->commit_text(bmf_of(results));
}

}  // namespace kvproof::bench
