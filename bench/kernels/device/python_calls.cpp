// SPDX-License-Identifier: Apache-2.0
// The kernels as C functions over bare pointers, so that Python calls them by ctypes on PyTorch's
// tensors: peers.py on a device, with the default stream, and bench/peers on the CPU. Each returns
// null, or why it refused. Everything is packed, queries and outputs are bf16.
#include "bench/kernels/device/python_calls.h"

#include "bench/kernels/device/splits.h"

extern "C" {

/// Decode if there are no starts, else prefill. MLA is decode with one KV head and V in K's rows.
/// @param split_output, split_lse, split_arrivals as in attention.h
/// @param is_hnd the layout of both caches, else NHD
/// @param row, threads as in python_calls.h
const char* kvproof_attention(
    const void* key, const void* value, const std::int32_t* tables, const std::int32_t* lens,
    const std::int32_t* starts, const void* query, void* output, float* split_output,
    float* split_lse, std::uint32_t* split_arrivals, std::int32_t num_seqs, std::int32_t num_tokens,
    std::int32_t table_stride, std::int32_t heads, std::int32_t kv_heads, std::int32_t head_size,
    std::int32_t value_head_size, std::int32_t block_size, std::int32_t is_fp8, std::int32_t splits,
    float scale, std::int32_t is_hnd, const char* row, std::int32_t threads) {
  using namespace kvproof;
  kernels::AttentionParams<kernels::PagedKv> p;
  p.shape.num_heads = heads;
  p.shape.num_kv_heads = kv_heads;
  p.shape.head_size = head_size;
  p.shape.value_head_size = value_head_size;
  if (is_fp8 != 0) p.shape.cache_type = kernels::ElementType::fp8_e4m3;
  p.shape.scale = scale;
  const LayoutOrder order = is_hnd != 0 ? LayoutOrder::hnd : LayoutOrder::nhd;
  const auto layout = CacheLayout::packed(order, block_size, kv_heads, head_size);
  p.kv = {key, value, layout, layout, tables, table_stride};
  p.num_seqs = num_seqs;
  p.num_query_tokens = num_tokens;
  p.query_starts = starts;
  p.seq_lens = lens;
  p.query = query;
  p.output = output;
  p.query_head_stride = head_size;
  p.query_token_stride = std::int64_t{heads} * head_size;
  p.output_head_stride = value_head_size;
  p.output_token_stride = std::int64_t{heads} * value_head_size;
  p.num_splits = splits;
  p.split_output = split_output;
  p.split_lse = split_lse;
  p.split_arrivals = split_arrivals;
  return bench::attend(p, row, threads).reason;
}

const char* kvproof_write(const void* key, const void* value, void* key_cache, void* value_cache,
                          const std::int64_t* slots, std::int32_t tokens, std::int32_t heads,
                          std::int32_t head_size, std::int32_t block_size, std::int32_t threads) {
  using namespace kvproof;
  kernels::ReshapeAndCacheParams p;
  p.key = key;
  p.value = value;
  p.num_rows = p.num_tokens = tokens;
  p.key_token_stride = p.value_token_stride = std::int64_t{heads} * head_size;
  p.key_cache = key_cache;
  p.value_cache = value_cache;
  p.key_layout = p.value_layout =
      CacheLayout::packed(LayoutOrder::nhd, block_size, heads, head_size);
  p.slot_mapping = slots;
  p.num_heads = heads;
  p.head_size = p.value_head_size = head_size;
  return bench::write(p, threads).reason;
}

/// @param heads MLA: of the query; else KV heads
std::int32_t kvproof_splits(std::int32_t is_mla, std::int32_t batch, std::int32_t heads,
                            std::int32_t context, std::int32_t num_processors) {
  return is_mla != 0 ? kvproof::bench::mla_splits(batch, heads, context, num_processors)
                     : kvproof::bench::decode_splits(batch, heads, context, num_processors);
}

}  // extern "C"
