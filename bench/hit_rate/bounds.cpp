// SPDX-License-Identifier: Apache-2.0
#include "bench/hit_rate/bounds.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "bench/hit_rate/block_heap.h"

namespace kvproof::bench {

PromptFuture::PromptFuture(RequestSource& source)
    : block_size_(static_cast<std::uint64_t>(source.info().ids_block_size)), first_{0} {
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  for (Request request; source.next(request);) {
    for (const std::uint64_t id : request.block_ids) {
      const auto number = static_cast<std::uint32_t>(numbers.size());
      blocks_.push_back(numbers.try_emplace(id, number).first->second);
    }
    first_.push_back(blocks_.size());
    inputs_.push_back(static_cast<std::uint64_t>(request.input_tokens));
  }
  if (blocks_.size() >= kNever) throw std::invalid_argument("a log of more than 2^32 blocks");
  distinct_ = static_cast<std::uint32_t>(numbers.size());
  std::vector<std::uint32_t> coming(distinct_, kNever);
  next_use_.resize(blocks_.size());
  for (std::size_t r = num_requests(); r-- > 0;) {
    for (std::uint64_t i = first_[r]; i < first_[r + 1]; ++i) {
      next_use_[i] = std::exchange(coming[blocks_[i]], static_cast<std::uint32_t>(r));
    }
  }
}

ReplayCounts PromptFuture::optimum(std::uint64_t capacity_blocks) const {
  ReplayCounts out;
  out.requests = num_requests();
  out.prompt_blocks = blocks_.size();
  out.capacity_blocks = capacity_blocks;
  BlockHeap<std::uint64_t> kept(distinct_);  // on top the block needed last; of equals the deepest
  for (std::size_t r = 0; r < num_requests(); ++r) {
    std::uint64_t hits = 0;
    for (std::uint64_t i = first_[r]; i < first_[r + 1]; ++i) {
      const std::uint64_t depth = i - first_[r];
      if (kept.contains(blocks_[i])) {
        if (hits != depth)
          throw std::logic_error("the offline optimum kept a block, not its parent");
        ++hits;
      }
      if (next_use_[i] != kNever) {
        kept.put(blocks_[i], ~(std::uint64_t{next_use_[i]} << 32U | depth));
      } else if (kept.contains(blocks_[i])) {
        kept.remove(blocks_[i]);
      }
    }
    while (kept.size() > capacity_blocks) kept.pop();
    out.input_tokens += inputs_[r];
    out.hit_blocks += hits;
    out.hit_tokens += std::min(hits * block_size_, inputs_[r]);
  }
  return out;
}

}  // namespace kvproof::bench
