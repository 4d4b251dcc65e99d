// SPDX-License-Identifier: Apache-2.0
// Cases for attention: a plan that is drawn from a seed, and the memory that it stands for.
//
// Biased:  towards inputs that break attention: lengths 0, 1, k*B-1, k*B, k*B+1; pads; shared and
//          repeated blocks; wide tables with garbage behind the entries; windows that are no
//          multiple of a block; scales other than 1; V rows shorter than K rows; gaps between rows;
//          more splits than tiles; ids near 2^15 and 2^16, and offsets beyond 2^31 and 2^32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/mla_decode/mla_decode.h"
#include "properties/kernels/memory.h"
#include "reference/layer_rules.h"

namespace kvproof::properties {

enum class AttentionKind : std::uint8_t { decode, prefill, latent, far };
enum class CacheView : std::uint8_t { apart, paired, layered };

/// The plan of a case; it and the seed decide the bytes.
struct AttentionPlan {
  AttentionKind kind = AttentionKind::decode;
  std::uint64_t seed = 0;
  kernels::AttentionShape shape;
  std::int32_t block_size = 0;
  LayoutOrder order = LayoutOrder::nhd;
  CacheView view = CacheView::apart;
  std::int32_t lead = 0;                          // [elements] before the caches' first row
  std::int32_t row_gap = 0;                       // [elements] after every row of the caches
  std::vector<std::int32_t> seq_lens;             // [tokens]
  std::vector<std::int32_t> query_lens;           // [tokens]
  std::vector<std::vector<std::int32_t>> tables;  // the entries that count
  std::int32_t num_blocks = 0;
  std::int32_t spare_entries = 0;  // entries in each row of the table that no sequence uses
  std::int32_t num_splits = 1;
  std::int32_t query_gap = 0;   // [elements] after each head and each token
  std::int32_t output_gap = 0;  // [elements]
  bool wants_lse = true;
  bool lse_transposed = false;
  bool also_prefill = true;     // run decode also as prefill of one token each
  bool also_contiguous = true;  // run the same data also in one buffer per sequence

  [[nodiscard]] std::int32_t num_seqs() const { return static_cast<std::int32_t>(seq_lens.size()); }
  [[nodiscard]] bool one_token_each() const { return kind != AttentionKind::prefill; }
  /// Whether the query token at position `own` sees a position, by the rules of the reference.
  [[nodiscard]] bool sees(std::int32_t own, std::int32_t position) const {
    const GroupConfig layers{.kind = shape.window > 0 ? LayerKind::sliding_window : LayerKind::full,
                             .window = static_cast<std::uint32_t>(shape.window)};
    const auto before = static_cast<std::uint64_t>(own);
    return position <= own && reads_of(layers, {.computed = before, .cached = before + 1})
                                  .has(static_cast<std::uint64_t>(position));
  }
  [[nodiscard]] std::string text() const;
};

/// @param size from 0: how large a case may be
[[nodiscard]] AttentionPlan draw_plan(AttentionKind kind, std::uint64_t seed, int size);
/// Prefills of more rows and tokens than draw_plan() draws: several tiles of each tuned kernel, in
/// each of the ways in which K and V come to it.
[[nodiscard]] std::vector<AttentionPlan> long_prefills();
/// One sequence of `tokens` without any peculiarity, for grids over shapes.
[[nodiscard]] AttentionPlan plain_plan(const kernels::AttentionShape& shape,
                                       std::int32_t block_size, std::int32_t tokens);

/// One allocation of K and V rows. Each element is a cell of K, of V, of both, or in a gap.
struct CacheMemory {
  static constexpr std::uint8_t kGap = 1, kKey = 2, kValue = 4, kSeen = 8;
  Memory bytes;
  std::vector<std::byte> content;   // as drawn
  std::vector<std::uint8_t> cells;  // per element; empty where the memory is sparse
  CacheLayout key_layout, value_layout;
  std::int64_t key_offset = 0, value_offset = 0;  // [elements]
};

/// Rows that a kernel writes, and the query token that each element belongs to. A row behind the
/// last must stay as it is; under AddressSanitizer it is not even there.
struct OutputMemory {
  Memory bytes;
  std::vector<std::int32_t> owner;  // per element: its query token; -1 if it belongs to none
  std::int32_t element_bytes = 0;
  std::int64_t token_stride = 0, head_stride = 0;
};

/// The patterns that overwrite unused bytes.
enum class Poison : std::uint8_t { nan, infinity, large, other };

class AttentionProblem {
 public:
  explicit AttentionProblem(AttentionPlan plan);

  [[nodiscard]] const AttentionPlan& plan() const { return plan_; }
  [[nodiscard]] std::int32_t num_query_tokens() const { return starts_of_.back(); }
  [[nodiscard]] std::int32_t sequence_of(std::int32_t token) const;
  [[nodiscard]] bool sparse() const { return plan_.kind == AttentionKind::far; }

  /// @param ragged with query_starts, which decode must not have
  [[nodiscard]] kernels::AttentionParams<kernels::PagedKv> paged(bool ragged) const;
  [[nodiscard]] kernels::AttentionParams<kernels::ContiguousKv> contiguous(bool ragged) const;
  [[nodiscard]] kernels::MlaDecodeParams latent() const;

  /// Overwrites the named cells that no query token sees in both caches, the spare table entries,
  /// and the gaps between queries. @param cells kGap, kKey, kValue
  /// @param only the sequence whose tokens count as seen; -1: all
  void poison(Poison poison, std::uint8_t cells, std::int32_t only = -1);
  void restore();
  /// Output, log-sum-exp and scratch become this byte. @pre not sparse
  void wipe(std::uint8_t byte);

  [[nodiscard]] const OutputMemory& output() const { return output_; }
  [[nodiscard]] const OutputMemory& lse() const { return lse_; }
  /// Whether the counters are what every launch must find and leave.
  [[nodiscard]] bool arrivals_are_zero() const;

 private:
  void make_paged(Random& random);
  void make_contiguous();
  void make_queries(Random& random);
  void make_tables();
  void make_outputs();
  void mark_seen(std::int32_t only);
  void poison_cache(CacheMemory& cache, Poison poison, std::uint8_t cells, Random& random) const;
  void poison_queries(Poison poison, std::int32_t only, Random& random);
  [[nodiscard]] std::uint32_t* arrivals() const;
  template <class Kv>
  void fill_common(kernels::AttentionParams<Kv>& out, bool ragged) const;

  AttentionPlan plan_;
  std::vector<std::int32_t> starts_of_;
  CacheMemory paged_, dense_;
  Memory tables_, lens_, starts_, query_, split_output_, split_lse_, split_arrivals_;
  std::vector<std::byte> query_content_;
  std::vector<std::uint8_t> query_row_;  // per element: 1 where it belongs to a query
  std::int64_t query_token_stride_ = 0, query_head_stride_ = 0;
  std::int64_t table_stride_ = 0;
  OutputMemory output_, lse_;
};

}  // namespace kvproof::properties
