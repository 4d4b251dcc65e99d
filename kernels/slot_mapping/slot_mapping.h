// SPDX-License-Identifier: Apache-2.0
// From block tables and positions to one slot per token of a batch.
//
// Model:   slots[t] = table[sequence][position / block_size] * block_size + position % block_size;
//          kPadSlotId where there is no such block.
// Pads:    a position below 0, one beyond the table's width, an entry below 0 and the slots beyond
//          num_tokens become kPadSlotId. Entries of no position are not read.
// Source:  vLLM v1 worker/block_table.py; the bound on the column: vLLM issue 53982.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/implementation.h"
#include "reference/ids.h"

namespace kvproof::kernels {

struct SlotMappingParams {
  const std::int32_t* block_tables = nullptr;  // shape [num_seqs, table_width]
  std::int64_t table_stride = 0;               // [entries] >= table_width
  std::int32_t table_width = 0;                // [entries] that belong to a row
  std::int32_t block_size = 0;                 // [tokens per block] of these tables
  const std::int32_t* query_starts = nullptr;  // shape [num_seqs + 1], ascending from 0 [tokens]
  const std::int64_t* positions = nullptr;     // shape [query_starts[num_seqs]]; below 0: a pad
  std::int32_t num_seqs = 0;
  std::int64_t num_tokens = 0;  // query_starts[num_seqs]
  SlotId* slots = nullptr;      // shape [num_slots]
  std::int64_t num_slots = 0;   // >= num_tokens; the rest becomes kPadSlotId
};

[[nodiscard]] Refusal refuse(const SlotMappingParams& params);

Refusal slot_mapping_reference(const SlotMappingParams& params, const Context& context);
Refusal slot_mapping_cpu(const SlotMappingParams& params, const Context& context);
Refusal slot_mapping_cuda(const SlotMappingParams& params, const Context& context);

/// Every implementation; the first is the reference.
[[nodiscard]] std::span<const Implementation<SlotMappingParams>> slot_mapping();

}  // namespace kvproof::kernels
