// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/device/python_calls.h"

namespace kvproof::bench {

kernels::Refusal attend(const kernels::AttentionParams<kernels::PagedKv>& params, int) {
  return kernels::attention_cuda_mma(params, {});
}

kernels::Refusal write(const kernels::ReshapeAndCacheParams& params, int) {
  return kernels::reshape_and_cache_vector(params, {});
}

}  // namespace kvproof::bench
