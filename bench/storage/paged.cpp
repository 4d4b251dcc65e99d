// SPDX-License-Identifier: Apache-2.0
// The optimized cache manager as the memory of a simulated engine.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "bench/storage/paged_config.h"
#include "bench/storage/storage.h"
#include "optimized/cache_manager.h"

namespace kvproof::bench {
namespace {

template <class Digest>
class PagedMemory final : public KvMemory, private KvSwapper {
 public:
  explicit PagedMemory(const MemoryOptions& options)
      : options_(options),
        manager_(paged_config(options), {.max_requests = options.max_requests}),
        admitted_(options.max_requests),
        lookahead_(options.max_requests) {}

  KvHandle arrive(std::span<const TokenId> prompt, std::uint32_t most_tokens) override {
    return manager_.arrive({.tokens = prompt, .max_tokens = most_tokens});
  }

  std::uint32_t cached_prefix(KvHandle request) override { return manager_.lookup(request); }

  bool start(KvHandle request, const Start& ask) override {
    const AllocateArgs args{
        .new_tokens = ask.new_tokens,
        .use_lookup = true,
        .lookahead = ask.lookahead,
        .full_sequence_must_fit = options_.whole_sequence_must_fit,
        .has_scheduled = ask.has_scheduled,
        .status = ask.resumed ? RequestStatus::preempted : RequestStatus::waiting};
    if (!manager_.allocate(request, args)) return false;
    admitted_[request] = true;
    lookahead_[request] = ask.lookahead;
    return true;
  }

  bool grow(KvHandle request, std::uint32_t new_tokens, std::uint32_t lookahead) override {
    lookahead_[request] = lookahead;
    return static_cast<bool>(manager_.allocate(
        request,
        {.new_tokens = new_tokens, .lookahead = lookahead, .status = RequestStatus::running}));
  }

  void advance(KvHandle request, std::span<const TokenId> generated,
               std::uint32_t computed) override {
    manager_.append(request, generated);
    manager_.advance(request, computed);
  }

  void preempt(KvHandle request) override {
    manager_.free(request);
    admitted_[request] = false;
  }
  void finish(KvHandle request) override {
    manager_.finish(request);
    admitted_[request] = false;
  }

  bool could_hold(std::uint32_t most_tokens) const override {
    return ceil_div(most_tokens, options_.block_size) <= options_.capacity_blocks;
  }
  std::uint64_t capacity_tokens() const override {
    return std::uint64_t{options_.capacity_blocks} * options_.block_size;
  }

  // What is computed fills whole blocks but for the last of each request, which nobody shares.
  MemoryUse use() const override {
    MemoryUse out{.free = free_tokens()};
    for (KvHandle request = 0; request < admitted_.size(); ++request) {
      if (!admitted_[request]) continue;
      const std::uint64_t slots =
          std::uint64_t{options_.block_size} * manager_.table(request).size();
      const std::uint64_t beyond = slots - manager_.computed(request);
      const std::uint64_t drafts = std::min<std::uint64_t>(beyond, lookahead_[request]);
      out.reserved += drafts;
      out.tail += beyond - drafts;
    }
    out.tokens = capacity_tokens() - out.free - out.reserved - out.tail;
    return out;
  }
  std::uint64_t free_tokens() const override {
    return std::uint64_t{manager_.pool().num_free()} * options_.block_size;
  }
  bool shares() const override { return options_.prefix_caching; }
  std::uint64_t moved_tokens() const override { return 0; }
  KvSwapper* swapper() override { return options_.host_blocks > 0 ? this : nullptr; }

 private:
  bool swap_out(KvHandle request) override { return manager_.swap_out(request); }
  bool swap_in(KvHandle request) override {
    if (!manager_.swap_in(request)) return false;
    admitted_[request] = true;
    return true;
  }
  void settle(KvHandle request) override {
    manager_.complete(request, true);
    (void)manager_.take_copies();  // there are no bytes here
    if (manager_.has_host_tables(request)) admitted_[request] = false;
  }

  MemoryOptions options_;
  optimized::CacheManager<Digest> manager_;
  std::vector<bool> admitted_;            // shape [max_requests]: has blocks of the device
  std::vector<std::uint32_t> lookahead_;  // shape [max_requests], of the last allocation [tokens]
};

}  // namespace

std::unique_ptr<KvMemory> make_paged_memory(const MemoryOptions& options, bool sha256) {
  if (sha256) return std::make_unique<PagedMemory<optimized::Sha256Digest>>(options);
  return std::make_unique<PagedMemory<optimized::Xxh3Digest>>(options);
}

}  // namespace kvproof::bench
