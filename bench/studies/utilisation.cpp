// SPDX-License-Identifier: Apache-2.0
// Study: 100 lognormal requests, all alive with all their tokens, on every storage.
//
// The shape of a published run: a model of 131,072 bytes per token (32 layers, 8 KV heads of 128,
// fp16) and a longest length of 8,192 tokens.
#include <algorithm>
#include <optional>

#include "bench/requests/tokens.h"
#include "bench/studies/play.h"
#include "bench/studies/studies.h"
#include "reference/kv_spec.h"

namespace kvproof::bench {
namespace {

struct Planned {
  std::vector<TokenId> prompt;
  std::uint32_t final_tokens = 0;
};

std::vector<Planned> planned_requests(const ReopenableSource& source) {
  const auto stream = source.open();
  std::vector<Planned> planned;
  for (Request request; stream->next(request);) {
    Planned& next = planned.emplace_back();
    fill_tokens(request, stream->info(), next.prompt);
    next.final_tokens = static_cast<std::uint32_t>(request.input_tokens + request.output_tokens);
  }
  return planned;
}

/// Starts all requests, then lets each of them grow by a token in turn until all are complete.
MemoryUse fill(KvMemory& memory, const std::vector<Planned>& requests) {
  std::vector<PlayedRequest> live;
  for (const Planned& request : requests) {
    live.emplace_back(memory, request.prompt, request.final_tokens);
  }
  for (bool grown = true; grown;) {
    grown = false;
    for (PlayedRequest& request : live) {
      if (request.complete()) continue;
      request.grow();
      grown = true;
    }
  }
  return memory.use();
}

}  // namespace

std::vector<Result> utilisation(const StudyOptions& options) {
  const std::vector<Planned> requests = planned_requests(workload_source("lognormal", options));
  const double bytes_per_token =
      static_cast<double>(KvSpec::full(32, 8, 128, DataType::fp16).bytes_per_token());
  const auto count = static_cast<std::uint32_t>(requests.size());
  std::optional<double> longest_bytes;  // what contiguous_max_length allocates
  std::vector<Result> results;
  for (const StorageRow& row : kStorages) {
    if (row.needs_ids) continue;
    const auto memory = row.make(
        {.block_size = kBlockSize,
         .capacity_tokens = row.contiguous ? kUnbounded : std::uint64_t{count} * kMaxLength,
         .max_tokens = kMaxLength,
         .max_requests = count});
    const MemoryUse use = fill(*memory, requests);
    const double allocated = static_cast<double>(use.held()) * bytes_per_token;
    const double used = static_cast<double>(use.known) * bytes_per_token;
    Result& result = results.emplace_back(
        Result{"utilisation",
               {{"storage", std::string(row.name)}, {"requests", std::int64_t{count}}},
               {{"allocated_bytes", metric(allocated, "bytes")},
                {"used_bytes", metric(used, "bytes")},
                {"utilisation", metric(used / allocated, "ratio")}}});
    if (row.contiguous) {
      const double arena = static_cast<double>(memory->top_tokens()) * bytes_per_token;
      result.metrics.push_back({"arena_bytes", metric(arena, "bytes")});
    }
    if (!longest_bytes) longest_bytes = allocated;
    if (row.name == "paged") {
      result.metrics.push_back({"saving_factor", metric(*longest_bytes / allocated, "ratio")});
    }
  }
  return results;
}

}  // namespace kvproof::bench
