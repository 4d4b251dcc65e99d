// SPDX-License-Identifier: Apache-2.0
// What the asynchronous units of Hopper are told: addresses, maps of tensors, matrix descriptors.
//
// Source:  PTX ISA 8.5, 5.5.5 (swizzles), 9.7.15.5.1 (matrix descriptor); CUDA driver API,
//          cuTensorMapEncodeTiled.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/implementation.h"
#include "reference/layout.h"

namespace kvproof::kernels {

/// An address in the block's shared memory [bytes].
using SharedAddress = std::uint32_t;

/// How the 16-byte chunks of shared memory are permuted: with the bits that say which row of 128
/// bytes a chunk is in, within a period of 8 rows. The numbers are those of a matrix descriptor.
enum class Swizzle : std::uint8_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// The dimension whose elements lie beside each other in shared memory: the one that is summed
/// over, or that of the tile's rows (A) or columns (B).
enum class Major : std::uint8_t { k, mn };

/// A tensor in global memory and the box that one copy moves.
struct TensorShape {
  int rank = 0;                         // 3 to 5
  int element_bytes = 2;                // 1 or 2
  const void* data = nullptr;           // aligned to 16
  std::uint64_t sizes[5] = {};          // [elements], the innermost dimension first
  std::uint64_t strides[4] = {};        // [bytes] of dimensions 1 to rank - 1; multiples of 16
  std::uint32_t box[5] = {};            // [elements], at most 256 each
  Swizzle swizzle = Swizzle::bytes128;  // the box's innermost row is at most as long
};

/// An encoded TensorShape, opaque. A kernel takes it as a KVPROOF_GRID_CONSTANT parameter. Fibers
/// do without the alignment, since g++ prints a note at every parameter that has it.
#if defined(__CUDACC__)
struct alignas(64) TensorMap {
#else
struct TensorMap {
#endif
  std::uint64_t words[16] = {};
};

/// A tile of a product in shared memory, see matrix_descriptor().
struct MatrixDescriptor {
  std::uint64_t bits = 0;

  /// The tile that begins so many bytes behind. @pre it carries into no other field
  [[nodiscard]] KVPROOF_HOST_DEVICE constexpr MatrixDescriptor behind(std::uint32_t bytes) const {
    // 32 bits are enough, and a register of the sum is all that differs.
    const auto low = static_cast<std::uint32_t>(bits) + (bytes >> 4);
    return {bits >> 32 << 32 | low};
  }
};

/// All but the start of a tile. With w = 32, 64 or 128 bytes of the swizzle (16: none), g = w / 16,
/// chunks of 16 bytes and m the row of A or column of B, an element lies, from the tile's start, at
///   K-major:  m % 8 * w + m / 8 * stride + k's chunk * (none ? leading : 16)
///   MN-major: k % 8 * w + k / 8 * stride + m's chunk % g * 16 + m's chunk / g * leading
///             (none: k % 8 * 16 + k / 8 * leading + m's chunk * stride)
/// and then bits 4 to 6 of the absolute address are permuted by its bits 7 to 9.
/// @param leading, stride [bytes] multiples of 16 below 2^18
[[nodiscard]] KVPROOF_HOST_DEVICE constexpr MatrixDescriptor matrix_layout(std::uint32_t leading,
                                                                           std::uint32_t stride,
                                                                           Swizzle swizzle) {
  return {std::uint64_t{static_cast<std::uint8_t>(swizzle)} << 62 |
          std::uint64_t{stride >> 4} << 32 | std::uint64_t{leading >> 4} << 16};
}
/// The tile of this layout at an address.
[[nodiscard]] KVPROOF_HOST_DEVICE constexpr MatrixDescriptor matrix_at(MatrixDescriptor layout,
                                                                       SharedAddress start) {
  return {layout.bits | (start & 0x3FFFF) >> 4};
}

}  // namespace kvproof::kernels
