// SPDX-License-Identifier: Apache-2.0
#include "kernels/paged_decode/paged_decode.h"

#include "kernels/attention/as_operation.h"

namespace kvproof::kernels {

std::span<const Implementation<AttentionParams<PagedKv>>> paged_decode() {
  static constexpr Implementation<AttentionParams<PagedKv>> kRows[] = {
      {"reference/double", &decode_with<PagedKv, &attention_reference>},
      {"cpu/general", &decode_with<PagedKv, &attention_cpu_general>},
      {"cpu/avx2", &decode_with<PagedKv, &attention_cpu_avx2>},
      {"cpu/avx512_bf16", &decode_with<PagedKv, &attention_cpu_avx512_bf16>},
      {"cpu/portable", &decode_with<PagedKv, &attention_cpu_portable>},
      {"cuda/general", &decode_with<PagedKv, &attention_cuda_general>},
      {"cuda/mma", &decode_with<PagedKv, &attention_cuda_mma>},
  };
  return kRows;
}

}  // namespace kvproof::kernels
