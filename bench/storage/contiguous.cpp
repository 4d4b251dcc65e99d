// SPDX-License-Identifier: Apache-2.0
// Serves requests from the contiguous cache.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "bench/storage/storage.h"

namespace kvproof::bench {
namespace {

using reference::ContiguousCache;
using reference::Reservation;

class ContiguousMemory final : public KvMemory {
 public:
  ContiguousMemory(const MemoryOptions& options, Reservation policy)
      : capacity_(options.capacity_tokens),
        longest_(std::max(options.reserved_tokens, options.max_tokens)),
        policy_(policy),
        cache_(capacity_, longest_, policy) {}

  KvHandle arrive(std::span<const TokenId> prompt, std::uint32_t most_tokens) override {
    if (unused_.empty()) {
      unused_.push_back(static_cast<KvHandle>(requests_.size()));
      requests_.emplace_back();
    }
    const KvHandle request = unused_.back();
    unused_.pop_back();
    requests_[request] = {static_cast<std::uint32_t>(prompt.size()), 0, most_tokens, false};
    return request;
  }

  void begin_step() override {}
  std::uint32_t cached_prefix(KvHandle) override { return 0; }  // a buffer is one request's alone

  // Reserves room for all known tokens at once: a buffer cannot be reserved chunk by chunk.
  bool start(KvHandle request, const Start& ask) override {
    Buffer& r = requests_[request];
    const std::uint32_t tokens = std::min(r.known + ask.lookahead, r.most);
    const std::string name = std::to_string(request);
    r.admitted = cache_.insert(name, tokens, r.most);
    if (r.admitted) note_top(name);
    return r.admitted;
  }

  bool grow(KvHandle request, std::uint32_t new_tokens, std::uint32_t lookahead,
            std::uint32_t) override {
    const Buffer& r = requests_[request];
    const std::uint32_t tokens = std::min(r.computed + new_tokens + lookahead, r.most);
    const std::string name = std::to_string(request);
    if (!cache_.extend(name, std::max(r.known, tokens))) return false;
    note_top(name);
    return true;
  }

  void advance(KvHandle request, std::span<const TokenId> generated,
               std::uint32_t computed) override {
    requests_[request].known += static_cast<std::uint32_t>(generated.size());
    requests_[request].computed = computed;
  }

  void publish(KvHandle, std::uint32_t) override {}  // nothing is shared
  void preempt(KvHandle request) override {
    cache_.erase(std::to_string(request));
    requests_[request].admitted = false;
    requests_[request].computed = 0;
  }
  void finish(KvHandle request) override {
    if (requests_[request].admitted) preempt(request);
    unused_.push_back(request);
  }

  std::span<const BlockId> table(KvHandle) const override { return {}; }
  bool could_hold(std::uint32_t most_tokens) const override {
    std::uint64_t wanted = most_tokens;
    if (policy_ == Reservation::max_length) wanted = longest_;
    if (policy_ == Reservation::power_of_two) wanted = std::bit_ceil(wanted);
    return std::min(wanted, longest_) <= capacity_;
  }
  std::uint64_t capacity_tokens() const override { return capacity_; }

  MemoryUse use() const override {
    MemoryUse out;
    for (const Buffer& request : requests_) out.tokens += request.admitted ? request.computed : 0;
    const reference::ContiguousUsage usage = cache_.usage();
    out.reserved = usage.reserved - out.tokens;
    out.free = usage.free;
    out.known = usage.used;
    out.largest_free_run = usage.largest_free_run;
    return out;
  }
  std::uint64_t free_tokens() const override { return cache_.usage().free; }
  bool shares() const override { return false; }
  std::uint64_t moved_tokens() const override { return cache_.usage().moved; }
  std::uint64_t top_tokens() const override { return top_; }

 private:
  // First fit never looks above the run that it takes, so an arena that ends at the highest end of
  // any run would have placed everything the same.
  void note_top(const std::string& name) {
    const auto run = cache_.find(name);
    top_ = std::max(top_, run->offset + run->length);
  }

  struct Buffer {
    std::uint32_t known = 0;     // [tokens]
    std::uint32_t computed = 0;  // [tokens]
    std::uint32_t most = 0;      // [tokens]
    bool admitted = false;
  };

  std::uint64_t capacity_;  // [tokens]
  std::uint64_t longest_;   // [tokens] that a request may have
  std::uint64_t top_ = 0;   // [tokens]
  Reservation policy_;
  ContiguousCache cache_;
  std::vector<Buffer> requests_;  // shape [handles given so far]; finished ones are not admitted
  std::vector<KvHandle> unused_;
};

}  // namespace

std::unique_ptr<KvMemory> make_contiguous_memory(const MemoryOptions& options, Reservation policy) {
  return std::make_unique<ContiguousMemory>(options, policy);
}

}  // namespace kvproof::bench
