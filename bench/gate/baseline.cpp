// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/baseline.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/instruments/callgrind.h"

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

void require(bool holds, const std::filesystem::path& path, const std::string& what) {
  if (!holds) throw std::invalid_argument(path.string() + ": " + what);
}

const json* find_row(const json& document, const GateWorkload& w) {
  for (const json& row : document.at("results")) {
    if (row.at("experiment") == "gate_record" && row.at("parameters").at("workload") == w.name) {
      return &row;
    }
  }
  return nullptr;
}

Counted read_row(const json& row, const GateWorkload& w, const std::filesystem::path& path,
                 Recorded& out) {
  const json& parameters = row.at("parameters");
  out.subject = parameters.at("subject");
  out.seed = parameters.at("seed").get<std::uint64_t>();
  out.way = parameters.at("way") == to_string(CallStyle::direct) ? CallStyle::direct
                                                                 : CallStyle::operations;
  out.counted_with = parameters.at("counted_with");
  require(parameters.at("stream") == stream_of(w), path,
          "its workload " + std::string(w.name) +
              " is another one than that of this kvproof: record it again");
  Counted counted;
  const auto checksum = parameters.at("checksum").get<std::string>();
  const char* end = checksum.data() + checksum.size();
  const auto parsed = std::from_chars(checksum.data(), end, counted.checksum);
  require(parsed.ec == std::errc() && parsed.ptr == end, path, "damaged: a checksum is no number");
  bool any = false;
  for (std::size_t i = 0; i < kNumMeasures; ++i) {
    const auto metric = row.at("metrics").find(std::string(kMeasures[i].key));
    if (metric == row.at("metrics").end()) continue;
    const double value = metric->at("value").get<double>();
    require(value >= 0, path, std::string(kMeasures[i].key) + " is negative");
    counted.counts[i] = value;
    any = true;
  }
  require(any, path, "it holds no measures of the workload " + std::string(w.name));
  return counted;
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
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  require(std::filesystem::is_regular_file(path, error) && file.good(), path,
          "expected a file of kvproof gate --record, found no such file");
  const json document =
      json::parse(std::string(std::istreambuf_iterator<char>(file), {}), nullptr, false);
  require(document.is_object() && document.value("schema", json()) == json(1), path,
          "expected a file of kvproof gate --record, found no result file");
  Recorded out;
  try {
    out.commit = document.at("environment").at("commit");
    bool any = false;
    for (const GateWorkload& w : kGateWorkloads) {
      const json* row = find_row(document, w);
      any = any || row != nullptr;
      out.counts.push_back(row != nullptr ? std::optional(read_row(*row, w, path, out))
                                          : std::nullopt);
    }
    require(any, path, "expected a file of kvproof gate --record, found other results");
  } catch (const json::exception& damage) {
    throw std::invalid_argument(path.string() + ": damaged: " + damage.what());
  }
  return out;
}

}  // namespace kvproof::bench
