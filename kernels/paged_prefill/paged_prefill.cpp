// SPDX-License-Identifier: Apache-2.0
#include "kernels/paged_prefill/paged_prefill.h"

#include "kernels/attention/as_operation.h"

namespace kvproof::kernels {

std::span<const Implementation<AttentionParams<PagedKv>>> paged_prefill() {
  static constexpr Implementation<AttentionParams<PagedKv>> kRows[] = {
      {"reference/double", &prefill_with<PagedKv, &attention_reference>},
      {"cpu/general", &prefill_with<PagedKv, &attention_cpu_general>},
      {"cpu/avx2", &prefill_with<PagedKv, &attention_cpu_avx2>},
      {"cpu/avx512_bf16", &prefill_with<PagedKv, &attention_cpu_avx512_bf16>},
      {"cpu/portable", &prefill_with<PagedKv, &attention_cpu_portable>},
      {"cuda/general", &prefill_with<PagedKv, &attention_cuda_general>},
      {"cuda/mma", &prefill_with<PagedKv, &attention_cuda_mma>},
      {"cuda/wgmma", &prefill_with<PagedKv, &attention_cuda_wgmma>},
  };
  return kRows;
}

}  // namespace kvproof::kernels
