// SPDX-License-Identifier: Apache-2.0
#include "bench/requests/log_size.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "reference/ids.h"

namespace kvproof::bench {
namespace {

/// A set of ids, 64 of them a word: most logs number them densely.
class IdSet {
 public:
  /// @return whether it is new
  bool insert(std::uint64_t id) {
    const std::uint64_t page = id / 64;
    if (word_ == nullptr || page != page_) {
      page_ = page;
      word_ = &words_[page];  // stays where it is: nodes of an unordered_map do not move
    }
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    if ((*word_ & bit) != 0) return false;
    *word_ |= bit;
    return true;
  }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> words_;
  std::uint64_t page_ = 0;
  std::uint64_t* word_ = nullptr;
};

}  // namespace

std::uint64_t prompt_tokens(const Request& request, const SourceInfo& info, TokenMode mode) {
  if (mode == TokenMode::whole_blocks && info.ids_block_size > 0) {
    return request.block_ids.size() * static_cast<std::uint64_t>(info.ids_block_size) + 1;
  }
  return static_cast<std::uint64_t>(request.input_tokens);
}

SourceSize size_of(RequestSource& source, std::uint32_t block_size, TokenMode mode) {
  SourceSize out;
  IdSet seen;
  for (Request request; source.next(request);) {
    const std::uint64_t prompt = prompt_tokens(request, source.info(), mode);
    const auto output = static_cast<std::uint64_t>(request.output_tokens);
    ++out.requests;
    out.output_tokens += output;
    out.max_prompt_tokens = std::max(out.max_prompt_tokens, prompt);
    out.max_tokens = std::max(out.max_tokens, prompt + output);
    // The leading ids that were seen before are shared blocks: equal ids mean equal prefixes.
    std::uint64_t known_ids = 0;
    bool leading = true;
    for (const std::uint64_t id : request.block_ids) {
      leading = !seen.insert(id) && leading;
      known_ids += leading ? 1 : 0;
    }
    const std::uint64_t known =
        std::min(known_ids * static_cast<std::uint64_t>(source.info().ids_block_size), prompt);
    const std::uint64_t blocks = ceil_div<std::uint64_t>(prompt, block_size);
    out.prompt_blocks += blocks - std::min(blocks, known / block_size);
    out.output_blocks += ceil_div<std::uint64_t>(prompt + output, block_size) - blocks;
  }
  return out;
}

std::uint32_t usable_blocks(std::optional<std::uint32_t> capacity, std::uint64_t everything) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
  if (!capacity && everything > kMost) {
    throw std::invalid_argument("an infinite cache of more than 2^30 blocks; name a capacity");
  }
  const std::uint64_t blocks = capacity.value_or(static_cast<std::uint32_t>(everything));
  if (blocks == 0) throw std::invalid_argument("a capacity of zero blocks");
  if (blocks > kMost) throw std::invalid_argument("a capacity of more than 2^30 blocks");
  return static_cast<std::uint32_t>(blocks);
}

}  // namespace kvproof::bench
