// SPDX-License-Identifier: Apache-2.0
// The memory of one decode step: a paged cache, the same tokens in one buffer per sequence, and the
// parameters of the kernels over both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/ceilings.h"
#include "kernels/contiguous_decode/contiguous_decode.h"
#include "kernels/paged_decode/paged_decode.h"

namespace kvproof::bench {

inline constexpr std::int32_t kKvHeads = 8;
inline constexpr std::int32_t kHeadSize = 128;  // [elements]

struct DecodeCase {
  kernels::ElementType type = kernels::ElementType::bf16;  // of the cache
  LayoutOrder order = LayoutOrder::hnd;
  std::int32_t block_size = 16;  // [tokens]
  bool shuffled = true;          // block ids; else they ascend
  std::int32_t context = 8192;   // [tokens] of each sequence
  std::int32_t batch = 4;        // sequences
  std::int32_t ratio = 4;        // query heads of a KV head
  int num_threads = 1;

  [[nodiscard]] std::string name(std::string_view implementation) const;
  /// The bytes of K and V that one call reads.
  [[nodiscard]] std::int64_t cache_bytes() const {
    return std::int64_t{2} * batch * context * kKvHeads * kHeadSize * kernels::bytes_of(type);
  }
  /// The multiply-adds of one call: each query head with K and with V of each token.
  [[nodiscard]] std::int64_t multiply_adds() const {
    return std::int64_t{2} * batch * context * kKvHeads * ratio * kHeadSize;
  }
};

class DecodeProblem {
 public:
  DecodeProblem(const DecodeCase& decode_case, std::uint64_t seed);

  [[nodiscard]] const kernels::PagedDecodeParams& paged() const { return paged_; }
  [[nodiscard]] const kernels::ContiguousDecodeParams& contiguous() const { return contiguous_; }
  /// The paged pools, K and V.
  [[nodiscard]] std::vector<std::span<const std::byte>> pools() const {
    return {key_.bytes(), value_.bytes()};
  }
  /// The pieces that the paged kernel reads, in its order: K of 32 tokens, then V.
  [[nodiscard]] Gather gather() const;

  /// Compares both outputs with each other, bit by bit, and some heads with double precision.
  /// Throws std::logic_error.
  void check(std::string_view implementation) const;
  /// A checksum of the bytes of the output.
  [[nodiscard]] std::uint64_t checksum() const;

 private:
  void fill(std::uint64_t seed);
  void copy_to_contiguous();
  void check_head(std::string_view implementation, std::int32_t seq, std::int32_t head) const;

  DecodeCase case_;
  std::int32_t blocks_per_seq_;
  CacheLayout layout_;
  HugeBuffer key_, value_, contiguous_key_, contiguous_value_;
  std::vector<std::int32_t> tables_, lens_;
  std::vector<std::byte> query_, output_, contiguous_output_;
  kernels::PagedDecodeParams paged_;
  kernels::ContiguousDecodeParams contiguous_;
};

}  // namespace kvproof::bench
