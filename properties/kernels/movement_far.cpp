// SPDX-License-Identifier: Apache-2.0
// Data movement near the ends of 16 and 32 bits, in address space of which a few pages are touched.
#include "properties/kernels/movement_checks.h"

namespace kvproof::properties {
namespace {

using kernels::CopyBlocksParams;
using kernels::ElementType;
using kernels::GatherCacheParams;
using kernels::ReshapeAndCacheParams;
using kernels::SwapBlocksParams;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kFarthest = 9 * kGiB;  // [bytes] no case goes beyond
// A seeded fault makes an offset negative; that must give a wrong result and not a crash.
#if defined(KVPROOF_KERNEL_FAULTS)
constexpr std::int64_t kBelow = 9 * kGiB;
#else
constexpr std::int64_t kBelow = 0;
#endif
constexpr std::int64_t kAround = 64;  // [bytes] compared on both sides of a row

/// Address space in which a cache lies, zeros wherever nothing was written.
struct FarMemory {
  Memory memory = Memory::sparse(static_cast<std::size_t>(kBelow + kFarthest + 4096));
  [[nodiscard]] std::byte* base() const { return memory.data() + kBelow; }
};

/// Blocks and strides whose product comes near an end of 16, 31 or 32 bits.
struct FarPlan {
  CacheLayout layout;
  std::vector<std::int64_t> blocks;
  ElementType cache_type;
};

FarPlan draw_far(Random& random, std::int32_t heads, std::int32_t head_size) {
  FarPlan out;
  out.cache_type = random.of({ElementType::fp32, ElementType::bf16, ElementType::fp8_e4m3});
  const std::int64_t bytes = bytes_of(out.cache_type);
  out.layout = CacheLayout::packed(random.one_in(2) ? LayoutOrder::nhd : LayoutOrder::hnd,
                                   random.of({1, 2, 16}), heads, head_size);
  const std::int64_t dense = out.layout.block_stride;
  switch (random.between(0, 2)) {
    case 0:  // many small blocks
      out.blocks = {32'767, 32'768, 65'535, 65'536, 65'537, 65'536 + random.between(2, 500)};
      break;
    case 1:  // a record of many layers
      out.layout.block_stride = 1'077'120 / bytes;
      out.blocks = {1993, 1994, 3987, 3988, 7975, 7976, random.between(1, 8000)};
      break;
    default: {  // few blocks, far apart: an end within the second, the third or the fourth
      const std::int64_t end =
          random.of({2 * kGiB, 4 * kGiB}) / random.of<std::int64_t>({1, bytes});
      out.layout.block_stride =
          std::min(end / random.between(1, 3), (kFarthest / bytes - dense) / 4) / 16 * 16;
      out.blocks = {1, 2, 3, 4};
    }
  }
  std::erase_if(out.blocks, [&](std::int64_t block) {
    return (block * out.layout.block_stride + dense) * bytes > kFarthest;
  });
  return out;
}

/// Compares the row of the reference, and the bytes around it, with those of the implementation.
Finding compare_far(const std::string& who, const FarMemory& got, const FarMemory& want,
                    std::int64_t begin, std::int64_t bytes) {
  const std::int64_t first = std::max<std::int64_t>(begin - kAround, 0);
  const auto size = static_cast<std::size_t>(begin + bytes + kAround - first);
  const std::size_t where =
      first_difference({got.base() + first, size}, {want.base() + first, size});
  if (where == size) return {};
  return say(who, ": wrong at byte ", first + static_cast<std::int64_t>(where), " of a far cache");
}

}  // namespace

Finding check_far_reshape_and_cache(std::uint64_t seed, int,
                                    const kernels::Implementation<ReshapeAndCacheParams>& row,
                                    MovementTally& tally) {
  Random random(seed);
  ReshapeAndCacheParams p;
  p.num_heads = 2;
  p.head_size = p.value_head_size = 16;
  const FarPlan plan = draw_far(random, p.num_heads, p.head_size);
  const std::int32_t size = plan.layout.block_size;
  p.cache_type = plan.cache_type;
  p.type = is_fp8(p.cache_type) ? ElementType::bf16 : p.cache_type;
  if (is_fp8(p.cache_type)) p.key_scale = p.value_scale = 0.37F;
  p.key_layout = p.value_layout = plan.layout;
  std::vector<SlotId> slots;
  for (const std::int64_t block : plan.blocks) {
    slots.push_back(block * size + random.between(0, size - 1));
  }
  p.num_rows = p.num_tokens = static_cast<std::int64_t>(slots.size());
  p.key_token_stride = p.value_token_stride = std::int64_t{p.num_heads} * p.head_size;
  const Arena key(random, p.num_rows * p.key_token_stride * bytes_of(p.type));
  const Arena value(random, p.num_rows * p.key_token_stride * bytes_of(p.type));
  const Arena slot_arena = arena_of(random, slots);
  p.key = key.at(0);
  p.value = value.at(0);
  p.slot_mapping = slot_arena.as<SlotId>();
  const FarMemory got[2], want[2];
  p.key_cache = got[0].base();
  p.value_cache = got[1].base();
  const std::string who = say("reshape_and_cache ", row.name);
  const Launched launched = launch_row(row, p, seed, who, tally);
  if (launched.finding || launched.refused) return launched.finding;
  p.key_cache = want[0].base();
  p.value_cache = want[1].base();
  if (reshape_and_cache_reference(p, {})) return say(who, ": the reference refuses");
  const std::int64_t bytes = bytes_of(p.cache_type);
  for (const SlotId slot : slots) {
    for (std::int32_t head = 0; head < p.num_heads; ++head) {
      for (int side = 0; side < 2; ++side) {
        if (Finding f =
                compare_far(who, got[side], want[side], plan.layout.row_of_slot(slot, head) * bytes,
                            p.head_size * bytes)) {
          return f;
        }
      }
    }
  }
  return {};
}

Finding check_far_gather_cache(std::uint64_t seed, int,
                               const kernels::Implementation<GatherCacheParams>& row,
                               MovementTally& tally) {
  Random random(seed);
  GatherCacheParams p;
  p.num_heads = 2;
  p.head_size = 16;
  const FarPlan plan = draw_far(random, p.num_heads, p.head_size);
  p.layout = plan.layout;
  p.cache_type = p.type = plan.cache_type;
  const std::int64_t bytes = bytes_of(p.type);
  const FarMemory cache;
  std::vector<std::int32_t> table;
  for (const std::int64_t block : plan.blocks) {
    table.push_back(static_cast<std::int32_t>(block));
    const Arena content(random, p.layout.block_size * p.num_heads * p.head_size * bytes);
    std::memcpy(cache.base() + block * p.layout.block_stride * bytes, content.at(0),
                static_cast<std::size_t>(p.layout.block_size * p.num_heads * p.head_size * bytes));
  }
  p.num_seqs = 1;
  p.num_tokens = static_cast<std::int64_t>(table.size()) * p.layout.block_size;
  p.table_stride = static_cast<std::int64_t>(table.size());
  const Arena tables = arena_of(random, table);
  const Arena starts = arena_of(random, std::vector<std::int64_t>{0, p.num_tokens});
  const Arena out(random, p.num_tokens * p.num_heads * p.head_size * bytes);
  p.cache = cache.base();
  p.block_tables = tables.as<std::int32_t>();
  p.starts = starts.as<std::int64_t>();
  p.out = out.at(0);
  const std::string who = say("gather_cache ", row.name);
  const Launched launched = launch_row(row, p, seed, who, tally);
  if (launched.finding || launched.refused) return launched.finding;
  const std::vector<std::byte> got = out.memory().copy();
  if (gather_cache_reference(p, {})) return say(who, ": the reference refuses");
  const std::size_t where = first_difference(got, out.memory().bytes());
  if (where == got.size()) return {};
  return say(who, ": wrong at byte ", where, " of what was read from a far cache, block stride ",
             p.layout.block_stride, " x ", bytes, " bytes");
}

Finding check_far_copy_blocks(std::uint64_t seed, int,
                              const kernels::Implementation<CopyBlocksParams>& row,
                              MovementTally& tally) {
  Random random(seed);
  const FarMemory memory;
  CopyBlocksParams p;
  p.block_bytes = 256;
  p.block_stride = random.of<std::int64_t>({256, 512, 65'536});
  p.num_pairs = 1;
  p.num_caches = 1;
  p.alignment = 16;
  // The first address that is a multiple of 4 GiB and has a block of the cache before it.
  const auto lowest = reinterpret_cast<std::uintptr_t>(memory.base());
  const auto fours = static_cast<std::uintptr_t>(4 * kGiB);
  const auto below = lowest + static_cast<std::uintptr_t>(p.block_stride);
  const auto boundary = static_cast<std::int64_t>((below / fours + 1) * fours - lowest);
  const std::int64_t end = random.of({boundary, boundary, 2 * kGiB, 4 * kGiB}) / 256 * 256;
  const std::int64_t first = end == boundary ? boundary - p.block_stride : 0;
  const std::int64_t far = (end - first) / p.block_stride + random.between(0, 1);
  std::vector<std::int64_t> pair{0, far};
  if (random.one_in(2)) std::swap(pair[0], pair[1]);
  const Arena pairs = arena_of(random, pair);
  p.pairs = pairs.as<std::int64_t>();
  std::byte* const cache = memory.base() + first;
  const Memory list = memory_of(std::vector<void*>{cache});
  p.caches = list.as<void*>();
  const Arena content(random, p.block_bytes);
  const auto bytes = static_cast<std::size_t>(p.block_bytes);
  std::memcpy(cache + pair[0] * p.block_stride, content.at(0), bytes);
  const std::string who = say("copy_blocks ", row.name);
  const Launched launched = launch_row(row, p, seed, who, tally);
  if (launched.finding || launched.refused) return launched.finding;
  if (std::memcmp(cache + pair[1] * p.block_stride, content.at(0), bytes) == 0) return {};
  return say(who, ": wrong ", far * p.block_stride, " bytes from a cache's start");
}

Finding check_far_swap_blocks(std::uint64_t seed, int,
                              const kernels::Implementation<SwapBlocksParams>& row,
                              MovementTally& tally) {
  Random random(seed);
  const FarMemory from, to;
  SwapBlocksParams p;
  p.block_bytes = random.of<std::int64_t>({4096, 65'536 + 48});
  p.from_blocks = p.to_blocks = kFarthest / p.block_bytes;
  const auto near_end = [&] {
    const std::int64_t block = random.of({2 * kGiB, 4 * kGiB}) / p.block_bytes;
    return random.one_in(3) ? random.of<std::int64_t>({32'768, 65'536}) : block;
  };
  const std::int64_t pairs[] = {near_end(), near_end()};
  p.pairs = pairs;
  p.num_pairs = 1;
  p.from = from.base();
  p.to = to.base();
  const Arena content(random, p.block_bytes);
  const auto bytes = static_cast<std::size_t>(p.block_bytes);
  std::memcpy(from.base() + pairs[0] * p.block_bytes, content.at(0), bytes);
  const std::string who = say("swap_blocks ", row.name);
  const Launched launched = launch_row(row, p, seed, who, tally);
  if (launched.finding || launched.refused) return launched.finding;
  if (std::memcmp(to.base() + pairs[1] * p.block_bytes, content.at(0), bytes) == 0) return {};
  return say(who, ": wrong from block ", pairs[0], " to block ", pairs[1]);
}

}  // namespace kvproof::properties
