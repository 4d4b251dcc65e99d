// SPDX-License-Identifier: Apache-2.0
// Attention of ragged query batches over one buffer per sequence.
#pragma once

#include <span>

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

using ContiguousPrefillParams = AttentionParams<ContiguousKv>;

/// Every implementation; the first is the reference in double precision.
[[nodiscard]] std::span<const Implementation<ContiguousPrefillParams>> contiguous_prefill();

}  // namespace kvproof::kernels
