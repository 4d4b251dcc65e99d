// SPDX-License-Identifier: Apache-2.0
// Row by row, or block by block if the cache holds the tokens of a block as the output does.
#include <algorithm>
#include <cstring>

#include "kernels/gather_cache/gather_cache.h"
#include "kernels/parallel.h"
#include "kernels/stream_bytes.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

/// Copies elements, or widens them. @param next elements from here to those that are read later
struct Plainly {
  static void move(const GatherCacheParams& p, std::int64_t from, std::int64_t to,
                   std::int64_t count, std::int64_t /*next*/) {
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
};

/// Copies with stores that bypass the processor's caches.
struct Streaming {
  static void move(const GatherCacheParams& p, std::int64_t from, std::int64_t to,
                   std::int64_t count, std::int64_t next) {
    const std::int64_t bytes = bytes_of(p.type);
    const char* in = static_cast<const char*>(p.cache) + from * bytes;
    stream_bytes(static_cast<char*>(p.out) + to * bytes, in, count * bytes, in + next * bytes);
  }
};

/// Moves `count` tokens of one block, from `token` on, to the rows from `row` on.
template <class How>
void gather_part(const GatherCacheParams& p, std::int64_t block, std::int64_t next_block,
                 std::int32_t token, std::int64_t row, std::int32_t count) {
  const CacheLayout& layout = p.layout;
  const std::int64_t next = (std::max<std::int64_t>(next_block, 0) - block) * layout.block_stride;
  const std::int64_t size = std::int64_t{p.num_heads} * p.head_size;  // [elements] of a token
  if (block < 0) {
    const std::int64_t bytes = size * bytes_of(p.type);
    std::memset(static_cast<char*>(p.out) + row * bytes, 0,
                static_cast<std::size_t>(count * bytes));
    return;
  }
  const bool heads_dense = layout.head_stride == p.head_size;
  if (heads_dense && layout.token_stride == size) {
    return How::move(p, layout.row(block, token, 0), row * size, count * size, next);
  }
  for (std::int32_t i = 0; i < count; ++i) {
    if (heads_dense) {
      How::move(p, layout.row(block, token + i, 0), (row + i) * size, size, next);
      continue;
    }
    for (std::int32_t head = 0; head < p.num_heads; ++head) {
      How::move(p, layout.row(block, token + i, head),
                (row + i) * size + std::int64_t{head} * p.head_size, p.head_size, next);
    }
  }
}

template <class How>
void gather_rows(const GatherCacheParams& p, std::int64_t row, std::int64_t end) {
  const std::int32_t size = p.layout.block_size;
  for (std::int32_t seq = sequence_of_row(p, row); row < end; ++seq) {
    const std::int64_t until = std::min(end, p.starts[seq + 1]);
    const std::int64_t first = p.first_positions == nullptr ? 0 : p.first_positions[seq];
    const std::int32_t* table = p.block_tables + seq * p.table_stride;
    while (row < until) {
      const std::int64_t position = first + row - p.starts[seq];
      const auto token = static_cast<std::int32_t>(position % size);
      const auto count =
          static_cast<std::int32_t>(std::min<std::int64_t>(size - token, until - row));
      const std::int64_t column = position / size;
      gather_part<How>(p, table[column], table[column + (row + count < until ? 1 : 0)], token, row,
                       count);
      row += count;
    }
  }
}

template <class How>
void gather_all(const GatherCacheParams& p, const Context& context) {
  for_each_share(context.num_threads, p.num_tokens, [&p](std::int64_t begin, std::int64_t end) {
    if (begin < end) gather_rows<How>(p, begin, end);
    end_stream();
  });
}

}  // namespace

Refusal gather_cache_cpu(const GatherCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  gather_all<Plainly>(p, context);
  return {};
}

Refusal gather_cache_stream(const GatherCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (kNoStreaming) return kNoStreaming;
  if (p.cache_type != p.type) return {"type: fp8 is widened by the general kernel"};
  gather_all<Streaming>(p, context);
  return {};
}

}  // namespace kvproof::kernels
