// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string_view>

#include "bench/kernels/device/device.h"
#include "bench/kernels/device/python_calls.h"
#include "kernels/mla_decode/mla_decode.h"
#include "kernels/paged_decode/paged_decode.h"
#include "kernels/paged_prefill/paged_prefill.h"

namespace kvproof::bench {
namespace {

template <class Params>
kernels::Refusal launch_named(std::span<const kernels::Implementation<Params>> rows,
                              std::string_view name, const Params& params) {
  const auto row = std::ranges::find(rows, name, &kernels::Implementation<Params>::name);
  if (row == rows.end()) return {"no such implementation"};
  return row->launch(params, {});
}

kernels::MlaDecodeParams latent_of(const kernels::AttentionParams<kernels::PagedKv>& p) {
  kernels::MlaDecodeParams out;
  out.cache = p.kv.key;
  out.block_stride = p.kv.key_layout.block_stride;
  out.token_stride = p.kv.key_layout.token_stride;
  out.block_size = p.kv.key_layout.block_size;
  out.latent_size = p.shape.value_head_size;
  out.rope_size = p.shape.head_size - p.shape.value_head_size;
  out.scale = p.shape.scale;
  out.block_tables = p.kv.block_tables;
  out.table_stride = p.kv.table_stride;
  out.seq_lens = p.seq_lens;
  out.num_seqs = p.num_seqs;
  out.num_heads = p.shape.num_heads;
  out.query = p.query;
  out.output = p.output;
  out.num_splits = p.num_splits;
  out.split_output = p.split_output;
  out.split_lse = p.split_lse;
  return out;
}

}  // namespace

kernels::Refusal attend(const kernels::AttentionParams<kernels::PagedKv>& params, const char* row,
                        int) {
  if (params.query_starts != nullptr) return launch_named(kernels::paged_prefill(), row, params);
  if (params.shape.value_head_size == params.shape.head_size) {
    return launch_named(kernels::paged_decode(), row, params);
  }
  return launch_named(kernels::mla_decode(), row, latent_of(params));
}

kernels::Refusal write(const kernels::ReshapeAndCacheParams& params, int) {
  return kernels::reshape_and_cache_vector(params, {});
}

}  // namespace kvproof::bench

extern "C" void kvproof_stamp_clocks(std::uint64_t* to, std::int32_t num_processors) {
  kvproof::bench::stamp_clocks(to, num_processors);
}
