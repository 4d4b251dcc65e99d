// SPDX-License-Identifier: Apache-2.0
// Decode steps of a batch in lockstep by an allocator in Python: the textbook allocator, or that of
// an installed vLLM.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/allocator/in_python/worker.h"
#include "bench/results/suite.h"

namespace kvproof::bench {

class PythonSteps {
 public:
  /// The engines that are here, each as `textbook` or `vllm`. vLLM is that of python3, or of the
  /// program that KVPROOF_VLLM_PYTHON names, and is driven only from a checkout.
  [[nodiscard]] static std::vector<std::string> engines(const BenchOptions& options);

  /// Starts the batch on a warm pool. @throws ChildTrouble where it cannot
  PythonSteps(std::string engine, std::uint32_t live_requests, std::uint32_t num_blocks,
              const BenchOptions& options);

  [[nodiscard]] const std::string& engine() const { return engine_; }
  /// @return the time of a token [ns]. @throws std::logic_error if they did not do their work
  double run_steps(std::uint32_t steps);

 private:
  std::string engine_;
  std::uint32_t live_requests_;
  TextbookProcess process_;
};

}  // namespace kvproof::bench
