// SPDX-License-Identifier: Apache-2.0
#include "properties/kernels/attention_case.h"

#include <algorithm>
#include <utility>

#include "kernels/typed.h"
#include "properties/kernels/armed_fault.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionShape;
using kernels::ElementType;

constexpr std::int64_t kFarStride = (std::int64_t{1} << 32) + 640;  // [elements]
constexpr std::int64_t kFarBlock = 65600;                           // [elements]
constexpr std::int64_t kFarLead = std::int64_t{1} << 31;  // [elements] before it: what a sign finds

std::size_t bytes_for(std::int64_t elements, ElementType type) {
  return static_cast<std::size_t>(elements * kernels::bytes_of(type));
}

CacheLayout layout_of(LayoutOrder order, std::int32_t block_size, std::int32_t num_heads,
                      std::int32_t pitch) {
  return CacheLayout::packed(order, block_size, num_heads, pitch);
}

float draw_value(const AttentionShape& s, Random& random) { return random.unit() / s.key_scale; }

/// The first K element and the first V element of every row, by block, token and head.
template <class F>
void for_each_row(const CacheMemory& cache, std::int32_t num_blocks, std::int32_t num_heads,
                  F&& f) {
  for (std::int32_t b = 0; b < num_blocks; ++b) {
    for (std::int32_t t = 0; t < cache.key_layout.block_size; ++t) {
      for (std::int32_t h = 0; h < num_heads; ++h) {
        f(cache.key_offset + cache.key_layout.row(b, t, h),
          cache.value_offset + cache.value_layout.row(b, t, h));
      }
    }
  }
}

std::int64_t end_of(const CacheMemory& cache, const AttentionShape& s, std::int32_t num_blocks) {
  const auto last = [&](const CacheLayout& layout, std::int64_t offset, std::int32_t size) {
    return offset + layout.row(num_blocks - 1, layout.block_size - 1, s.num_kv_heads - 1) + size;
  };
  return std::max(last(cache.key_layout, cache.key_offset, s.head_size),
                  last(cache.value_layout, cache.value_offset, s.value_head_size));
}

/// Memory that ends with the last row, filled, each element marked with what it is a cell of.
void fill(CacheMemory& cache, const AttentionShape& s, std::int32_t num_blocks, Random& random) {
  const std::int64_t elements = end_of(cache, s, num_blocks);
  cache.bytes = Memory(bytes_for(elements, s.cache_type));
  for (std::int64_t i = 0; i < elements; ++i) {
    store_element(cache.bytes.data(), i, s.cache_type, draw_value(s, random));
  }
  cache.cells.assign(static_cast<std::size_t>(elements), 0);
  for_each_row(cache, num_blocks, s.num_kv_heads, [&](std::int64_t key, std::int64_t value) {
    for (std::int32_t i = 0; i < s.head_size; ++i) {
      cache.cells[static_cast<std::size_t>(key + i)] |= CacheMemory::kKey;
    }
    for (std::int32_t i = 0; i < s.value_head_size; ++i) {
      cache.cells[static_cast<std::size_t>(value + i)] |= CacheMemory::kValue;
    }
  });
  for (std::uint8_t& cell : cache.cells) {
    if (cell == 0) cell = CacheMemory::kGap;
  }
}

}  // namespace

AttentionProblem::AttentionProblem(AttentionPlan plan) : plan_(std::move(plan)) {
  Random random(plan_.seed + 77);
  starts_of_ = {0};
  for (const std::int32_t n : plan_.query_lens) starts_of_.push_back(starts_of_.back() + n);
  starts_ = memory_of(starts_of_);
  lens_ = memory_of(plan_.seq_lens);
  make_paged(random);
  if (!sparse()) make_contiguous();
  paged_.content = sparse() ? std::vector<std::byte>{} : paged_.bytes.copy();
  dense_.content = dense_.bytes.copy();
  make_tables();
  make_queries(random);
  make_outputs();
}

std::int32_t AttentionProblem::sequence_of(std::int32_t token) const {
  std::int32_t seq = 0;
  while (starts_of_[static_cast<std::size_t>(seq) + 1] <= token) ++seq;
  return seq;
}

void AttentionProblem::make_paged(Random& random) {
  const AttentionShape& s = plan_.shape;
  const auto layout = [&](std::int32_t row) {
    return layout_of(plan_.order, plan_.block_size, s.num_kv_heads, row + plan_.row_gap);
  };
  CacheMemory& c = paged_;
  c.key_layout = layout(s.head_size);
  c.value_layout = layout(plan_.kind == AttentionKind::latent ? s.head_size : s.value_head_size);
  const std::int64_t key_span = c.key_layout.block_stride, value_span = c.value_layout.block_stride;
  const auto share = [&](std::int64_t first, std::int64_t stride) {
    c.key_layout.block_stride = c.value_layout.block_stride = stride;
    c.key_offset = first;
    c.value_offset = first + key_span;
  };
  if (plan_.kind == AttentionKind::latent) {
    c.value_offset = 0;
  } else if (sparse()) {
    share(kFarLead, kFarBlock);
    c.bytes = Memory::sparse(bytes_for(end_of(c, s, plan_.num_blocks), s.cache_type));
    for (const auto& table : plan_.tables) {
      for (const std::int32_t block : table) {
        for (std::int64_t i = 0; i < key_span + value_span; ++i) {
          store_element(c.bytes.data(), kFarLead + block * kFarBlock + i, s.cache_type,
                        draw_value(s, random));
        }
      }
    }
    return;
  } else if (plan_.view == CacheView::apart) {
    c.value_offset = plan_.num_blocks * key_span;
  } else if (plan_.view == CacheView::paired) {
    share(0, key_span + value_span);
  } else {
    share(key_span + value_span, 3 * (key_span + value_span));
  }
  c.key_offset += plan_.lead;
  c.value_offset += plan_.lead;
  fill(c, s, plan_.num_blocks, random);
}

void AttentionProblem::make_contiguous() {
  const AttentionShape& s = plan_.shape;
  const std::int32_t capacity = *std::ranges::max_element(plan_.seq_lens) + 1;
  CacheMemory& c = dense_;
  c.key_layout = layout_of(plan_.order, capacity, s.num_kv_heads, s.head_size);
  c.value_layout = layout_of(plan_.order, capacity, s.num_kv_heads, s.value_head_size);
  c.value_offset = plan_.num_seqs() * c.key_layout.block_stride;
  Random random(plan_.seed + 78);
  fill(c, s, plan_.num_seqs(), random);
  const auto copy = [&](std::int64_t to, std::int64_t from, std::int32_t elements) {
    std::memcpy(c.bytes.data() + bytes_for(to, s.cache_type),
                paged_.bytes.data() + bytes_for(from, s.cache_type),
                bytes_for(elements, s.cache_type));
  };
  for (std::int32_t seq = 0; seq < plan_.num_seqs(); ++seq) {
    const auto row = static_cast<std::size_t>(seq);
    for (std::int32_t t = 0; t < plan_.seq_lens[row]; ++t) {
      const std::int64_t block = plan_.tables[row][static_cast<std::size_t>(t / plan_.block_size)];
      const std::int32_t in_block = t % plan_.block_size;
      for (std::int32_t h = 0; h < s.num_kv_heads; ++h) {
        copy(c.key_offset + c.key_layout.row(seq, t, h),
             paged_.key_offset + paged_.key_layout.row(block, in_block, h), s.head_size);
        copy(c.value_offset + c.value_layout.row(seq, t, h),
             paged_.value_offset + paged_.value_layout.row(block, in_block, h), s.value_head_size);
      }
    }
  }
}

void AttentionProblem::make_tables() {
  std::size_t width = 0;
  for (const auto& table : plan_.tables) width = std::max(width, table.size());
  width += static_cast<std::size_t>(plan_.spare_entries);
  table_stride_ = static_cast<std::int64_t>(width);
  std::vector<std::int32_t> entries;
  for (std::size_t row = 0; row < plan_.tables.size(); ++row) {
    entries.resize(row * width, -1);
    entries.insert(entries.end(), plan_.tables[row].begin(), plan_.tables[row].end());
  }
  if (plan_.spare_entries > 0) entries.resize(plan_.tables.size() * width, 0x7FFFFFFF);
  tables_ = memory_of(entries);
}

void AttentionProblem::make_queries(Random& random) {
  const AttentionShape& s = plan_.shape;
  query_head_stride_ = s.head_size + plan_.query_gap;
  query_token_stride_ = sparse() ? kFarStride : s.num_heads * query_head_stride_ + plan_.query_gap;
  const std::int64_t tokens = num_query_tokens();
  const std::int64_t end =
      (tokens - 1) * query_token_stride_ + (s.num_heads - 1) * query_head_stride_ + s.head_size;
  const std::int64_t elements = tokens == 0 ? 0 : end;
  query_ =
      sparse() ? Memory::sparse(bytes_for(elements, s.type)) : Memory(bytes_for(elements, s.type));
  if (!sparse()) query_row_.assign(static_cast<std::size_t>(elements), 0);
  const float factor = random.one_in(4) ? 4.0F : 1.0F;  // a softmax with a few tokens in it
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int32_t h = 0; h < s.num_heads; ++h) {
      for (std::int32_t i = 0; i < s.head_size; ++i) {
        const std::int64_t at = token * query_token_stride_ + h * query_head_stride_ + i;
        store_element(query_.data(), at, s.type, factor * random.unit());
        if (!sparse()) query_row_[static_cast<std::size_t>(at)] = 1;
      }
    }
  }
  if (!sparse()) query_content_ = query_.copy();
}

void AttentionProblem::make_outputs() {
  const AttentionShape& s = plan_.shape;
  const std::int64_t tokens = num_query_tokens();
  const auto make = [&](OutputMemory& out, std::int32_t row, std::int32_t element_bytes) {
    const std::int64_t last =
        (tokens - 1) * out.token_stride + (s.num_heads - 1) * out.head_stride + row;
    const std::int64_t behind = kAddressesAreChecked ? 0 : out.token_stride + out.head_stride;
    std::int64_t elements = tokens == 0 ? 0 : last;
    if (!sparse()) elements += behind + (tokens == 0 ? 0 : plan_.output_gap);
    out.element_bytes = element_bytes;
    const auto bytes = static_cast<std::size_t>(elements * element_bytes);
    out.bytes = sparse() ? Memory::sparse(bytes) : Memory(bytes);
    if (sparse()) return;
    out.owner.assign(static_cast<std::size_t>(elements), -1);
    for (std::int32_t token = 0; token < tokens; ++token) {
      for (std::int64_t i = 0; i < std::int64_t{s.num_heads} * row; ++i) {
        const std::int64_t at = token * out.token_stride + i / row * out.head_stride + i % row;
        out.owner[static_cast<std::size_t>(at)] = token;
      }
    }
  };
  output_.head_stride = s.value_head_size + plan_.output_gap;
  output_.token_stride =
      sparse() ? kFarStride : s.num_heads * output_.head_stride + plan_.output_gap;
  make(output_, s.value_head_size, kernels::bytes_of(s.type));
  lse_.head_stride = plan_.lse_transposed ? tokens + plan_.output_gap : 1;
  lse_.token_stride = sparse() ? kFarStride : plan_.lse_transposed ? 1 : s.num_heads;
  make(lse_, 1, 4);
  if (plan_.num_splits == 1 && plan_.seed % 2 == 1) return;
  const auto parts = static_cast<std::size_t>(tokens * s.num_heads * plan_.num_splits);
  split_output_ = Memory(parts * static_cast<std::size_t>(s.value_head_size) * sizeof(float));
  split_lse_ = Memory(parts * sizeof(float));
  const std::int64_t counters = (tokens + plan_.num_seqs()) * s.num_heads;
  split_arrivals_ = memory_of(std::vector<std::uint32_t>(static_cast<std::size_t>(counters)));
}

bool AttentionProblem::arrivals_are_zero() const {
  return std::ranges::all_of(split_arrivals_.bytes(), [](std::byte b) { return b == std::byte{}; });
}

void AttentionProblem::wipe(std::uint8_t byte) {
  for (const Memory* memory : {&output_.bytes, &lse_.bytes, &split_output_, &split_lse_}) {
    std::ranges::fill(memory->bytes(), static_cast<std::byte>(byte));
  }
}

}  // namespace kvproof::properties
