// SPDX-License-Identifier: Apache-2.0
// Sequence by sequence, element by element, the product in double.
#include <cstring>

#include "kernels/gather_cache/gather_cache.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

void gather_row(const GatherCacheParams& p, std::int64_t from, std::int64_t to) {
  const std::int64_t bytes = bytes_of(p.type);
  for (std::int32_t i = 0; i < p.head_size; ++i) {
    if (p.cache_type == p.type) {
      std::memcpy(static_cast<char*>(p.out) + (to + i) * bytes,
                  static_cast<const char*>(p.cache) + (from + i) * bytes,
                  static_cast<std::size_t>(bytes));
    } else {
      const double product =
          double{load_element(p.cache, from + i, p.cache_type)} * double{p.scale};
      store_element(p.out, to + i, p.type, static_cast<float>(product));
    }
  }
}

}  // namespace

Refusal gather_cache_reference(const GatherCacheParams& p, const Context&) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (p.num_tokens == 0) return {};
  for (std::int32_t seq = 0; seq < p.num_seqs; ++seq) {
    const std::int64_t first = p.first_positions == nullptr ? 0 : p.first_positions[seq];
    for (std::int64_t row = p.starts[seq]; row < p.starts[seq + 1]; ++row) {
      const std::int64_t position = first + row - p.starts[seq];
      const std::int64_t block =
          p.block_tables[seq * p.table_stride + position / p.layout.block_size];
      if (block < 0) {
        const std::int64_t bytes = std::int64_t{p.num_heads} * p.head_size * bytes_of(p.type);
        std::memset(static_cast<char*>(p.out) + row * bytes, 0, static_cast<std::size_t>(bytes));
        continue;
      }
      for (std::int32_t head = 0; head < p.num_heads; ++head) {
        gather_row(
            p, p.layout.row(block, static_cast<std::int32_t>(position % p.layout.block_size), head),
            (row * p.num_heads + head) * p.head_size);
      }
    }
  }
  return {};
}

}  // namespace kvproof::kernels
