// SPDX-License-Identifier: Apache-2.0
// One run of the life cycle: prompts made outside the timer, batches of requests inside it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "optimized/cache_manager.h"

namespace kvproof::bench {

/// Between two readings of a clock.
[[nodiscard]] inline double nanoseconds(std::chrono::steady_clock::time_point from,
                                        std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

struct LifeCycleShape {
  static constexpr std::uint32_t kBlockSize = 16;
  static constexpr std::uint32_t kPromptTokens = 1024;
  static constexpr std::uint32_t kPrefixTokens = 512;  // shared: half of the prompt's blocks hit
  static constexpr std::uint32_t kDecodeTokens = 256;
  static constexpr std::uint32_t kBlocks = (kPromptTokens + kDecodeTokens) / kBlockSize;
  static constexpr std::uint32_t kBatch = 64;  // requests between two readings of the clock

  std::uint32_t num_blocks = 65'536;
  std::uint32_t live_requests = 128;
  std::uint32_t num_prefixes = 192;  // few enough to be hit again before they are evicted
  std::uint32_t window = 0;          // [tokens] of a second group with a sliding window; 0 = none
  bool residency = false;            // with the histograms of optimized::Residency
  bool exact_hits = false;           // with optimized::ExactContents
  bool three_calls = false;          // a token by append, allocate and advance, not by decode
  std::string_view profile = kDefaultProfile.name;
  std::optional<std::uint32_t> retention = {};  // CacheConfig::retention
  [[nodiscard]] std::uint32_t num_groups() const { return window > 0 ? 2 : 1; }
  /// Requests after which the pool has been filled and every prefix is cached.
  [[nodiscard]] std::uint32_t warm_up() const {
    return 4 * num_blocks / kBlocks + 2 * live_requests;  // more than two groups need
  }
};

/// What happened, for the assertions. All over the requests since the last reset of the counts.
struct LifeCycleCounts {
  std::uint64_t requests = 0;
  std::uint64_t hit_blocks = 0;
  std::uint64_t taken = 0;     // blocks handed out by the free queue
  std::uint64_t revived = 0;   // hit blocks that stood in the free queue
  std::uint64_t checksum = 0;  // over hits and tables
};

template <class Digest>
class LifeCycle {
 public:
  using Shape = LifeCycleShape;
  using Manager = optimized::CacheManager<Digest>;

  LifeCycle(const LifeCycleShape& shape, std::uint64_t seed)
      : shape_(shape),
        random_(seed),
        prefixes_(shape.num_prefixes * Shape::kPrefixTokens),
        prompts_(Shape::kBatch * Shape::kPromptTokens),
        generated_(Shape::kBatch * Shape::kDecodeTokens),
        live_(shape.live_requests, kNone),
        manager_(config(shape), {shape.live_requests + 1, 0, shape.residency, shape.exact_hits},
                 seed),
        hasher_(Shape::kBlockSize, seed) {
    fill(prefixes_);
  }

  /// Makes the next batch of prompts. Not timed.
  void prepare() {
    fill(prompts_);
    fill(generated_);
    for (std::uint32_t i = 0; i < Shape::kBatch; ++i) {
      const std::size_t prefix = random_() % shape_.num_prefixes;
      std::copy_n(prefixes_.begin() + static_cast<std::ptrdiff_t>(prefix * Shape::kPrefixTokens),
                  Shape::kPrefixTokens,
                  prompts_.begin() + static_cast<std::ptrdiff_t>(i * Shape::kPromptTokens));
    }
  }

  /// The timed part: a batch of requests, each from arrival to its last token; the oldest one
  /// finishes.
  [[gnu::noinline]] void run_batch() {
    for (std::uint32_t i = 0; i < Shape::kBatch; ++i) {
      const RequestId id = admit(i);
      decode(id, i);
      finish_oldest(id);
    }
  }

  /// The floor: the block hashes of the same batch and nothing else. @return a checksum
  [[gnu::noinline]] std::uint64_t hash_batch() {
    constexpr std::uint32_t kPromptUnits = Shape::kPromptTokens / Shape::kBlockSize;
    constexpr std::uint32_t kDecodeUnits = Shape::kDecodeTokens / Shape::kBlockSize;
    std::array<typename Digest::Key, kPromptUnits> keys;
    std::uint64_t checksum = 0;
    for (std::uint32_t i = 0; i < Shape::kBatch; ++i) {
      hasher_.hash(&prompts_[i * Shape::kPromptTokens], nullptr, 0, kPromptUnits, keys.data());
      checksum += keys.back().words[0];
      hasher_.hash(&generated_[i * Shape::kDecodeTokens], nullptr, 0, kDecodeUnits, keys.data());
      checksum += keys.front().words[0];
    }
    return checksum;
  }

  /// The phases of one request of the batch. @return [ns] of admission, decoding, and the end of
  /// the oldest request
  std::array<double, 3> time_phases(std::uint32_t i) {
    using Clock = std::chrono::steady_clock;
    std::array<Clock::time_point, 4> at;
    at[0] = Clock::now();
    const RequestId id = admit(i);
    at[1] = Clock::now();
    decode(id, i);
    at[2] = Clock::now();
    finish_oldest(id);
    at[3] = Clock::now();
    return {nanoseconds(at[0], at[1]), nanoseconds(at[1], at[2]), nanoseconds(at[2], at[3])};
  }

  RequestId admit(std::uint32_t i) {
    const auto prompt = std::span(prompts_).subspan(i * Shape::kPromptTokens, Shape::kPromptTokens);
    const RequestId id = manager_.arrive({.tokens = prompt});
    const std::uint32_t hit = manager_.lookup(id);
    const std::uint32_t free_before = manager_.pool().num_free();
    const auto taken =
        manager_.allocate(id, {.new_tokens = Shape::kPromptTokens - hit, .use_lookup = true});
    if (!taken) throw std::logic_error("life cycle: an admission was refused");
    manager_.advance(id, Shape::kPromptTokens);
    counts_.hit_blocks += hit / Shape::kBlockSize;
    counts_.taken += *taken;
    counts_.revived += free_before - manager_.pool().num_free() - *taken;
    return id;
  }

  void decode(RequestId id, std::uint32_t i) {
    const std::uint64_t taken_before = manager_.counters().taken;
    shape_.three_calls ? decode_by_three_calls(id, i) : decode_by_one_call(id, i);
    counts_.taken += manager_.counters().taken - taken_before;
  }

  void decode_by_one_call(RequestId id, std::uint32_t i) {
    const TokenId* token = generated_.data() + i * Shape::kDecodeTokens;
    for (std::uint32_t step = 0; step < Shape::kDecodeTokens; ++step) {
      if (!manager_.decode({&id, 1}, {token + step, 1}).refused.empty())
        throw std::logic_error("life cycle: a decode step was refused");
    }
  }

  void decode_by_three_calls(RequestId id, std::uint32_t i) {
    static constexpr AllocateArgs kOneToken = {.new_tokens = 1, .status = RequestStatus::running};
    const TokenId* token = generated_.data() + i * Shape::kDecodeTokens;
    std::uint32_t computed = Shape::kPromptTokens;
    for (std::uint32_t step = 0; step < Shape::kDecodeTokens; ++step) {
      manager_.append(id, {token + step, 1});
      if (!manager_.allocate(id, kOneToken))
        throw std::logic_error("life cycle: a decode step was refused");
      manager_.advance(id, ++computed);
    }
  }

  void finish_oldest(RequestId id) {
    const auto table = manager_.table(id);
    counts_.checksum = counts_.checksum * 31 + table.front() * 7U + table.back();
    RequestId& oldest = live_[counts_all_++ % live_.size()];
    if (oldest != kNone) manager_.finish(oldest);
    oldest = id;
    ++counts_.requests;
  }

  [[nodiscard]] std::span<const TokenId> prompts() const { return prompts_; }
  [[nodiscard]] std::span<const TokenId> outputs() const { return generated_; }
  [[nodiscard]] const LifeCycleCounts& counts() const { return counts_; }
  void reset_counts() { counts_ = {}; }
  [[nodiscard]] const Manager& manager() const { return manager_; }

  /// Blocks that carry a key, counted one by one.
  [[nodiscard]] std::uint64_t num_hashed() const {
    std::uint64_t count = 0;
    for (BlockId block = 0; block < shape_.num_blocks; ++block)
      count += manager_.pool().hashed(block);
    return count;
  }

  /// Finishes everything and audits the pool. Throws std::logic_error when anything is left over.
  void drain() {
    manager_.pool().audit();
    for (RequestId& id : live_) {
      if (id != kNone) manager_.finish(id);
      id = kNone;
    }
    manager_.pool().audit();
    if (manager_.pool().num_free() + 1 != shape_.num_blocks)
      throw std::logic_error("life cycle: a leak");
  }

 private:
  static constexpr RequestId kNone{0xffffffffU};
  static CacheConfig config(const LifeCycleShape& shape) {
    CacheConfig out;
    out.profile = *find_profile(shape.profile);
    out.retention = shape.retention;
    out.num_blocks = shape.num_blocks;
    out.max_model_len = Shape::kPromptTokens + Shape::kDecodeTokens;
    out.hash_block_size = Shape::kBlockSize;
    out.groups = {{.block_size = Shape::kBlockSize}};
    if (shape.window > 0) {
      out.groups.push_back({.kind = LayerKind::sliding_window,
                            .block_size = Shape::kBlockSize,
                            .window = shape.window});
    }
    return out;
  }

  void fill(std::vector<TokenId>& tokens) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random_() & 0x1ffff);
  }

  LifeCycleShape shape_;
  std::mt19937_64 random_;
  std::vector<TokenId> prefixes_;   // shape [num_prefixes, kPrefixTokens]
  std::vector<TokenId> prompts_;    // shape [kBatch, kPromptTokens]
  std::vector<TokenId> generated_;  // shape [kBatch, kDecodeTokens]
  std::vector<RequestId> live_;     // a ring, oldest next
  std::uint64_t counts_all_ = 0;
  LifeCycleCounts counts_;
  Manager manager_;
  optimized::ChainHasher<Digest> hasher_;
};

}  // namespace kvproof::bench
