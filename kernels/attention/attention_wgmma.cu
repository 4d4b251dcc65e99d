// SPDX-License-Identifier: Apache-2.0
// Chooses the instantiation of the prefill kernel for Hopper and the boxes of its tensor copies, or
// says why none fits.
#include <algorithm>
#include <numeric>

#include "kernels/attention/as_paged.h"
#include "kernels/attention/merge_splits.cuh"
#include "kernels/attention/wgmma_prefill.cuh"

namespace kvproof::kernels {
namespace {

Refusal refuse_wgmma(const AttentionParams<PagedKv>& p) {
  const AttentionShape& s = p.shape;
  if (!device_has_hopper()) return {"the kernel needs compute capability 9.0"};
  if (s.cache_type == ElementType::fp32 || s.cache_type == ElementType::fp8_e5m2) {
    return {"cache_type: the kernel for Hopper has bf16, fp16 and fp8_e4m3"};
  }
  if (s.type == ElementType::fp32) return {"type: the kernel for Hopper has bf16 and fp16 queries"};
  if (s.head_size != s.value_head_size ||
      (s.head_size != 64 && s.head_size != 128 && s.head_size != 256)) {
    return {"head_size: the kernel for Hopper has 64, 128 and 256"};
  }
  if (!(s.scale * s.key_scale > 0)) {
    return {"scale, key_scale: the kernel for Hopper needs a product above 0"};
  }
  if (p.query_starts == nullptr) return {"query_starts: the kernel for Hopper needs them"};
  const std::int64_t bytes = bytes_of(s.cache_type);
  if (!is_aligned(p.kv.key, p.kv.key_layout, bytes) ||
      !is_aligned(p.kv.value, p.kv.value_layout, bytes)) {
    return {"K, V: the kernel for Hopper needs pointers and strides of whole 16 bytes"};
  }
  if (!is_aligned(p.query, {0, p.query_token_stride, p.query_head_stride, 1}, 2) ||
      !is_aligned(p.output, {0, p.output_token_stride, p.output_head_stride, 1}, 2)) {
    return {"query, output: the kernel for Hopper needs pointers and strides of whole 16 bytes"};
  }
  return {};
}

/// The map of K or V, and how its boxes are found. Heads share a dimension with the pieces of a row
/// or with groups of 8 tokens where their strides allow it, and then a box has as many tokens as a
/// block or a step; else 8.
TensorShape map_boxes(const void* data, const CacheLayout& layout, std::int32_t num_heads,
                      std::int32_t head_size, std::uint64_t blocks, std::int32_t step,
                      PageBoxes& boxes) {
  const std::int32_t pieces = head_size / 64, groups = layout.block_size / 8;
  const bool by_piece = num_heads == 1 || layout.head_stride == head_size;
  const bool by_group = layout.head_stride == layout.block_size * layout.token_stride;
  const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  TensorShape out{.rank = 5,
                  .data = data,
                  .sizes = {64, 8, size(pieces), 0, blocks},
                  .strides = {size(2 * layout.token_stride), 128, size(16 * layout.token_stride),
                              size(2 * layout.block_stride)}};
  boxes.tokens = std::gcd(layout.block_size, step);
  if (by_piece) {
    boxes.head = pieces;
    boxes.group = 1;
    out.sizes[2] *= size(num_heads);
    out.sizes[3] = size(groups);
  } else if (by_group) {
    boxes.group = 1;
    boxes.plane = groups;
    out.sizes[3] = size(std::int64_t{num_heads} * groups);
  } else {
    boxes.tokens = 8;
    boxes.token = boxes.plane = 1;
    out.sizes[1] = size(layout.block_size);
    out.sizes[3] = size(num_heads);
    out.strides[2] = size(2 * layout.head_stride);
  }
  const auto tokens = static_cast<std::uint32_t>(boxes.tokens);
  const std::uint32_t box[5] = {64, 8, static_cast<std::uint32_t>(pieces), tokens / 8, 1};
  std::copy(box, box + 5, out.box);
  return out;
}

template <class Tile>
Refusal encode_boxes(WgmmaCall& call, TensorMap (&maps)[2]) {
  const PagedKv& kv = call.params.kv;
  call.boxed = !Tile::kFp8 && kv.key_layout.block_size % 8 == 0;
  if (!call.boxed) return {};
  const std::uint64_t blocks = kv.block_tables == nullptr
                                   ? static_cast<std::uint64_t>(call.params.num_seqs)
                                   : std::uint64_t{1} << 31;
  TensorShape shapes[2];
  for (const std::int32_t step : {Tile::kTokens, 8}) {  // V's boxes lie where K's do
    for (int side = 0; side < 2; ++side) {
      shapes[side] = map_boxes(
          side == 0 ? kv.key : kv.value, side == 0 ? kv.key_layout : kv.value_layout,
          call.params.shape.num_kv_heads, Tile::kHeadSize, blocks, step, call.boxes[side]);
    }
    if (call.boxes[0].tokens == call.boxes[1].tokens) break;
  }
  for (int side = 0; side < 2; ++side) {
    if (const Refusal refusal = encode_tensor_map(shapes[side], maps[side])) return refusal;
  }
  return {};
}

template <class Cache, int kHead>
Refusal launch_wgmma(WgmmaCall call, const Context& context) {
  using Tile = WgmmaTile<Cache, kHead>;
  TensorMap maps[2];
  if (const Refusal refusal = encode_boxes<Tile>(call, maps)) return refusal;
  const unsigned blocks = std::min(call.num_tiles, static_cast<std::uint32_t>(multiprocessors()));
  const bool capped = call.params.shape.soft_cap > 0;
  const auto kernel = capped ? &attention_wgmma_kernel<Cache, kHead, true>
                             : &attention_wgmma_kernel<Cache, kHead, false>;
  KVPROOF_LAUNCH(kernel, (Dim3{blocks, 1, 1}), (Dim3{kWgmmaThreads, 1, 1}),
                 (WgmmaMemory<Tile>::kBytes), context, maps[0], maps[1], call);
  const AttentionParams<PagedKv>& p = call.params;
  if (p.num_splits == 1) return {};
  KVPROOF_LAUNCH(merge_splits_kernel<PagedKv>,
                 (Dim3{static_cast<unsigned>(p.num_query_tokens),
                       static_cast<unsigned>(p.shape.num_heads), 1}),
                 (Dim3{kMergeThreads, 1, 1}), 0, context, p);
  return {};
}

template <class Cache>
Refusal launch_wgmma_head(const WgmmaCall& call, const Context& context) {
  switch (call.params.shape.head_size) {
    case 64: return launch_wgmma<Cache, 64>(call, context);
    case 128: return launch_wgmma<Cache, 128>(call, context);
    default: return launch_wgmma<Cache, 256>(call, context);
  }
}

}  // namespace

template <class Kv>
Refusal attention_cuda_wgmma(const AttentionParams<Kv>& params, const Context& context) {
  if (const Refusal refusal = refuse(params)) return refusal;
  WgmmaCall call;
  call.params = as_paged(params);
  if (const Refusal refusal = refuse_wgmma(call.params)) return refusal;
  if (params.num_query_tokens == 0) return {};
  const std::int64_t ratio = params.shape.num_heads / params.shape.num_kv_heads;
  const std::int64_t rows = params.num_query_tokens * ratio;
  const std::int64_t tiles =
      ((rows + kWgmmaRows - 1) / kWgmmaRows + params.num_seqs - 1) * params.shape.num_kv_heads;
  if (rows > 0x7FFFFFFF || tiles * params.num_splits > 0x7FFFFFFF) {
    return {"more query rows and splits than the kernel for Hopper counts"};
  }
  if (params.num_splits > 1 && params.shape.num_heads > 65535) {
    return {"more than 65,535 heads: a CUDA grid has no room for their merge"};
  }
  call.num_tiles = static_cast<std::uint32_t>(tiles * params.num_splits);
  switch (params.shape.cache_type) {
    case ElementType::bf16: return launch_wgmma_head<Bf16>(call, context);
    case ElementType::fp16: return launch_wgmma_head<Fp16>(call, context);
    default: return launch_wgmma_head<Fp8E4M3>(call, context);
  }
}

template Refusal attention_cuda_wgmma(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cuda_wgmma(const AttentionParams<ContiguousKv>&, const Context&);

}  // namespace kvproof::kernels
