// SPDX-License-Identifier: Apache-2.0
// The size of a source of requests, which is needed before a pool is built for it.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/requests/request.h"
#include "bench/requests/tokens.h"

namespace kvproof::bench {

struct SourceSize {
  std::uint64_t requests = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t max_prompt_tokens = 0;  // of one request, as the allocator sees it
  std::uint64_t max_tokens = 0;         // of one request, with its output
  // Blocks that hold every prompt at once. Equal prefixes count once if ids say what is equal; the
  // tokens of a prompt after its last whole id count as its own.
  std::uint64_t prompt_blocks = 0;
  std::uint64_t output_blocks = 0;  // that its output adds at most
};

/// The number of tokens that an allocator gets for a prompt.
[[nodiscard]] std::uint64_t prompt_tokens(const Request& request, const SourceInfo& info,
                                          TokenMode mode);

/// Reads the whole source. Memory grows with the number of distinct ids: a few bits each if they
/// are dense.
[[nodiscard]] SourceSize size_of(RequestSource& source, std::uint32_t block_size, TokenMode mode);

/// The usable blocks of a pool of that capacity; nullopt = so many that nothing is lost.
/// @throws std::invalid_argument if no pool has as many
[[nodiscard]] std::uint32_t usable_blocks(std::optional<std::uint32_t> capacity,
                                          std::uint64_t everything);

}  // namespace kvproof::bench
