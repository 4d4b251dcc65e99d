// SPDX-License-Identifier: Apache-2.0
#include "kernels/contiguous_prefill/contiguous_prefill.h"

#include "kernels/attention/as_operation.h"

namespace kvproof::kernels {

std::span<const Implementation<AttentionParams<ContiguousKv>>> contiguous_prefill() {
  static constexpr Implementation<AttentionParams<ContiguousKv>> kRows[] = {
      {"reference/double", &prefill_with<ContiguousKv, &attention_reference>},
      {"cpu/general", &prefill_with<ContiguousKv, &attention_cpu_general>},
      {"cpu/avx2", &prefill_with<ContiguousKv, &attention_cpu_avx2>},
      {"cpu/avx512_bf16", &prefill_with<ContiguousKv, &attention_cpu_avx512_bf16>},
      {"cpu/portable", &prefill_with<ContiguousKv, &attention_cpu_portable>},
      {"cuda/general", &prefill_with<ContiguousKv, &attention_cuda_general>},
      {"cuda/mma", &prefill_with<ContiguousKv, &attention_cuda_mma>},
      {"cuda/wgmma", &prefill_with<ContiguousKv, &attention_cuda_wgmma>},
  };
  return kRows;
}

}  // namespace kvproof::kernels
