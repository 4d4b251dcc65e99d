// SPDX-License-Identifier: Apache-2.0
// Attention in the served world: through the tables and over contiguous buffers, equal bit for bit.
#include <cstring>

#include "properties/kernels/served_rows.h"
#include "properties/kernels/served_world.h"
#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

using kernels::AttentionParams;
using kernels::Bf16;
using kernels::ContiguousKv;
using kernels::PagedKv;

}  // namespace

/// Queries of one request at its last positions, through its table and over its buffer.
/// @param starts where the queries of the request start and end; null: one query, for decode
/// @return whether both outputs are equal bit for bit
bool ServedWorld::attend(const Group& group, const Request& request,
                         const std::vector<BlockId>& table, std::int32_t window,
                         std::uint32_t length, const std::int32_t* starts) {
  const std::int32_t queries = starts != nullptr ? starts[1] : 1;
  std::vector<Bf16> query(static_cast<std::size_t>(queries * kQuery)), paged, apart;
  fill(++dirt_, query.data(), static_cast<std::int64_t>(query.size()));
  const std::vector<std::int32_t> row = row_of(table);
  const auto seq_len = static_cast<std::int32_t>(length);
  const auto launch = [&](const auto& implementation, const auto& kv, std::vector<Bf16>& output) {
    AttentionParams<std::decay_t<decltype(kv)>> p;
    p.shape = {.num_heads = kHeads,
               .num_kv_heads = kKvHeads,
               .head_size = kHeadSize,
               .value_head_size = kHeadSize,
               .scale = 0.17677669F,
               .window = window};
    p.kv = kv;
    p.num_seqs = 1;
    p.num_query_tokens = queries;
    p.seq_lens = &seq_len;
    p.query_starts = starts;
    p.query = query.data();
    p.query_token_stride = p.output_token_stride = kQuery;
    p.query_head_stride = p.output_head_stride = kHeadSize;
    output.assign(query.size(), Bf16{0x7FFF});
    p.output = output.data();
    demand(implementation.launch(p, {}));
  };
  launch(starts != nullptr ? *path_.paged_prefill : *path_.paged_decode,
         PagedKv{group.key.data(), group.value.data(), group.layout, group.layout, row.data(),
                 static_cast<std::int64_t>(row.size())},
         paged);
  const std::int64_t buffer = request.buffer * group.apart.block_stride;
  launch(starts != nullptr ? *path_.contiguous_prefill : *path_.contiguous_decode,
         ContiguousKv{group.apart_key.data() + buffer, group.apart_value.data() + buffer,
                      group.apart, group.apart},
         apart);
  return std::memcmp(paged.data(), apart.data(), paged.size() * sizeof(Bf16)) == 0;
}

void ServedWorld::prefill(Group& group, const Request& request, const std::vector<BlockId>& table,
                          std::uint32_t from, std::uint32_t to) {
  const std::int32_t starts[] = {0, static_cast<std::int32_t>(to - from)};
  counts_.prefilled_queries += to - from;
  if (!attend(group, request, table, group.window, to, starts)) {
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
      const RequestRecord& known = *book_.find(now.name);
      const bool here = now.host_tables.empty() || known.leaving;
      const auto length = static_cast<std::uint32_t>(known.written);
      if (!here || length == 0 || now.tables[g].empty()) continue;
      ++counts_.decoded_queries;
      if (!attend(group, request, now.tables[g], window, length, nullptr)) {
        complain(say(now.name, " attends to something else through its table of group ", g,
                     " than its own ", length, " tokens"));
      }
    }
  }
}

}  // namespace kvproof::properties
