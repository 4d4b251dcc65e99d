// SPDX-License-Identifier: Apache-2.0
// What the functions of python_calls.cpp call: a library has either the device's or the CPU's.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"

namespace kvproof::bench {

/// @param row which of a device's implementations; a CPU takes its best
/// @param threads of the CPU; a device has none
kernels::Refusal attend(const kernels::AttentionParams<kernels::PagedKv>& params, const char* row,
                        int threads);
kernels::Refusal write(const kernels::ReshapeAndCacheParams& params, int threads);

}  // namespace kvproof::bench
