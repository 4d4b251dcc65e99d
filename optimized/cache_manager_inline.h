// SPDX-License-Identifier: Apache-2.0
// The three calls of a decode step, inlined: most steps stay within a block and have nothing to do.
#pragma once

#include <cstring>

#include "optimized/cache_manager.h"

namespace kvproof::optimized {

// A handle that is not in use has no capacity, no tokens and is never quiet, so that each call
// finds out by the comparison that it makes anyway.

template <class Digest, class Pool>
inline void CacheManager<Digest, Pool>::append(RequestId id, std::span<const TokenId> tokens) {
  expects(id < requests_.size(), Breach::unknown_request, "no such request");
  Request& r = requests_[id];
  if (tokens.size() > r.capacity - r.num_tokens) [[unlikely]] {
    live(id);
    violated(Breach::capacity, "append beyond the capacity of the request");
  }
  if (tokens.size() == 1) {
    r.tokens[r.num_tokens] = tokens.front();
  } else if (!tokens.empty()) {
    std::memcpy(r.tokens + r.num_tokens, tokens.data(), tokens.size_bytes());
  }
  r.num_tokens += static_cast<std::uint32_t>(tokens.size());
  if (r.num_tokens >= r.next_unit_end) hash_units(id);
}

template <class Digest, class Pool>
inline void CacheManager<Digest, Pool>::advance(RequestId id, std::uint32_t computed) {
  expects(id < requests_.size(), Breach::unknown_request, "no such request");
  Request& r = requests_[id];
  if (computed - 1 >= r.num_tokens) [[unlikely]] {  // more than there are, or none
    live(id);
    expects(computed == 0, Breach::computed_beyond_tokens, "advance beyond the tokens");
  }
  r.computed = computed;
}

template <class Digest, class Pool>
inline Admission CacheManager<Digest, Pool>::allocate(RequestId id, const AllocateArgs& args) {
  expects(id < requests_.size(), Breach::unknown_request, "no such request");
  const Request& r = requests_[id];
  const bool ungated = args.status == RequestStatus::running && args.reserved == 0 &&
                       !args.full_sequence_must_fit && !args.use_lookup && args.external == 0;
  if (!ungated || args.new_tokens == 0) return admit(id, args);
  // A step within the last block, with no gate that could refuse, has nothing to do.
  const std::uint64_t known = std::uint64_t{r.computed} + args.new_tokens;
  const std::uint64_t slots = known + args.lookahead;
  if (slots <= r.quiet_until) return 0;
  if (!r.plain || slots > r.capacity) return admit(id, args);
  const auto known_tokens = static_cast<std::uint32_t>(known);
  const auto slot_tokens = static_cast<std::uint32_t>(slots);
  return single_full_ ? step_full(id, known_tokens, slot_tokens, args.delay_cache)
                      : step(id, known_tokens, slot_tokens, args.delay_cache);
}

}  // namespace kvproof::optimized
