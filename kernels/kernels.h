// SPDX-License-Identifier: Apache-2.0
// THE LIST of operations: a folder and a parameter struct each; a reference, the CPU and CUDA.
#pragma once

#include <string_view>

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

struct KernelRow {
  std::string_view name;  // of its folder, too
  std::string_view what;
};

inline constexpr KernelRow kKernels[] = {
    {"reshape_and_cache", "new K and V rows into their slots"},
    {"gather_cache", "ragged ranges of a cache into one dense array"},
    {"copy_blocks", "blocks over blocks of one cache, all layers at once"},
    {"swap_blocks", "blocks between host and device"},
    {"slot_mapping", "block tables and positions to slots"},
    {"paged_decode", "attention of one query token per sequence through block tables"},
    {"contiguous_decode", "the same over one buffer per sequence"},
    {"paged_prefill", "attention of ragged query batches through block tables"},
    {"contiguous_prefill", "the same over one buffer per sequence"},
    {"mla_decode", "attention over one latent row per token"},
};

/// Calls f(name, implementations) for every operation, in the order of the list.
template <class F>
void for_each_kernel(F&& f) {
  f(kKernels[0].name, reshape_and_cache());
  f(kKernels[1].name, gather_cache());
  f(kKernels[2].name, copy_blocks());
  f(kKernels[3].name, swap_blocks());
  f(kKernels[4].name, slot_mapping());
  f(kKernels[5].name, paged_decode());
  f(kKernels[6].name, contiguous_decode());
  f(kKernels[7].name, paged_prefill());
  f(kKernels[8].name, contiguous_prefill());
  f(kKernels[9].name, mla_decode());
}

}  // namespace kvproof::kernels
