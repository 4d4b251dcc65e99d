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

/// Rounds bf16 to e4m3, many elements at a time.
struct Quantising {
  QuantiseVectors way;
  Quantiser by;
};

/// Rows that follow one another among the new ones, and lie a head apart in the cache.
struct RowsOfToken {
  std::int64_t from, to;     // [elements]
  std::int64_t count, rows;  // [elements] of a row; how many rows
};

template <class How>
void write_rows(const How& how, const ReshapeAndCacheParams& p, const CacheSide& side,
                const RowsOfToken& of) {
  for (std::int64_t row = 0; row < of.rows; ++row) {
    how.move(p, side, of.from + row * of.count, of.to + row * side.layout.head_stride, of.count);
  }
}
void write_rows(const Quantising& how, const ReshapeAndCacheParams&, const CacheSide& side,
                const RowsOfToken& of) {
  quantise(how.way,
           {static_cast<const Bf16*>(side.rows) + of.from,
            static_cast<Fp8E4M3*>(side.cache) + of.to, of.count, of.rows, side.layout.head_stride},
           how.by);
}

template <class How>
void write_token(const ReshapeAndCacheParams& p, const CacheSide& side, const How& how,
                 std::int64_t token) {
  const bool together = side.layout.head_stride == side.head_size;
  const std::int64_t rows = together ? 1 : p.num_heads;
  write_rows(how, p, side,
             {token * side.token_stride, side.layout.row_of_slot(p.slot_mapping[token], 0),
              p.num_heads / rows * side.head_size, rows});
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

namespace {

/// @param missing which instructions, if `way` lacks some
Refusal write_quantised(const ReshapeAndCacheParams& p, const Context& context, QuantiseVectors way,
                        const char* missing) {
  if (const Refusal refusal = refuse(p)) return refusal;
  if (way == nullptr) return {missing};
  if (p.type != ElementType::bf16 || p.cache_type != ElementType::fp8_e4m3) {
    return {"cache_type: only bf16 is rounded, and only to e4m3"};
  }
  write_all(p, context, Quantising{way, quantiser_for(p.key_scale)},
            Quantising{way, quantiser_for(p.value_scale)});
  return {};
}

}  // namespace

Refusal reshape_and_cache_avx2(const ReshapeAndCacheParams& p, const Context& context) {
  return write_quantised(p, context, quantise_avx2(), "this processor has no AVX2");
}

Refusal reshape_and_cache_vbmi(const ReshapeAndCacheParams& p, const Context& context) {
  return write_quantised(p, context, quantise_avx512_vbmi(),
                         "this processor has no AVX-512 F, BW and VBMI");
}

}  // namespace kvproof::kernels
