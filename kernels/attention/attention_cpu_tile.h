// SPDX-License-Identifier: Apache-2.0
// The interface between the fast CPU attention and its instruction sets: a tile of cached tokens
// against up to four query rows. The code behind it is compiled with flags of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvproof::kernels::cpu {

inline constexpr std::int32_t kTile = 32;  // [tokens]

/// The running softmax of a query row, in units of the exponent of two.
struct RowState {
  float highest;  // score, times log2(e)
  float sum;      // of 2^(score - highest)
};

/// Cache lines that follow one another.
struct Lines {
  const char* at;      // any byte of the first
  std::int32_t count;  // 1 or more
};

/// What comes into L2 while earlier tiles are seen.
struct LinesAhead {
  const Lines* piece;  // the pieces follow one another
  std::int32_t done;   // lines of *piece
};

/// One tile and `see`'s number of query rows that read the same KV head. Elements of query and
/// output rows stand in the order that TileKernel says, filled up with zeros to whole steps.
struct TileWork {
  std::int32_t num_tokens;        // 1 to kTile; the rows beyond them do not count
  const char* const* key_rows;    // shape [kTile]; past num_tokens rows of zeros, offset included
  const char* const* value_rows;  // shape [kTile]
  std::ptrdiff_t key_offset;      // [bytes] added to each of key_rows
  std::ptrdiff_t value_offset;    // [bytes] added to each of value_rows
  LinesAhead* ahead;              // moves on as lines are fetched
  std::int32_t fetch_lines;       // [cache lines] of it that are fetched meanwhile
  std::int32_t key_size;          // [elements] of a K row, a multiple of 16
  std::int32_t value_size;        // [elements] of a V row, a multiple of 16
  float scale;                    // of the dot products of stored elements
  float soft_cap;                 // 0: no cap
  const char* query;              // shape [rows, key_size in whole steps]
  std::ptrdiff_t query_stride;    // [bytes] from a row to the next
  float* output;                  // shape [rows, value_size in whole steps]: sums of weight * v
  std::ptrdiff_t output_stride;   // [elements] from a row to the next
  RowState* state;                // shape [rows]
};

/// How one cache type is read by one instruction set.
struct TileKernel {
  void (*see[3])(const TileWork& work);  // for 1, 2 and 4 query rows
  std::int32_t step;                     // [elements] that are read at once, a power of two
  const std::uint8_t* key_order;         // shape [step]: which element of a step a place holds
  const std::uint8_t* value_order;       // shape [step]
  bool bf16_query;                       // the query rows are bf16, else float
  float unit;                            // the elements are multiplied by it after reading
};

/// By ElementType: fp32, fp16, bf16, fp8_e4m3, fp8_e5m2. Null where the build lacks instructions.
const TileKernel* avx2_tile_kernels();
const TileKernel* avx512_bf16_tile_kernels();
const TileKernel* portable_tile_kernels();  // 16 lanes and AVX-512's operations, in plain C++

/// For fp8_e4m3 and fp8_e5m2 under queries of bf16, as products of bf16.
const TileKernel* avx512_vbmi_tile_kernels();
const TileKernel* portable_fp8_as_bf16_tile_kernels();

/// Fetches the lines ahead, a few at a time, so that they never queue up, and in the order of their
/// addresses: the processor's own prefetchers follow, and run ahead. Where it stands is kept here,
/// in registers, and told to LinesAhead at the end.
template <class V>  // V gives the function internal linkage
class Fetch {
 public:
  explicit Fetch(const TileWork& w)
      : ahead_(w.ahead), piece_(w.ahead->piece), left_(w.fetch_lines) {
    if (left_ == 0) return;  // there may be no piece
    next_ = piece_->at + std::ptrdiff_t{64} * w.ahead->done;
    in_piece_ = piece_->count - w.ahead->done;
  }
  /// One `share`th of what is left is fetched by `parts` calls of some().
  void divide(int share, int parts) { each_ = (left_ / share + parts - 1) / parts; }
  void some() { fetch(each_ < left_ ? each_ : left_); }
  void rest() {
    fetch(left_);
    if (next_ != nullptr) *ahead_ = {piece_, piece_->count - in_piece_};
  }

 private:
  void fetch(int lines) {
    left_ -= lines;
    for (; lines > 0; --lines) {
      if (in_piece_ == 0) {
        ++piece_;
        next_ = piece_->at;
        in_piece_ = piece_->count;
      }
      __builtin_prefetch(next_, 0, 2);
      next_ += 64;
      --in_piece_;
    }
  }

  LinesAhead* ahead_;
  const Lines* piece_;
  const char* next_ = nullptr;  // the next line; null: there is none to fetch
  int in_piece_ = 0;            // lines of *piece_ from there on
  int left_, each_ = 0;         // lines of all, and of one call of some()
};

}  // namespace kvproof::kernels::cpu
