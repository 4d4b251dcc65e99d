// SPDX-License-Identifier: Apache-2.0
// The fast CPU attention: a thread takes pieces, finds their tiles some distance ahead, fetches the
// rows into L2, and sees the tiles. Each instruction set has code of its own for that last step
// (attention_cpu_see.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/attention/attention_cpu_pieces.h"
#include "kernels/parallel.h"
#include "kernels/typed.h"

namespace kvproof::kernels {
namespace cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr float kLn2 = 0.69314718055994530942F;
alignas(64) constexpr char kZeros[kMostKeySize * sizeof(float)] = {};

// Whether the processor has the instructions and the system saves its registers. Every processor
// with AVX2 has F16C; not every compiler can ask for F16C itself.
#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512_bf16() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bf16");
}
bool has_avx512_vbmi() { return has_avx512_bf16() && __builtin_cpu_supports("avx512vbmi"); }
#else
bool has_avx2() { return false; }
bool has_avx512_bf16() { return false; }
bool has_avx512_vbmi() { return false; }
#endif

/// One thread and its data, all of which is on its stack.
class Worker {
 public:
  Worker(const Plan& plan, std::atomic<std::int64_t>& next)
      : plan_(plan), p_(*plan.params), next_(next) {
    const AttentionShape& s = p_.shape;
    work_.key_size = s.head_size;
    work_.value_size = s.value_head_size;
    work_.ahead = &ahead_;
    work_.scale = s.scale * s.key_scale * plan.kernel->unit;
    work_.soft_cap = s.soft_cap;
    const std::int32_t place_bytes = plan.kernel->bf16_query ? sizeof(Bf16) : sizeof(float);
    work_.query_stride = plan.key_places * place_bytes;
    work_.output_stride = plan.value_places;
  }

  void run() {
    std::int64_t located = 0;
    for (std::int64_t seen = 0;; ++seen) {
      while (located <= seen + plan_.tiles_ahead && locate(ring_[located % kRing])) ++located;
      if (seen == located) return;
      const std::int64_t ahead = std::min(seen + plan_.tiles_ahead, located - 1);
      see(ring_[seen % kRing], ring_[ahead % kRing], ahead > seen);
    }
  }

 private:
  static constexpr std::int64_t kRing = kMostAhead + 1;

  /// Locates the next tile of this thread's pieces. @return false if there is no further tile
  bool locate(LocatedTile& tile) {
    while (position_ == piece_.seen.end) {
      const std::int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= plan_.num_pieces) return false;
      piece_ = piece_of(plan_, index);
      position_ = piece_.seen.begin;
      if (position_ == piece_.seen.end) write_zeros(piece_);
    }
    tile.piece = piece_;
    tile.tokens = {position_, std::min(position_ + kTile, piece_.seen.end)};
    position_ = tile.tokens.end;
    locate_rows(plan_, tile);
    return true;
  }

  void see(const LocatedTile& tile, const LocatedTile& ahead, bool fetch) {
    const Piece& piece = tile.piece;
    if (tile.tokens.begin == piece.seen.begin) begin(piece);
    ahead_ = {ahead.lines, 0};
    lines_ahead_ = fetch ? ahead.num_lines : 0;
    rows_seen_ = lines_fetched_ = 0;
    for (std::int32_t head = 0; head < plan_.heads_per_piece; ++head) {
      const std::int64_t bytes = bytes_of(p_.shape.cache_type) * head;
      work_.key_offset = p_.kv.key_layout.head_stride * bytes;
      work_.value_offset = p_.kv.value_layout.head_stride * bytes;
      for (std::int32_t token = 0; token < piece.num_tokens; ++token) see_rows(tile, head, token);
    }
    if (tile.tokens.end == piece.seen.end) finish(piece);
  }

  /// The rows of one query token and KV head see the tokens that are visible to them.
  void see_rows(const LocatedTile& tile, std::int32_t head, std::int32_t token) {
    const Piece& piece = tile.piece;
    const TokenRange visible = visible_of(p_, piece.seq, piece.first_token + token);
    const std::int32_t begin = std::max(visible.begin, tile.tokens.begin);
    const std::int32_t end = std::min(visible.end, tile.tokens.end);
    const std::int32_t rows_before = rows_seen_;
    rows_seen_ += piece.num_rows;
    if (begin >= end) return;
    TileWork work = work_;
    work.num_tokens = end - begin;
    work.key_rows = tile.key;
    work.value_rows = tile.value;
    const char* rows[2][kTile];
    if (work.num_tokens < kTile) {  // the rows of tokens that are not seen are zeros
      for (std::int32_t t = 0; t < kTile; ++t) {
        const std::int32_t from = begin - tile.tokens.begin + t;
        const bool seen = t < work.num_tokens;
        rows[0][t] = seen ? tile.key[from] : kZeros - work.key_offset;
        rows[1][t] = seen ? tile.value[from] : kZeros - work.value_offset;
      }
      work.key_rows = rows[0];
      work.value_rows = rows[1];
    }
    std::int32_t row = (token * plan_.heads_per_piece + head) * piece.num_rows;
    for (std::int32_t left = piece.num_rows; left > 0;) {
      const int size = left >= 4 ? 2 : left >= 2 ? 1 : 0;
      work.query = query_ + row * work_.query_stride;
      work.output = output_ + row * work_.output_stride;
      work.state = state_ + row;
      row += 1 << size;
      left -= 1 << size;
      work.fetch_lines = lines_until(piece, rows_before + piece.num_rows - left);
      plan_.kernel->see[size](work);
    }
  }

  /// The lines of the tile ahead to fetch now: with so many rows of this tile, as large a part.
  std::int32_t lines_until(const Piece& piece, std::int32_t rows) {
    const std::int64_t all =
        std::int64_t{plan_.heads_per_piece} * piece.num_tokens * piece.num_rows;
    const auto until = static_cast<std::int32_t>(std::int64_t{lines_ahead_} * rows / all);
    return until - std::exchange(lines_fetched_, until);
  }

  void begin(const Piece& piece) {
    const std::uint8_t* order = plan_.kernel->key_order;
    const std::int32_t step = plan_.kernel->step;
    with_type(p_.shape.type, [&](auto type) {
      using T = decltype(type);
      piece.for_each_row(plan_, [&](std::int32_t index, std::int32_t token, std::int32_t head) {
        const T* from = static_cast<const T*>(p_.query) + token * p_.query_token_stride +
                        head * p_.query_head_stride;
        char* to = query_ + index * work_.query_stride;
        for (std::int32_t i = 0; i < plan_.key_places; ++i) {
          const std::int32_t in_step = i & (step - 1);
          const std::int32_t element = i - in_step + order[in_step];
          const float x = element < p_.shape.head_size ? to_float(from[element]) : 0;
          if (plan_.kernel->bf16_query) {
            reinterpret_cast<Bf16*>(to)[i] = from_float<Bf16>(x);
          } else {
            reinterpret_cast<float*>(to)[i] = x;
          }
        }
        state_[index] = {kNothing, 0};
        std::fill_n(output_ + index * work_.output_stride, plan_.value_places, 0.0F);
      });
    });
  }

  void finish(const Piece& piece) {
    const std::uint8_t* order = plan_.kernel->value_order;
    const std::int32_t step = plan_.kernel->step;
    const float scale = p_.shape.value_scale * plan_.kernel->unit;
    with_type(p_.shape.type, [&](auto type) {
      using T = decltype(type);
      piece.for_each_row(plan_, [&](std::int32_t index, std::int32_t token, std::int32_t head) {
        const RowState& state = state_[index];
        const bool something = state.highest != kNothing || state.sum != 0;
        const float factor = something ? scale / state.sum : 0;
        const float* from = output_ + index * work_.output_stride;
        T* to = static_cast<T*>(p_.output) + token * p_.output_token_stride +
                head * p_.output_head_stride;
        for (std::int32_t i = 0; i < plan_.value_places; ++i) {
          const std::int32_t in_step = i & (step - 1);
          const std::int32_t element = i - in_step + order[in_step];
          if (element < p_.shape.value_head_size) to[element] = from_float<T>(from[i] * factor);
        }
        write_lse(token, head,
                  something ? (state.highest + std::log2(state.sum)) * kLn2 : kNothing);
      });
    });
  }

  void write_zeros(const Piece& piece) {
    piece.for_each_row(plan_, [&](std::int32_t, std::int32_t token, std::int32_t head) {
      const std::int64_t row = token * p_.output_token_stride + head * p_.output_head_stride;
      for (std::int32_t i = 0; i < p_.shape.value_head_size; ++i) {
        store_element(p_.output, row + i, p_.shape.type, 0);
      }
      write_lse(token, head, kNothing);
    });
  }

  void write_lse(std::int32_t token, std::int32_t head, float value) {
    if (p_.log_sum_exp == nullptr) return;
    p_.log_sum_exp[token * p_.lse_token_stride + head * p_.lse_head_stride] = value;
  }

  const Plan& plan_;
  const Params& p_;
  std::atomic<std::int64_t>& next_;
  TileWork work_{};
  LinesAhead ahead_{};
  std::int32_t lines_ahead_ = 0;    // of the tile ahead
  std::int32_t lines_fetched_ = 0;  // of those
  std::int32_t rows_seen_ = 0;      // of the tile in work, or passed over
  Piece piece_;                     // the one that is being located
  std::int32_t position_ = 0;       // of it
  LocatedTile ring_[kRing];
  RowState state_[kMostRows];
  alignas(64) char query_[kMostFloats * sizeof(float)];
  alignas(64) float output_[kMostFloats];
};

/// Attention over one buffer per sequence, as a paged cache whose block is the whole sequence.
Params as_paged(const AttentionParams<ContiguousKv>& p) {
  Params out;
  out.shape = p.shape;
  out.kv = {p.kv.key, p.kv.value, p.kv.key_layout, p.kv.value_layout, nullptr, 0};
  out.num_seqs = p.num_seqs;
  out.num_query_tokens = p.num_query_tokens;
  out.query_starts = p.query_starts;
  out.seq_lens = p.seq_lens;
  out.query = p.query;
  out.query_token_stride = p.query_token_stride;
  out.query_head_stride = p.query_head_stride;
  out.output = p.output;
  out.output_token_stride = p.output_token_stride;
  out.output_head_stride = p.output_head_stride;
  out.log_sum_exp = p.log_sum_exp;
  out.lse_token_stride = p.lse_token_stride;
  out.lse_head_stride = p.lse_head_stride;
  return out;
}
const Params& as_paged(const Params& p) { return p; }

/// What an implementation has; null where this processor or build lacks the instructions.
struct Kernels {
  const TileKernel* by_type;
  const TileKernel* fp8_as_bf16;  // for queries of bf16, where that is better

  [[nodiscard]] const TileKernel& of(const AttentionShape& s) const {
    if (fp8_as_bf16 != nullptr && s.type == ElementType::bf16) {
      if (s.cache_type == ElementType::fp8_e4m3) return fp8_as_bf16[0];
      if (s.cache_type == ElementType::fp8_e5m2) return fp8_as_bf16[1];
    }
    return by_type[static_cast<int>(s.cache_type)];
  }
};

/// @param missing which instructions, if the kernels lack some
template <class Kv>
Refusal attend(const AttentionParams<Kv>& params, const Context& context, const Kernels& kernels,
               const char* missing) {
  if (const Refusal refusal = refuse(params)) return refusal;
  if (kernels.by_type == nullptr) return {missing};
  if (params.shape.head_size % 16 != 0 || params.shape.value_head_size % 16 != 0) {
    return {"head_size, value_head_size: this kernel reads multiples of 16 elements"};
  }
  const TileKernel& kernel = kernels.of(params.shape);
  const Params& paged = as_paged(params);
  const std::int32_t num_threads = std::max(context.num_threads, 1);
  const Plan plan = make_plan(paged, kernel, num_threads);
  std::atomic<std::int64_t> next = 0;
  for_each_share(num_threads, plan.num_pieces < num_threads ? plan.num_pieces : num_threads,
                 [&](std::int64_t, std::int64_t) { Worker(plan, next).run(); });
  return {};
}

}  // namespace
}  // namespace cpu

template <class Kv>
Refusal attention_cpu_avx2(const AttentionParams<Kv>& params, const Context& context) {
  const cpu::Kernels kernels{cpu::has_avx2() ? cpu::avx2_tile_kernels() : nullptr, nullptr};
  return cpu::attend(params, context, kernels,
                     "this processor or this build has no AVX2, FMA and F16C");
}

template <class Kv>
Refusal attention_cpu_avx512_bf16(const AttentionParams<Kv>& params, const Context& context) {
  const cpu::Kernels kernels{cpu::has_avx512_bf16() ? cpu::avx512_bf16_tile_kernels() : nullptr,
                             cpu::has_avx512_vbmi() ? cpu::avx512_vbmi_tile_kernels() : nullptr};
  return cpu::attend(params, context, kernels,
                     "this processor or this build has no AVX-512 F, BW, DQ, VL and BF16");
}

template <class Kv>
Refusal attention_cpu_portable(const AttentionParams<Kv>& params, const Context& context) {
  const cpu::Kernels kernels{cpu::portable_tile_kernels(),
                             cpu::portable_fp8_as_bf16_tile_kernels()};
  return cpu::attend(params, context, kernels, nullptr);
}

template Refusal attention_cpu_avx2(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cpu_avx2(const AttentionParams<ContiguousKv>&, const Context&);
template Refusal attention_cpu_avx512_bf16(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cpu_avx512_bf16(const AttentionParams<ContiguousKv>&, const Context&);
template Refusal attention_cpu_portable(const AttentionParams<PagedKv>&, const Context&);
template Refusal attention_cpu_portable(const AttentionParams<ContiguousKv>&, const Context&);

}  // namespace kvproof::kernels
