// SPDX-License-Identifier: Apache-2.0
// Times the movement of data on the CPU beside the fastest copy of as many bytes.
//
// Workload: movement_problem.h. Each round runs every way to copy and every implementation once, in
//           turn; a share is of two times of one round, each per byte read or written. The copy is
//           the one with the least median. Before that, the output of each implementation is
//           compared with that of the reference.
#include <algorithm>
#include <stdexcept>

#include "bench/kernels/movement_problem.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

std::vector<MovementCase> movement_cases() {
  std::vector<MovementCase> out;
  for (const int threads : {1, 2}) {
    for (const LayoutOrder order : {LayoutOrder::nhd, LayoutOrder::hnd}) {
      for (const ElementType type : {ElementType::bf16, ElementType::fp8_e4m3}) {
        out.push_back({"reshape_and_cache", order, type, threads});
      }
      out.push_back({"gather_cache", order, ElementType::bf16, threads});
    }
    for (const char* operation : {"copy_blocks", "swap_blocks", "slot_mapping"}) {
      out.push_back({.operation = operation, .num_threads = threads});
    }
  }
  return out;
}

/// Throws std::logic_error if an implementation writes other bytes than the reference.
std::uint64_t check(MovementProblem& problem, const std::string& name) {
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < problem.ways().size(); ++i) {
    problem.wipe();
    problem.ways()[i].run();
    const std::uint64_t sum = problem.checksum();
    if (i == 0) expected = sum;
    if (sum != expected) {
      throw std::logic_error(name + ": " + problem.ways()[i].name +
                             " writes other bytes than the reference");
    }
  }
  return expected;
}

Metrics metrics_of(const MovementProblem& problem, const std::vector<double>& ns,
                   const std::vector<double>& copy_ns, double copied) {
  Metrics out;
  out.emplace_back("ns_per_call", metric_of(ns, "ns"));
  const auto tokens = static_cast<double>(problem.tokens());
  out.emplace_back("ns_per_token",
                   metric_of(ratios(ns, std::vector<double>(ns.size(), tokens)), "ns"));
  out.emplace_back("rounds", count(ns.size()));
  if (problem.bytes() == 0) return out;
  const auto bytes = static_cast<double>(problem.bytes());
  const std::vector<double> all(ns.size(), bytes), all_copied(ns.size(), copied);
  out.emplace_back("gb_per_second", metric_of(ratios(all, ns), "GB/s"));
  out.emplace_back("copy_gb_per_second", metric_of(ratios(all_copied, copy_ns), "GB/s"));
  out.emplace_back("fraction_of_copy_ceiling",
                   metric_of(ratios(copy_ns, ns, bytes / copied), "ratio"));
  return out;
}

std::vector<Result> run_case(const MovementCase& c, const BenchOptions& options) {
  const auto problem = make_problem(c, options.smoke, options.seed);
  const std::uint64_t checksum = check(*problem, c.name());
  // A copy reads and writes as many bytes as the movement does, in buffers of its own.
  const auto half = static_cast<std::size_t>(problem->bytes() / 2 / 64 * 64);
  const HugeBuffer from(half + 64), to(half + 64);
  std::vector<Contender> copies;
  for (const CopyKernel kernel : kCopyKernels) {
    copies.push_back({name_of(kernel), [&, kernel] {
                        copy_all({to.data(), half}, {from.data(), half}, kernel, c.num_threads);
                      }});
  }
  std::vector<std::vector<double>> ns(problem->ways().size()), copies_ns(copies.size());
  const double start = now_ns();
  while (ns[1].size() < options.fewest_rounds ||
         now_ns() - start < options.min_seconds_per_case * 1e9) {
    for (std::size_t i = 0; i < copies.size(); ++i) copies_ns[i].push_back(timed(copies[i].run));
    for (std::size_t i = 1; i < ns.size(); ++i) ns[i].push_back(timed(problem->ways()[i].run));
  }
  if (problem->checksum() != checksum) throw std::logic_error(c.name() + ": the bytes changed");
  const auto fastest = static_cast<std::size_t>(std::ranges::min_element(copies_ns, {}, &median) -
                                                copies_ns.begin());
  std::vector<Result> out;
  for (std::size_t i = 1; i < ns.size(); ++i) {
    Result result;
    result.experiment = "movement";
    result.parameters = {{"operation", std::string(c.operation)},
                         {"type", std::string("bf16")},
                         {"cache_type", std::string(name_of(c.cache_type))},
                         {"layout", std::string(c.order == LayoutOrder::nhd ? "nhd" : "hnd")},
                         {"threads", std::int64_t{c.num_threads}},
                         {"tokens", problem->tokens()},
                         {"bytes", problem->bytes()},
                         {"implementation", problem->ways()[i].name},
                         {"copy_kernel", copies[fastest].name},
                         {"checksum", std::to_string(checksum)}};
    result.metrics = metrics_of(*problem, ns[i], copies_ns[fastest], static_cast<double>(2 * half));
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace

std::vector<std::string> movement_cases(const BenchOptions&) {
  std::vector<std::string> names;
  for (const MovementCase& c : movement_cases()) names.push_back(c.name());
  return names;
}

std::vector<Result> run_movement_suite(std::span<const std::string> selected,
                                       const BenchOptions& options) {
  std::vector<Result> out;
  std::size_t done = 0;
  for (const MovementCase& c : movement_cases()) {
    if (std::ranges::find(selected, c.name()) == selected.end()) continue;
    options.progress->update(static_cast<double>(done++) / static_cast<double>(selected.size()),
                             c.name());
    for (Result& result : run_case(c, options)) out.push_back(std::move(result));
  }
  return out;
}

}  // namespace kvproof::bench
