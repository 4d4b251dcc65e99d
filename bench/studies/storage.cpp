// SPDX-License-Identifier: Apache-2.0
// The allocators behind the interface of storage.h.
#include "bench/studies/storage.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "optimized/cache_manager.h"
#include "reference/contiguous_cache.h"

namespace kvproof::bench {
namespace {

using reference::ContiguousCache;
using reference::Reservation;

[[noreturn]] void refused(const char* what) {
  throw std::logic_error(std::string(what) + " refused a request that it was sized for");
}

class ContiguousStorage final : public Storage {
 public:
  ContiguousStorage(const StorageSize& size, Reservation policy)
      : cache_(size.capacity_tokens, size.max_length, policy) {}

  Handle start(std::span<const TokenId> prompt, std::uint32_t final_tokens) override {
    const Handle request = next_++;
    const std::string name = std::to_string(request);
    if (!cache_.insert(name, prompt.size(), final_tokens)) refused("the contiguous cache");
    lengths_.emplace(request, prompt.size());
    note_top(name);
    return request;
  }

  void grow(Handle request) override {
    const std::string name = std::to_string(request);
    if (!cache_.extend(name, ++lengths_.at(request))) refused("the contiguous cache");
    note_top(name);
  }

  void end(Handle request) override {
    cache_.erase(std::to_string(request));
    lengths_.erase(request);
  }

  [[nodiscard]] StorageUsage usage() const override {
    const reference::ContiguousUsage now = cache_.usage();
    StorageUsage out;
    out.live_tokens = now.used;
    out.reserved_tokens = now.reserved;
    out.moved_tokens = now.moved;
    out.top_tokens = top_;
    out.largest_free_run_tokens = now.largest_free_run;
    out.external_fragmentation = now.external_fragmentation();
    return out;
  }

 private:
  // First fit never looks above the run that it takes, so an arena that ends at the highest end of
  // any run would have placed everything the same.
  void note_top(const std::string& name) {
    const auto run = cache_.find(name);
    top_ = std::max(top_, run->offset + run->length);
  }

  ContiguousCache cache_;
  Handle next_ = 0;
  std::uint64_t top_ = 0;
  std::unordered_map<Handle, std::uint64_t> lengths_;  // [tokens]
};

CacheConfig config_of(const StorageSize& size, bool share) {
  CacheConfig config;
  config.num_blocks = 1 + static_cast<std::uint32_t>(
                              ceil_div<std::uint64_t>(size.capacity_tokens, size.block_size));
  config.enable_caching = share;
  config.max_model_len = size.max_length;
  config.hash_block_size = size.block_size;
  config.groups = {{LayerKind::full, size.block_size, false}};
  return config;
}

class PagedStorage final : public Storage {
 public:
  PagedStorage(const StorageSize& size, bool share)
      : manager_(config_of(size, share), {.max_requests = size.max_requests}),
        block_size_(size.block_size) {}

  Handle start(std::span<const TokenId> prompt, std::uint32_t final_tokens) override {
    const auto request = manager_.arrive({.tokens = prompt, .max_tokens = final_tokens});
    AllocateArgs args;
    args.use_lookup = true;
    args.new_tokens = static_cast<std::uint32_t>(prompt.size()) - manager_.lookup(request);
    if (!manager_.allocate(request, args)) refused("the paged allocator");
    manager_.advance(request, static_cast<std::uint32_t>(prompt.size()));
    note_top();
    live_tokens_ += prompt.size();
    table_entries_ += manager_.table(request).size();
    return request;
  }

  void grow(Handle handle) override {
    const auto request = RequestId(handle);
    // What a generated token is, no trace says; within a request they may as well be equal, because
    // a block's hash covers everything before it.
    const TokenId token = -1 - static_cast<TokenId>(handle);
    manager_.append(request, {&token, 1});
    AllocateArgs args;
    args.new_tokens = 1;
    args.status = RequestStatus::running;
    const optimized::Admission taken = manager_.allocate(request, args);
    if (!taken) refused("the paged allocator");
    manager_.advance(request, manager_.computed(request) + 1);
    note_top();
    ++live_tokens_;
    table_entries_ += *taken;
  }

  void end(Handle handle) override {
    const auto request = RequestId(handle);
    live_tokens_ -= manager_.tokens(request).size();
    table_entries_ -= manager_.table(request).size();
    manager_.finish(request);
  }

  [[nodiscard]] StorageUsage usage() const override {
    StorageUsage out;
    out.live_tokens = live_tokens_;
    out.reserved_tokens = held_tokens();
    out.table_entries = table_entries_;
    out.top_tokens = top_;
    return out;
  }

 private:
  [[nodiscard]] std::uint64_t held_tokens() const {
    const auto& pool = manager_.pool();
    return std::uint64_t{pool.num_blocks() - 1 - pool.num_free()} * block_size_;
  }
  void note_top() { top_ = std::max(top_, held_tokens()); }

  optimized::CacheManager<optimized::Xxh3Digest> manager_;
  std::uint32_t block_size_;
  std::uint64_t live_tokens_ = 0;
  std::uint64_t table_entries_ = 0;
  std::uint64_t top_ = 0;
};

}  // namespace

std::unique_ptr<Storage> make_contiguous_max_length(const StorageSize& size) {
  return std::make_unique<ContiguousStorage>(size, Reservation::max_length);
}
std::unique_ptr<Storage> make_contiguous_power_of_two(const StorageSize& size) {
  return std::make_unique<ContiguousStorage>(size, Reservation::power_of_two);
}
std::unique_ptr<Storage> make_contiguous_oracle(const StorageSize& size) {
  return std::make_unique<ContiguousStorage>(size, Reservation::oracle);
}
std::unique_ptr<Storage> make_contiguous_grow_and_copy(const StorageSize& size) {
  return std::make_unique<ContiguousStorage>(size, Reservation::grow_and_copy);
}
std::unique_ptr<Storage> make_paged(const StorageSize& size) {
  return std::make_unique<PagedStorage>(size, false);
}
std::unique_ptr<Storage> make_paged_shared(const StorageSize& size) {
  return std::make_unique<PagedStorage>(size, true);
}

const StorageRow& storage_row(std::string_view name) {
  return *std::ranges::find(kStorages, name, &StorageRow::name);
}

}  // namespace kvproof::bench
