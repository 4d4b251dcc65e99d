// SPDX-License-Identifier: Apache-2.0
// Latents of many tiles, for kernels that cut a batch by its lengths: whole sequences, pieces of
// one, runs over several; with scores so far apart that what was summed must be rescaled.
#include <utility>

#include "properties/kernels/attention_checks.h"

namespace kvproof::properties {
namespace {

struct LatentCase {
  std::int32_t num_heads, block_size, num_splits;
  float scale;
  std::vector<std::int32_t> seq_lens;
};

AttentionPlan plan_of(const LatentCase& c, std::uint64_t seed) {
  kernels::AttentionShape s;
  s.num_heads = c.num_heads;
  s.num_kv_heads = 1;
  s.head_size = 576, s.value_head_size = 512;
  s.scale = c.scale;
  AttentionPlan plan;
  plan.kind = AttentionKind::latent;
  plan.seed = seed;
  plan.shape = s;
  plan.block_size = c.block_size;
  plan.num_splits = c.num_splits;
  plan.spare_entries = 2;
  plan.seq_lens = c.seq_lens;
  for (const std::int32_t len : c.seq_lens) {
    plan.query_lens.push_back(1);
    plan.num_blocks += ceil_div(len, c.block_size);
  }
  std::int32_t next = plan.num_blocks++;
  for (const std::int32_t len : c.seq_lens) {
    std::vector<std::int32_t> table;
    for (std::int32_t i = ceil_div(len, c.block_size); i > 0; --i) table.push_back(next--);
    plan.tables.push_back(std::move(table));
  }
  return plan;
}

}  // namespace

Finding check_latent_pieces(const std::vector<AttentionRow>& rows, AttentionTally& tally) {
  const LatentCase cases[] = {
      {16, 16, 7, 0.05F, {545}},            // pieces, and splits that none is for
      {5, 8, 4, 1.0F, {200, 0, 330}},       // a piece of one sequence, two of another
      {3, 32, 3, 1.0F, {200, 1, 0, 129}},   // runs over the ends of sequences
      {66, 128, 1, 0.05F, {70, 190}},       // whole sequences, one block behind the other
      {128, 64, 3, 0.2F, {64, 150}},        // as many heads as two blocks have
      {17, 48, 2, 1.0F, {65, 64, 191, 1}},  // pages that no tile is whole in
  };
  std::uint64_t seed = 1;
  for (const LatentCase& c : cases) {
    if (auto wrong = check_attention(plan_of(c, seed++), rows, tally)) return wrong;
  }
  return {};
}

}  // namespace kvproof::properties
