// SPDX-License-Identifier: Apache-2.0
// The implementations of every operation, seen from outside: a name and a launch.
#pragma once

#include <string_view>

namespace kvproof::kernels {

/// Why an operation was not performed; empty if it was. The text lives as long as the program.
struct Refusal {
  const char* reason = nullptr;
  explicit operator bool() const { return reason != nullptr; }
};

/// Where an operation runs.
struct Context {
  void* stream = nullptr;  // cudaStream_t; launches are asynchronous on it
  int num_threads = 1;     // of a CPU implementation
};

/// One implementation of an operation. A launch checks its parameters and allocates nothing. It
/// either does everything or refuses and touches nothing; it never falls back on another row.
template <class Params>
struct Implementation {
  std::string_view name;  // "<where>/<how>": reference/double, cpu/general, cpu/avx2, cuda/general
  Refusal (*launch)(const Params& params, const Context& context);
  [[nodiscard]] bool on_device() const { return name.starts_with("cuda/"); }
};

}  // namespace kvproof::kernels
