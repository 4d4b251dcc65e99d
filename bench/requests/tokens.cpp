// SPDX-License-Identifier: Apache-2.0
// Spells block ids as tokens, see tokens.h.
#include "bench/requests/tokens.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvproof::bench {
namespace {

void spell(std::uint64_t id, std::span<TokenId> tokens) {
  const std::array<TokenId, 2> halves = {
      std::bit_cast<TokenId>(static_cast<std::uint32_t>(id)),
      std::bit_cast<TokenId>(static_cast<std::uint32_t>(id >> 32))};
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = halves[i & 1];
}

}  // namespace

void fill_tokens(const Request& request, const SourceInfo& info, std::vector<TokenId>& tokens,
                 TokenMode mode) {
  const auto block = static_cast<std::size_t>(info.ids_block_size);
  const std::size_t covered_tokens = request.block_ids.size() * block;
  const bool whole = mode == TokenMode::whole_blocks && block != 0;
  tokens.resize(whole ? covered_tokens + 1 : static_cast<std::size_t>(request.input_tokens));
  std::span<TokenId> rest(tokens);
  for (std::size_t i = 0; i < request.block_ids.size() && !rest.empty(); ++i) {
    const std::size_t length = std::min(block, rest.size());
    spell(request.block_ids[i], rest.first(length));
    rest = rest.subspan(length);
  }
  // Complemented, so that the small ids of a log and the small indices do not meet.
  spell(~request.index, rest);
}

}  // namespace kvproof::bench
