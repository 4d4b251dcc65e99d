// SPDX-License-Identifier: Apache-2.0
#include "kernels/slot_mapping/slot_mapping.h"

namespace kvproof::kernels {

Refusal refuse(const SlotMappingParams& p) {
  if (p.block_size < 1) return {"block_size: expected 1 or more tokens"};
  if (p.table_width < 0) return {"table_width: expected 0 or more entries"};
  if (p.table_stride < p.table_width) return {"table_stride: rows overlap"};
  if (p.num_seqs < 0 || p.num_tokens < 0) return {"num_seqs, num_tokens: expected 0 or more"};
  if (p.num_slots < p.num_tokens) return {"num_slots: fewer than tokens"};
  if (p.num_tokens > 0 && p.num_seqs == 0) return {"num_tokens: tokens of no sequence"};
  if (p.num_slots > 0 && p.slots == nullptr) return {"slots: missing"};
  if (p.num_tokens == 0) return {};
  if (p.query_starts == nullptr || p.positions == nullptr || p.block_tables == nullptr) {
    return {"query_starts, positions or block_tables: missing"};
  }
  return {};
}

std::span<const Implementation<SlotMappingParams>> slot_mapping() {
  static constexpr Implementation<SlotMappingParams> kRows[] = {
      {"reference/integers", &slot_mapping_reference},
      {"cpu/general", &slot_mapping_cpu},
      {"cuda/general", &slot_mapping_cuda},
  };
  return kRows;
}

}  // namespace kvproof::kernels
