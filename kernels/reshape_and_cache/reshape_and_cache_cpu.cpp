// SPDX-License-Identifier: Apache-2.0
// Row by row, or token by token where the cache holds a token's heads side by side.
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

void write_row(const ReshapeAndCacheParams& p, const CacheSide& side, std::int64_t from,
               std::int64_t to, std::int64_t count) {
  if (p.cache_type == p.type) {
    const std::int64_t bytes = bytes_of(p.type);
    std::memcpy(static_cast<char*>(side.cache) + to * bytes,
                static_cast<const char*>(side.rows) + from * bytes,
                static_cast<std::size_t>(count * bytes));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(side.cache, to + i, p.cache_type,
                  load_element(side.rows, from + i, p.type) / side.scale);
  }
}

void write_token(const ReshapeAndCacheParams& p, const CacheSide& side, std::int64_t token) {
  const SlotId slot = p.slot_mapping[token];
  const std::int64_t from = token * side.token_stride;
  if (side.layout.head_stride == side.head_size) {
    return write_row(p, side, from, side.layout.row_of_slot(slot, 0),
                     std::int64_t{p.num_heads} * side.head_size);
  }
  for (std::int32_t head = 0; head < p.num_heads; ++head) {
    write_row(p, side, from + std::int64_t{head} * side.head_size,
              side.layout.row_of_slot(slot, head), side.head_size);
  }
}

}  // namespace

Refusal reshape_and_cache_cpu(const ReshapeAndCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for_each_share(context.num_threads, p.num_tokens, [&p](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      if (p.slot_mapping[token] < 0) continue;
      write_token(p, key_side(p), token);
      write_token(p, value_side(p), token);
    }
  });
  return {};
}

}  // namespace kvproof::kernels
