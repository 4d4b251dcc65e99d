// SPDX-License-Identifier: Apache-2.0
// Overwrites the bytes of a problem that no query token sees, and makes the launch parameters.
#include <algorithm>
#include <limits>

#include "kernels/typed.h"
#include "properties/kernels/attention_case.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionShape;

float value_of(Poison poison, const AttentionShape& s, Random& random) {
  switch (poison) {
    case Poison::nan: return std::numeric_limits<float>::quiet_NaN();
    case Poison::infinity: return std::numeric_limits<float>::infinity();
    case Poison::large: return 1e4F;
    default: return random.unit() / s.key_scale;
  }
}

/// Whether any query token of the sequence sees `position`.
bool seen(const AttentionPlan& plan, std::size_t seq, std::int32_t position) {
  for (std::int32_t q = 0; q < plan.query_lens[seq]; ++q) {
    if (plan.sees(plan.seq_lens[seq] - plan.query_lens[seq] + q, position)) return true;
  }
  return false;
}

void see_rows(CacheMemory& cache, const AttentionShape& s, std::int64_t block, std::int32_t token) {
  for (std::int32_t h = 0; h < s.num_kv_heads; ++h) {
    const std::int64_t key = cache.key_offset + cache.key_layout.row(block, token, h);
    const std::int64_t value = cache.value_offset + cache.value_layout.row(block, token, h);
    for (std::int64_t i = key; i < key + s.head_size; ++i) {
      cache.cells[static_cast<std::size_t>(i)] |= CacheMemory::kSeen;
    }
    for (std::int64_t i = value; i < value + s.value_head_size; ++i) {
      cache.cells[static_cast<std::size_t>(i)] |= CacheMemory::kSeen;
    }
  }
}

}  // namespace

void AttentionProblem::mark_seen(std::int32_t only) {
  for (CacheMemory* cache : {&paged_, &dense_}) {
    for (std::uint8_t& cell : cache->cells) cell &= static_cast<std::uint8_t>(~CacheMemory::kSeen);
  }
  for (std::int32_t seq = 0; seq < plan_.num_seqs(); ++seq) {
    if (only >= 0 && seq != only) continue;
    const auto row = static_cast<std::size_t>(seq);
    for (std::int32_t t = 0; t < plan_.seq_lens[row]; ++t) {
      if (!seen(plan_, row, t)) continue;
      const auto entry = static_cast<std::size_t>(t / plan_.block_size);
      see_rows(paged_, plan_.shape, plan_.tables[row][entry], t % plan_.block_size);
      see_rows(dense_, plan_.shape, seq, t);
    }
  }
}

void AttentionProblem::poison_cache(CacheMemory& cache, Poison poison, std::uint8_t cells,
                                    Random& random) const {
  for (std::size_t i = 0; i < cache.cells.size(); ++i) {
    if ((cache.cells[i] & CacheMemory::kSeen) != 0 || (cache.cells[i] & cells) == 0) continue;
    store_element(cache.bytes.data(), static_cast<std::int64_t>(i), plan_.shape.cache_type,
                  value_of(poison, plan_.shape, random));
  }
}

void AttentionProblem::poison_queries(Poison poison, std::int32_t only, Random& random) {
  for (std::size_t i = 0; i < query_row_.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const bool others =
        only >= 0 && sequence_of(static_cast<std::int32_t>(at / query_token_stride_)) != only;
    if (query_row_[i] == 1 && !others) continue;
    store_element(query_.data(), at, plan_.shape.type, value_of(poison, plan_.shape, random));
  }
}

void AttentionProblem::poison(Poison poison, std::uint8_t cells, std::int32_t only) {
  Random random(plan_.seed + 99);
  mark_seen(only);
  poison_cache(paged_, poison, cells, random);
  poison_cache(dense_, poison, cells, random);
  if ((cells & CacheMemory::kGap) == 0) return;
  poison_queries(poison, only, random);
  auto* entries = tables_.as<std::int32_t>();
  constexpr auto null = static_cast<std::int32_t>(kNullBlock);
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(tables_.size() / 4); ++at) {
    const auto row = static_cast<std::size_t>(at / table_stride_);
    const auto column = static_cast<std::int32_t>(at % table_stride_);
    const auto used = static_cast<std::int32_t>(plan_.tables[row].size());
    if (column >= used) {
      entries[at] = random.of({-1, most, least, null});
      continue;
    }
    // A block that no query sees any more was given back: its entry is not to be followed.
    bool needed = false;
    for (std::int32_t t = 0; t < plan_.block_size && !needed; ++t) {
      const std::int32_t position = column * plan_.block_size + t;
      needed = position < plan_.seq_lens[row] && seen(plan_, row, position);
    }
    if (!needed) entries[at] = random.of({null, null, -1, most, least});
  }
}

void AttentionProblem::restore() {
  paged_.bytes.set(paged_.content);
  dense_.bytes.set(dense_.content);
  query_.set(query_content_);
  make_tables();
}

/// One case in four has no counters.
std::uint32_t* AttentionProblem::arrivals() const {
  const bool none = split_arrivals_.size() == 0 || plan_.seed % 4 == 3;
  return none ? nullptr : split_arrivals_.as<std::uint32_t>();
}

template <class Kv>
void AttentionProblem::fill_common(kernels::AttentionParams<Kv>& out, bool ragged) const {
  out.shape = plan_.shape;
  out.num_seqs = plan_.num_seqs();
  out.num_query_tokens = num_query_tokens();
  out.query_starts = ragged ? starts_.as<std::int32_t>() : nullptr;
  out.seq_lens = lens_.as<std::int32_t>();
  out.query = query_.data();
  out.query_token_stride = query_token_stride_;
  out.query_head_stride = query_head_stride_;
  out.output = output_.bytes.data();
  out.output_token_stride = output_.token_stride;
  out.output_head_stride = output_.head_stride;
  out.log_sum_exp = plan_.wants_lse ? lse_.bytes.as<float>() : nullptr;
  out.lse_token_stride = lse_.token_stride;
  out.lse_head_stride = lse_.head_stride;
  out.num_splits = plan_.num_splits;
  if (split_output_.size() == 0) return;
  out.split_output = split_output_.as<float>();
  out.split_lse = split_lse_.as<float>();
  out.split_arrivals = arrivals();
}

kernels::AttentionParams<kernels::PagedKv> AttentionProblem::paged(bool ragged) const {
  kernels::AttentionParams<kernels::PagedKv> out;
  fill_common(out, ragged);
  const std::int64_t size = kernels::bytes_of(plan_.shape.cache_type);
  out.kv = {.key = paged_.bytes.data() + paged_.key_offset * size,
            .value = paged_.bytes.data() + paged_.value_offset * size,
            .key_layout = paged_.key_layout,
            .value_layout = paged_.value_layout,
            .block_tables = tables_.as<std::int32_t>(),
            .table_stride = table_stride_};
  return out;
}

kernels::AttentionParams<kernels::ContiguousKv> AttentionProblem::contiguous(bool ragged) const {
  kernels::AttentionParams<kernels::ContiguousKv> out;
  fill_common(out, ragged);
  const std::int64_t size = kernels::bytes_of(plan_.shape.cache_type);
  out.kv = {.key = dense_.bytes.data() + dense_.key_offset * size,
            .value = dense_.bytes.data() + dense_.value_offset * size,
            .key_layout = dense_.key_layout,
            .value_layout = dense_.value_layout};
  return out;
}

kernels::MlaDecodeParams AttentionProblem::latent() const {
  const AttentionShape& s = plan_.shape;
  kernels::MlaDecodeParams out;
  out.cache = paged_.bytes.data() + paged_.key_offset * kernels::bytes_of(s.cache_type);
  out.block_stride = paged_.key_layout.block_stride;
  out.token_stride = paged_.key_layout.token_stride;
  out.block_size = plan_.block_size;
  out.latent_size = s.value_head_size;
  out.rope_size = s.head_size - s.value_head_size;
  out.type = s.type;
  out.cache_type = s.cache_type;
  out.cache_scale = s.key_scale;
  out.scale = s.scale;
  out.block_tables = tables_.as<std::int32_t>();
  out.table_stride = table_stride_;
  out.seq_lens = lens_.as<std::int32_t>();
  out.num_seqs = plan_.num_seqs();
  out.num_heads = s.num_heads;
  out.query = query_.data();
  out.output = output_.bytes.data();
  out.log_sum_exp = plan_.wants_lse ? lse_.bytes.as<float>() : nullptr;
  out.num_splits = plan_.num_splits;
  out.split_output = split_output_.size() == 0 ? nullptr : split_output_.as<float>();
  out.split_lse = split_lse_.size() == 0 ? nullptr : split_lse_.as<float>();
  out.split_arrivals = arrivals();
  return out;
}

}  // namespace kvproof::properties
