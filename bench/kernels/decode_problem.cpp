// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/decode_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "bench/requests/workload_random.h"
#include "kernels/attention/attention_cpu_pieces.h"
#include "kernels/attention/attention_reference.h"
#include "kernels/typed.h"
#include "properties/kernels/attention_bound.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

constexpr std::size_t kPattern = 1'000'003;  // [elements]; no row or block divides it

ElementType query_type(ElementType cache) {
  return kernels::is_fp8(cache) ? ElementType::bf16 : cache;
}

/// Values in (-1, 1), over and over.
void fill_with_pattern(std::byte* to, std::size_t elements, ElementType type, std::uint64_t seed) {
  const auto bytes = static_cast<std::size_t>(kernels::bytes_of(type));
  std::vector<std::byte> pattern(kPattern * bytes);
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < kPattern; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto value = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
    kernels::store_element(pattern.data(), static_cast<std::int64_t>(i), type, value);
  }
  for (std::size_t at = 0; at < elements; at += kPattern) {
    std::memcpy(to + at * bytes, pattern.data(), std::min(kPattern, elements - at) * bytes);
  }
}

std::size_t pool_bytes(const DecodeCase& c) {
  return static_cast<std::size_t>(c.cache_bytes()) / 2;
}

template <class Kv>
void set_common(kernels::AttentionParams<Kv>& p, const DecodeCase& c, const void* query,
                void* output, const std::int32_t* lens) {
  p.shape.num_kv_heads = kKvHeads;
  p.shape.num_heads = kKvHeads * c.ratio;
  p.shape.head_size = p.shape.value_head_size = kHeadSize;
  p.shape.type = query_type(c.type);
  p.shape.cache_type = c.type;
  p.shape.scale = 1 / std::sqrt(static_cast<float>(kHeadSize));
  p.num_seqs = p.num_query_tokens = c.batch;
  p.seq_lens = lens;
  p.query = query;
  p.output = output;
  p.query_head_stride = p.output_head_stride = kHeadSize;
  p.query_token_stride = p.output_token_stride = std::int64_t{p.shape.num_heads} * kHeadSize;
}

}  // namespace

std::string DecodeCase::name(std::string_view implementation) const {
  return std::string("paged_decode/") + kernels::name_of(type) +
         (order == LayoutOrder::hnd ? "/hnd" : "/nhd") + "/block:" + std::to_string(block_size) +
         (shuffled ? "/shuffled" : "/identity") + "/context:" + std::to_string(context) +
         "/batch:" + std::to_string(batch) + "/ratio:" + std::to_string(ratio) +
         "/threads:" + std::to_string(num_threads) + "/impl:" + std::string(implementation);
}

DecodeProblem::DecodeProblem(const DecodeCase& c, std::uint64_t seed)
    : case_(c),
      blocks_per_seq_(c.context / c.block_size),
      layout_(CacheLayout::packed(c.order, c.block_size, kKvHeads, kHeadSize)),
      key_(pool_bytes(c)),
      value_(pool_bytes(c)),
      contiguous_key_(pool_bytes(c)),
      contiguous_value_(pool_bytes(c)),
      lens_(static_cast<std::size_t>(c.batch), c.context) {
  if (c.context % c.block_size != 0) throw std::logic_error("paged_decode: a block is not full");
  const auto row_bytes = static_cast<std::size_t>(c.batch * kKvHeads * c.ratio * kHeadSize) *
                         static_cast<std::size_t>(kernels::bytes_of(query_type(c.type)));
  query_.resize(row_bytes);
  output_.resize(row_bytes);
  contiguous_output_.resize(row_bytes);
  tables_.resize(static_cast<std::size_t>(c.batch * blocks_per_seq_));
  std::iota(tables_.begin(), tables_.end(), 0);
  if (c.shuffled) {
    WorkloadRandom random(seed);
    for (std::size_t i = tables_.size(); i > 1; --i) {
      const auto other =
          static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1));
      std::swap(tables_[i - 1], tables_[other]);
    }
  }
  fill(seed);
  set_common(paged_, c, query_.data(), output_.data(), lens_.data());
  paged_.kv = {key_.data(), value_.data(), layout_, layout_, tables_.data(), blocks_per_seq_};
  set_common(contiguous_, c, query_.data(), contiguous_output_.data(), lens_.data());
  const auto whole = CacheLayout::packed(c.order, c.context, kKvHeads, kHeadSize);
  contiguous_.kv = {contiguous_key_.data(), contiguous_value_.data(), whole, whole};
  copy_to_contiguous();
}

void DecodeProblem::fill(std::uint64_t seed) {
  const std::size_t elements =
      key_.size() / static_cast<std::size_t>(kernels::bytes_of(case_.type));
  fill_with_pattern(key_.data(), elements, case_.type, seed + 1);
  fill_with_pattern(value_.data(), elements, case_.type, seed + 2);
  const ElementType type = query_type(case_.type);
  fill_with_pattern(query_.data(),
                    query_.size() / static_cast<std::size_t>(kernels::bytes_of(type)), type,
                    seed + 3);
}

void DecodeProblem::copy_to_contiguous() {
  const bool hnd = case_.order == LayoutOrder::hnd;
  const std::int64_t bytes = kernels::bytes_of(case_.type);
  // The rows of a block that follow one another in both layouts: all heads of its tokens, or one.
  const std::int32_t heads = hnd ? kKvHeads : 1;
  const auto run = static_cast<std::size_t>(layout_.block_stride / heads * bytes);
  for (std::int32_t seq = 0; seq < case_.batch; ++seq) {
    for (std::int32_t token = 0; token < case_.context; token += case_.block_size) {
      for (std::int32_t head = 0; head < heads; ++head) {
        const std::int64_t from = paged_.kv.key_row(seq, token, head) * bytes;
        const std::int64_t to = contiguous_.kv.key_row(seq, token, head) * bytes;
        std::memcpy(contiguous_key_.data() + to, key_.data() + from, run);
        std::memcpy(contiguous_value_.data() + to, value_.data() + from, run);
      }
    }
  }
}

Gather DecodeProblem::gather() const {
  constexpr std::int32_t kTogether = 32;  // [tokens] of K, then of V
  const std::int64_t bytes = kernels::bytes_of(case_.type);
  const bool hnd = case_.order == LayoutOrder::hnd;
  const bool all_heads = kernels::cpu::reads_heads_together(layout_, kHeadSize, case_.type);
  const std::int32_t tokens = std::min(case_.block_size, kTogether);
  Gather out;
  out.piece_bytes = static_cast<std::size_t>(tokens * layout_.token_stride * bytes) *
                    (hnd && all_heads ? kKvHeads : 1);
  for (std::int32_t seq = 0; seq < case_.batch; ++seq) {
    for (std::int32_t head = 0; head < (all_heads ? 1 : kKvHeads); ++head) {
      for (std::int32_t begin = 0; begin < case_.context; begin += kTogether) {
        for (const HugeBuffer* cache : {&key_, &value_}) {
          const std::int32_t end = std::min(begin + kTogether, case_.context);
          for (std::int32_t token = begin; token < end; token += tokens) {
            out.pieces.push_back(cache->data() + paged_.kv.key_row(seq, token, head) * bytes);
          }
        }
      }
    }
  }
  return out;
}

void DecodeProblem::check_head(std::string_view implementation, std::int32_t seq,
                               std::int32_t head) const {
  const std::int32_t kv_head = head / case_.ratio;
  const std::int64_t offset = layout_.head_stride * kv_head * kernels::bytes_of(case_.type);
  kernels::PagedDecodeParams one = paged_;
  one.shape.num_heads = one.shape.num_kv_heads = 1;
  one.num_seqs = one.num_query_tokens = 1;
  one.seq_lens += seq;
  one.kv.key = key_.data() + offset;
  one.kv.value = value_.data() + offset;
  one.kv.block_tables += seq * one.kv.table_stride;
  const std::int64_t row = seq * paged_.query_token_stride + head * paged_.query_head_stride;
  one.query = query_.data() + row * kernels::bytes_of(one.shape.type);
  const kernels::ExactRow exact = kernels::attend_exactly(one, 0);
  const properties::BoundInput in{.type = one.shape.type,
                                  .rounds = properties::rounds_of(implementation),
                                  .head_size = kHeadSize,
                                  .num_visible = static_cast<double>(case_.context),
                                  .score_sum = exact.score_sum[0],
                                  .most_value = 1};
  for (std::size_t i = 0; i < kHeadSize; ++i) {
    const double found = double{
        kernels::load_element(output_.data(), row + static_cast<std::int64_t>(i), one.shape.type)};
    const double bound = properties::output_bound(in, exact.magnitude[i], exact.out.rows[i]);
    if (!(std::abs(found - exact.out.rows[i]) <= bound)) {
      throw std::logic_error("paged_decode: sequence " + std::to_string(seq) + " head " +
                             std::to_string(head) + " element " + std::to_string(i) + " is " +
                             std::to_string(found) + ", not " + std::to_string(exact.out.rows[i]));
    }
  }
}

void DecodeProblem::check(std::string_view implementation) const {
  if (output_ != contiguous_output_) {
    throw std::logic_error("paged_decode: paged and contiguous output differ");
  }
  check_head(implementation, 0, 0);
  const std::int32_t last_head = kKvHeads * case_.ratio - 1;
  if (case_.context <= 32768) check_head(implementation, case_.batch - 1, last_head);
}

std::uint64_t DecodeProblem::checksum() const {
  std::uint64_t sum = 0;
  for (const std::byte b : output_)
    sum = (sum ^ std::to_integer<std::uint64_t>(b)) * 1099511628211U;
  return sum;
}

}  // namespace kvproof::bench
