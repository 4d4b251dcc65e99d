// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/baseline.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "bench/instruments/callgrind.h"
#include "bench/results/environment.h"
#include "bench/results/read_results.h"
#include "reference/config.h"
#include "reference/support/input_error.h"

namespace kvproof::bench {
namespace {

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

constexpr double kMostOfAnything = 1e12;  // per block, far beyond what a process can count

/// Names the field of what is wrong with a row.
class RowReader {
 public:
  RowReader(const std::string& path, const Result& row, std::size_t index)
      : path_(path), where_("results[" + std::to_string(index) + "]"), row_(row) {}

  [[nodiscard]] std::string text(const char* name) const {
    const Value* value = row_.parameter(name);
    const auto* out = value == nullptr ? nullptr : std::get_if<std::string>(value);
    if (out == nullptr) refuse_parameter(name, "a text");
    return *out;
  }
  [[nodiscard]] std::uint64_t seed() const {
    const Value* value = row_.parameter("seed");
    const auto* out = value == nullptr ? nullptr : std::get_if<std::int64_t>(value);
    if (out == nullptr || *out < 0) refuse_parameter("seed", "a whole number from 0");
    return static_cast<std::uint64_t>(*out);
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
    Counts out;
    for (std::size_t i = 0; i < kNumMeasures; ++i) {
      const Metric* metric = row_.metric(kMeasures[i].key);
      if (metric != nullptr) out[i] = value_of(*metric, kMeasures[i]);
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
  [[noreturn]] void refuse(const std::string& field, const std::string& expected) const {
    throw InputError(path_, 0, where_ + field, expected);
  }
  [[nodiscard]] double value_of(const Metric& metric, const Measure& measure) const {
    const double most = measure.more_is_better ? 1 : kMostOfAnything;
    if (metric.value >= 0 && metric.value <= most) return metric.value;
    refuse(".metrics." + std::string(measure.key) + ".value",
           most == 1 ? "a number from 0 to 1" : "a number from 0 to 1e12");
  }

  const std::string& path_;
  std::string where_;
  const Result& row_;
};

/// A text of the environment, or `otherwise` where there is none.
std::string environment_text(const ResultDocument& document, const std::string& path,
                             const std::string& name, const std::string& otherwise) {
  const Result environment{{}, document.environment, {}};
  const Value* value = environment.parameter(name);
  if (value == nullptr && !otherwise.empty()) return otherwise;
  if (value != nullptr && std::holds_alternative<std::string>(*value)) {
    return std::get<std::string>(*value);
  }
  throw InputError(path, 0, "environment." + name, "a text");
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
        row.metrics.emplace_back(std::string(kMeasures[m].key), metric(*value, "count"));
      }
    }
    out.push_back(std::move(row));
  }
  return out;
}

Recorded read_baseline(const std::filesystem::path& file) {
  const std::string path = file;
  const ResultDocument document = read_results(path);
  Recorded out;
  out.commit = environment_text(document, path, "commit", "");
  out.profile = environment_text(document, path, "profile", std::string(kUnnamedProfile));
  if (find_profile(out.profile) == nullptr) {
    throw InputError(path, 0, "environment.profile", one_of(kProfiles));
  }
  out.counts.resize(std::size(kGateWorkloads));
  bool any = false;
  for (std::size_t i = 0; i < document.results.size(); ++i) {
    if (document.results[i].experiment != "gate_record") continue;
    add_row(RowReader(path, document.results[i], i), !any, out);
    any = true;
  }
  if (any) return out;
  throw InputError(path, 0, "results", "those of kvproof gate --record, found others or none");
}

}  // namespace kvproof::bench
