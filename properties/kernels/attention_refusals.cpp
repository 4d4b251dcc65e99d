// SPDX-License-Identifier: Apache-2.0
// Breaks one parameter at a time, and requires that no implementation computes anything from it.
#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

#include "kernels/contiguous_decode/contiguous_decode.h"
#include "kernels/contiguous_prefill/contiguous_prefill.h"
#include "kernels/paged_decode/paged_decode.h"
#include "kernels/paged_prefill/paged_prefill.h"
#include "properties/kernels/armed_fault.h"
#include "properties/kernels/attention_checks.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionParams;
using kernels::ContiguousKv;
using kernels::ElementType;
using kernels::MlaDecodeParams;
using kernels::PagedKv;

template <class Params>
struct Broken {
  const char* what;
  void (*apply)(Params&);
};

/// Parameters that no operation of the family accepts.
template <class Kv>
std::vector<Broken<AttentionParams<Kv>>> broken_attention() {
  using P = AttentionParams<Kv>;
  return {
      {"no heads", [](P& p) { p.shape.num_heads = 0; }},
      {"no KV heads", [](P& p) { p.shape.num_kv_heads = 0; }},
      {"3 heads over 2", [](P& p) { p.shape.num_heads = 3; }},
      {"head size 0", [](P& p) { p.shape.head_size = 0; }},
      {"head size 577", [](P& p) { p.shape.head_size = 577; }},
      {"V head size 513", [](P& p) { p.shape.value_head_size = 513; }},
      {"an fp8 query", [](P& p) { p.shape.type = ElementType::fp8_e4m3; }},
      {"fp16 over bf16",
       [](P& p) {
         p.shape.type = ElementType::fp16;
         p.shape.cache_type = ElementType::bf16;
       }},
      {"a K scale without fp8", [](P& p) { p.shape.key_scale = 2; }},
      {"a V scale without fp8", [](P& p) { p.shape.value_scale = 2; }},
      {"window -1", [](P& p) { p.shape.window = -1; }},
      {"soft cap -1", [](P& p) { p.shape.soft_cap = -1; }},
      {"soft cap NaN", [](P& p) { p.shape.soft_cap = std::numeric_limits<float>::quiet_NaN(); }},
      {"-1 sequences", [](P& p) { p.num_seqs = -1; }},
      {"no query", [](P& p) { p.query = nullptr; }},
      {"no lengths", [](P& p) { p.seq_lens = nullptr; }},
      {"no K", [](P& p) { p.kv.key = nullptr; }},
      {"no V", [](P& p) { p.kv.value = nullptr; }},
      {"0 splits", [](P& p) { p.num_splits = 0; }},
      {"splits without scratch",
       [](P& p) {
         p.num_splits = 2;
         p.split_lse = nullptr;
       }},
      {"block size 0", [](P& p) { p.kv.key_layout.block_size = p.kv.value_layout.block_size = 0; }},
      {"K and V of different block sizes", [](P& p) { ++p.kv.value_layout.block_size; }},
      {"the other operation's query_starts",
       [](P& p) { p.query_starts = p.query_starts == nullptr ? p.seq_lens : nullptr; }},
  };
}

template <class Params>
Finding check_refused(std::string_view operation,
                      std::span<const kernels::Implementation<Params>> implementations,
                      AttentionProblem& problem, const Params& whole,
                      const std::vector<Broken<Params>>& broken) {
  for (const auto& row : implementations) {
    for (const Broken<Params>& one : broken) {
      problem.wipe(0x5A);
      const std::vector<std::byte> before = problem.output().bytes.copy();
      Params params = whole;
      one.apply(params);
      kernels::Refusal refusal;
      try {
        const ArmedFault armed;
        refusal = row.launch(params, {});
      } catch (const std::exception& error) {
        return say(operation, " ", row.name, ": ", one.what, ": ", error.what());
      }
      if (!refusal || *refusal.reason == '\0') {
        return say(operation, " ", row.name, ": accepted ", one.what);
      }
      if (const std::string error = wait_for_device(); !error.empty()) return error;
      if (first_difference(before, problem.output().bytes.bytes()) != before.size()) {
        return say(operation, " ", row.name, ": refused ", one.what, " and wrote");
      }
    }
  }
  return {};
}

AttentionProblem small_problem(AttentionKind kind) {
  kernels::AttentionShape s;
  s.num_heads = kind == AttentionKind::latent ? 2 : 4;
  s.num_kv_heads = kind == AttentionKind::latent ? 1 : 2;
  s.head_size = s.value_head_size = 64;
  AttentionPlan plan = plain_plan(s, 16, 17);
  plan.kind = kind;
  return AttentionProblem(std::move(plan));
}

std::vector<Broken<MlaDecodeParams>> broken_latent() {
  using P = MlaDecodeParams;
  return {
      {"no latent part", [](P& p) { p.latent_size = 0; }},
      {"-1 elements of rope", [](P& p) { p.rope_size = -1; }},
      {"640 elements a row", [](P& p) { p.rope_size = 128, p.latent_size = 512; }},
      {"no heads", [](P& p) { p.num_heads = 0; }},
      {"a scale without fp8", [](P& p) { p.cache_scale = 2; }},
      {"block size 0", [](P& p) { p.block_size = 0; }},
      {"no cache", [](P& p) { p.cache = nullptr; }},
      {"0 splits", [](P& p) { p.num_splits = 0; }},
  };
}

}  // namespace

Finding check_attention_refusals(std::string_view operation) {
  AttentionProblem problem = small_problem(AttentionKind::decode);
  AttentionProblem latent = small_problem(AttentionKind::latent);
  auto paged = broken_attention<PagedKv>();
  paged.push_back({"no block tables", [](auto& p) { p.kv.block_tables = nullptr; }});
  paged.push_back({"a table stride below 0", [](auto& p) { p.kv.table_stride = -1; }});
  const auto contiguous = broken_attention<ContiguousKv>();
  Finding wrong;
  const auto check = [&](std::string_view name, auto rows, AttentionProblem& of, const auto& whole,
                         const auto& broken) {
    if (wrong || (!operation.empty() && name != operation)) return;
    wrong = check_refused(name, rows, of, whole, broken);
  };
  using namespace kernels;
  check("paged_decode", paged_decode(), problem, problem.paged(false), paged);
  check("paged_prefill", paged_prefill(), problem, problem.paged(true), paged);
  check("contiguous_decode", contiguous_decode(), problem, problem.contiguous(false), contiguous);
  check("contiguous_prefill", contiguous_prefill(), problem, problem.contiguous(true), contiguous);
  check("mla_decode", mla_decode(), latent, latent.latent(), broken_latent());
  return wrong;
}

}  // namespace kvproof::properties
