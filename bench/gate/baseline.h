// SPDX-License-Identifier: Apache-2.0
// The file of a build that is not on this machine any more: its counts, one result per workload.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/gate/measures.h"
#include "bench/results/result_file.h"

namespace kvproof::bench {

/// The counts of one build on all workloads. Times are not kept: they are of one machine.
struct Recorded {
  std::string subject;
  std::string commit;  // of kvproof
  CallStyle way = CallStyle::direct;
  std::uint64_t seed = 1;
  std::string counted_with;  // valgrind, compiler, processor; another one may count differently
  std::vector<std::optional<Counted>> counts;  // shape [kGateWorkloads]; none = not recorded
};

/// As results of the experiment gate_record.
[[nodiscard]] std::vector<Result> results_of(const Recorded& recorded);

/// @throws std::invalid_argument in one line: the file, and what is wrong with it
[[nodiscard]] Recorded read_baseline(const std::filesystem::path& path);

}  // namespace kvproof::bench
