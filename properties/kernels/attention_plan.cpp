// SPDX-License-Identifier: Apache-2.0
// Draws the cases of attention.
#include <algorithm>
#include <cmath>

#include "properties/kernels/attention_case.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionShape;
using kernels::ElementType;

/// Makes the case one that the tuned kernels take, so that not only the general ones run.
void draw_usual(AttentionShape& s, Random& random) {
  s.type = s.cache_type = random.of({ElementType::fp16, ElementType::bf16});
  s.key_scale = s.value_scale = 1;
  if (random.one_in(3)) {
    s.cache_type = ElementType::fp8_e4m3;
    s.key_scale = 0.37F;
    s.value_scale = 2.9F;
  }
  s.head_size = s.value_head_size = random.of({64, 128, 128, 256});
}

void draw_types(AttentionShape& s, Random& random) {
  s.type = random.of({ElementType::fp32, ElementType::fp16, ElementType::bf16, ElementType::bf16});
  s.cache_type = s.type;
  if (!random.one_in(3)) return;
  s.cache_type = random.of({ElementType::fp8_e4m3, ElementType::fp8_e4m3, ElementType::fp8_e5m2});
  s.key_scale = 0.37F;
  s.value_scale = 2.9F;
}

AttentionShape draw_shape(AttentionKind kind, bool usual, Random& random) {
  AttentionShape s;
  draw_types(s, random);
  if (kind == AttentionKind::latent) {
    s.value_head_size = random.of({512, 128, 64, 40});
    s.head_size = s.value_head_size + random.of({64, 64, 16, 0, 6});
    s.num_kv_heads = 1;
    s.num_heads = random.of({1, 2, 4, 5, 16, 66});
    s.value_scale = s.key_scale;
    if (usual) {
      s.type = s.cache_type = ElementType::bf16;
      s.key_scale = s.value_scale = 1;
      s.head_size = 576, s.value_head_size = 512;
    }
  } else {
    s.head_size = random.one_in(6) ? random.of({1, 7, 46, 100, 112})
                                   : random.of({64, 80, 96, 128, 128, 192, 256});
    s.value_head_size = random.one_in(5) ? random.of({16, 33, 64, 128, 200, 256}) : s.head_size;
    if (usual) draw_usual(s, random);
    s.num_kv_heads = random.of({1, 1, 2, 2, 3});
    const std::int32_t ratio = random.one_in(6) ? random.between(1, 16) : random.of({1, 2, 3, 4});
    s.num_heads = s.num_kv_heads * ratio;
  }
  s.scale = 1.0F / std::sqrt(static_cast<float>(s.head_size));
  if (kind != AttentionKind::latent && random.one_in(4))
    s.soft_cap = random.of({0.5F, 5.0F, 30.0F});
  return s;
}

std::int32_t draw_length(std::int32_t block_size, int size, Random& random) {
  const std::int32_t most = 20 + 2 * size;
  if (random.one_in(3)) return random.between(0, most);
  if (random.one_in(6)) return random.of({0, 1});
  const std::int32_t blocks = random.between(1, std::max(1, most / block_size));
  return std::max(0, blocks * block_size + random.between(-1, 1));
}

/// Fresh blocks in any order, or another sequence's first blocks, or one block twice.
void draw_tables(AttentionPlan& plan, Random& random) {
  std::vector<std::int32_t> ids;
  std::int32_t most = random.between(1, 3);
  for (const std::int32_t len : plan.seq_lens) most += ceil_div(len, plan.block_size);
  for (std::int32_t i = 0; i < most; ++i) ids.push_back(i);
  for (std::size_t i = ids.size(); i > 1; --i) {
    std::swap(ids[i - 1], ids[random.next() % i]);
  }
  plan.num_blocks = most;
  for (const std::int32_t len : plan.seq_lens) {
    const auto blocks = static_cast<std::size_t>(ceil_div(len, plan.block_size));
    std::vector<std::int32_t> table;
    if (!plan.tables.empty() && random.one_in(3)) {
      const auto& other = plan.tables[random.next() % plan.tables.size()];
      table.assign(other.begin(),
                   other.begin() + static_cast<std::ptrdiff_t>(std::min(blocks, other.size())));
    }
    while (table.size() < blocks) {
      if (!table.empty() && random.one_in(12)) {
        table.push_back(table.front());
        continue;
      }
      table.push_back(ids.back());
      ids.pop_back();
    }
    plan.tables.push_back(std::move(table));
  }
}

void draw_batch(AttentionPlan& plan, int size, Random& random) {
  const std::int32_t num_seqs = random.between(1, plan.kind == AttentionKind::prefill ? 3 : 4);
  for (std::int32_t s = 0; s < num_seqs; ++s) {
    const std::int32_t len = draw_length(plan.block_size, size, random);
    plan.seq_lens.push_back(len);
    if (plan.one_token_each()) {
      plan.query_lens.push_back(1);
    } else if (random.one_in(8)) {  // nothing to compute, or rows that precede the sequence
      plan.query_lens.push_back(random.one_in(2) ? 0 : std::min(len, 2) + 1);
    } else {
      plan.query_lens.push_back(std::min(std::max(len, 1), random.between(1, 2 + size / 10)));
    }
  }
  for (std::int32_t pads = random.of({0, 1, 1, 2}); pads > 0; --pads) {  // as a captured graph has
    plan.seq_lens.push_back(0);
    plan.query_lens.push_back(plan.one_token_each() || random.one_in(3) ? 1 : 0);
  }
}

void draw_window(AttentionPlan& plan, Random& random) {
  const std::int32_t longest = *std::ranges::max_element(plan.seq_lens);
  plan.shape.window = random.one_in(3) ? random.between(1, plan.block_size + 2)
                                       : random.between(1, std::max(1, longest + 2));
}

/// Two sequences whose blocks, rows and outputs lie farther apart than 32 bits can index.
AttentionPlan draw_far(std::uint64_t seed) {
  Random random(seed);
  AttentionPlan plan;
  plan.kind = AttentionKind::far;
  plan.seed = seed;
  AttentionShape& s = plan.shape;
  s.type = random.of({ElementType::bf16, ElementType::fp16});
  s.cache_type = s.type;
  if (random.one_in(2)) {
    s.cache_type = ElementType::fp8_e4m3;
    s.key_scale = 0.37F;
    s.value_scale = 2.9F;
  }
  s.head_size = s.value_head_size = random.of({64, 128});
  s.num_kv_heads = 2;
  s.num_heads = 4;
  s.scale = 0.1F;
  plan.block_size = 16;
  plan.order = random.of({LayoutOrder::nhd, LayoutOrder::hnd});
  plan.view = CacheView::paired;
  plan.num_blocks = 65538;
  plan.tables = {{32767, 65536, 1}, {65535, 0, 32768}};
  plan.seq_lens = {41, 48};
  plan.query_lens = {1, 1};
  plan.num_splits = random.between(1, 3);
  return plan;
}

}  // namespace

AttentionPlan draw_plan(AttentionKind kind, std::uint64_t seed, int size) {
  if (kind == AttentionKind::far) return draw_far(seed);
  Random random(seed);
  AttentionPlan plan;
  plan.kind = kind;
  plan.seed = seed;
  const bool usual = random.one_in(2);
  plan.shape = draw_shape(kind, usual, random);
  plan.block_size = random.one_in(4) ? random.of({1, 3, 7, 32, 64, 100, 128, 256})
                                     : random.of({1, 4, 8, 16, 16, 32});
  plan.order = random.of({LayoutOrder::nhd, LayoutOrder::hnd});
  plan.view = random.of({CacheView::apart, CacheView::paired, CacheView::layered});
  plan.row_gap = usual ? random.of({0, 0, 16, 48, 3}) : random.of({0, 0, 0, 16, 3});
  plan.lead = random.of({0, 0, 0, 0, 16, 1});
  draw_batch(plan, size, random);
  draw_tables(plan, random);
  plan.spare_entries = random.of({0, 1, 5});
  if (kind != AttentionKind::latent) {
    if (random.one_in(3)) draw_window(plan, random);
    plan.query_gap = random.of({0, 0, 8, 5});
    plan.output_gap = random.of({0, 0, 8, 3});
    plan.lse_transposed = random.one_in(3);
  }
  plan.num_splits = random.one_in(2) ? 1 : random.between(2, 7);
  plan.wants_lse = !random.one_in(5);
  plan.also_prefill = random.one_in(3);
  plan.also_contiguous = random.one_in(2);
  return plan;
}

std::vector<AttentionPlan> long_prefills() {
  using Order = LayoutOrder;
  struct Row {
    ElementType type, cache_type;
    std::int32_t head_size, num_heads, num_kv_heads, block_size;
    Order order;
    std::int32_t row_gap, window, num_splits;
    float soft_cap;
    std::vector<std::int32_t> query_lens, seq_lens;
  };
  constexpr ElementType kBf16 = ElementType::bf16, kFp16 = ElementType::fp16;
  // The rows of the first sequence and a KV head are more than the 64 of a warpgroup, but for the
  // last line more than the 128 of a tile. Its last block is never full.
  const Row rows[] = {
      {kFp16, kFp16, 64, 6, 3, 32, Order::hnd, 0, 100, 1, 5, {70, 3}, {279, 33}},
      {kBf16, kBf16, 64, 6, 2, 4, Order::hnd, 0, 130, 2, 0, {50, 2}, {270, 1}},
      {kBf16, ElementType::fp8_e4m3, 128, 4, 1, 16, Order::nhd, 0, 0, 1, 0, {40}, {290}},
      {kBf16, kBf16, 128, 8, 2, 16, Order::nhd, 0, 0, 1, 0, {34, 1, 0}, {300, 129, 0}},
      {kBf16, kBf16, 256, 4, 2, 24, Order::nhd, 16, 0, 2, 0, {34}, {200}},
  };
  std::vector<AttentionPlan> out;
  for (const Row& row : rows) {
    AttentionPlan plan;
    plan.kind = AttentionKind::prefill;
    plan.seed = out.size();
    AttentionShape& s = plan.shape;
    s.type = row.type;
    s.cache_type = row.cache_type;
    if (kernels::is_fp8(s.cache_type)) s.key_scale = 0.37F, s.value_scale = 2.9F;
    s.head_size = s.value_head_size = row.head_size;
    s.num_heads = row.num_heads;
    s.num_kv_heads = row.num_kv_heads;
    s.scale = 1.0F / std::sqrt(static_cast<float>(s.head_size));
    s.window = row.window;
    s.soft_cap = row.soft_cap;
    plan.block_size = row.block_size;
    plan.order = row.order;
    plan.view = CacheView::paired;
    plan.row_gap = row.row_gap;
    plan.query_lens = row.query_lens;
    plan.seq_lens = row.seq_lens;
    Random random(plan.seed);
    draw_tables(plan, random);
    plan.num_splits = row.num_splits;
    plan.spare_entries = 5;
    plan.query_gap = plan.output_gap = 8;
    out.push_back(std::move(plan));
  }
  return out;
}

AttentionPlan plain_plan(const AttentionShape& shape, std::int32_t block_size,
                         std::int32_t tokens) {
  AttentionPlan plan;
  plan.shape = shape;
  plan.seed = 1;
  plan.block_size = block_size;
  plan.seq_lens = {tokens};
  plan.query_lens = {1};
  plan.num_blocks = ceil_div(tokens, block_size) + 1;
  plan.tables.emplace_back();
  for (std::int32_t b = plan.num_blocks - 1; b > 0; --b) plan.tables[0].push_back(b);
  return plan;
}

std::string AttentionPlan::text() const {
  const AttentionShape& s = shape;
  std::string out = say(
      num_splits, " splits, ", kernels::name_of(s.type), " over ", kernels::name_of(s.cache_type),
      ", heads ", s.num_heads, "/", s.num_kv_heads, " of ", s.head_size, "/", s.value_head_size,
      ", block ", block_size, order == LayoutOrder::nhd ? " NHD" : " HND", ", window ", s.window,
      ", soft cap ", s.soft_cap, ", view ", static_cast<int>(view), " lead ", lead, " gaps ",
      row_gap, "/", query_gap, "/", output_gap, ", tokens");
  for (std::size_t i = 0; i < seq_lens.size(); ++i) {
    out += say(" ", query_lens[i], "@", seq_lens[i]);
  }
  return out;
}

}  // namespace kvproof::properties
