// SPDX-License-Identifier: Apache-2.0
// The file with the counts of a build that is no longer on this machine: one result per workload.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/gate/measures.h"
#include "bench/results/result_file.h"

namespace kvproof::bench {

/// The counts of one build on all workloads. Times are not kept, because they depend on the
/// machine.
struct Recorded {
  std::string subject;
  std::string commit;   // of kvproof
  std::string profile;  // of its managers
  CallStyle way = CallStyle::direct;
  std::uint64_t seed = 1;
  std::string counted_with;  // valgrind, compiler, processor; others may count differently
  std::vector<std::optional<Counted>> counts;  // shape [kGateWorkloads]; nullopt = not recorded
};

/// As results of the experiment gate_record.
[[nodiscard]] std::vector<Result> results_of(const Recorded& recorded);

/// @throws InputError that names the file and the field of its mistake
[[nodiscard]] Recorded read_baseline(const std::filesystem::path& path);

}  // namespace kvproof::bench
