// SPDX-License-Identifier: Apache-2.0
// The parts of kvproof-device-bench. Each prints its results as it goes.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/kernels/device/device.h"
#include "reference/layout.h"

namespace kvproof::bench {

/// The data that all parts share.
struct Bench {
  int num_processors = 0;
  int rounds = 0;
  double copy_bytes_per_us = 0;  // of the fastest large copy, read and written bytes together
  Stopwatch& stopwatch;
  const Probe* probe = nullptr;  // instead of measuring
};

/// Large reads and copies. @return bytes per microsecond of the fastest copy
[[nodiscard]] double measure_ceilings(Bench& bench);
/// The matrix unit's pace in bf16.
void measure_multiply(const Bench& bench);
struct DecodeCase {
  std::int32_t batch = 32;
  std::int32_t context = 4096;  // [tokens]
  std::int32_t num_heads = 32;
  std::int32_t num_kv_heads = 8;
  std::int32_t head_size = 128;
  std::int32_t block_size = 16;
  LayoutOrder order = LayoutOrder::nhd;
  bool shuffled = true;
  kernels::ElementType cache_type = kernels::ElementType::bf16;
  std::string_view row = "cuda/mma";
};
/// Decode over block tables against decode over one buffer, and both against a read of as much.
void measure(const Bench& bench, const DecodeCase& c, Cache cache);
void measure_decode(const Bench& bench, bool smoke);

/// Prompts, or chunks of them behind a prefix that the cache holds already.
struct PrefillCase {
  std::int32_t batch = 1;
  std::int32_t chunk = 2048;   // [new tokens] of each sequence
  std::int32_t prefix = 4096;  // [tokens]
  std::int32_t num_heads = 32;
  std::int32_t num_kv_heads = 8;
  std::int32_t head_size = 128;
  std::int32_t block_size = 16;
  LayoutOrder order = LayoutOrder::nhd;
  kernels::ElementType cache_type = kernels::ElementType::bf16;
};
struct MlaCase {
  std::int32_t batch = 32;
  std::int32_t context = 4096;  // [tokens]
  std::int32_t num_heads = 128;
  std::int32_t block_size = 16;
};
/// Prefill and MLA decode over shuffled block tables against the same over one buffer per sequence.
/// Every kernel that does not refuse the case is held against double precision, then against a read
/// of as many bytes and the matrix unit's pace at as many multiply-adds; all in the same rounds.
void measure(const Bench& bench, const PrefillCase& c);
void measure(const Bench& bench, const MlaCase& c);
void measure_prefill(const Bench& bench, bool smoke);
void measure_mla(const Bench& bench, bool smoke);

/// reshape_and_cache against a copy of as much.
void measure_reshape(const Bench& bench, bool smoke);

}  // namespace kvproof::bench
