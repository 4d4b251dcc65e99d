// SPDX-License-Identifier: Apache-2.0
#include "kernels/paged_decode/paged_decode.h"

namespace kvproof::kernels {

std::span<const Implementation<AttentionParams<PagedKv>>> paged_decode() {
  static constexpr Implementation<AttentionParams<PagedKv>> kRows[] = {
      {"reference/double", &decode_with<PagedKv, &attention_reference>},
      {"cpu/general", &decode_with<PagedKv, &attention_cpu_general>},
      {"cuda/general", &decode_with<PagedKv, &attention_cuda_general>},
      {"cuda/mma", &decode_with<PagedKv, &attention_cuda_mma>},
  };
  return kRows;
}

}  // namespace kvproof::kernels
