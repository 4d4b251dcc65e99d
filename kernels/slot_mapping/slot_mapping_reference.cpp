// SPDX-License-Identifier: Apache-2.0
// Everything is padding until a sequence says otherwise.
#include "kernels/slot_mapping/slot_mapping.h"

namespace kvproof::kernels {

Refusal slot_mapping_reference(const SlotMappingParams& p, const Context&) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for (std::int64_t i = 0; i < p.num_slots; ++i) p.slots[i] = kPadSlotId;
  if (p.num_tokens == 0) return {};
  for (std::int32_t seq = 0; seq < p.num_seqs; ++seq) {
    for (std::int64_t token = p.query_starts[seq]; token < p.query_starts[seq + 1]; ++token) {
      const std::int64_t position = p.positions[token];
      const std::int64_t column = position / p.block_size;
      if (position < 0 || column >= p.table_width) continue;
      const std::int32_t block = p.block_tables[seq * p.table_stride + column];
      if (block >= 0) p.slots[token] = SlotId{block} * p.block_size + position % p.block_size;
    }
  }
  return {};
}

}  // namespace kvproof::kernels
