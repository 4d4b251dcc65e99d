// SPDX-License-Identifier: Apache-2.0
#include "bench/hit_rate/replay_prompts.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/hit_rate/chosen_victims.h"
#include "bench/hit_rate/policies.h"
#include "bench/instruments/memory_here.h"
#include "bench/requests/log_size.h"
#include "optimized/cache_manager.h"
#include "reference/layer_rules.h"

namespace kvproof::bench {
namespace {

CacheConfig config_for(const SourceSize& size, const ReplayOptions& options) {
  // A prompt that is cached as a whole computes its last block anew: a copy for each request.
  const std::uint32_t blocks =
      usable_blocks(options.capacity_blocks, size.prompt_blocks + size.requests);
  require_memory(blocks, kPoolBytesPerBlock);
  CacheConfig out;
  out.num_blocks = blocks + 1;
  out.max_model_len =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(size.max_prompt_tokens, 1));
  out.hash_block_size = options.block_size;
  out.groups = {{LayerKind::full, options.block_size, false}};
  return out;
}

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

template <class Manager>
class PromptReplay {
 public:
  PromptReplay(const CacheConfig& config, const ReplayOptions& options)
      : options_(options),
        victims_(chosen_victims(config, options, serving_)),
        manager_(config, {.max_requests = 1, .victims = victims_.get()}) {}

  void play(RequestSource& source) {
    Request request;
    while (source.next(request)) {
      fill_tokens(request, source.info(), tokens_, options_.tokens);
      serve(request);
      if (options_.on_progress && counts_.requests % 256 == 0)
        options_.on_progress(source.fraction());
    }
    counts_.left_out = source.left_out();
    manager_.start_step();
    manager_.pool().audit();
    for (BlockId block = 0; block < manager_.pool().num_blocks(); ++block) {
      counts_.kept_blocks += manager_.pool().hashed(block) ? 1 : 0;
    }
    counts_.evictions = manager_.counters().evictions;
    counts_.capacity_blocks = manager_.pool().num_blocks() - 1;
    counts_.pool_bytes = manager_.pool().bytes();
  }

  [[nodiscard]] const ReplayCounts& counts() const { return counts_; }

 private:
  static std::unique_ptr<ChosenVictims> chosen_victims(const CacheConfig& config,
                                                       const ReplayOptions& options,
                                                       const Serving& serving) {
    if (options.policy == nullptr || options.policy->make == nullptr) return nullptr;
    return std::make_unique<ChosenVictims>(config.num_blocks, *options.policy, serving);
  }
  void serve(const Request& request) {
    ++counts_.requests;
    counts_.input_tokens += static_cast<std::uint64_t>(request.input_tokens);
    counts_.prompt_blocks += tokens_.size() / options_.block_size;
    if (tokens_.empty()) return;
    const RequestId id = manager_.arrive({.tokens = tokens_});
    const std::uint32_t hit = manager_.lookup(id);
    const auto prompt = static_cast<std::uint32_t>(tokens_.size());
    serving_ = {request.arrival_seconds, hit > 0 && 2 * hit >= prompt - 1};
    if (compute(id, hit)) {
      counts_.hit_tokens +=
          std::min<std::uint64_t>(hit, static_cast<std::uint64_t>(request.input_tokens));
      counts_.hit_blocks += hit / options_.block_size;
    } else {
      ++counts_.refused;
    }
    if (options_.on_served) tell(request, id, hit);
    manager_.finish(id);
  }
  /// Chunk by chunk, beyond what was found. @return false if the pool is too small for it
  bool compute(RequestId id, std::uint32_t hit) {
    const CacheConfig& config = manager_.config();
    const auto prompt = static_cast<std::uint32_t>(tokens_.size());
    const std::uint32_t junction = manager_.junction(id);
    for (std::uint32_t done = hit; done < prompt;) {
      const std::uint32_t end =
          chunk_end(config, done, prompt, config.max_in_flight_tokens.value_or(prompt), junction);
      const bool first = done == hit;
      manager_.start_step();
      const AllocateArgs args{.new_tokens = end - done,
                              .use_lookup = first,
                              .full_sequence_must_fit = first,
                              .status = first ? RequestStatus::waiting : RequestStatus::running};
      if (!manager_.allocate(id, args)) return false;
      manager_.advance(id, end);
      static_cast<void>(manager_.take_copies());  // an engine would run them
      done = end;
    }
    return true;
  }
  void tell(const Request& request, RequestId id, std::uint32_t hit) {
    keys_.clear();
    for (const auto& key : manager_.hashes(id)) keys_.push_back(optimized::fingerprint(key));
    options_.on_served({request, tokens_, keys_, manager_.table(id), hit});
  }

  const ReplayOptions& options_;
  Serving serving_;
  std::unique_ptr<ChosenVictims> victims_;  // nullptr = the free queue's head
  Manager manager_;
  std::vector<TokenId> tokens_;
  std::vector<std::uint64_t> keys_;
  ReplayCounts counts_;
};

template <class Manager>
ReplayCounts replay(const ReopenableSource& requests, const CacheConfig& config,
                    const ReplayOptions& options) {
  const auto source = requests.open();
  const auto start = std::chrono::steady_clock::now();
  PromptReplay<Manager> run(config, options);
  run.play(*source);
  ReplayCounts out = run.counts();
  out.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
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

ReplayCounts replay_prompts(const ReopenableSource& source, const ReplayOptions& options) {
  if (options.block_size == 0) throw std::invalid_argument("a block size of zero");
  const CacheConfig config =
      config_for(size_of(*source.open(), options.block_size, options.tokens), options);
  ReplayCounts out;
  optimized::visit_manager(*options.manager, [&](auto digest) {
    using Manager = optimized::CacheManager<typename decltype(digest)::type>;
    out = replay<Manager>(source, config, options);
  });
  return out;
}

ReplayCounts replay_hybrid(const ReopenableSource& source, CacheConfig config) {
  fit(*source.open(), config);
  require_memory(config.num_blocks, kPoolBytesPerBlock);
  ReplayOptions options;
  options.block_size = config.hash_block_size;
  return replay<optimized::CacheManager<optimized::Xxh3Digest>>(source, config, options);
}

}  // namespace kvproof::bench
