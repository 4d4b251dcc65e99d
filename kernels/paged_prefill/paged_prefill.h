// SPDX-License-Identifier: Apache-2.0
// Attention of ragged query batches through block tables: chunked, prefix cached already.
//
// Pads:    as in attention.h.
#pragma once

#include <span>

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

using PagedPrefillParams = AttentionParams<PagedKv>;

/// Every implementation; the first is the reference in double precision.
[[nodiscard]] std::span<const Implementation<PagedPrefillParams>> paged_prefill();

}  // namespace kvproof::kernels
