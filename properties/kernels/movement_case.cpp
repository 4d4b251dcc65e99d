// SPDX-License-Identifier: Apache-2.0
#include "properties/kernels/movement_case.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace kvproof::properties {
namespace {

/// The three strides of one cache, and how many elements a block takes.
struct Strides {
  CacheLayout layout;
  std::int64_t extent = 0;
};

/// @param row elements from a row to the next @param gap between tokens (NHD) or heads (HND)
Strides strides_of(const CacheShape& shape, LayoutOrder order, std::int64_t row, std::int64_t gap) {
  Strides out;
  out.layout.block_size = shape.block_size;
  if (order == LayoutOrder::nhd) {
    out.layout.head_stride = row;
    out.layout.token_stride = shape.num_heads * row + gap;
    out.extent = shape.block_size * out.layout.token_stride;
  } else {
    out.layout.token_stride = row;
    out.layout.head_stride = shape.block_size * row + gap;
    out.extent = shape.num_heads * out.layout.head_stride;
  }
  out.layout.block_stride = out.extent;
  return out;
}

/// Elements from the first to one past the last that belongs to a row.
std::int64_t span_of(const CacheShape& shape, const CacheLayout& layout, std::int32_t row) {
  return layout.row(shape.num_blocks - 1, shape.block_size - 1, shape.num_heads - 1) + row;
}

/// A gap of elements: none, one that keeps 16 bytes together, or one that does not.
std::int64_t draw_gap(Random& random, std::int32_t element_bytes, bool tidy) {
  if (tidy && !random.one_in(8)) return random.one_in(2) ? 0 : 16 / element_bytes;
  switch (random.between(0, 5)) {
    case 0: return random.between(1, 7);
    case 1: return 16 / element_bytes * random.between(1, 3);
    default: return 0;
  }
}

}  // namespace

std::int64_t draw_offset(Random& random, std::int32_t element_bytes, bool tidy) {
  if (tidy && !random.one_in(8)) return random.of<std::int64_t>({0, 16});
  return random.of<std::int64_t>({0, 2, 4, 8}) / element_bytes * element_bytes;
}

DrawnCaches draw_caches(Random& random, const CacheShape& shape, bool tidy) {
  const std::int32_t bytes = shape.element_bytes;
  const auto order = random.one_in(2) ? LayoutOrder::nhd : LayoutOrder::hnd;
  const std::int64_t gap = draw_gap(random, bytes, tidy);
  std::int64_t row_gap = draw_gap(random, bytes, tidy);
  if (tidy && shape.key_size * bytes % 16 != 0 && !random.one_in(8)) {
    row_gap += (16 - shape.key_size * bytes % 16) / bytes;
  }
  const std::int64_t block_gap = draw_gap(random, bytes, tidy);
  const std::int32_t way = random.between(0, 3);  // apart, by row, by block, by layer
  const std::int64_t both = std::int64_t{shape.key_size} + shape.value_size;
  Strides key = strides_of(shape, order, (way == 1 ? both : shape.key_size) + row_gap, gap);
  Strides value = strides_of(shape, order, (way == 1 ? both : shape.value_size) + row_gap, gap);
  DrawnCaches out;
  if (way == 0) {
    // Two caches share the memory, and every other block belongs to the other one: cache[:, 0].
    const std::int64_t times = random.one_in(4) ? 2 : 1;
    for (Strides* side : {&key, &value}) {
      side->layout.block_stride = times * side->extent + block_gap;
    }
    const std::int64_t offset = draw_offset(random, bytes, tidy);
    out.key_arena = Arena(random, span_of(shape, key.layout, shape.key_size) * bytes, offset);
    out.value_arena = Arena(random, span_of(shape, value.layout, shape.value_size) * bytes,
                            random.one_in(2) ? offset : draw_offset(random, bytes, tidy));
    out.key = out.key_arena.at(0);
    out.value = out.value_arena.at(0);
  } else {
    const std::int32_t layers = way == 3 ? random.between(2, 4) : 1;
    const std::int64_t record = way == 1 ? key.extent : key.extent + value.extent;
    const std::int64_t stride = layers * record + block_gap;
    key.layout.block_stride = value.layout.block_stride = stride;
    out.key_arena =
        Arena(random, shape.num_blocks * stride * bytes, draw_offset(random, bytes, tidy));
    const std::int64_t layer = random.between(0, layers - 1) * record;
    out.key = out.key_arena.at(layer * bytes);
    out.value = out.key_arena.at((layer + (way == 1 ? shape.key_size : key.extent)) * bytes);
  }
  out.key_layout = key.layout;
  out.value_layout = value.layout;
  return out;
}

DrawnSizes draw_sizes(Random& random, int size) {
  DrawnSizes out{};
  out.head_size =
      random.of<std::int32_t>({1, 3, 8, 16, 46, 64, 64, 80, 96, 128, 128, 192, 256, 32, 20, 112});
  out.num_heads = random.one_in(3) ? 2 : random.between(1, std::clamp(size / 10, 1, 9));
  out.block_size = random.one_in(2) ? random.of<std::int32_t>({1, 2, 4, 8, 16, 32, 64, 128, 256})
                                    : random.between(1, 256);
  const std::int32_t budget = 48 * std::max(size, 8) * 8;  // [elements] of a cache
  while (out.block_size > 1 && out.num_heads * out.head_size * out.block_size > budget) {
    out.block_size /= 2;
  }
  const std::int32_t most = budget / (out.num_heads * out.head_size * out.block_size);
  out.num_blocks = random.between(1, std::clamp(most, 1, 40));
  return out;
}

void draw_values(Random& random, void* to, std::int64_t count, kernels::ElementType type,
                 float scale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t i = 0; i < count; ++i) {
    float value = random.unit() * 300.0F * scale;
    switch (random.between(0, 15)) {
      case 0: value = random.of({kNan, -kNan, kInfinity, -kInfinity}); break;
      case 1: value = random.unit() * 1e9F * scale; break;
      case 2: value = random.unit() * 0.02F * scale; break;  // subnormal in e4m3
      case 3: value = random.unit() * 1e-30F; break;
      case 4:  // half-way between neighbours
        value = std::ldexp(static_cast<float>(random.between(-31, 31)), random.between(-12, 12)) *
                scale;
        break;
      case 5: value = random.of({0.0F, -0.0F, 448.0F * scale, 464.0F * scale, 61440.0F * scale});
      default: break;
    }
    kernels::store_element(to, i, type, value);
  }
}

std::vector<std::int64_t> draw_distinct(Random& random, std::int64_t count, std::int64_t below) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(below));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < count; ++i) {
    const auto other =
        static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(below - i));
    std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i + other)]);
  }
  all.resize(static_cast<std::size_t>(count));
  return all;
}

}  // namespace kvproof::properties
