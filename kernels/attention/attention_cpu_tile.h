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

/// One tile and `see`'s number of query rows that read the same KV head. Elements of query and
/// output rows stand in the order that TileKernel says, filled up with zeros to whole steps.
struct TileWork {
  std::int32_t num_tokens;        // 1 to kTile; the rows beyond them do not count
  const char* const* key_rows;    // shape [kTile]; past num_tokens rows of zeros, offset included
  const char* const* value_rows;  // shape [kTile]
  std::ptrdiff_t key_offset;      // [bytes] added to each of key_rows
  std::ptrdiff_t value_offset;    // [bytes] added to each of value_rows
  const char* const* fetch_rows;  // shape [fetch_groups, 4]: what comes into L2 meanwhile, the
                                  // lines of the four rows of a group in turn
  std::int32_t fetch_groups;      // 0: nothing
  std::int32_t fetch_lines;       // [cache lines] of each of those rows
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

/// Fetches the rows ahead in small parts, four rows at a time: the processor's own prefetchers
/// follow one stream in each page, and each of the four rows is in another page or half.
template <class V>  // V gives the function internal linkage
class Fetch {
 public:
  explicit Fetch(const TileWork& w)
      : rows_(w.fetch_rows), lines_(w.fetch_lines), total_(w.fetch_groups * w.fetch_lines) {}
  /// @param part so much of `whole`, the work on the tile, is done
  void reach(int part, int whole) {
    for (const int end = total_ * part / whole; done_ < end; ++done_) {
      for (int i = 0; i < 4; ++i) __builtin_prefetch(rows_[i] + line_ * 64, 0, 2);
      if (++line_ == lines_) {
        line_ = 0;
        rows_ += 4;
      }
    }
  }

 private:
  const char* const* rows_;
  int lines_, total_, line_ = 0, done_ = 0;
};

}  // namespace kvproof::kernels::cpu
