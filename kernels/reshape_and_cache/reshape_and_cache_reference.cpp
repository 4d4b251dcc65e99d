// SPDX-License-Identifier: Apache-2.0
// Element by element, the quotient in double.
#include <cstring>

#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

void write_token(const ReshapeAndCacheParams& p, const CacheSide& side, std::int64_t token) {
  const std::int64_t bytes = bytes_of(p.type);
  for (std::int32_t head = 0; head < p.num_heads; ++head) {
    const std::int64_t from = token * side.token_stride + std::int64_t{head} * side.head_size;
    const std::int64_t to = side.layout.row_of_slot(p.slot_mapping[token], head);
    for (std::int32_t i = 0; i < side.head_size; ++i) {
      if (p.cache_type == p.type) {
        std::memcpy(static_cast<char*>(side.cache) + (to + i) * bytes,
                    static_cast<const char*>(side.rows) + (from + i) * bytes,
                    static_cast<std::size_t>(bytes));
      } else {
        const double quotient =
            double{load_element(side.rows, from + i, p.type)} / double{side.scale};
        store_element(side.cache, to + i, p.cache_type, static_cast<float>(quotient));
      }
    }
  }
}

}  // namespace

Refusal reshape_and_cache_reference(const ReshapeAndCacheParams& p, const Context&) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for (std::int64_t token = 0; token < p.num_tokens; ++token) {
    if (p.slot_mapping[token] < 0) continue;
    write_token(p, key_side(p), token);
    write_token(p, value_side(p), token);
  }
  return {};
}

}  // namespace kvproof::kernels
