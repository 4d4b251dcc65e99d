// SPDX-License-Identifier: Apache-2.0
// For tests: the memory that each storage must reserve, and a memory that passes every call on to
// another one, from which a test derives a memory that lies.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "bench/storage/storage.h"

namespace kvproof::bench {

/// The memory that a storage reserves for one request, by its definition.
inline std::uint64_t reserved_for(std::string_view storage, std::uint64_t tokens,
                                  std::uint64_t final_tokens, std::uint64_t max_length) {
  if (storage == "contiguous_max_length") return max_length;
  if (storage == "contiguous_power_of_two") return std::min(std::bit_ceil(tokens), max_length);
  if (storage == "contiguous_oracle") return final_tokens;
  if (storage == "contiguous_grow_and_copy") return tokens;
  return ceil_div<std::uint64_t>(tokens, 16) * 16;
}

class ForwardingMemory : public KvMemory {
 public:
  explicit ForwardingMemory(std::unique_ptr<KvMemory> inner) : inner_(std::move(inner)) {}
  KvHandle arrive(std::span<const TokenId> prompt, std::uint32_t most) override {
    return inner_->arrive(prompt, most);
  }
  void begin_step() override { inner_->begin_step(); }
  std::uint32_t cached_prefix(KvHandle r) override { return inner_->cached_prefix(r); }
  bool start(KvHandle r, const Start& ask) override { return inner_->start(r, ask); }
  bool grow(KvHandle r, std::uint32_t tokens, std::uint32_t lookahead,
            std::uint32_t in_flight) override {
    return inner_->grow(r, tokens, lookahead, in_flight);
  }
  void advance(KvHandle r, std::span<const TokenId> generated, std::uint32_t computed) override {
    inner_->advance(r, generated, computed);
  }
  void publish(KvHandle r, std::uint32_t computed) override { inner_->publish(r, computed); }
  void preempt(KvHandle r) override { inner_->preempt(r); }
  void finish(KvHandle r) override { inner_->finish(r); }
  std::span<const BlockId> table(KvHandle r) const override { return inner_->table(r); }
  bool could_hold(std::uint32_t most) const override { return inner_->could_hold(most); }
  std::uint64_t capacity_tokens() const override { return inner_->capacity_tokens(); }
  std::uint64_t free_tokens() const override { return inner_->free_tokens(); }
  MemoryUse use() const override { return inner_->use(); }
  bool shares() const override { return inner_->shares(); }
  std::uint64_t moved_tokens() const override { return inner_->moved_tokens(); }
  std::uint64_t top_tokens() const override { return inner_->top_tokens(); }
  bool has_leases() const override { return inner_->has_leases(); }
  void hold(KvHandle r) override { inner_->hold(r); }
  void let_go() override { inner_->let_go(); }

 private:
  std::unique_ptr<KvMemory> inner_;
};

}  // namespace kvproof::bench
