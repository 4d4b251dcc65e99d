// SPDX-License-Identifier: Apache-2.0
// The fast CPU attention in AVX-512, bf16 by VDPBF16PS.
#include "kernels/attention/attention_cpu_avx512.h"

#include "kernels/attention/attention_cpu_tile.h"

#if defined(KVPROOF_AVX512_BF16)
namespace kvproof::kernels::cpu {
namespace {

constexpr auto kKernels = kernels_of_16_lanes<Avx512>();

}  // namespace

const TileKernel* avx512_bf16_tile_kernels() { return kKernels.rows; }

}  // namespace kvproof::kernels::cpu
#else
const kvproof::kernels::cpu::TileKernel* kvproof::kernels::cpu::avx512_bf16_tile_kernels() {
  return nullptr;
}
#endif
