// SPDX-License-Identifier: Apache-2.0
// Row by row, or token by token if the cache holds the heads of a token side by side.
#include <cstring>

#include "kernels/parallel.h"
#include "kernels/reshape_and_cache/quantise.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"
#include "kernels/stream_bytes.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace {

/// Copies elements, or rounds them to fp8.
struct Plainly {
  static void move(const ReshapeAndCacheParams& p, const CacheSide& side, std::int64_t from,
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
};

/// Copies with stores that bypass the processor's caches.
struct Streaming {
  static void move(const ReshapeAndCacheParams& p, const CacheSide& side, std::int64_t from,
                   std::int64_t to, std::int64_t count) {
    const std::int64_t bytes = bytes_of(p.type);
    stream_bytes(static_cast<char*>(side.cache) + to * bytes,
                 static_cast<const char*>(side.rows) + from * bytes, count * bytes, nullptr);
  }
};

/// Rounds bf16 to e4m3, 16 elements at a time.
struct Quantising {
  Quantiser by;
  void move(const ReshapeAndCacheParams&, const CacheSide& side, std::int64_t from, std::int64_t to,
            std::int64_t count) const {
    quantise(static_cast<const Bf16*>(side.rows) + from, static_cast<Fp8E4M3*>(side.cache) + to,
             count, by);
  }
};

template <class How>
void write_token(const ReshapeAndCacheParams& p, const CacheSide& side, const How& how,
                 std::int64_t token) {
  const SlotId slot = p.slot_mapping[token];
  const std::int64_t from = token * side.token_stride;
  if (side.layout.head_stride == side.head_size) {
    return how.move(p, side, from, side.layout.row_of_slot(slot, 0),
                    std::int64_t{p.num_heads} * side.head_size);
  }
  for (std::int32_t head = 0; head < p.num_heads; ++head) {
    how.move(p, side, from + std::int64_t{head} * side.head_size,
             side.layout.row_of_slot(slot, head), side.head_size);
  }
}

template <class How>
void write_all(const ReshapeAndCacheParams& p, const Context& context, const How& of_key,
               const How& of_value) {
  for_each_share(context.num_threads, p.num_tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      if (p.slot_mapping[token] < 0) continue;
      write_token(p, key_side(p), of_key, token);
      write_token(p, value_side(p), of_value, token);
    }
    end_stream();
  });
}

}  // namespace

Refusal reshape_and_cache_cpu(const ReshapeAndCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  write_all(p, context, Plainly{}, Plainly{});
  return {};
}

Refusal reshape_and_cache_stream(const ReshapeAndCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (kNoStreaming) return kNoStreaming;
  if (p.cache_type != p.type) return {"cache_type: fp8 is written by other kernels"};
  write_all(p, context, Streaming{}, Streaming{});
  return {};
}

Refusal reshape_and_cache_avx2(const ReshapeAndCacheParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (!has_fast_quantise()) return {"this processor or this build has no AVX2 and F16C"};
  if (p.type != ElementType::bf16 || p.cache_type != ElementType::fp8_e4m3) {
    return {"cache_type: only bf16 is rounded, and only to e4m3"};
  }
  const std::int64_t heads = p.num_tokens * p.num_heads;
  write_all(p, context, Quantising{quantiser_for(p.key_scale, heads * p.head_size)},
            Quantising{quantiser_for(p.value_scale, heads * p.value_head_size)});
  return {};
}

}  // namespace kvproof::kernels
