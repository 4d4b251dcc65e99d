// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/measures.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "bench/gate/collected.h"
#include "bench/instruments/callgrind.h"

namespace kvproof::bench {
namespace {

using Printed = std::map<std::string, std::string>;

/// The environment is fixed: its strings lie on the stack and move the data of the process.
std::vector<std::string> fixed_environment() {
  std::vector<std::string> out = {"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"};
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    out.push_back(std::string("LD_LIBRARY_PATH=") + path);
  }
  return out;
}

ChildCommand command(const Build& build, const std::string& way, std::string_view workload,
                     const char* what, const MeasureOptions& options) {
  return {.argv = {options.program.string(), build.subject, way, std::string(workload),
                   std::to_string(options.seed), options.profile, what},
          .environment = fixed_environment(),
          .folder = options.folder,
          .limit_seconds = options.limit_seconds,
          .memory_bytes = options.memory_bytes};
}

void require_ok(const ChildEnd& end, const Build& build, std::string_view workload) {
  if (end.ok()) return;
  constexpr int kUsage = 2;
  const bool unusable = end.exit_code == kUsage;
  throw MeasuredTrouble(
      build.shown + (workload.empty() ? std::string() : ", workload " + std::string(workload)) +
          ": " + end.text(),
      !unusable);
}

Printed read(const ChildEnd& end, const Build& build, std::string_view workload) {
  require_ok(end, build, workload);
  Printed out;
  std::istringstream words(end.out);
  for (std::string name, value; words >> name >> value;) out[name] = value;
  return out;
}

double number(const Printed& printed, const char* name) {
  const auto at = printed.find(name);
  if (at == printed.end()) throw std::logic_error(std::string("kvproof-measure: no ") + name);
  return std::strtod(at->second.c_str(), nullptr);
}

std::uint64_t checksum(const Printed& printed) {
  const auto at = printed.find("checksum");
  return at == printed.end() ? 0 : std::strtoull(at->second.c_str(), nullptr, 10);
}

std::size_t index_of(std::string_view key) {
  for (std::size_t i = 0; i < kNumMeasures; ++i) {
    if (kMeasures[i].key == key) return i;
  }
  throw std::logic_error("no measure of the name " + std::string(key));
}

double time_once(const Build& build, CallStyle way, const GateWorkload& workload,
                 const MeasureOptions& options) {
  const ChildEnd end = run_child(command(build, to_string(way), workload.name, "time", options));
  return number(read(end, build, workload.name), "nanoseconds");
}

}  // namespace

bool probe_direct(const Build& build, const MeasureOptions& options) {
  const ChildEnd end = run_child(command(build, "probe", "-", "-", options));
  return number(read(end, build, ""), "direct") != 0;
}

std::uint64_t play_answers(const Build& build, CallStyle way, const GateWorkload& workload,
                           const MeasureOptions& options) {
  return checksum(read(run_child(command(build, to_string(way), workload.name, "play", options)),
                       build, workload.name));
}

Counted count(const Build& build, CallStyle way, const GateWorkload& workload,
              const MeasureOptions& options) {
  const ChildCommand play = command(build, to_string(way), workload.name, "play", options);
  ChildCommand fixed = play;
  fixed.fixed_layout = true;
  const Printed printed = read(run_child(fixed), build, workload.name);
  Counted out;
  out.checksum = checksum(printed);
  const auto set = [&](std::string_view key, double value, double divisor) {
    out.counts[index_of(key)] = value / divisor;
  };
  const auto blocks = static_cast<double>(workload.blocks());
  const double looked_up = number(printed, "looked_up_tokens");
  set("hit_share", number(printed, "hit_tokens"), looked_up > 0 ? looked_up : 1);
  set("preemptions_per_request", number(printed, "preemptions"), workload.requests);
  if (printed.contains("allocations")) {
    set("allocations_per_block", number(printed, "allocations"), blocks);
    set("bytes_per_block", number(printed, "peak_bytes"), workload.num_blocks);
  }
  if (!options.callgrind) return out;
  std::optional<CallgrindCounts> counted;
  const ChildEnd end = run_callgrind(play, kCollectedPattern, true, options.folder, counted);
  require_ok(end, build, workload.name);
  if (!counted) throw std::logic_error("callgrind counted nothing of " + build.shown);
  set("instructions_per_block", static_cast<double>(counted->instructions), blocks);
  set("d1_misses_per_block", static_cast<double>(counted->d1_misses), blocks);
  set("ll_misses_per_block", static_cast<double>(counted->ll_misses), blocks);
  return out;
}

std::vector<double> time_pairs(const Build& base, const Build& head, CallStyle way,
                               const GateWorkload& workload, const MeasureOptions& options,
                               std::uint32_t num_pairs) {
  std::vector<double> out;
  for (std::uint32_t pair = 0; pair < num_pairs; ++pair) {
    const bool base_first = pair % 2 == 0;
    const double first = time_once(base_first ? base : head, way, workload, options);
    const double second = time_once(base_first ? head : base, way, workload, options);
    out.push_back(base_first ? std::log(second / first) : std::log(first / second));
  }
  return out;
}

}  // namespace kvproof::bench
