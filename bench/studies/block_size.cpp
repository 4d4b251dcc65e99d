// SPDX-License-Identifier: Apache-2.0
// Study: the tokens that whole blocks waste at the end of a request, and the table entries that
//          small
// blocks cost. Each request is alone in the paged allocator, with all tokens of its final length.
#include <algorithm>

#include "bench/studies/play.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

constexpr std::uint32_t kLargestBlock = 256;  // [tokens]

std::vector<std::uint32_t> final_lengths(const ReopenableSource& source) {
  const auto stream = source.open();
  std::vector<std::uint32_t> lengths;
  for (Request request; stream->next(request);) {
    const std::int64_t tokens = request.input_tokens + request.output_tokens;
    if (tokens > 0) lengths.push_back(static_cast<std::uint32_t>(tokens));
  }
  return lengths;
}

Result measure(const std::string& name, const std::vector<std::uint32_t>& lengths,
               std::uint32_t block_size) {
  const std::uint32_t longest = std::ranges::max(lengths);
  const std::vector<TokenId> tokens(longest);
  const auto memory = find_storage("paged")->make({.block_size = block_size,
                                                   .capacity_tokens = longest,
                                                   .max_tokens = longest,
                                                   .max_requests = 1});
  double live = 0;
  double reserved = 0;
  double entries = 0;
  for (const std::uint32_t length : lengths) {
    PlayedRequest request(*memory, std::span(tokens).first(length), length);
    const MemoryUse use = memory->use();
    live += static_cast<double>(use.known);
    reserved += static_cast<double>(use.held());
    entries += static_cast<double>(use.table_entries);
    request.end();
  }
  const auto requests = static_cast<double>(lengths.size());
  return {"waste_against_block_size",
          {{"block_size", std::int64_t{block_size}}, {"workload", name}},
          {{"mean_waste_tokens", metric((reserved - live) / requests, "tokens")},
           {"waste_share", metric((reserved - live) / reserved, "ratio")},
           {"table_entries_per_request", metric(entries / requests, "blocks")},
           {"requests", metric(requests, "count")}}};
}

}  // namespace

std::vector<Result> waste_against_block_size(const StudyOptions& options) {
  const std::vector<ReopenableSource> sources = all_sources(options);
  std::vector<Result> results;
  double done = 0;
  for (const ReopenableSource& source : sources) {
    const std::vector<std::uint32_t> lengths = final_lengths(source);
    for (std::uint32_t block = 1; !lengths.empty() && block <= kLargestBlock; block *= 2) {
      results.push_back(measure(source.name, lengths, block));
      options.report((done + block / double{kLargestBlock}) / static_cast<double>(sources.size()));
    }
    ++done;
  }
  return results;
}

}  // namespace kvproof::bench
