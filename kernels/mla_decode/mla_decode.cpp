// SPDX-License-Identifier: Apache-2.0
#include "kernels/mla_decode/mla_decode.h"

namespace kvproof::kernels {
namespace {

template <Refusal (*launch)(const AttentionParams<PagedKv>&, const Context&)>
Refusal latent_with(const MlaDecodeParams& params, const Context& context) {
  if (params.latent_size < 1 || params.rope_size < 0) {
    return {"latent_size, rope_size: expected 1 or more, 0 or more"};
  }
  return launch(as_attention(params), context);
}

}  // namespace

AttentionParams<PagedKv> as_attention(const MlaDecodeParams& p) {
  const std::int32_t row = p.latent_size + p.rope_size;
  const CacheLayout layout{p.block_stride, p.token_stride, 0, p.block_size};
  AttentionParams<PagedKv> out;
  out.shape = {.num_heads = p.num_heads,
               .num_kv_heads = 1,
               .head_size = row,
               .value_head_size = p.latent_size,
               .type = p.type,
               .cache_type = p.cache_type,
               .scale = p.scale,
               .key_scale = p.cache_scale,
               .value_scale = p.cache_scale};
  out.kv = {p.cache, p.cache, layout, layout, p.block_tables, p.table_stride};
  out.num_seqs = out.num_query_tokens = p.num_seqs;
  out.seq_lens = p.seq_lens;
  out.query = p.query;
  out.query_token_stride = std::int64_t{p.num_heads} * row;
  out.query_head_stride = row;
  out.output = p.output;
  out.output_token_stride = std::int64_t{p.num_heads} * p.latent_size;
  out.output_head_stride = p.latent_size;
  out.log_sum_exp = p.log_sum_exp;
  out.lse_token_stride = p.num_heads;
  out.lse_head_stride = 1;
  out.num_splits = p.num_splits;
  out.split_output = p.split_output;
  out.split_lse = p.split_lse;
  out.split_arrivals = p.split_arrivals;
  return out;
}

std::span<const Implementation<MlaDecodeParams>> mla_decode() {
  static constexpr Implementation<MlaDecodeParams> kRows[] = {
      {"reference/double", &latent_with<&attention_reference>},
      {"cpu/general", &latent_with<&attention_cpu_general>},
      {"cpu/avx2", &latent_with<&attention_cpu_avx2>},
      {"cpu/avx512_bf16", &latent_with<&attention_cpu_avx512_bf16>},
      {"cpu/portable", &latent_with<&attention_cpu_portable>},
      {"cuda/general", &latent_with<&attention_cuda_general>},
      {"cuda/mma", &latent_with<&attention_cuda_mma>},
      {"cuda/wgmma", &latent_with<&attention_cuda_latent_wgmma>},
  };
  return kRows;
}

}  // namespace kvproof::kernels
