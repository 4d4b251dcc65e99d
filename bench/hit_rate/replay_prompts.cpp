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

namespace kvproof::bench {
namespace {

CacheConfig config_for(const SourceSize& size, const ReplayOptions& options) {
  // A prompt that is cached as a whole computes its last block anew: a copy for each request.
  const std::uint64_t infinite = size.prompt_blocks + size.requests;
  if (!options.capacity_blocks && infinite > (1U << 30)) {
    throw std::invalid_argument("an infinite cache of more than 2^30 blocks; name a capacity");
  }
  const std::uint64_t blocks = options.capacity_blocks.value_or(infinite);
  if (blocks == 0) throw std::invalid_argument("a capacity of zero blocks");
  if (blocks > (1U << 30)) throw std::invalid_argument("a capacity of more than 2^30 blocks");
  require_memory(blocks, kPoolBytesPerBlock);
  CacheConfig out;
  out.num_blocks = static_cast<std::uint32_t>(blocks) + 1;
  out.max_model_len =
      static_cast<std::uint32_t>(std::max<std::uint64_t>(size.max_prompt_tokens, 1));
  out.hash_block_size = options.block_size;
  out.groups = {{LayerKind::full, options.block_size, false}};
  return out;
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
    manager_.pool().audit();
    for (BlockId block = 0; block < manager_.pool().num_blocks(); ++block) {
      counts_.kept_blocks += manager_.pool().hashed(block) ? 1 : 0;
    }
    counts_.evictions = published_ - counts_.kept_blocks;
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
    if (manager_.allocate(id, {.new_tokens = prompt - hit, .use_lookup = true})) {
      manager_.advance(id, prompt);
      counts_.hit_tokens +=
          std::min<std::uint64_t>(hit, static_cast<std::uint64_t>(request.input_tokens));
      counts_.hit_blocks += hit / options_.block_size;
      published_ += (prompt - hit) / options_.block_size;
    } else {
      ++counts_.refused;
    }
    if (options_.on_served) tell(request, id, hit);
    manager_.finish(id);
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
  std::uint64_t published_ = 0;
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

}  // namespace kvproof::bench
