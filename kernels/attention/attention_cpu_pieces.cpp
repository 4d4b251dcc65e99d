// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_cpu_pieces.h"

#include <algorithm>

namespace kvproof::kernels::cpu {
namespace {

constexpr std::int64_t kBytesAhead = 32 << 10;
constexpr std::int32_t kMostQueryTokens = 16;  // in a piece

std::int32_t round_up(std::int32_t x, std::int32_t step) { return (x + step - 1) / step * step; }

/// [cache lines] from the first element of a token's rows to the last
std::int32_t lines_of(const CacheLayout& layout, std::int32_t heads, std::int32_t head_size,
                      ElementType type) {
  const std::int64_t elements = (heads - 1) * layout.head_stride + head_size;
  return static_cast<std::int32_t>((elements * bytes_of(type) + 63) / 64);
}

/// The rows of all heads of a token lie together (NHD): they are read together too, as long as
/// there are pieces for all threads.
std::int32_t heads_per_piece(const Params& p, std::int32_t rows_per_head, std::int32_t most_rows,
                             std::int32_t num_threads) {
  const CacheLayout& layout = p.kv.key_layout;
  const bool together =
      layout.head_stride < layout.token_stride && layout.head_stride <= 2 * p.shape.head_size;
  if (!together) return 1;
  const std::int32_t heads = p.shape.num_kv_heads;
  std::int32_t best = 1;
  for (std::int32_t n = 2; n <= heads && n * rows_per_head <= most_rows; ++n) {
    const bool enough = std::int64_t{p.num_query_tokens} * (heads / n) >= num_threads;
    if (heads % n == 0 && enough) best = n;
  }
  return best;
}

}  // namespace

Plan make_plan(const Params& p, const TileKernel& kernel, std::int32_t num_threads) {
  const AttentionShape& s = p.shape;
  Plan plan;
  plan.params = &p;
  plan.kernel = &kernel;
  plan.key_places = round_up(s.head_size, kernel.step);
  plan.value_places = round_up(s.value_head_size, kernel.step);
  plan.group = s.num_heads / s.num_kv_heads;
  const std::int32_t most_rows =
      std::min(kMostRows, kMostFloats / std::max(plan.key_places, plan.value_places));
  plan.rows_per_head = std::min(plan.group, most_rows);
  plan.row_parts = (plan.group + plan.rows_per_head - 1) / plan.rows_per_head;
  plan.heads_per_piece = heads_per_piece(p, plan.rows_per_head, most_rows, num_threads);
  plan.head_parts = s.num_kv_heads / plan.heads_per_piece;
  plan.tokens_per_piece = 1;
  if (p.query_starts != nullptr) {
    const std::int32_t rows = plan.rows_per_head * plan.heads_per_piece;
    plan.tokens_per_piece = std::clamp(most_rows / rows, 1, kMostQueryTokens);
  }
  const std::int64_t tile_bytes = std::int64_t{kTile} * plan.heads_per_piece *
                                  (s.head_size + s.value_head_size) * bytes_of(s.cache_type);
  const std::int64_t ahead = std::clamp<std::int64_t>(kBytesAhead / tile_bytes, 1, kMostAhead);
  plan.tiles_ahead = static_cast<std::int32_t>(ahead);
  plan.fetch_lines =
      std::max(lines_of(p.kv.key_layout, plan.heads_per_piece, s.head_size, s.cache_type),
               lines_of(p.kv.value_layout, plan.heads_per_piece, s.value_head_size, s.cache_type));
  plan.num_pieces = std::int64_t{p.num_query_tokens} * plan.head_parts * plan.row_parts;
  return plan;
}

Piece piece_of(const Plan& plan, std::int64_t index) {
  const Params& p = *plan.params;
  const std::int64_t parts = std::int64_t{plan.head_parts} * plan.row_parts;
  const auto token = static_cast<std::int32_t>(index / parts);
  const auto part = static_cast<std::int32_t>(index % parts);
  Piece piece;
  piece.seq = sequence_of(p.query_starts, p.num_seqs, token);
  piece.first_token = token;
  piece.num_tokens = 1;
  if (p.query_starts != nullptr) {
    const std::int32_t* starts = p.query_starts + piece.seq;
    const bool first = (token - starts[0]) % plan.tokens_per_piece == 0;
    piece.num_tokens = first ? std::min(plan.tokens_per_piece, starts[1] - token) : 0;
  }
  piece.first_head = part / plan.row_parts * plan.heads_per_piece;
  piece.first_row = part % plan.row_parts * plan.rows_per_head;
  piece.num_rows = std::min(plan.rows_per_head, plan.group - piece.first_row);
  for (std::int32_t t = token; t < token + piece.num_tokens; ++t) {
    const TokenRange visible = visible_of(p, piece.seq, t);
    if (visible.begin == visible.end) continue;
    if (piece.seen.end == 0) piece.seen.begin = visible.begin;
    piece.seen.end = visible.end;
  }
  return piece;
}

void locate_rows(const Plan& plan, LocatedTile& tile) {
  const Params& p = *plan.params;
  const std::int64_t bytes = bytes_of(p.shape.cache_type);
  const CacheLayout& keys = p.kv.key_layout;
  const CacheLayout& values = p.kv.value_layout;
  const std::int32_t head = tile.piece.first_head;
  std::int32_t entry = tile.tokens.begin / keys.block_size;
  std::int32_t token = tile.tokens.begin % keys.block_size;
  const std::int32_t count = tile.tokens.end - tile.tokens.begin;
  for (std::int32_t done = 0; done < count; ++entry, token = 0) {
    const std::int64_t block = p.kv.block_tables == nullptr
                                   ? tile.piece.seq
                                   : p.kv.block_tables[tile.piece.seq * p.kv.table_stride + entry];
    const char* key = static_cast<const char*>(p.kv.key) + keys.row(block, token, head) * bytes;
    const char* value =
        static_cast<const char*>(p.kv.value) + values.row(block, token, head) * bytes;
    const std::int32_t end = std::min(count, done + keys.block_size - token);
    for (; done < end; ++done) {
      tile.key[done] = key;
      tile.value[done] = value;
      key += keys.token_stride * bytes;
      value += values.token_stride * bytes;
    }
  }
  constexpr std::int32_t kHalf = kTile / 2;
  for (std::int32_t i = 0; i < kHalf; ++i) {
    const std::int32_t near = std::min(i, count - 1), far = std::min(i + kHalf, count - 1);
    tile.fetch[4 * i] = tile.key[near];
    tile.fetch[4 * i + 1] = tile.key[far];
    tile.fetch[4 * i + 2] = tile.value[near];
    tile.fetch[4 * i + 3] = tile.value[far];
  }
}

}  // namespace kvproof::kernels::cpu
