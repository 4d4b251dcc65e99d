// SPDX-License-Identifier: Apache-2.0
// Attention in the served world: through the tables and over contiguous buffers, equal bit for bit.
#include <cstring>

#include "properties/kernels/served_rows.h"
#include "properties/kernels/served_world.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionParams;
using kernels::AttentionShape;
using kernels::Bf16;
using kernels::ContiguousKv;
using kernels::PagedKv;

AttentionShape shape_of(std::int32_t window) {
  return {.num_heads = kHeads,
          .num_kv_heads = kKvHeads,
          .head_size = kHeadSize,
          .value_head_size = kHeadSize,
          .scale = 0.17677669F,
          .window = window};
}

/// Queries and outputs of one launch, dense.
template <class Kv>
AttentionParams<Kv> params_of(const AttentionShape& shape, const Kv& kv,
                              const std::vector<std::int32_t>& seq_lens,
                              const std::vector<Bf16>& query, std::vector<Bf16>& output) {
  AttentionParams<Kv> p;
  p.shape = shape;
  p.kv = kv;
  p.num_seqs = static_cast<std::int32_t>(seq_lens.size());
  p.num_query_tokens = static_cast<std::int32_t>(query.size() / kQuery);
  p.seq_lens = seq_lens.data();
  p.query = query.data();
  p.query_token_stride = p.output_token_stride = kQuery;
  p.query_head_stride = p.output_head_stride = kHeadSize;
  output.assign(query.size(), Bf16{0x7FFF});
  p.output = output.data();
  return p;
}

bool equal_bits(const std::vector<Bf16>& a, const std::vector<Bf16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Bf16)) == 0;
}

}  // namespace

void ServedWorld::prefill(Group& group, const Request& request, const std::vector<BlockId>& table,
                          std::uint32_t from, std::uint32_t to) {
  std::vector<Bf16> query(static_cast<std::size_t>((to - from) * kQuery)), paged, apart;
  fill(++dirt_, query.data(), static_cast<std::int64_t>(query.size()));
  const std::vector<std::int32_t> row = row_of(table), lens{static_cast<std::int32_t>(to)};
  const std::int32_t starts[] = {0, static_cast<std::int32_t>(to - from)};
  const PagedKv pool{group.key.data(), group.value.data(), group.layout,
                     group.layout,     row.data(),         static_cast<std::int64_t>(row.size())};
  const std::int64_t buffer = request.buffer * group.apart.block_stride;
  const ContiguousKv own{group.apart_key.data() + buffer, group.apart_value.data() + buffer,
                         group.apart, group.apart};
  auto a = params_of(shape_of(group.window), pool, lens, query, paged);
  auto b = params_of(shape_of(group.window), own, lens, query, apart);
  a.query_starts = b.query_starts = starts;
  demand(path_.paged_prefill->launch(a, {}));
  demand(path_.contiguous_prefill->launch(b, {}));
  counts_.prefilled_queries += to - from;
  if (!equal_bits(paged, apart)) {
    complain(say("tokens ", from, " to ", to, " attend to something else through the table"));
  }
}

/// One more query of a request, at the position behind its last token, which sees all cached
/// tokens.
/// @param only the name of the request; empty: every request
void ServedWorld::decode(const std::string& only) {
  for (GroupId g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    // A window counts the query's own token, which has no row yet.
    const std::int32_t window = group.window == 0 ? 0 : group.window - 1;
    if (group.window == 1) continue;
    for (const RequestState& now : state_.requests) {
      if (!only.empty() && now.name != only) continue;
      const Request& request = requests_.at(now.name);
      const bool here = now.host_tables.empty() || (!request.transfer.empty() && request.leaving);
      const std::uint32_t length = std::max(now.computed, request.written);
      if (!here || length == 0 || now.tables[g].empty()) continue;
      std::vector<Bf16> query(kQuery), paged, apart;
      fill(++dirt_, query.data(), kQuery);
      const std::vector<std::int32_t> row = row_of(now.tables[g]);
      const std::vector<std::int32_t> lens{static_cast<std::int32_t>(length)};
      const PagedKv pool{group.key.data(), group.value.data(),
                         group.layout,     group.layout,
                         row.data(),       static_cast<std::int64_t>(row.size())};
      const std::int64_t buffer = request.buffer * group.apart.block_stride;
      const ContiguousKv own{group.apart_key.data() + buffer, group.apart_value.data() + buffer,
                             group.apart, group.apart};
      demand(path_.paged_decode->launch(params_of(shape_of(window), pool, lens, query, paged), {}));
      demand(path_.contiguous_decode->launch(params_of(shape_of(window), own, lens, query, apart),
                                             {}));
      ++counts_.decoded_queries;
      if (!equal_bits(paged, apart)) {
        complain(say(now.name, " attends to something else through its table of group ", g,
                     " than its own ", length, " tokens"));
      }
    }
  }
}

}  // namespace kvproof::properties
