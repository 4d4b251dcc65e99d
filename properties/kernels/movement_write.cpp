// SPDX-License-Identifier: Apache-2.0
// reshape_and_cache: random batches into random caches.
#include <limits>

#include "properties/kernels/movement_checks.h"

namespace kvproof::properties {
namespace {

using kernels::ElementType;
using kernels::ReshapeAndCacheParams;

struct WriteCase {
  ReshapeAndCacheParams params;
  DrawnCaches caches;
  Arena key_rows, value_rows, slots;
};

void draw_types(Random& random, ReshapeAndCacheParams& p) {
  p.type = random.of({ElementType::fp32, ElementType::fp16, ElementType::bf16});
  p.cache_type =
      random.one_in(2) ? p.type : random.of({ElementType::fp8_e4m3, ElementType::fp8_e5m2});
  if (!is_fp8(p.cache_type)) return;
  p.key_scale = random.of({0.37F, 1.0F, 0.125F, 3.3F});
  p.value_scale = random.of({2.9F, 0.01F, 17.0F});
}

/// The slots of a batch: distinct, and some of them padding. Beyond num_tokens stand slots that the
/// last step left there.
std::vector<SlotId> draw_slots(Random& random, const DrawnSizes& sizes, int size,
                               ReshapeAndCacheParams& p) {
  const std::int64_t all = std::int64_t{sizes.num_blocks} * sizes.block_size;
  const std::int64_t most = std::min<std::int64_t>(all, 1 + size / 5);
  std::vector<SlotId> slots = draw_distinct(random, random.between(0, static_cast<int>(most)), all);
  if (random.one_in(3) && !slots.empty() &&
      std::find(slots.begin(), slots.end(), all - 1) == slots.end()) {
    slots[0] = all - 1;
  }
  p.num_rows = static_cast<std::int64_t>(slots.size());
  p.num_tokens = random.one_in(2) ? p.num_rows : random.between(0, static_cast<int>(p.num_rows));
  constexpr SlotId least = std::numeric_limits<SlotId>::min();
  const std::int32_t pads = random.one_in(2) ? 0 : random.between(1, 4);
  for (std::int32_t i = 0; i < pads; ++i) {
    const auto where =
        random.one_in(2) ? p.num_tokens : random.between(0, static_cast<int>(p.num_tokens));
    slots.insert(slots.begin() + where, random.of<SlotId>({kPadSlotId, kPadSlotId, -3, least}));
    ++p.num_tokens;
    ++p.num_rows;
  }
  return slots;
}

WriteCase draw_write(Random& random, int size) {
  WriteCase out;
  ReshapeAndCacheParams& p = out.params;
  draw_types(random, p);
  const DrawnSizes sizes = draw_sizes(random, size);
  p.num_heads = sizes.num_heads;
  p.head_size = p.value_head_size = sizes.head_size;
  if (random.one_in(4)) p.value_head_size = random.of<std::int32_t>({16, 64, 128, 5});
  const bool tidy = random.one_in(2);
  out.caches = draw_caches(random,
                           {sizes.num_blocks, sizes.block_size, p.num_heads, p.head_size,
                            p.value_head_size, bytes_of(p.cache_type)},
                           tidy);
  p.key_cache = out.caches.key;
  p.value_cache = out.caches.value;
  p.key_layout = out.caches.key_layout;
  p.value_layout = out.caches.value_layout;
  const std::vector<SlotId> slots = draw_slots(random, sizes, size, p);
  out.slots = arena_of(random, slots);
  p.slot_mapping = out.slots.as<SlotId>();
  const auto rows = [&](Arena& arena, std::int32_t head_size, std::int64_t& stride, float scale) {
    stride = std::int64_t{p.num_heads} * head_size + random.of<std::int64_t>({0, 0, 16, 5});
    if (tidy) stride = ceil_div(stride, std::int64_t{16}) * 16;
    const std::int64_t count =
        p.num_rows == 0 ? 0 : (p.num_rows - 1) * stride + std::int64_t{p.num_heads} * head_size;
    const std::int64_t bytes = bytes_of(p.type);
    arena = Arena(random, count * bytes, draw_offset(random, bytes_of(p.type), tidy));
    if (p.cache_type != p.type) draw_values(random, arena.at(0), count, p.type, scale);
  };
  rows(out.key_rows, p.head_size, p.key_token_stride, p.key_scale);
  rows(out.value_rows, p.value_head_size, p.value_token_stride, p.value_scale);
  p.key = out.key_rows.at(0);
  p.value = out.value_rows.at(0);
  return out;
}

std::string text_of(const ReshapeAndCacheParams& p) {
  return say(p.num_tokens, " tokens of ", p.num_rows, " rows, ", p.num_heads, " heads of ",
             p.head_size, " and ", p.value_head_size, ", ", name_of(p.type), " to ",
             name_of(p.cache_type), ", block size ", p.key_layout.block_size, ", strides ",
             p.key_layout.block_stride, " ", p.key_layout.token_stride, " ",
             p.key_layout.head_stride);
}

}  // namespace

Finding check_reshape_and_cache(std::uint64_t seed, int size,
                                const kernels::Implementation<ReshapeAndCacheParams>& row,
                                MovementTally& tally) {
  Random random(seed);
  const WriteCase c = draw_write(random, size);
  const std::string who = say("reshape_and_cache ", row.name);
  const Memory* memories[] = {&c.caches.key_arena.memory(), &c.caches.value_arena.memory()};
  const std::vector<std::byte> before[] = {memories[0]->copy(), memories[1]->copy()};
  const Launched launched = launch_row(row, c.params, seed, who, tally);
  if (launched.finding) return say(*launched.finding, " (", text_of(c.params), ")");
  const std::vector<std::byte> after[] = {memories[0]->copy(), memories[1]->copy()};
  for (int i = 0; i < 2; ++i) memories[i]->set(before[i]);
  if (!launched.refused) {
    if (reshape_and_cache_reference(c.params, {})) return say(who, ": the reference refuses");
  }
  for (int i = 0; i < 2; ++i) {
    const std::size_t where = first_difference(after[i], memories[i]->bytes());
    if (where == after[i].size()) continue;
    return say(who, launched.refused ? ": refused, and changed " : ": wrong in ",
               i == 0 ? "the K cache" : "the V cache", " at byte ", where, " (", text_of(c.params),
               ")");
  }
  return {};
}

}  // namespace kvproof::properties
