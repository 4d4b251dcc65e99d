// SPDX-License-Identifier: Apache-2.0
// The checks that every implementation of data movement must pass: it writes the bits of the
// reference, changes no other byte of any memory, and touches nothing when it refuses.
//
// Source:  the invariants behind kernel_mutants.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/copy_blocks/copy_blocks.h"
#include "kernels/gather_cache/gather_cache.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/slot_mapping/slot_mapping.h"
#include "kernels/swap_blocks/swap_blocks.h"
#include "properties/kernels/movement_case.h"
#include "reference/support/say.h"

namespace kvproof::properties {

/// A random case of `seed` whose parts grow with `size` (1 to 100).
template <class Params>
using MovementCheck = Finding(std::uint64_t seed, int size,
                              const kernels::Implementation<Params>& row, MovementTally& tally);

MovementCheck<kernels::ReshapeAndCacheParams> check_reshape_and_cache;
MovementCheck<kernels::GatherCacheParams> check_gather_cache;
MovementCheck<kernels::CopyBlocksParams> check_copy_blocks;
MovementCheck<kernels::SwapBlocksParams> check_swap_blocks;
MovementCheck<kernels::SlotMappingParams> check_slot_mapping;

// The same near the ends of 16 and 32 bits: block ids near 2^15 and 2^16, offsets near 2^31 and
// 2^32 elements or bytes, bases below a multiple of 4 GiB. `size` is not used.
MovementCheck<kernels::ReshapeAndCacheParams> check_far_reshape_and_cache;
MovementCheck<kernels::GatherCacheParams> check_far_gather_cache;
MovementCheck<kernels::CopyBlocksParams> check_far_copy_blocks;
MovementCheck<kernels::SwapBlocksParams> check_far_swap_blocks;

/// Runs every case of a seed on every implementation of the operation; if empty, of all operations.
[[nodiscard]] Finding movement_round(std::uint64_t seed, int size, std::string_view operation,
                                     MovementTally& tally);

/// Requires that every implementation refuses every broken parameter with a reason.
[[nodiscard]] Finding check_movement_refusals();

}  // namespace kvproof::properties
