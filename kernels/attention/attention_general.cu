// SPDX-License-Identifier: Apache-2.0
// Launches the general attention kernel and the merge of its splits.
#include "kernels/attention/attention_general.cuh"

namespace kvproof::kernels {

template <class Kv>
Refusal attention_cuda_general(const AttentionParams<Kv>& params, const Context& context) {
  if (const Refusal refusal = refuse(params)) return refusal;
  const AttentionShape& s = params.shape;
  if (s.num_heads > 65535 || params.num_splits > 65535) {
    return {"more than 65,535 heads or splits: a CUDA grid has no room for them"};
  }
  if (params.num_query_tokens == 0) return {};
  const auto tokens = static_cast<unsigned>(params.num_query_tokens);
  const auto splits = static_cast<unsigned>(params.num_splits);
  const std::size_t query_bytes =
      sizeof(float) * kGeneralHeads * static_cast<std::size_t>(s.head_size);
  KVPROOF_LAUNCH(attention_general_kernel<Kv>,
                 (Dim3{tokens, static_cast<unsigned>(s.num_kv_heads), splits}),
                 (Dim3{kGeneralThreads, 1, 1}), query_bytes, context, params);
  if (splits == 1) return {};
  KVPROOF_LAUNCH(merge_splits_kernel<Kv>, (Dim3{tokens, static_cast<unsigned>(s.num_heads), 1}),
                 (Dim3{kGeneralThreads, 1, 1}), 0, context, params);
  return {};
}

template Refusal attention_cuda_general(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cuda_general(const AttentionParams<ContiguousKv>&, const Context&);

}  // namespace kvproof::kernels
