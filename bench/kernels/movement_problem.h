// SPDX-License-Identifier: Apache-2.0
// The memory of one movement of data, and every CPU implementation of it as a function to run.
//
// Workload: 8 KV heads of 128 elements in blocks of 16 tokens, sequences of 2,048 tokens whose
//           blocks lie anywhere in caches twice as large as what is moved.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/ceilings.h"
#include "bench/kernels/rounds.h"
#include "kernels/element.h"
#include "reference/layout.h"

namespace kvproof::bench {

struct MovementCase {
  std::string_view operation;
  LayoutOrder order = LayoutOrder::nhd;
  kernels::ElementType cache_type = kernels::ElementType::bf16;
  int num_threads = 1;

  [[nodiscard]] std::string name() const;
};

/// The interface of all operations.
class MovementProblem {
 public:
  virtual ~MovementProblem() = default;
  /// The implementations that take the case, the reference first. Each throws std::logic_error if
  /// it refuses.
  [[nodiscard]] const std::vector<Contender>& ways() const { return ways_; }
  /// A checksum of the bytes that an implementation wrote.
  [[nodiscard]] virtual std::uint64_t checksum() const = 0;
  /// Overwrites the output.
  virtual void wipe() = 0;
  /// [bytes] read and written; 0 if the time per token counts instead
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

 protected:
  std::vector<Contender> ways_;
  std::int64_t bytes_ = 0;
  std::int64_t tokens_ = 0;
};

[[nodiscard]] std::unique_ptr<MovementProblem> make_problem(const MovementCase& movement_case,
                                                            bool smoke, std::uint64_t seed);

}  // namespace kvproof::bench
