// SPDX-License-Identifier: Apache-2.0
#include "kernels/contiguous_decode/contiguous_decode.h"

namespace kvproof::kernels {

std::span<const Implementation<AttentionParams<ContiguousKv>>> contiguous_decode() {
  static constexpr Implementation<AttentionParams<ContiguousKv>> kRows[] = {
      {"reference/double", &decode_with<ContiguousKv, &attention_reference>},
      {"cpu/general", &decode_with<ContiguousKv, &attention_cpu_general>},
      {"cuda/general", &decode_with<ContiguousKv, &attention_cuda_general>},
      {"cuda/mma", &decode_with<ContiguousKv, &attention_cuda_mma>},
  };
  return kRows;
}

}  // namespace kvproof::kernels
