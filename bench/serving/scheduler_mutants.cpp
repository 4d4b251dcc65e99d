// SPDX-License-Identifier: Apache-2.0
#include "bench/serving/scheduler_mutants.h"

#include <faulty_serving/engine.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "properties/selftest/active_patch.h"
#include "properties/selftest/patch.h"
#include "properties/selftest/scheduler_faults.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

/// An operation is an event. Runs are not shrunk: a law of liveness takes hundreds of steps.
properties::Kill hunt_in_runs(std::string_view id, const properties::MatrixOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  properties::Kill out;
  for (std::uint64_t seed = options.seed; !out.killed && passed() < options.most_seconds / 2 &&
                                          out.operations < options.most_operations;
       ++seed) {
    const std::string lines = faulty_run(draw_setup(seed), id).lines;
    const std::string law = broken_first(judge_run(lines));
    if (!law.empty()) out.breaches = {law};
    out.killed = !law.empty();
    out.operations += static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
  }
  out.seconds = passed();
  return out;
}

}  // namespace

WrittenRun faulty_run(const RunSetup& setup, std::string_view id) {
  patched::FaultMemory memory;
  const patched::PatchScope scope(patched::PatchId(id), &memory);
  return write_run<faulty_serving::Engine, faulty_serving::EngineOptions>(setup);
}

std::vector<properties::Seeded> scheduler_mutants() {
  std::vector<properties::Seeded> out;
  for (const properties::Patch& row : properties::patched_folder("bench/serving").rows) {
    if (row.law.empty()) continue;  // another place of the row before
    properties::Seeded& mutant = out.emplace_back();
    mutant.id = row.id;
    mutant.family = "E";
    mutant.where = say("bench/serving/", row.file);
    mutant.sentence = row.sentence;
    mutant.law = row.law;
    mutant.configuration = "simulation";
    mutant.hunt = [&row](const auto& options) { return hunt_in_runs(row.id, options); };
  }
  return out;
}

}  // namespace kvproof::bench
