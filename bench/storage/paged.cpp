// SPDX-License-Identifier: Apache-2.0
// Serves requests from blocks: by the optimized cache manager, or by any allocator that can be
// checked, with every operation audited.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/storage/calls_as_operations.h"
#include "bench/storage/storage.h"
#include "optimized/cache_manager.h"
#include "properties/audit/audit.h"
#include "properties/check/candidate.h"
#include "reference/config.h"
#include "reference/request.h"
#include "reference/trace_json.h"

namespace kvproof::bench {
namespace {

/// @tparam Manager a CacheManager, or what has these calls of one
template <class Manager>
class PagedMemory : public KvMemory {
 public:
  /// @param manager what it is made of
  template <class... Arguments>
  PagedMemory(const MemoryOptions& options, const CacheConfig& config, Arguments&&... manager)
      : options_(options),
        manager_(std::forward<Arguments>(manager)...),
        admitted_(options.max_requests),
        lookahead_(options.max_requests),
        capacity_blocks_(config.num_blocks - 1),
        shares_(config.enable_caching) {}

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
  std::uint64_t free_tokens() const override {
    return std::uint64_t{manager_.pool().num_free()} * options_.block_size;
  }
  bool shares() const override { return shares_; }
  std::uint64_t moved_tokens() const override { return 0; }
  std::uint64_t top_tokens() const override { return top_; }

  bool has_host() const override { return options_.host_blocks > 0; }
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

  bool has_leases() const override { return true; }
  void hold(KvHandle request) override { held_.push_back(manager_.pin(manager_.table(request))); }
  void let_go() override {
    for (const LeaseId lease : held_) manager_.unpin(lease);
    held_.clear();
  }

 protected:
  /// What the leases hold, and no request. [tokens]
  [[nodiscard]] std::uint64_t held_tokens() const {
    std::vector<BlockId> held;
    for (const LeaseId lease : held_) {
      const auto own = manager_.leased(lease);
      held.insert(held.end(), own.begin(), own.end());
    }
    std::ranges::sort(held);
    std::uint64_t out = 0;
    for (std::size_t from = 0, to = 0; from < held.size(); from = to) {
      while (to < held.size() && held[to] == held[from]) ++to;
      const std::int64_t num_holders = manager_.pool().record(held[from]).ref_cnt;
      if (num_holders == static_cast<std::int64_t>(to - from)) out += options_.block_size;
    }
    return out;
  }

  MemoryOptions options_;
  Manager manager_;
  std::vector<bool> admitted_;            // shape [max_requests]: has blocks of the device
  std::vector<std::uint32_t> lookahead_;  // shape [max_requests], of the last allocation [tokens]

 private:
  void note_top() { top_ = std::max(top_, capacity_tokens() - free_tokens()); }

  std::uint32_t capacity_blocks_;
  bool shares_;
  std::uint64_t top_ = 0;      // [tokens]
  std::vector<LeaseId> held_;  // of requests that are finished
};

// ---- the optimized manager ----

template <class Digest>
class OwnMemory final : public PagedMemory<optimized::CacheManager<Digest>> {
 public:
  using PagedMemory<optimized::CacheManager<Digest>>::PagedMemory;

  // Computed tokens fill whole blocks, except the last block of each request, which is not shared.
  MemoryUse use() const override {
    const std::uint64_t block_size = this->options_.block_size;
    MemoryUse out{.reserved = this->held_tokens(), .free = this->free_tokens()};
    for (KvHandle request = 0; request < this->admitted_.size(); ++request) {
      if (!this->admitted_[request]) continue;
      const std::size_t blocks = this->table(request).size();
      const std::uint64_t beyond = block_size * blocks - this->manager_.computed(request);
      const std::uint64_t drafts = std::min<std::uint64_t>(beyond, this->lookahead_[request]);
      out.reserved += drafts;
      out.tail += beyond - drafts;
      out.known += this->manager_.tokens(request).size();
      out.table_entries += blocks;
    }
    out.tokens = this->capacity_tokens() - out.free - out.reserved - out.tail;
    return out;
  }
};

// ---- any allocator, audited ----

class AuditedManager final : public CallsAsOperations {
 public:
  AuditedManager(const MemoryOptions& options, const CacheConfig& config, properties::Opened opened)
      : CallsAsOperations("", true),
        candidate_(*options.audited),
        subject_(std::move(opened.subject)),
        audit_(config, *subject_, oracles_for(config, opened.demands)),
        recording_(options.recording) {
    if (recording_ == nullptr) return;
    TraceHeader header;
    header.recorded_from = "kvproof serving simulation";
    header.family = "serving";
    header.config = config;
    *recording_ << to_json(header) << '\n';
  }
  ~AuditedManager() override {
    if (recording_ != nullptr) *recording_ << end_line(num_recorded_) << '\n';
  }
  AuditedManager(const AuditedManager&) = delete;
  AuditedManager& operator=(const AuditedManager&) = delete;

  [[nodiscard]] std::span<const BlockId> table(RequestId id) const {
    return state_of(id).tables.front();
  }
  [[nodiscard]] bool has_host_tables(RequestId id) const {
    return !state_of(id).host_tables.empty();
  }
  [[nodiscard]] std::span<const BlockId> leased(LeaseId id) const {
    const auto at = std::ranges::find(state().leases, name(id), &LeaseState::name);
    return at == state().leases.end() ? std::span<const BlockId>() : at->blocks;
  }
  void take_copies() {}  // they stand in the answers

  // What is asked of a pool.
  [[nodiscard]] const AuditedManager& pool() const { return *this; }
  [[nodiscard]] std::uint32_t num_free() const { return state().num_free; }
  [[nodiscard]] const BlockState& record(BlockId block) const { return state().blocks[block]; }

  [[nodiscard]] const Snapshot& state() const { return audit_.state(); }

 private:
  [[nodiscard]] const RequestState& state_of(RequestId id) const {
    return *std::ranges::find(state().requests, name(id), &RequestState::name);
  }

  // What the subject never performs would be asked for again and again.
  Result perform(const Operation& operation) override {
    const Outcome& out = audit_.apply(operation);
    if (recording_ != nullptr) {
      *recording_ << to_json(operation, out, state()) << '\n';
      ++num_recorded_;
    }
    const bool needed = std::holds_alternative<op::Allocate>(operation) ||
                        std::holds_alternative<op::SwapOut>(operation) ||
                        std::holds_alternative<op::SwapIn>(operation);
    if (needed && is_undone(out.result)) {
      throw std::invalid_argument("the allocator rejects what serving needs: " +
                                  error_text(out.result));
    }
    return out.result;
  }

  properties::Candidate candidate_;  // keeps the program alive in which the subject lives
  std::unique_ptr<Subject> subject_;
  properties::Audit audit_;
  std::ostream* recording_;
  std::uint64_t num_recorded_ = 0;
};

class AuditedMemory final : public PagedMemory<AuditedManager> {
 public:
  using PagedMemory::PagedMemory;

  // Counted block by block from the state itself, unlike the other memories do it.
  MemoryUse use() const override {
    const Snapshot& state = manager_.state();
    MemoryUse out{.reserved = held_tokens()};
    std::vector<std::uint32_t> filled(state.blocks.size());
    for (const RequestState& request : state.requests) {
      const std::vector<BlockId>& table = request.tables.front();
      const std::uint64_t lookahead = lookahead_[std::stoul(request.name)];
      std::uint64_t beyond = 0;
      for (std::size_t i = 0; i < table.size(); ++i) {
        const std::uint64_t from = i * options_.block_size;
        const std::uint64_t in_use =
            std::clamp<std::uint64_t>(request.computed, from, from + options_.block_size) - from;
        filled[table[i]] = std::max(filled[table[i]], static_cast<std::uint32_t>(in_use));
        beyond += options_.block_size - in_use;
      }
      out.reserved += std::min(beyond, lookahead);
      out.tail += beyond - std::min(beyond, lookahead);
      if (!table.empty()) out.known += request.num_tokens;
      out.table_entries += table.size();
    }
    for (const std::uint32_t tokens : filled) out.tokens += tokens;
    out.free = free_tokens();
    return out;
  }
};

/// Any allocator that can be checked, as MemoryOptions::audited has it.
std::unique_ptr<KvMemory> make_audited_memory(const MemoryOptions& options,
                                              const CacheConfig& config) {
  properties::Opened opened = options.audited->open(config);
  if (opened.subject == nullptr) {
    throw std::invalid_argument(options.audited->name + " cannot be built with this pool");
  }
  return std::make_unique<AuditedMemory>(options, config, options, config, std::move(opened));
}

/// One group of full attention.
CacheConfig paged_config(const MemoryOptions& options, bool share) {
  CacheConfig out;
  out.profile = options.profile;
  out.num_blocks = 1 + static_cast<std::uint32_t>(  // the null block
                           ceil_div<std::uint64_t>(options.capacity_tokens, options.block_size));
  out.enable_caching = share;
  out.max_model_len = std::max(options.max_tokens, 1U);
  out.hash_block_size = options.block_size;
  out.watermark = options.watermark;
  out.groups = {{LayerKind::full, options.block_size, false}};
  if (options.host_blocks > 0) out.num_host_blocks = options.host_blocks + 1;
  return out;
}

}  // namespace

std::unique_ptr<KvMemory> make_paged_memory(const MemoryOptions& options, bool share) {
  const CacheConfig config = paged_config(options, share);
  if (options.audited != nullptr) return make_audited_memory(options, config);
  std::unique_ptr<KvMemory> out;
  optimized::visit_manager(*options.manager, [&](auto digest) {
    out = std::make_unique<OwnMemory<typename decltype(digest)::type>>(
        options, config, config, optimized::Capacity{.max_requests = options.max_requests});
  });
  return out;
}

}  // namespace kvproof::bench
