// SPDX-License-Identifier: Apache-2.0
// Launches the latent kernel for Hopper, or says why it does not fit.
#include "kernels/attention/wgmma_latent.cuh"
#include "kernels/attention/wgmma_latent_merge.cuh"

namespace kvproof::kernels {
namespace {

bool are_multiples(std::int64_t all_bits, std::int64_t of) { return all_bits % of == 0; }

std::int64_t address_of(const void* memory) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory));
}

Refusal refuse_latent_shape(const AttentionParams<PagedKv>& p) {
  const AttentionShape& s = p.shape;
  const CacheLayout &k = p.kv.key_layout, &v = p.kv.value_layout;
  if (s.head_size != 576 || s.value_head_size != 512 || s.num_kv_heads != 1) {
    return {"head_size: the latent kernel for Hopper has 512 in 576, and one KV head"};
  }
  if (s.type != ElementType::bf16 || s.cache_type != ElementType::bf16) {
    return {"cache_type: the latent kernel for Hopper has bf16"};
  }
  if (p.kv.key != p.kv.value || k.block_stride != v.block_stride ||
      k.token_stride != v.token_stride) {
    return {"K, V: the latent kernel reads the values from the keys' memory"};
  }
  if (p.query_starts != nullptr || s.window != 0 || s.soft_cap != 0) {
    return {"query_starts, window, soft_cap: the latent kernel for Hopper has none"};
  }
  if (!(s.scale > 0)) return {"scale: the latent kernel for Hopper needs one above 0"};
  if (k.block_size % 8 != 0) return {"block_size: tensor copies need a multiple of 8 tokens"};
  return {};
}

Refusal refuse_latent_memory(const AttentionParams<PagedKv>& p) {
  const CacheLayout& k = p.kv.key_layout;
  if (!are_multiples(address_of(p.kv.key) | address_of(p.query) | address_of(p.output) |
                         address_of(p.split_output),
                     16) ||
      !are_multiples(k.block_stride | k.token_stride | p.query_token_stride | p.query_head_stride |
                         p.output_token_stride | p.output_head_stride,
                     8)) {
    return {"K, query, output: tensor copies need pointers and strides of whole 16 bytes"};
  }
  // With one block, or one head, a stride is none that counts.
  if (k.block_stride < 1 || k.token_stride < 576 || p.query_token_stride < 1 ||
      p.query_head_stride < 576) {
    return {"K, query: tensor copies need strides above 0"};
  }
  return {};
}

Refusal encode_latent_maps(const AttentionParams<PagedKv>& p, LatentMaps& out) {
  const CacheLayout& k = p.kv.key_layout;
  const auto bytes = [](std::int64_t elements) { return static_cast<std::uint64_t>(2 * elements); };
  const auto groups = static_cast<std::uint64_t>(k.block_size) / 8;
  for (int part = 0; part < 2; ++part) {
    // Of a page: 64 columns, 8 tokens, chunks, groups of 8 tokens. No page is -1.
    const TensorShape shape{
        .rank = 5,
        .data = p.kv.key,
        .sizes = {64, 8, 9, groups, std::uint64_t{1} << 31},
        .strides = {bytes(k.token_stride), 128, bytes(8 * k.token_stride), bytes(k.block_stride)},
        .box = {64, 8, latent_part_chunks(part),
                static_cast<std::uint32_t>(latent_box(k.block_size)) / 8, 1}};
    if (const Refusal refusal = encode_tensor_map(shape, out.parts[part])) return refusal;
  }
  const auto heads = static_cast<std::uint64_t>(p.shape.num_heads);
  const TensorShape shape{.rank = 4,
                          .data = p.query,
                          .sizes = {64, heads, 9, static_cast<std::uint64_t>(p.num_seqs)},
                          .strides = {bytes(p.query_head_stride), 128, bytes(p.query_token_stride)},
                          .box = {64, kLatentRows, 9, 1}};
  return encode_tensor_map(shape, out.query);
}

}  // namespace

Refusal attention_cuda_latent_wgmma(const AttentionParams<PagedKv>& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (const Refusal refusal = refuse_latent_shape(p)) return refusal;
  if (p.num_query_tokens == 0) return {};
  if (const Refusal refusal = refuse_latent_memory(p)) return refusal;
  if (p.shape.num_heads > 65535) return {"more than 65,535 heads: a CUDA grid has no room"};
  if (!device_has_hopper()) return {"this device is no Hopper (compute capability 9.0)"};
  LatentMaps maps;
  if (const Refusal refusal = encode_latent_maps(p, maps)) return refusal;
  // As many blocks as are resident at once, if there can be so many pieces.
  const std::int32_t head_tiles = ceil_of(p.shape.num_heads, kLatentRows);
  const std::int64_t most = std::int64_t{p.num_seqs} * p.num_splits;
  const std::int32_t resident = multiprocessors() / head_tiles;
  const std::int64_t places = resident < 1 ? 1 : most < resident ? most : resident;
  KVPROOF_LAUNCH(latent_wgmma_kernel<Bf16>,
                 (Dim3{static_cast<unsigned>(places * head_tiles), 1, 1}),
                 (Dim3{kLatentThreads, 1, 1}), LatentMemory::kBytes, context, maps, p);
  if (p.num_splits == 1) return {};
  KVPROOF_LAUNCH(merge_latents_kernel<Bf16>,
                 (Dim3{static_cast<unsigned>(p.num_query_tokens),
                       static_cast<unsigned>(p.shape.num_heads), 1}),
                 (Dim3{kMergeThreads, 1, 1}), 0, context, p);
  return {};
}

}  // namespace kvproof::kernels
