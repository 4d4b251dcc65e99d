// SPDX-License-Identifier: Apache-2.0
#include "bench/hit_rate/replay_hybrid.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/instruments/memory_here.h"
#include "bench/requests/tokens.h"
#include "optimized/cache_manager.h"
#include "reference/layer_rules.h"

namespace kvproof::bench {
namespace {

using HybridManager = optimized::CacheManager<optimized::Xxh3Digest>;

std::uint32_t state_block(const CacheConfig& config) {
  for (const GroupConfig& group : config.groups) {
    if (moves_state(group)) return group.block_size;
  }
  return 0;
}

/// The pool and the limit that the whole source needs: each group may take a block for each of a
/// prompt, and one more when it copies the block in which a hit ends.
void fit(RequestSource& source, CacheConfig& config) {
  std::uint64_t blocks = 1;
  for (Request request; source.next(request);) {
    const auto prompt = static_cast<std::uint64_t>(request.input_tokens);
    config.max_model_len = std::max(config.max_model_len, static_cast<std::uint32_t>(prompt));
    for (const GroupConfig& group : config.groups) {
      blocks += ceil_div<std::uint64_t>(prompt, group.block_size) + 1;
    }
  }
  if (config.num_blocks > 0) return;
  if (blocks > (1U << 30)) throw std::invalid_argument("an infinite cache of over 2^30 blocks");
  config.num_blocks = static_cast<std::uint32_t>(blocks);
}

/// @return the tokens that its lookup found; nullopt if the pool is too small for it
std::optional<std::uint32_t> serve(HybridManager& manager, std::span<const TokenId> tokens) {
  const CacheConfig& config = manager.config();
  const auto prompt = static_cast<std::uint32_t>(tokens.size());
  const RequestId id = manager.arrive({.tokens = tokens});
  const std::uint32_t hit = manager.lookup(id);
  const std::uint32_t junction = manager.junction(id);
  bool granted = true;
  for (std::uint32_t done = hit; granted && done < prompt;) {
    const std::uint32_t end =
        chunk_end(config, done, prompt, *config.max_in_flight_tokens, junction);
    const bool first = done == hit;
    manager.start_step();
    granted = static_cast<bool>(
        manager.allocate(id, {.new_tokens = end - done,
                              .use_lookup = first,
                              .full_sequence_must_fit = first,
                              .status = first ? RequestStatus::waiting : RequestStatus::running}));
    if (granted) manager.advance(id, end);
    static_cast<void>(manager.take_copies());  // an engine would run them
    done = end;
  }
  manager.finish(id);
  return granted ? std::optional(hit) : std::nullopt;
}

}  // namespace

std::uint32_t chunk_end(const CacheConfig& config, std::uint32_t start, std::uint32_t prompt,
                        std::uint32_t budget, std::uint32_t junction) {
  const std::uint32_t block = state_block(config);
  std::uint32_t end = std::min(start + budget, prompt);
  if (block == 0) return end;
  if (end < prompt) end -= end % block;
  const Resumption rules = resumption_of(config);
  const auto last = static_cast<std::uint32_t>(state_boundary(rules, prompt, block));
  std::uint32_t out = end;
  const auto stop = [&](std::uint32_t at) {
    if (start < at && at < out) out = at;
  };
  stop(last);
  if (start % block != 0) stop((start / block + 1) * block);
  if (hits_inside_blocks(config)) {
    const auto tail = static_cast<std::uint32_t>(state_boundary(rules, prompt, rules.unit));
    if (tail > last) stop(tail);
  }
  if (start < junction && junction < end) stop(start + (junction - start) / block * block);
  return out;
}

ReplayCounts replay_hybrid(const ReopenableSource& requests, CacheConfig config) {
  fit(*requests.open(), config);
  require_memory(config.num_blocks, kPoolBytesPerBlock);
  HybridManager manager(config, {.max_requests = 1});
  ReplayCounts out;
  const auto source = requests.open();
  std::vector<TokenId> tokens;
  for (Request request; source->next(request);) {
    ++out.requests;
    out.input_tokens += static_cast<std::uint64_t>(request.input_tokens);
    fill_tokens(request, source->info(), tokens);
    if (tokens.empty()) continue;
    const auto hit = serve(manager, tokens);
    if (hit) {
      out.hit_tokens += *hit;
    } else {
      ++out.refused;
    }
  }
  manager.start_step();
  manager.pool().audit();
  for (BlockId block = 0; block < manager.pool().num_blocks(); ++block) {
    out.kept_blocks += manager.pool().hashed(block) ? 1 : 0;
  }
  out.evictions = manager.counters().evictions;
  out.capacity_blocks = manager.pool().num_blocks() - 1;
  out.pool_bytes = manager.pool().bytes();
  return out;
}

}  // namespace kvproof::bench
