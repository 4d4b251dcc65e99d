// SPDX-License-Identifier: Apache-2.0
// Chooses the instantiation of the tuned attention kernel, or says why none fits.
#include "kernels/attention/as_paged.h"
#include "kernels/attention/attention_general.cuh"
#include "kernels/attention/attention_mma.cuh"

namespace kvproof::kernels {
namespace {

bool is_latent(const AttentionParams<PagedKv>& p) {
  const CacheLayout &k = p.kv.key_layout, &v = p.kv.value_layout;
  return p.shape.head_size == 576 && p.shape.value_head_size == 512 && p.kv.key == p.kv.value &&
         k.block_stride == v.block_stride && k.token_stride == v.token_stride &&
         k.head_stride == v.head_stride && p.shape.cache_type == ElementType::bf16;
}

Refusal refuse_untuned(const AttentionParams<PagedKv>& p) {
  const AttentionShape& s = p.shape;
  if (s.cache_type == ElementType::fp32 || s.cache_type == ElementType::fp8_e5m2) {
    return {"cache_type: the tuned kernel has bf16, fp16 and fp8_e4m3"};
  }
  if (s.type == ElementType::fp32) return {"type: the tuned kernel has bf16 and fp16 queries"};
  const bool alike = s.head_size == s.value_head_size;
  const bool tuned = s.head_size == 64 || s.head_size == 128 || s.head_size == 256;
  if (!(alike && tuned) && !is_latent(p)) {
    return {"head_size: the tuned kernel has 64, 128 and 256, and a bf16 latent of 512 in 576"};
  }
  const std::int64_t bytes = bytes_of(s.cache_type);
  if (!is_aligned(p.kv.key, p.kv.key_layout, bytes) ||
      !is_aligned(p.kv.value, p.kv.value_layout, bytes)) {
    return {"K, V: the tuned kernel needs pointers and strides that are multiples of 16 bytes"};
  }
  return {};
}

template <class Tile, int kRows, bool kSoftCap>
Refusal launch_mma(const AttentionParams<PagedKv>& p, const Context& context) {
  const std::int64_t ratio = p.shape.num_heads / p.shape.num_kv_heads;
  const std::int64_t blocks = p.query_starts == nullptr
                                  ? p.num_seqs * ((ratio + kRows - 1) / kRows)
                                  : p.num_query_tokens * ratio / kRows + p.num_seqs;
  if (blocks * p.shape.num_kv_heads > 0x7FFFFFFF) {
    return {"more query rows than a CUDA grid has room for"};
  }
  using Memory = MmaMemory < Tile, kRows<16 ? 16 : kRows>;
  AttentionParams<PagedKv> with = p;
  if (!Memory::has_room_for_weights(p.num_splits) ||
      reinterpret_cast<std::uintptr_t>(p.split_output) % 16 != 0) {
    with.split_arrivals = nullptr;
  }
  const auto kernel = &attention_mma_kernel<Tile, kRows, kSoftCap>;
  KVPROOF_LAUNCH(kernel,
                 (Dim3{static_cast<unsigned>(blocks * p.shape.num_kv_heads),
                       static_cast<unsigned>(p.num_splits), 1}),
                 (Dim3{32 * Tile::kWarps, 1, 1}), (Memory::kBytes), context, with);
  if (p.num_splits == 1 || with.split_arrivals != nullptr) return {};
  KVPROOF_LAUNCH(merge_splits_kernel<PagedKv>,
                 (Dim3{static_cast<unsigned>(p.num_query_tokens),
                       static_cast<unsigned>(p.shape.num_heads), 1}),
                 (Dim3{kGeneralThreads, 1, 1}), 0, context, p);
  return {};
}

template <class Tile>
Refusal launch_many(const AttentionParams<PagedKv>& p, const Context& context) {
  constexpr int kRows = 16 * kMmaGroups;
  return p.shape.soft_cap > 0 ? launch_mma<Tile, kRows, true>(p, context)
                              : launch_mma<Tile, kRows, false>(p, context);
}

template <class Cache, int kHead>
Refusal launch_rows(const AttentionParams<PagedKv>& p, const Context& context) {
  const std::int64_t rows =
      std::int64_t{p.num_query_tokens} * (p.shape.num_heads / p.shape.num_kv_heads);
  using Tile = MmaTile<Cache, kHead>;
  if (rows <= std::int64_t{8} * p.num_seqs) return launch_mma<Tile, 8, false>(p, context);
  if (rows <= std::int64_t{16} * p.num_seqs) return launch_mma<Tile, 16, false>(p, context);
  return launch_many<Tile>(p, context);
}

template <class Cache>
Refusal launch_head(const AttentionParams<PagedKv>& p, const Context& context) {
  switch (p.shape.head_size) {
    case 64: return launch_rows<Cache, 64>(p, context);
    case 128: return launch_rows<Cache, 128>(p, context);
    default: return launch_rows<Cache, 256>(p, context);
  }
}

}  // namespace

template <class Kv>
Refusal attention_cuda_mma(const AttentionParams<Kv>& params, const Context& context) {
  if (const Refusal refusal = refuse(params)) return refusal;
  if (params.shape.num_heads > 65535 || params.num_splits > 65535) {
    return {"more than 65,535 heads or splits: a CUDA grid has no room for them"};
  }
  const AttentionParams<PagedKv> p = as_paged(params);
  if (const Refusal refusal = refuse_untuned(p)) return refusal;
  if (p.num_query_tokens == 0) return {};
  if (is_latent(p)) return launch_many<MmaLatentTile<Bf16>>(p, context);
  switch (p.shape.cache_type) {
    case ElementType::bf16: return launch_head<Bf16>(p, context);
    case ElementType::fp16: return launch_head<Fp16>(p, context);
    default: return launch_head<Fp8E4M3>(p, context);
  }
}

template Refusal attention_cuda_mma(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cuda_mma(const AttentionParams<ContiguousKv>&, const Context&);

}  // namespace kvproof::kernels
