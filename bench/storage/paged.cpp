// SPDX-License-Identifier: Apache-2.0
// Serves requests from the optimized cache manager.
#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/storage/paged_config.h"
#include "bench/storage/storage.h"
#include "optimized/cache_manager.h"

namespace kvproof::bench {
namespace {

template <class Digest>
class PagedMemory final : public KvMemory, private KvSwapper, private KvHolder {
 public:
  PagedMemory(const MemoryOptions& options, const CacheConfig& config)
      : options_(options),
        capacity_blocks_(config.num_blocks - 1),
        shares_(config.enable_caching),
        manager_(config, {.max_requests = options.max_requests}),
        admitted_(options.max_requests),
        lookahead_(options.max_requests) {}

  KvHandle arrive(std::span<const TokenId> prompt, std::uint32_t most_tokens) override {
    return manager_.arrive({.tokens = prompt, .max_tokens = most_tokens});
  }

  void begin_step() override { manager_.start_step(); }
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
    note_top();
    return true;
  }

  bool grow(KvHandle request, std::uint32_t new_tokens, std::uint32_t lookahead,
            std::uint32_t in_flight) override {
    lookahead_[request] = lookahead;
    const AllocateArgs args{.new_tokens = new_tokens,
                            .lookahead = lookahead,
                            .in_flight = in_flight,
                            .status = RequestStatus::running};
    if (!manager_.allocate(request, args)) return false;
    note_top();
    return true;
  }

  void advance(KvHandle request, std::span<const TokenId> generated,
               std::uint32_t computed) override {
    manager_.append(request, generated);
    manager_.advance(request, computed);
  }

  void publish(KvHandle request, std::uint32_t computed) override {
    manager_.cache(request, computed);
  }

  void preempt(KvHandle request) override {
    manager_.free(request);
    admitted_[request] = false;
  }
  void finish(KvHandle request) override {
    manager_.finish(request);
    admitted_[request] = false;
  }

  std::span<const BlockId> table(KvHandle request) const override {
    return manager_.table(request);
  }
  bool could_hold(std::uint32_t most_tokens) const override {
    return ceil_div(most_tokens, options_.block_size) <= capacity_blocks_;
  }
  std::uint64_t capacity_tokens() const override {
    return std::uint64_t{capacity_blocks_} * options_.block_size;
  }

  // Computed tokens fill whole blocks, except the last block of each request, which is not shared.
  MemoryUse use() const override {
    MemoryUse out{.reserved = options_.block_size * num_held(), .free = free_tokens()};
    for (KvHandle request = 0; request < admitted_.size(); ++request) {
      if (!admitted_[request]) continue;
      const std::size_t blocks = manager_.table(request).size();
      const std::uint64_t slots = std::uint64_t{options_.block_size} * blocks;
      const std::uint64_t beyond = slots - manager_.computed(request);
      const std::uint64_t drafts = std::min<std::uint64_t>(beyond, lookahead_[request]);
      out.reserved += drafts;
      out.tail += beyond - drafts;
      out.known += manager_.tokens(request).size();
      out.table_entries += blocks;
    }
    out.tokens = capacity_tokens() - out.free - out.reserved - out.tail;
    return out;
  }
  std::uint64_t free_tokens() const override {
    return std::uint64_t{manager_.pool().num_free()} * options_.block_size;
  }
  bool shares() const override { return shares_; }
  std::uint64_t moved_tokens() const override { return 0; }
  std::uint64_t top_tokens() const override { return top_; }
  KvSwapper* swapper() override { return options_.host_blocks > 0 ? this : nullptr; }
  KvHolder* holder() override { return this; }

 private:
  bool swap_out(KvHandle request) override { return manager_.swap_out(request); }
  bool swap_in(KvHandle request) override {
    if (!manager_.swap_in(request)) return false;
    admitted_[request] = true;
    note_top();
    return true;
  }
  void settle(KvHandle request) override {
    manager_.complete(request, true);
    (void)manager_.take_copies();  // there are no bytes here
    if (manager_.has_host_tables(request)) admitted_[request] = false;
  }

  void hold(KvHandle request) override { held_.push_back(manager_.pin(manager_.table(request))); }
  void let_go() override {
    for (const LeaseId lease : held_) manager_.unpin(lease);
    held_.clear();
  }
  [[nodiscard]] std::uint64_t num_held() const {
    std::vector<BlockId> blocks;
    for (const LeaseId lease : held_) {
      const auto own = manager_.leased(lease);
      blocks.insert(blocks.end(), own.begin(), own.end());
    }
    return held_alone(std::move(blocks),
                      [this](BlockId block) { return manager_.pool().record(block).ref_cnt; });
  }

  void note_top() { top_ = std::max(top_, capacity_tokens() - free_tokens()); }

  MemoryOptions options_;
  std::uint32_t capacity_blocks_;
  bool shares_;
  optimized::CacheManager<Digest> manager_;
  std::uint64_t top_ = 0;                 // [tokens]
  std::vector<LeaseId> held_;             // of requests that are finished
  std::vector<bool> admitted_;            // shape [max_requests]: has blocks of the device
  std::vector<std::uint32_t> lookahead_;  // shape [max_requests], of the last allocation [tokens]
};

}  // namespace

std::unique_ptr<KvMemory> make_paged_memory(const MemoryOptions& options, bool share) {
  const CacheConfig config = paged_config(options, share);
  if (options.audited != nullptr) return make_audited_memory(options, config);
  std::unique_ptr<KvMemory> out;
  optimized::visit_manager(*options.manager, [&](auto digest) {
    out = std::make_unique<PagedMemory<typename decltype(digest)::type>>(options, config);
  });
  return out;
}

}  // namespace kvproof::bench
