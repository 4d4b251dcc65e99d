// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/baseline.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/instruments/callgrind.h"
#include "bench/results/environment.h"
#include "reference/config.h"
#include "reference/json_fault.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

using nlohmann::json;

/// The sizes of a workload and of the caches. Counts with other sizes cannot be compared.
std::string stream_of(const GateWorkload& w) {
  std::string out;
  for (const std::uint32_t n :
       {w.num_blocks, w.live, w.prompt_tokens, w.shared_tokens, w.num_prefixes, w.decode_tokens,
        w.chunk_tokens, w.warm_up, w.requests}) {
    out += std::to_string(n) + " ";
  }
  for (const char* option : kCacheGeometry)
    out.append(out.ends_with(' ') ? "" : " ").append(option);
  return out;
}

/// "one of a, b": what a field should have named.
template <class Rows>
std::string one_of(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) names.append(names.empty() ? "" : ", ").append(row.name);
  return "one of " + names;
}

constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20;
constexpr double kMostOfAnything = 1e12;  // per block, far beyond what a process can count

/// Reads one result, and names the field of what is wrong with it.
class RowReader {
 public:
  RowReader(const std::filesystem::path& path, const json& row, std::size_t index)
      : path_(path),
        where_("results[" + std::to_string(index) + "]"),
        row_(row.is_object() ? row : refuse("", "an object")),
        parameters_(object_at("parameters")) {}

  [[nodiscard]] std::string text(const char* name) const {
    const auto at = parameters_.find(name);
    if (at == parameters_.end() || !at->is_string()) refuse_parameter(name, "a text");
    return at->get<std::string>();
  }
  [[nodiscard]] bool is_record() const {
    const auto at = row_.find("experiment");
    if (at == row_.end() || !at->is_string()) refuse(".experiment", "a text");
    return *at == "gate_record";
  }
  [[nodiscard]] std::uint64_t seed() const {
    const auto at = parameters_.find("seed");
    if (at == parameters_.end() || !at->is_number_unsigned()) {
      refuse_parameter("seed", "a whole number from 0");
    }
    return at->get<std::uint64_t>();
  }
  [[nodiscard]] CallStyle way() const {
    const std::string found = text("way");
    for (const CallStyle style : {CallStyle::direct, CallStyle::operations}) {
      if (found == to_string(style)) return style;
    }
    refuse_parameter("way", "one of direct, operations");
  }
  [[nodiscard]] std::uint64_t checksum() const {
    const std::string found = text("checksum");
    std::uint64_t out = 0;
    const char* end = found.data() + found.size();
    const auto parsed = std::from_chars(found.data(), end, out);
    if (parsed.ec == std::errc() && parsed.ptr == end) return out;
    refuse_parameter("checksum", "the decimal digits of a number below 2^64");
  }

  /// What was measured together is there together.
  [[nodiscard]] Counts counts() const {
    const json& metrics = object_at("metrics");
    Counts out;
    for (std::size_t i = 0; i < kNumMeasures; ++i) {
      const auto at = metrics.find(std::string(kMeasures[i].key));
      if (at != metrics.end()) out[i] = value_of(*at, kMeasures[i]);
    }
    for (std::size_t i = 0; i < kNumMeasures; ++i) {
      const Instrument instrument = kMeasures[i].instrument;
      bool needed = instrument == Instrument::answers;
      for (std::size_t other = 0; other < kNumMeasures; ++other) {
        needed = needed || (out[other] && kMeasures[other].instrument == instrument);
      }
      if (needed && !out[i]) {
        refuse(".metrics." + std::string(kMeasures[i].key), "this metric, found none");
      }
    }
    return out;
  }

  [[noreturn]] void refuse_parameter(const std::string& name, const std::string& expected) const {
    refuse(".parameters." + name, expected);
  }

 private:
  [[noreturn]] const json& refuse(const std::string& field, const std::string& expected) const {
    throw InputError(path_.string(), 0, where_ + field, expected);
  }
  [[nodiscard]] const json& object_at(const char* name) const {
    const auto at = row_.find(name);
    if (at == row_.end() || !at->is_object()) refuse(std::string(".") + name, "an object");
    return *at;
  }
  [[nodiscard]] double value_of(const json& metric, const Measure& measure) const {
    const double most = measure.more_is_better ? 1 : kMostOfAnything;
    const json value = metric.is_object() ? metric.value("value", json()) : json();
    if (value.is_number() && value >= 0 && value <= most) return value.get<double>();
    refuse(".metrics." + std::string(measure.key) + ".value",
           most == 1 ? "a number from 0 to 1" : "a number from 0 to 1e12");
  }

  const std::filesystem::path& path_;
  std::string where_;
  const json& row_;
  const json& parameters_;
};

json read_document(const std::filesystem::path& path) {
  const auto refuse = [&path](const std::string& found) -> InputError {
    return {path.string(), 0, "", "a file of kvproof gate --record, found " + found};
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw refuse("a directory");
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, error) || !file) throw refuse("no such file");
  if (std::filesystem::file_size(path, error) > kMostBytes) throw refuse("more than 16 MiB");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (const auto fault = fault_of_text(text)) throw refuse("no " + *fault);
  try {
    return json::parse(text);
  } catch (const json::exception& damage) {
    throw InputError(path.string(), 0, "", fault_of(damage));
  }
}

/// The results of a document of schema 1. @param out its commit and its profile are set
const json& results_in(const json& document, const std::filesystem::path& path, Recorded& out) {
  const auto refuse = [&path](const std::string& field, const std::string& expected) {
    return InputError(path.string(), 0, field, expected);
  };
  if (!document.is_object() || document.value("schema", json()) != json(1)) {
    throw refuse("schema", "1, as in a file of kvproof gate --record, found no result file");
  }
  const json environment = document.value("environment", json());
  const json name = environment.is_object() ? environment.value("commit", json()) : json();
  if (!name.is_string()) throw refuse("environment.commit", "a text");
  out.commit = name.get<std::string>();
  const json profile = environment.value("profile", json(kUnnamedProfile));
  if (!profile.is_string() || find_profile(profile.get<std::string>()) == nullptr) {
    throw refuse("environment.profile", one_of(kProfiles));
  }
  out.profile = profile.get<std::string>();
  const auto results = document.find("results");
  if (results == document.end() || !results->is_array()) throw refuse("results", "a list");
  return *results;
}

/// Adds a result to those before it, which must be of the same build.
void add_row(const RowReader& row, bool first, Recorded& out) {
  const std::string name = row.text("workload");
  const auto* w = std::ranges::find(kGateWorkloads, name, &GateWorkload::name);
  if (w == std::end(kGateWorkloads)) {
    row.refuse_parameter("workload", one_of(kGateWorkloads));
  }
  if (row.text("stream") != stream_of(*w)) {
    row.refuse_parameter("stream", "the workload of this kvproof, found another: record it again");
  }
  const Recorded here{.subject = row.text("subject"),
                      .commit = {},
                      .profile = {},
                      .way = row.way(),
                      .seed = row.seed(),
                      .counted_with = row.text("counted_with"),
                      .counts = {}};
  if (!first && here.subject != out.subject) row.refuse_parameter("subject", "one build");
  if (!first && here.way != out.way) row.refuse_parameter("way", "one for all workloads");
  if (!first && here.seed != out.seed) row.refuse_parameter("seed", "one for all workloads");
  out.subject = here.subject;
  out.way = here.way;
  out.seed = here.seed;
  out.counted_with = here.counted_with;
  std::optional<Counted>& counted = out.counts[static_cast<std::size_t>(w - kGateWorkloads)];
  if (counted) row.refuse_parameter("workload", "one result per workload");
  counted = Counted{row.counts(), row.checksum()};
}

}  // namespace

std::vector<Result> results_of(const Recorded& recorded) {
  std::vector<Result> out;
  for (std::size_t i = 0; i < recorded.counts.size(); ++i) {
    if (!recorded.counts[i]) continue;
    const GateWorkload& w = kGateWorkloads[i];
    Result row{"gate_record",
               {{"workload", std::string(w.name)},
                {"subject", recorded.subject},
                {"way", std::string(to_string(recorded.way))},
                {"seed", static_cast<std::int64_t>(recorded.seed)},
                {"stream", stream_of(w)},
                {"counted_with", recorded.counted_with},
                {"checksum", std::to_string(recorded.counts[i]->checksum)}},
               {}};
    for (std::size_t m = 0; m < kNumMeasures; ++m) {
      if (const auto value = recorded.counts[i]->counts[m]) {
        row.metrics.emplace_back(std::string(kMeasures[m].key), Metric{*value, "count", {}, {}});
      }
    }
    out.push_back(std::move(row));
  }
  return out;
}

Recorded read_baseline(const std::filesystem::path& path) {
  const json document = read_document(path);
  Recorded out;
  const json& results = results_in(document, path, out);
  out.counts.resize(std::size(kGateWorkloads));
  bool any = false;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const RowReader row(path, results[i], i);
    if (!row.is_record()) continue;
    add_row(row, !any, out);
    any = true;
  }
  if (any) return out;
  throw InputError(path.string(), 0, "results",
                   "those of kvproof gate --record, found others or none");
}

}  // namespace kvproof::bench
