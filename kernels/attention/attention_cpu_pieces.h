// SPDX-License-Identifier: Apache-2.0
// How a launch of the fast CPU attention is divided: into pieces of query tokens and KV heads, and
// pieces into tiles whose rows have been located.
#pragma once

#include <atomic>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cpu_tile.h"

namespace kvproof::kernels::cpu {

/// The fast kernels know one kind of cache: without block_tables a block is a sequence.
using Params = AttentionParams<PagedKv>;

inline constexpr std::int32_t kMostFloats = 16384;  // of a piece's query rows, and of its sums
inline constexpr std::int32_t kMostRows = 1024;     // of a piece
inline constexpr std::int32_t kMostAhead = 15;      // [tiles]

struct Plan {
  const Params* params = nullptr;
  const TileKernel* kernel = nullptr;
  std::int32_t key_places = 0;       // [elements] of a query row, whole steps
  std::int32_t value_places = 0;     // [elements] of an output row, whole steps
  std::int32_t group = 0;            // query heads that read a KV head
  std::int32_t rows_per_head = 0;    // how many of them a piece has
  std::int32_t row_parts = 0;        // pieces that share a KV head's query heads
  std::int32_t heads_per_piece = 0;  // KV heads; divides their number
  std::int32_t head_parts = 0;       // pieces that share the KV heads
  std::int32_t tokens_per_piece = 0;
  std::int32_t tiles_ahead = 0;  // of the tile in work, whose rows are fetched
  std::int64_t num_pieces = 0;   // some of them are empty
};

/// Whether a piece is to have several KV heads: those of a token lie together (NHD), or the rows of
/// one head in a block are too few for the memory to stream them.
[[nodiscard]] bool reads_heads_together(const CacheLayout& layout, std::int32_t head_size,
                                        ElementType type);

[[nodiscard]] Plan make_plan(const Params& params, const TileKernel& kernel,
                             std::int32_t num_threads);

/// Query tokens of one sequence, and query heads of some KV heads.
struct Piece {
  std::int32_t seq = 0;
  std::int32_t first_token = 0;  // of the batch
  std::int32_t num_tokens = 0;
  std::int32_t first_head = 0;  // KV head
  std::int32_t first_row = 0;   // query head within the group of its KV head
  std::int32_t num_rows = 0;    // query heads of each KV head
  TokenRange seen;              // by any of the query tokens

  /// Calls f(index within the piece, query token, query head).
  template <class F>
  void for_each_row(const Plan& plan, F f) const {
    std::int32_t index = 0;
    for (std::int32_t token = first_token; token < first_token + num_tokens; ++token) {
      for (std::int32_t head = 0; head < plan.heads_per_piece; ++head) {
        const std::int32_t first = (first_head + head) * plan.group + first_row;
        for (std::int32_t row = 0; row < num_rows; ++row) f(index++, token, first + row);
      }
    }
  }
};

/// Piece `index` of the plan; it has no tokens if another piece has them.
[[nodiscard]] Piece piece_of(const Plan& plan, std::int64_t index);

/// Tokens of a piece, and the addresses of their rows of its first KV head.
struct LocatedTile {
  Piece piece;
  TokenRange tokens;
  const char* key[kTile];
  const char* value[kTile];
  Lines lines[2 * kTile];  // shape [num_pieces]: of all heads of the piece, first K's, then V's
  std::int32_t num_pieces;
  std::int32_t num_lines;  // [cache lines] in all
};

void locate_rows(const Plan& plan, LocatedTile& tile);

}  // namespace kvproof::kernels::cpu
