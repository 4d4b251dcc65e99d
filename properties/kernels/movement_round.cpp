// SPDX-License-Identifier: Apache-2.0
// All checks of data movement on all implementations, and the parameters that all must refuse.
#include <functional>
#include <limits>

#include "properties/kernels/movement_checks.h"

namespace kvproof::properties {
namespace {

using kernels::CopyBlocksParams;
using kernels::ElementType;
using kernels::GatherCacheParams;
using kernels::Implementation;
using kernels::ReshapeAndCacheParams;
using kernels::SlotMappingParams;
using kernels::SwapBlocksParams;

/// Runs every check on every implementation of one operation; far cases only with one seed in four.
template <class Params>
Finding round_of(std::span<const Implementation<Params>> rows, std::uint64_t seed, int size,
                 MovementTally& tally, MovementCheck<Params>* near, MovementCheck<Params>* far) {
  for (const Implementation<Params>& row : rows) {
    if (Finding f = near(seed, size, row, tally)) return f;
    if (far == nullptr || seed % 4 != 0) continue;
    if (Finding f = far(seed, size, row, tally)) return f;
  }
  return {};
}

/// One parameter made invalid in otherwise valid ones.
template <class Params>
using Breaks = std::vector<std::function<void(Params&)>>;

/// The pointers lead nowhere, because no implementation may read anything except the parameters.
template <class Params>
Finding refusals_of(std::string_view operation, std::span<const Implementation<Params>> rows,
                    const Params& valid, const Breaks<Params>& breaks) {
  if (const kernels::Refusal refusal = refuse(valid)) {
    return say(operation, ": what the refusals start from is refused: ", refusal.reason);
  }
  for (const Implementation<Params>& row : rows) {
    for (std::size_t i = 0; i < breaks.size(); ++i) {
      Params broken = valid;
      breaks[i](broken);
      const kernels::Refusal refusal = row.launch(broken, {});
      if (!refusal) return say(operation, " ", row.name, ": broken parameter ", i, " is accepted");
    }
  }
  return {};
}

template <class T>
T* nowhere() {
  return reinterpret_cast<T*>(std::uintptr_t{64});
}

Finding refusals_of_write() {
  using P = ReshapeAndCacheParams;
  P p;
  p.key = p.value = p.key_cache = p.value_cache = nowhere<char>();
  p.slot_mapping = nowhere<SlotId>();
  p.num_rows = p.num_tokens = 1;
  p.num_heads = 1;
  p.head_size = p.value_head_size = 64;
  p.key_layout = p.value_layout = CacheLayout::packed(LayoutOrder::nhd, 16, 1, 64);
  const Breaks<P> breaks = {
      [](P& x) { x.key = nullptr; },
      [](P& x) { x.value = nullptr; },
      [](P& x) { x.key_cache = nullptr; },
      [](P& x) { x.value_cache = nullptr; },
      [](P& x) { x.slot_mapping = nullptr; },
      [](P& x) { x.num_tokens = -1; },
      [](P& x) { x.num_tokens = 2; },
      [](P& x) { x.num_heads = 0; },
      [](P& x) { x.head_size = 0; },
      [](P& x) { x.value_head_size = -1; },
      [](P& x) { x.num_heads = x.head_size = 1 << 16; },
      [](P& x) { x.key_layout.block_size = x.value_layout.block_size = 0; },
      [](P& x) { x.value_layout.block_size = 8; },
      [](P& x) { x.type = x.cache_type = ElementType::fp8_e4m3; },
      [](P& x) { x.cache_type = ElementType::fp16; },
      [](P& x) { x.key_scale = 0.5F; },
      [](P& x) { x.cache_type = ElementType::fp8_e5m2, x.value_scale = 0; },
      [](P& x) { x.cache_type = ElementType::fp8_e4m3, x.key_scale = -1; },
      [](P& x) {
        x.cache_type = ElementType::fp8_e4m3;
        x.key_scale = std::numeric_limits<float>::quiet_NaN();
      },
  };
  return refusals_of("reshape_and_cache", kernels::reshape_and_cache(), p, breaks);
}

Finding refusals_of_gather() {
  using P = GatherCacheParams;
  P p;
  p.cache = p.out = nowhere<char>();
  p.block_tables = nowhere<std::int32_t>();
  p.starts = nowhere<std::int64_t>();
  p.num_seqs = 1;
  p.num_tokens = 1;
  p.num_heads = 1;
  p.head_size = 64;
  p.layout = CacheLayout::packed(LayoutOrder::nhd, 16, 1, 64);
  const Breaks<P> breaks = {
      [](P& x) { x.cache = nullptr; },
      [](P& x) { x.out = nullptr; },
      [](P& x) { x.block_tables = nullptr; },
      [](P& x) { x.starts = nullptr; },
      [](P& x) { x.num_seqs = 0; },
      [](P& x) { x.num_seqs = -1; },
      [](P& x) { x.num_tokens = -1; },
      [](P& x) { x.num_heads = 0; },
      [](P& x) { x.head_size = 0; },
      [](P& x) { x.num_heads = x.head_size = 1 << 16; },
      [](P& x) { x.layout.block_size = 0; },
      [](P& x) { x.table_stride = -1; },
      [](P& x) { x.type = ElementType::fp16; },
      [](P& x) { x.type = ElementType::fp8_e5m2; },
      [](P& x) { x.scale = 2; },
  };
  return refusals_of("gather_cache", kernels::gather_cache(), p, breaks);
}

Finding refusals_of_blocks() {
  using Copy = CopyBlocksParams;
  Copy copy;
  copy.caches = nowhere<void*>();
  copy.pairs = nowhere<std::int64_t>();
  copy.num_caches = 1;
  copy.num_pairs = 1;
  copy.block_bytes = copy.block_stride = 64;
  const Breaks<Copy> of_copy = {
      [](Copy& x) { x.caches = nullptr; }, [](Copy& x) { x.pairs = nullptr; },
      [](Copy& x) { x.num_caches = -1; },  [](Copy& x) { x.num_pairs = -1; },
      [](Copy& x) { x.block_bytes = -1; }, [](Copy& x) { x.block_stride = 63; },
      [](Copy& x) { x.alignment = 0; },
  };
  if (Finding f = refusals_of("copy_blocks", kernels::copy_blocks(), copy, of_copy)) return f;
  using Swap = SwapBlocksParams;
  static constexpr std::int64_t kPair[] = {1, 1}, kBeyond[] = {2, 1}, kBefore[] = {1, -1};
  Swap swap;
  swap.from = swap.to = nowhere<char>();
  swap.pairs = kPair;
  swap.num_pairs = 1;
  swap.block_bytes = 64;
  swap.from_blocks = swap.to_blocks = 2;
  const Breaks<Swap> of_swap = {
      [](Swap& x) { x.from = nullptr; },
      [](Swap& x) { x.to = nullptr; },
      [](Swap& x) { x.pairs = nullptr; },
      [](Swap& x) { x.num_pairs = -1; },
      [](Swap& x) { x.block_bytes = -1; },
      [](Swap& x) { x.from_blocks = -1; },
      [](Swap& x) { x.to_blocks = 1; },
      [](Swap& x) { x.pairs = kBeyond; },
      [](Swap& x) { x.pairs = kBefore; },
      [](Swap& x) { x.block_bytes = std::numeric_limits<std::int64_t>::max(); },
  };
  return refusals_of("swap_blocks", kernels::swap_blocks(), swap, of_swap);
}

Finding refusals_of_slots() {
  using P = SlotMappingParams;
  P p;
  p.block_tables = p.query_starts = nowhere<std::int32_t>();
  p.positions = nowhere<std::int64_t>();
  p.slots = nowhere<SlotId>();
  p.block_size = 16;
  p.num_seqs = 1;
  p.num_tokens = p.num_slots = 1;
  const Breaks<P> breaks = {
      [](P& x) { x.block_tables = nullptr; }, [](P& x) { x.query_starts = nullptr; },
      [](P& x) { x.positions = nullptr; },    [](P& x) { x.slots = nullptr; },
      [](P& x) { x.block_size = 0; },         [](P& x) { x.table_width = -1; },
      [](P& x) { x.table_width = 1; },        [](P& x) { x.num_seqs = 0; },
      [](P& x) { x.num_seqs = -1; },          [](P& x) { x.num_tokens = -1; },
      [](P& x) { x.num_slots = 0; },
  };
  return refusals_of("slot_mapping", kernels::slot_mapping(), p, breaks);
}

}  // namespace

Finding movement_round(std::uint64_t seed, int size, std::string_view operation,
                       MovementTally& tally) {
  const auto round = [&](std::string_view name, auto rows, auto* near, auto* far) -> Finding {
    if (!operation.empty() && operation != name) return {};
    Finding f = round_of(rows, seed, size, tally, near, far);
    if (f) *f += say("; repeat: KVPROOF_CASE=", seed, ":", size, " kernels_test");
    return f;
  };
  if (Finding f = round("reshape_and_cache", kernels::reshape_and_cache(), &check_reshape_and_cache,
                        &check_far_reshape_and_cache)) {
    return f;
  }
  if (Finding f = round("gather_cache", kernels::gather_cache(), &check_gather_cache,
                        &check_far_gather_cache)) {
    return f;
  }
  if (Finding f = round("copy_blocks", kernels::copy_blocks(), &check_copy_blocks,
                        &check_far_copy_blocks)) {
    return f;
  }
  if (Finding f = round("swap_blocks", kernels::swap_blocks(), &check_swap_blocks,
                        &check_far_swap_blocks)) {
    return f;
  }
  MovementCheck<SlotMappingParams>* const none = nullptr;
  return round("slot_mapping", kernels::slot_mapping(), &check_slot_mapping, none);
}

Finding check_movement_refusals() {
  for (auto* check :
       {&refusals_of_write, &refusals_of_gather, &refusals_of_blocks, &refusals_of_slots}) {
    if (Finding f = check()) return f;
  }
  return {};
}

}  // namespace kvproof::properties
