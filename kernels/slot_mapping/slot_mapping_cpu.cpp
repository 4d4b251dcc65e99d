// SPDX-License-Identifier: Apache-2.0
// Sequence by sequence; within one, a position that follows its neighbour needs no division.
#include <algorithm>

#include "kernels/parallel.h"
#include "kernels/slot_mapping/slot_mapping.h"

namespace kvproof::kernels {
namespace {

/// Tokens [begin, end) of one sequence.
void map_tokens(const SlotMappingParams& p, const std::int32_t* row, std::int64_t begin,
                std::int64_t end) {
  const std::int64_t size = p.block_size;
  while (begin < end) {
    const std::int64_t position = p.positions[begin];
    const std::int64_t column = position / size, offset = position % size;
    const bool inside = position >= 0 && column < p.table_width;
    const std::int32_t block = inside ? row[column] : -1;
    if (block < 0) {
      p.slots[begin++] = kPadSlotId;
      continue;
    }
    const SlotId first = SlotId{block} * size + offset;
    const std::int64_t most = std::min(end - begin, size - offset);
    std::int64_t i = 0;
    for (; i < most && p.positions[begin + i] == position + i; ++i) p.slots[begin + i] = first + i;
    begin += i;
  }
}

void map_share(const SlotMappingParams& p, std::int64_t begin, std::int64_t end) {
  const std::int32_t* starts = p.query_starts;
  auto seq = std::upper_bound(starts, starts + p.num_seqs, begin) - starts - 1;
  for (; begin < end && begin < p.num_tokens; ++seq) {
    const std::int64_t until = std::min(end, std::int64_t{starts[seq + 1]});
    map_tokens(p, p.block_tables + seq * p.table_stride, begin, until);
    begin = std::max(begin, until);
  }
  std::fill(p.slots + begin, p.slots + std::max(begin, end), kPadSlotId);
}

}  // namespace

Refusal slot_mapping_cpu(const SlotMappingParams& p, const Context& context) {
  if (const Refusal refusal = refuse(p)) return refusal;
  for_each_share(context.num_threads, p.num_slots, [&p](std::int64_t begin, std::int64_t end) {
    if (begin < end) map_share(p, begin, end);
  });
  return {};
}

}  // namespace kvproof::kernels
