// SPDX-License-Identifier: Apache-2.0
// Decode attention over one buffer per sequence: every figure of a paged kernel is divided by it.
#pragma once

#include <span>

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

using ContiguousDecodeParams = AttentionParams<ContiguousKv>;

/// Every implementation; the first is the reference in double precision.
[[nodiscard]] std::span<const Implementation<ContiguousDecodeParams>> contiguous_decode();

}  // namespace kvproof::kernels
