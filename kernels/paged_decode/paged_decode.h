// SPDX-License-Identifier: Apache-2.0
// Decode attention through block tables: one query token per sequence.
//
// Pads:    as in attention.h.
#pragma once

#include <span>

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

using PagedDecodeParams = AttentionParams<PagedKv>;

/// Every implementation; the first is the reference in double precision.
[[nodiscard]] std::span<const Implementation<PagedDecodeParams>> paged_decode();

}  // namespace kvproof::kernels
