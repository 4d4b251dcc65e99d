// SPDX-License-Identifier: Apache-2.0
// Row by row, or block by block where the cache holds a block's tokens as the output does.
#include <algorithm>
#include <cstring>

#include "kernels/gather_cache/gather_cache.h"
#include "kernels/parallel.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

void gather_elements(const GatherCacheParams& p, std::int64_t from, std::int64_t to,
                     std::int64_t count) {
  if (p.cache_type == p.type) {
    const std::int64_t bytes = bytes_of(p.type);
    std::memcpy(static_cast<char*>(p.out) + to * bytes,
                static_cast<const char*>(p.cache) + from * bytes,
                static_cast<std::size_t>(count * bytes));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(p.out, to + i, p.type, load_element(p.cache, from + i, p.cache_type) * p.scale);
  }
}

/// Tokens of one block: `count` from `token` on, to rows `row` on.
void gather_part(const GatherCacheParams& p, std::int64_t block, std::int32_t token,
                 std::int64_t row, std::int32_t count) {
  const CacheLayout& layout = p.layout;
  const std::int64_t size = std::int64_t{p.num_heads} * p.head_size;  // [elements] of a token
  const bool heads_dense = layout.head_stride == p.head_size;
  if (heads_dense && layout.token_stride == size) {
    return gather_elements(p, layout.row(block, token, 0), row * size, count * size);
  }
  for (std::int32_t i = 0; i < count; ++i) {
    if (heads_dense) {
      gather_elements(p, layout.row(block, token + i, 0), (row + i) * size, size);
      continue;
    }
    for (std::int32_t head = 0; head < p.num_heads; ++head) {
      gather_elements(p, layout.row(block, token + i, head),
                      (row + i) * size + std::int64_t{head} * p.head_size, p.head_size);
    }
  }
}

void gather_rows(const GatherCacheParams& p, std::int64_t row, std::int64_t end) {
  const std::int32_t size = p.layout.block_size;
  for (std::int32_t seq = sequence_of_row(p, row); row < end; ++seq) {
    const std::int64_t until = std::min(end, p.starts[seq + 1]);
    const std::int64_t first = p.first_positions == nullptr ? 0 : p.first_positions[seq];
    while (row < until) {
      const std::int64_t position = first + row - p.starts[seq];
      const auto token = static_cast<std::int32_t>(position % size);
      const auto count =
          static_cast<std::int32_t>(std::min<std::int64_t>(size - token, until - row));
      gather_part(p, p.block_tables[seq * p.table_stride + position / size], token, row, count);
      row += count;
    }
  }
}

}  // namespace

Refusal gather_cache_cpu(const GatherCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for_each_share(context.num_threads, p.num_tokens, [&p](std::int64_t begin, std::int64_t end) {
    if (begin < end) gather_rows(p, begin, end);
  });
  return {};
}

}  // namespace kvproof::kernels
