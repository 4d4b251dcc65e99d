// SPDX-License-Identifier: Apache-2.0
// gather_cache: random tables over random caches.
#include <cmath>
#include <limits>

#include "properties/kernels/movement_checks.h"

namespace kvproof::properties {
namespace {

using kernels::ElementType;
using kernels::GatherCacheParams;

struct GatherCase {
  GatherCacheParams params;
  DrawnCaches caches;
  Arena tables, first_positions, starts, out;
};

constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();

/// A table entry that a token needs: a block, or what is left of one that was given back.
std::int32_t used_entry(Random& random, std::int32_t num_blocks) {
  return random.one_in(8) ? random.of({-1, -1, kLeast}) : random.between(0, num_blocks - 1);
}

/// One that no token needs: anything.
std::int32_t unused_entry(Random& random, std::int32_t num_blocks) {
  return random.of({-1, kLeast, num_blocks + 1'000'000'000, random.between(0, num_blocks - 1)});
}

/// Ragged ranges of sequences, empty ones among them, and a table that shares and repeats blocks.
void draw_batch(Random& random, int size, const DrawnSizes& sizes, GatherCase& out) {
  GatherCacheParams& p = out.params;
  p.num_seqs = random.between(1, 1 + size / 20);
  const bool from_zero = random.one_in(3);
  std::vector<std::int32_t> firsts;
  std::vector<std::int64_t> starts{0};
  std::int64_t width = random.between(0, 3);
  for (std::int32_t seq = 0; seq < p.num_seqs; ++seq) {
    const std::int32_t length = random.one_in(3) ? 0 : random.between(1, 1 + size / 3);
    const std::int32_t first = from_zero ? 0 : random.between(0, 3 * sizes.block_size);
    firsts.push_back(first);
    starts.push_back(starts.back() + length);
    width = std::max(width, std::int64_t{ceil_div(first + length, sizes.block_size)});
  }
  p.num_tokens = starts.back();
  p.table_stride = width + (random.one_in(2) ? 0 : random.between(1, 4));
  std::vector<std::int32_t> tables;
  std::size_t needed = 0;  // entries up to the last one that a token needs
  for (std::int32_t seq = 0; seq < p.num_seqs; ++seq) {
    const auto s = static_cast<std::size_t>(seq);
    const std::int64_t begin = firsts[s] / sizes.block_size;
    const std::int64_t end =
        ceil_div(firsts[s] + starts[s + 1] - starts[s], std::int64_t{sizes.block_size});
    for (std::int64_t column = 0; column < p.table_stride; ++column) {
      const bool used = column >= begin && column < end && starts[s + 1] > starts[s];
      tables.push_back(used ? used_entry(random, sizes.num_blocks)
                            : unused_entry(random, sizes.num_blocks));
      if (used) needed = tables.size();
    }
  }
  if (random.one_in(2)) tables.resize(needed);
  out.tables = arena_of(random, tables);
  out.first_positions = arena_of(random, firsts);
  out.starts = arena_of(random, starts);
  p.block_tables = out.tables.as<std::int32_t>();
  p.first_positions = from_zero ? nullptr : out.first_positions.as<std::int32_t>();
  p.starts = out.starts.as<std::int64_t>();
}

GatherCase draw_gather(Random& random, int size) {
  GatherCase out;
  GatherCacheParams& p = out.params;
  p.cache_type = random.of({ElementType::fp32, ElementType::fp16, ElementType::bf16,
                            ElementType::fp8_e4m3, ElementType::fp8_e5m2});
  p.type = p.cache_type;
  if (is_fp8(p.cache_type) && !random.one_in(4)) {
    p.type = random.of({ElementType::fp32, ElementType::fp16, ElementType::bf16});
    p.scale = random.of({0.37F, 2.9F, 0.01F, 3000.0F});
  }
  const DrawnSizes sizes = draw_sizes(random, size);
  p.num_heads = sizes.num_heads;
  p.head_size = sizes.head_size;
  const bool tidy = random.one_in(2);
  out.caches = draw_caches(random,
                           {sizes.num_blocks, sizes.block_size, p.num_heads, p.head_size,
                            p.head_size, bytes_of(p.cache_type)},
                           tidy);
  const bool value = random.one_in(2);
  p.cache = value ? out.caches.value : out.caches.key;
  p.layout = value ? out.caches.value_layout : out.caches.key_layout;
  draw_batch(random, size, sizes, out);
  const std::int64_t bytes = bytes_of(p.type);
  out.out = Arena(random, p.num_tokens * p.num_heads * p.head_size * bytes,
                  draw_offset(random, bytes_of(p.type), tidy));
  p.out = out.out.at(0);
  return out;
}

/// Makes all NaNs of a dequantised fp32 output equal, because arithmetic does not fix their bits.
void unify_nans(const GatherCase& c) {
  if (c.params.type != ElementType::fp32 || c.params.type == c.params.cache_type) return;
  const std::int64_t count = c.params.num_tokens * c.params.num_heads * c.params.head_size;
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::isnan(c.out.as<float>()[i])) c.out.as<float>()[i] = NAN;
  }
}

std::string text_of(const GatherCacheParams& p) {
  return say(p.num_tokens, " tokens of ", p.num_seqs, " sequences, ", p.num_heads, " heads of ",
             p.head_size, ", ", name_of(p.cache_type), " to ", name_of(p.type), ", block size ",
             p.layout.block_size, ", strides ", p.layout.block_stride, " ", p.layout.token_stride,
             " ", p.layout.head_stride);
}

}  // namespace

Finding check_gather_cache(std::uint64_t seed, int size,
                           const kernels::Implementation<GatherCacheParams>& row,
                           MovementTally& tally) {
  Random random(seed);
  const GatherCase c = draw_gather(random, size);
  const std::string who = say("gather_cache ", row.name);
  const std::vector<std::byte> before = c.out.memory().copy();
  const std::vector<std::byte> cache_before[] = {c.caches.key_arena.memory().copy(),
                                                 c.caches.value_arena.memory().copy()};
  const Launched launched = launch_row(row, c.params, seed, who, tally);
  if (launched.finding) return say(*launched.finding, " (", text_of(c.params), ")");
  if (!launched.refused) unify_nans(c);
  const std::vector<std::byte> after = c.out.memory().copy();
  c.out.memory().set(before);
  if (!launched.refused) {
    if (gather_cache_reference(c.params, {})) return say(who, ": the reference refuses");
    unify_nans(c);
  }
  const std::size_t where = first_difference(after, c.out.memory().bytes());
  if (where != after.size()) {
    return say(who, launched.refused ? ": refused, and changed" : ": wrong in", " the output at ",
               "byte ", where, " (", text_of(c.params), ")");
  }
  if (first_difference(cache_before[0], c.caches.key_arena.memory().bytes()) !=
          cache_before[0].size() ||
      first_difference(cache_before[1], c.caches.value_arena.memory().bytes()) !=
          cache_before[1].size()) {
    return say(who, ": changed the cache that it reads (", text_of(c.params), ")");
  }
  return {};
}

}  // namespace kvproof::properties
