// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attention_cpu_pieces.h"

#include <algorithm>

namespace kvproof::kernels::cpu {
namespace {

constexpr std::int64_t kBytesAhead = 32 << 10;
constexpr std::int32_t kMostQueryTokens = 16;  // in a piece

std::int32_t round_up(std::int32_t x, std::int32_t step) { return (x + step - 1) / step * step; }

/// Heads are read together as long as there are pieces for all threads.
std::int32_t heads_per_piece(const Params& p, std::int32_t rows_per_head, std::int32_t most_rows,
                             std::int32_t num_threads) {
  const AttentionShape& s = p.shape;
  if (!reads_heads_together(p.kv.key_layout, s.head_size, s.cache_type) ||
      !reads_heads_together(p.kv.value_layout, s.value_head_size, s.cache_type)) {
    return 1;
  }
  const std::int32_t heads = s.num_kv_heads;
  std::int32_t best = 1;
  for (std::int32_t n = 2; n <= heads && n * rows_per_head <= most_rows; ++n) {
    const bool enough = std::int64_t{p.num_query_tokens} * (heads / n) >= num_threads;
    if (heads % n == 0 && enough) best = n;
  }
  return best;
}

/// Appends the lines of some tokens of a block, with all heads of a piece.
void add_lines(const char* begin, std::int32_t tokens, const CacheLayout& layout,
               std::int32_t head_size, const Plan& plan, LocatedTile& tile) {
  const std::int64_t bytes = bytes_of(plan.params->shape.cache_type);
  const std::int64_t token = layout.token_stride * bytes;
  std::int64_t length = ((plan.heads_per_piece - 1) * layout.head_stride + head_size) * bytes;
  std::int32_t pieces = tokens;
  if (length >= token) {  // without a gap, or the tokens of a head lie within the next head's
    length += (tokens - 1) * token;
    pieces = 1;
  }
  for (std::int32_t i = 0; i < pieces; ++i, begin += token) {
    const auto in_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin) % 64);
    const auto lines = static_cast<std::int32_t>((in_line + length + 63) / 64);
    __builtin_prefetch(begin, 0, 2);  // where its page lies is looked up before its lines come
    tile.lines[tile.num_pieces++] = {begin, lines};
    tile.num_lines += lines;
  }
}

/// Finds the rows of K, or of V.
void locate(const Plan& plan, const void* cache, const CacheLayout& layout, std::int32_t head_size,
            const char** rows, LocatedTile& tile) {
  const Params& p = *plan.params;
  const std::int64_t bytes = bytes_of(p.shape.cache_type);
  std::int32_t entry = tile.tokens.begin / layout.block_size;
  std::int32_t token = tile.tokens.begin % layout.block_size;
  const std::int32_t count = tile.tokens.end - tile.tokens.begin;
  for (std::int32_t done = 0; done < count; ++entry, token = 0) {
    const std::int64_t block = p.kv.block_tables == nullptr
                                   ? tile.piece.seq
                                   : p.kv.block_tables[tile.piece.seq * p.kv.table_stride + entry];
    const char* row =
        static_cast<const char*>(cache) + layout.row(block, token, tile.piece.first_head) * bytes;
    const std::int32_t end = std::min(count, done + layout.block_size - token);
    add_lines(row, end - done, layout, head_size, plan, tile);
    for (; done < end; ++done, row += layout.token_stride * bytes) rows[done] = row;
  }
}

}  // namespace

bool reads_heads_together(const CacheLayout& layout, std::int32_t head_size, ElementType type) {
  constexpr std::int64_t kShort = 2 << 10;  // [bytes]
  if (layout.head_stride < layout.token_stride) return layout.head_stride <= 2 * head_size;
  const std::int64_t of_head = layout.block_size * layout.token_stride;  // [elements] in a block
  return of_head * bytes_of(type) < kShort && layout.head_stride >= of_head &&
         layout.head_stride <= 2 * of_head;
}

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
  tile.num_pieces = tile.num_lines = 0;
  locate(plan, p.kv.key, p.kv.key_layout, p.shape.head_size, tile.key, tile);
  locate(plan, p.kv.value, p.kv.value_layout, p.shape.value_head_size, tile.value, tile);
}

}  // namespace kvproof::kernels::cpu
