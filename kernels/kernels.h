// SPDX-License-Identifier: Apache-2.0
// THE LIST of operations: one folder each, one parameter struct each, a reference, the CPU and CUDA.
#pragma once

#include "kernels/contiguous_decode/contiguous_decode.h"
#include "kernels/contiguous_prefill/contiguous_prefill.h"
#include "kernels/copy_blocks/copy_blocks.h"
#include "kernels/gather_cache/gather_cache.h"
#include "kernels/mla_decode/mla_decode.h"
#include "kernels/paged_decode/paged_decode.h"
#include "kernels/paged_prefill/paged_prefill.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/slot_mapping/slot_mapping.h"
#include "kernels/swap_blocks/swap_blocks.h"

namespace kvproof::kernels {

/// Calls f(name, implementations) for every operation.
template <class F>
void for_each_kernel(F&& f) {
  f("reshape_and_cache", reshape_and_cache());
  f("gather_cache", gather_cache());
  f("copy_blocks", copy_blocks());
  f("swap_blocks", swap_blocks());
  f("slot_mapping", slot_mapping());
  f("paged_decode", paged_decode());
  f("contiguous_decode", contiguous_decode());
  f("paged_prefill", paged_prefill());
  f("contiguous_prefill", contiguous_prefill());
  f("mla_decode", mla_decode());
}

}  // namespace kvproof::kernels
