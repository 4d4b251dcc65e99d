// SPDX-License-Identifier: Apache-2.0
// The list of operations. Each is a folder, whose sources the build finds, and a row with its
// implementations: a reference, the CPU and CUDA.
#pragma once

#include <span>
#include <string_view>
#include <tuple>

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

template <class Params>
struct KernelRow {
  std::string_view name;  // of its folder, too
  std::string_view what;
  std::span<const Implementation<Params>> (*implementations)();  // the first is the reference
};
template <class Params>
KernelRow(const char*, const char*, std::span<const Implementation<Params>> (*)())
    -> KernelRow<Params>;

inline constexpr std::tuple kKernels{
    KernelRow{"reshape_and_cache", "new K and V rows into their slots", &reshape_and_cache},
    KernelRow{"gather_cache", "ragged ranges of a cache into one dense array", &gather_cache},
    KernelRow{"copy_blocks", "blocks over blocks of one cache, all layers at once", &copy_blocks},
    KernelRow{"swap_blocks", "blocks between host and device", &swap_blocks},
    KernelRow{"slot_mapping", "block tables and positions to slots", &slot_mapping},
    KernelRow{"paged_decode", "attention of one query token per sequence through block tables",
              &paged_decode},
    KernelRow{"contiguous_decode", "the same over one buffer per sequence", &contiguous_decode},
    KernelRow{"paged_prefill", "attention of ragged query batches through block tables",
              &paged_prefill},
    KernelRow{"contiguous_prefill", "the same over one buffer per sequence", &contiguous_prefill},
    KernelRow{"mla_decode", "attention over one latent row per token", &mla_decode},
};

/// Calls f(row) for every operation, in the order of the list.
template <class F>
void for_each_kernel(const F& f) {
  std::apply([&f](const auto&... rows) { (f(rows), ...); }, kKernels);
}

}  // namespace kvproof::kernels
