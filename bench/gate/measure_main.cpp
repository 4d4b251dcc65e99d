// SPDX-License-Identifier: Apache-2.0
// The process that `kvproof gate` measures: one workload on one subject. Not a verb of its own.
//   kvproof-measure <subject> <way> <workload> <seed> <profile> play|time
// It prints one "name value" a line. Exit codes: 0 played, 1 the subject misbehaved, 2 usage.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>

#include "bench/gate/collected.h"
#include "bench/gate/player.h"

namespace kvproof::bench {
namespace {

void print(std::FILE* out, const char* name, double value) {
  std::fprintf(out, "%s %.17g\n", name, value);
}

void play_once(std::FILE* out, const Calls& calls, const GateWorkload& workload,
               std::uint64_t seed) {
  const Played played = play(calls, workload, seed, 1, nullptr);
  std::fprintf(out, "checksum %llu\n", static_cast<unsigned long long>(played.checksum));
  print(out, "looked_up_tokens", static_cast<double>(played.looked_up_tokens));
  print(out, "hit_tokens", static_cast<double>(played.hit_tokens));
  print(out, "preemptions", static_cast<double>(played.preemptions));
  print(out, "taken_blocks", static_cast<double>(played.taken_blocks));
  const HeapUse heap = heap_use();
  if (!heap.counted) return;
  print(out, "allocations", static_cast<double>(heap.allocations));
  print(out, "peak_bytes", static_cast<double>(heap.peak_bytes));
}

void time_once(std::FILE* out, const Calls& calls, const GateWorkload& workload,
               std::uint64_t seed) {
  std::vector<Call> record;
  play(calls, workload, seed, GateWorkload::kTimedFactor, &record);
  print(out, "nanoseconds", time_calls(calls, workload, seed, record));
}

/// How the subject can be called, and that its managers can be of the profile.
CallStyle probe(const std::string& subject, const Profile& profile) {
  const CallStyle way = has_direct(subject) ? CallStyle::direct : CallStyle::operations;
  Brackets brackets;
  Calls calls = find_calls(subject, way, brackets);
  calls.profile = profile;
  try {
    try_manager(calls, kGateWorkloads[0]);
  } catch (const std::exception& error) {
    throw BadAnswer("no manager of the profile " + std::string(profile.name) + ": " + error.what());
  }
  return way;
}

int run(std::FILE* out, char** argv) {
  const std::string subject = argv[1], way = argv[2], workload = argv[3], what = argv[6];
  const std::uint64_t seed = std::strtoull(argv[4], nullptr, 10);
  const Profile* profile = find_profile(argv[5]);
  if (profile == nullptr) {
    std::fprintf(stderr, "no profile of the name %s\n", argv[5]);
    return 2;
  }
  const auto* row = std::ranges::find(kGateWorkloads, workload, &GateWorkload::name);
  if (way == "probe") {
    std::fprintf(out, "direct %d\n", probe(subject, *profile) == CallStyle::direct ? 1 : 0);
    return 0;
  }
  if (row == std::end(kGateWorkloads)) {
    std::fprintf(stderr, "no workload of the name %s\n", workload.c_str());
    return 2;
  }
  Brackets brackets;
  Calls calls = find_calls(
      subject, way == to_string(CallStyle::direct) ? CallStyle::direct : CallStyle::operations,
      brackets);
  calls.profile = *profile;
  (what == "time" ? time_once : play_once)(out, calls, *row, seed);
  return 0;
}

}  // namespace
}  // namespace kvproof::bench

int main(int argc, char** argv) {
  // Output of a library must not come between the answers.
  std::FILE* out = fdopen(dup(STDOUT_FILENO), "w");
  if (argc != 7 || out == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    std::fprintf(stderr,
                 "usage: kvproof-measure <subject> <way> <workload> <seed> <profile> "
                 "play|time\n");
    return 2;
  }
  try {
    const int code = kvproof::bench::run(out, argv);
    std::fclose(out);
    return code;
  } catch (const kvproof::properties::PluginError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
