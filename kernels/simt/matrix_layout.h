// SPDX-License-Identifier: Apache-2.0
// Where Hopper's asynchronous units find and put bytes of shared memory: matrix descriptors and
// maps of tensors, decoded from their bits.
//
// Model:   Pure functions. Addresses are those of the block's shared memory [bytes]. The bits of a
//          descriptor are the hardware's; those of a map are our own, since the driver's are not
//          documented.
// Source:  Measured on an H100: properties/kernels/golden, held by simt_layout_test.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/implementation.h"
#include "kernels/simt/hopper_types.h"

namespace kvproof::simt {

/// The address of element (mn, k) of the tile that `descriptor` names; mn is the row of A or the
/// column of B. @param element_bytes 1 or 2; 2 where `major` is mn, as in the hardware
[[nodiscard]] std::uint32_t matrix_element_at(std::uint64_t descriptor, kernels::Major major,
                                              int mn, int k, int element_bytes);

/// Bytes of a box that lie beside each other here and there, within 16 bytes of shared memory that
/// begin at a multiple of 16.
struct BoxPiece {
  std::uint32_t shared;     // address
  const std::byte* global;  // null: outside the tensor, zeros
  std::uint32_t bytes;
};

/// The box whose first element is at these coordinates, innermost first. Every byte of the box is
/// in one piece. Throws a KernelError if the map was not encoded, if `shared_start` is no multiple
/// of 16, or if a row of the box is shorter than the swizzle's width, which nobody has measured.
[[nodiscard]] std::vector<BoxPiece> box_pieces(const kernels::TensorMap& map,
                                               const std::int32_t* at, std::uint32_t shared_start);

/// What a copy of a box counts at its barrier, also where it lies outside.
[[nodiscard]] std::uint32_t box_bytes(const kernels::TensorMap& map);

/// Refuses what cuTensorMapEncodeTiled would refuse, and boxes that no shared memory holds.
[[nodiscard]] kernels::Refusal encode(const kernels::TensorShape& shape, kernels::TensorMap& out);

}  // namespace kvproof::simt
