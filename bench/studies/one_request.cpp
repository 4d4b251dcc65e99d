// SPDX-License-Identifier: Apache-2.0
// Study: the memory of one request while it grows to the longest length.
#include "bench/studies/play.h"
#include "bench/studies/studies.h"

namespace kvproof::bench {
namespace {

constexpr std::int64_t kBytesPerToken = 128'000;
constexpr std::uint32_t kFirstTokens = 64;   // [tokens] sampled one by one: the staircase shows
constexpr std::uint32_t kSampleEvery = 127;  // [tokens] no multiple of a block: waste shows

Result sample(const StorageRow& row, std::uint32_t tokens, const MemoryUse& use) {
  const auto bytes = [](std::uint64_t count) {
    return Metric{static_cast<double>(count) * double{kBytesPerToken}, "bytes", {}, {}};
  };
  return {"memory_of_one_request",
          {{"storage", std::string(row.name)},
           {"tokens", std::int64_t{tokens}},
           {"block_size", std::int64_t{kBlockSize}},
           {"bytes_per_token", kBytesPerToken},
           {"max_length", std::int64_t{kMaxLength}}},
          {{"allocated_bytes", bytes(use.held())}, {"used_bytes", bytes(use.known)}}};
}

}  // namespace

std::vector<Result> memory_of_one_request(const StudyOptions&) {
  std::vector<Result> results;
  for (const char* name : {"contiguous_max_length", "paged"}) {
    const StorageRow& row = *find_storage(name);
    const auto memory = row.make({.block_size = kBlockSize,
                                  .capacity_tokens = kMaxLength,
                                  .max_tokens = kMaxLength,
                                  .max_requests = 1});
    const TokenId first = 0;
    PlayedRequest request(*memory, {&first, 1}, kMaxLength);
    results.push_back(sample(row, 1, memory->use()));
    for (std::uint32_t tokens = 2; tokens <= kMaxLength; ++tokens) {
      request.grow();
      const bool due =
          tokens <= kFirstTokens || (tokens - 1) % kSampleEvery == 0 || tokens == kMaxLength;
      if (due) results.push_back(sample(row, tokens, memory->use()));
    }
    request.end();
  }
  return results;
}

}  // namespace kvproof::bench
