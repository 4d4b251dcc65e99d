// SPDX-License-Identifier: Apache-2.0
#include "properties/kernels/attention_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "kernels/contiguous_decode/contiguous_decode.h"
#include "kernels/contiguous_prefill/contiguous_prefill.h"
#include "kernels/paged_decode/paged_decode.h"
#include "kernels/paged_prefill/paged_prefill.h"
#include "kernels/typed.h"
#include "properties/kernels/armed_fault.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionShape;
using kernels::Refusal;

/// The bytes of the elements that belong to the sequence's query tokens, or to any.
std::vector<std::byte> rows_of(const AttentionProblem& problem, const OutputMemory& out,
                               std::int32_t only) {
  std::vector<std::byte> bytes;
  const auto size = static_cast<std::size_t>(out.element_bytes);
  for (std::size_t i = 0; i < out.owner.size(); ++i) {
    if (out.owner[i] < 0 || (only >= 0 && problem.sequence_of(out.owner[i]) != only)) continue;
    const std::byte* at = out.bytes.data() + i * size;
    bytes.insert(bytes.end(), at, at + size);
  }
  return bytes;
}

std::vector<std::byte> results_of(const AttentionProblem& problem, std::int32_t only = -1) {
  std::vector<std::byte> out = rows_of(problem, problem.output(), only);
  if (!problem.plan().wants_lse) return out;
  const std::vector<std::byte> lse = rows_of(problem, problem.lse(), only);
  out.insert(out.end(), lse.begin(), lse.end());
  return out;
}

/// Whether everything between and around the rows is still the byte it was wiped with.
Finding outside_of(const OutputMemory& out, std::uint8_t byte, bool all, const char* what) {
  const auto size = static_cast<std::size_t>(out.element_bytes);
  for (std::size_t i = 0; i < out.owner.size() * size; ++i) {
    if (!all && out.owner[i / size] >= 0) continue;
    if (out.bytes.data()[i] != static_cast<std::byte>(byte)) {
      return say("wrote outside of its rows: ", what, " element ", i / size);
    }
  }
  return {};
}

struct Ran {
  Refusal refusal;
  Finding finding;
};

/// One launch on wiped outputs. A refusal must leave them as they were.
Ran launch(const AttentionRow& row, AttentionProblem& problem, std::uint8_t byte) {
  if (!problem.sparse()) problem.wipe(byte);
  Ran ran;
  try {
    const ArmedFault armed;
    draw_schedule(problem.plan().seed + byte);
    ran.refusal = row.launch(problem);
    if (const std::string error = wait_for_device(); !error.empty()) ran.finding = error;
  } catch (const std::exception& error) {
    ran.finding = error.what();
  }
  if (!ran.finding && !problem.arrivals_are_zero()) ran.finding = "split_arrivals: not zeros again";
  if (ran.finding || problem.sparse()) return ran;
  const bool none = static_cast<bool>(ran.refusal);
  const bool no_lse = none || !problem.plan().wants_lse;
  ran.finding = outside_of(problem.output(), byte, none, "output");
  if (!ran.finding) ran.finding = outside_of(problem.lse(), byte, no_lse, "log-sum-exp");
  return ran;
}

/// Runs again with other bytes in all places that no query token reads.
Finding check_poison(const AttentionRow& row, AttentionProblem& problem,
                     const std::vector<std::byte>& expected, std::int32_t only, Random& random) {
  const auto poison = static_cast<Poison>(random.between(0, 3));
  constexpr std::uint8_t kAll = CacheMemory::kGap | CacheMemory::kKey | CacheMemory::kValue;
  const std::uint8_t cells =
      only >= 0 ? kAll : random.of({kAll, CacheMemory::kKey, CacheMemory::kValue});
  problem.poison(poison, cells, only);
  const Ran ran = launch(row, problem, random.of<std::uint8_t>({0x5A, 0x00, 0x46}));
  problem.restore();
  if (ran.finding) return ran.finding;
  const std::vector<std::byte> found = results_of(problem, only);
  const std::size_t at = first_difference(expected, found);
  if (at == expected.size()) return {};
  return say("byte ", at, " of the results depends on ",
             only >= 0 ? "another sequence" : "what no query sees", " (poison ",
             static_cast<int>(poison), ", cells ", int{cells}, ")");
}

Finding check_row(const AttentionRow& row, AttentionProblem& problem, const ExactAttention& exact,
                  AttentionTally::Row& tally) {
  Ran ran = launch(row, problem, 0xFF);
  if (ran.finding) return ran.finding;
  if (ran.refusal) {
    ++tally.refused;
    tally.reason = ran.refusal.reason;
    return {};
  }
  ++tally.ran;
  if (auto wrong = exact.compare(problem, rounds_of(row.name), tally.most_used)) return wrong;
  if (problem.sparse()) return {};
  Random random(problem.plan().seed + 5);
  if (auto wrong = check_poison(row, problem, results_of(problem), -1, random)) return wrong;
  if (problem.plan().num_seqs() == 1 || random.one_in(2)) return {};
  const std::int32_t only = random.between(0, problem.plan().num_seqs() - 1);
  ran = launch(row, problem, 0xFF);
  if (ran.finding) return ran.finding;
  return check_poison(row, problem, results_of(problem, only), only, random);
}

template <class Params, class MakeParams>
void add_rows(std::vector<AttentionRow>& out, std::string_view operation, bool decodes, bool latent,
              std::span<const kernels::Implementation<Params>> implementations, MakeParams make) {
  for (const auto& row : implementations) {
    out.push_back({operation, row.name, decodes, latent,
                   [launch = row.launch, make](const AttentionProblem& problem) {
                     return launch(make(problem), kernels::Context{});
                   }});
  }
}

}  // namespace

bool AttentionRow::takes(const AttentionPlan& plan) const {
  if (latent) return plan.kind == AttentionKind::latent;
  const bool contiguous = operation.starts_with("contiguous");
  if (contiguous && (plan.kind == AttentionKind::far || !plan.also_contiguous)) return false;
  return plan.one_token_each() ? decodes || plan.also_prefill : !decodes;
}

std::vector<AttentionRow> attention_rows() {
  std::vector<AttentionRow> out;
  using P = const AttentionProblem&;
  add_rows(out, "paged_decode", true, false, kernels::paged_decode(),
           [](P p) { return p.paged(false); });
  add_rows(out, "paged_prefill", false, false, kernels::paged_prefill(),
           [](P p) { return p.paged(true); });
  add_rows(out, "contiguous_decode", true, false, kernels::contiguous_decode(),
           [](P p) { return p.contiguous(false); });
  add_rows(out, "contiguous_prefill", false, false, kernels::contiguous_prefill(),
           [](P p) { return p.contiguous(true); });
  add_rows(out, "mla_decode", true, true, kernels::mla_decode(), [](P p) { return p.latent(); });
  return out;
}

std::vector<AttentionRow> attention_rows(std::string_view prefix) {
  std::vector<AttentionRow> out = attention_rows();
  std::erase_if(out, [&](const AttentionRow& row) { return !row.name.starts_with(prefix); });
  return out;
}

Finding check_attention(const AttentionPlan& plan, const std::vector<AttentionRow>& rows,
                        AttentionTally& tally) {
  AttentionProblem problem(plan);
  const ExactAttention exact(problem);
  if (exact.finding()) return say(*exact.finding(), " [", plan.text(), "]");
  for (const AttentionRow& row : rows) {
    if (!row.takes(plan)) continue;
    if (auto wrong = check_row(row, problem, exact, tally.rows[row.text()])) {
      return say(row.text(), ": ", *wrong, " [", plan.text(), "]");
    }
  }
  return {};
}

Finding check_attention_grid(const std::vector<AttentionRow>& rows, AttentionTally& tally) {
  using kernels::ElementType;
  std::uint64_t seed = 0;
  for (const auto& [type, cache] : {std::pair{ElementType::fp32, ElementType::fp32},
                                    std::pair{ElementType::bf16, ElementType::bf16},
                                    std::pair{ElementType::fp16, ElementType::fp16},
                                    std::pair{ElementType::bf16, ElementType::fp8_e4m3},
                                    std::pair{ElementType::fp16, ElementType::fp8_e5m2}}) {
    for (const std::int32_t head_size : {64, 80, 96, 128, 192, 256}) {
      AttentionShape s;
      s.type = type;
      s.cache_type = cache;
      if (kernels::is_fp8(cache)) s.key_scale = 0.37F, s.value_scale = 2.9F;
      s.num_heads = s.num_kv_heads = 1;
      s.head_size = s.value_head_size = head_size;
      s.scale = 0.1F;
      AttentionPlan plan = plain_plan(s, seed % 3 == 1 ? 256 : 16, 41);
      plan.seed = seed++;
      if (auto wrong = check_attention(plan, rows, tally)) return wrong;
    }
  }
  return {};
}

Finding check_long_prefills(const std::vector<AttentionRow>& rows, AttentionTally& tally) {
  for (const AttentionPlan& plan : long_prefills()) {
    if (auto wrong = check_attention(plan, rows, tally)) return wrong;
  }
  return {};
}

Finding check_attention_tiles(const std::vector<AttentionRow>& rows, AttentionTally& tally) {
  for (const std::int32_t window : {0, 100}) {
    AttentionShape s;
    s.num_heads = 2;
    s.num_kv_heads = 1;
    s.head_size = s.value_head_size = 64;
    s.scale = 0.1F;
    s.window = window;
    AttentionPlan plan = plain_plan(s, 16, 200);
    plan.kind = AttentionKind::prefill;
    plan.query_lens = {40};
    if (auto wrong = check_attention(plan, rows, tally)) return wrong;
    plan.kind = AttentionKind::decode;
    plan.query_lens = {1};
    if (auto wrong = check_attention(plan, rows, tally)) return wrong;
  }
  return {};
}

Finding attention_round(std::uint64_t seed, int size, const std::vector<AttentionRow>& rows,
                        AttentionTally& tally) {
  for (const AttentionKind kind :
       {AttentionKind::decode, AttentionKind::prefill, AttentionKind::latent, AttentionKind::far}) {
    if (kind == AttentionKind::far && seed % 8 != 0) continue;
    if (auto wrong = check_attention(draw_plan(kind, seed, size), rows, tally)) {
      return say(*wrong, " (KVPROOF_SEED=", seed, " size ", size, ")");
    }
  }
  return {};
}

}  // namespace kvproof::properties
