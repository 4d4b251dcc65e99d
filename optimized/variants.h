// SPDX-License-Identifier: Apache-2.0
// The list of variants: cache managers with an option on that must not change what they do. Each is
// held to the model as the managers of subjects.h are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "optimized/manager/capacity.h"
#include "optimized/manager_subject.h"
#include "optimized/pool/hashing.h"
#include "optimized/pool/victims.h"
#include "reference/config.h"
#include "reference/operations.h"

namespace kvproof::optimized {

struct VariantRow {
  std::string_view name;
  std::string_view sentence;
  /// Why it is not built with this configuration; empty if it is.
  std::string (*unsupported)(const CacheConfig& config);
  std::unique_ptr<Subject> (*make)(const CacheConfig& config);
  std::span<const std::string_view> declines;  // operations after which it may do something else
  bool shows_keys;                             // whether equal keys are equal contents
};

/// The order of the free queue, kept by a policy instead of the queue.
class QueueAsPolicy final : public VictimPolicy {
 public:
  QueueAsPolicy(std::uint32_t num_blocks, FreeOrder order)
      : order_(order), contents_(num_blocks, kNoContent) {}

  /// An operation starts. Blocks that one call gives back to the front stand behind one another.
  void next_operation() {
    front_ = queue_.begin();
    forgetting_.reset();
  }

  void freed(BlockId block, std::uint64_t content) override {
    contents_[block] = content;
    if (forgetting_ && forgetting_->first == block && content == kNoContent) {
      queue_.insert(forgetting_->second, block);  // it keeps its place
    } else if (order_ == FreeOrder::prepend ||
               (order_ == FreeOrder::unhashed_first && content == kNoContent)) {
      queue_.insert(front_, block);
    } else {
      const bool first = front_ == queue_.end();
      queue_.push_back(block);
      if (first) front_ = std::prev(queue_.end());
    }
    forgetting_.reset();
  }
  void revived(BlockId block) override {
    const auto at = std::ranges::find(queue_, block);
    if (at == queue_.end()) throw std::logic_error("a block was revived that is not free");
    const bool is_front = at == front_;
    const auto behind = queue_.erase(at);
    if (is_front) front_ = behind;
    forgetting_ = {block, behind};
  }
  [[nodiscard]] BlockId victim() override {
    const BlockId block = queue_.front();
    if (front_ == queue_.begin()) ++front_;
    queue_.pop_front();
    forgetting_.reset();
    return block;
  }
  [[nodiscard]] bool deepest_first() const override { return true; }

  /// What it was told: the order of the free blocks, and which of them have content.
  void show(PoolState& state) const {
    state.queue.assign(queue_.begin(), queue_.end());
    for (const BlockId block : queue_) state.blocks[block].hashed = contents_[block] != kNoContent;
  }

 private:
  FreeOrder order_;
  std::list<BlockId> queue_;                             // head first
  std::list<BlockId>::iterator front_ = queue_.begin();  // blocks for the front go before it
  std::optional<std::pair<BlockId, std::list<BlockId>::iterator>>
      forgetting_;                       // and what is behind
  std::vector<std::uint64_t> contents_;  // shape [num_blocks]; of the free blocks
};

/// A manager that asks the policy for its victims.
class PolicySubject final : public Subject {
 public:
  explicit PolicySubject(const CacheConfig& config)
      : policy_(config.num_blocks,
                config.enable_caching ? config.profile.caching_on : config.profile.caching_off) {
    policy_.next_operation();
    inner_ = make_manager_subject<Xxh3Digest>(config, Capacity{.victims = &policy_});
  }
  Outcome apply(const Operation& operation) override {
    if (std::holds_alternative<op::Decode>(operation)) {
      return {Declined{"this policy is told where each call begins"}, {}};
    }
    policy_.next_operation();
    return inner_->apply(operation);
  }
  void observe(Snapshot& snapshot) const override {
    inner_->observe(snapshot);
    policy_.show(snapshot);
  }

 private:
  QueueAsPolicy policy_;
  std::unique_ptr<Subject> inner_;
};

/// A manager with exact hits under a hash of four bits. Content that is computed again while blocks
/// behind it are cached is new to it (exact_contents.h), so it declines what brings that about.
class ExactSubject final : public Subject {
 public:
  explicit ExactSubject(const CacheConfig& config)
      : inner_(make_manager_subject<WeakDigest>(config, Capacity{.exact_hits = true})) {}

  Outcome apply(const Operation& operation) override {
    const bool parts = std::holds_alternative<op::Evict>(operation) ||
                       std::holds_alternative<op::Touch>(operation) ||
                       std::holds_alternative<op::Pin>(operation);
    if (parts) return {Declined{"exact hits forget a prefix as a whole"}, {}};
    return inner_->apply(operation);
  }
  /// Without keys, because different contents have equal ones.
  void observe(Snapshot& snapshot) const override {
    inner_->observe(snapshot);
    snapshot.index.clear();
    for (BlockState& block : snapshot.blocks) block.key = 0;
    for (RequestState& request : snapshot.requests) request.hashes.clear();
  }

 private:
  std::unique_ptr<Subject> inner_;
};

/// A manager that announces nothing, beside one that does: it answers, and what it does not say of
/// its blocks is the other's.
class SilentSubject final : public Subject {
 public:
  explicit SilentSubject(const CacheConfig& config)
      : silent_(make_silent_subject<Xxh3Digest>(config)),
        announcing_(make_manager_subject<Xxh3Digest>(config, Capacity{})) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome = silent_->apply(operation);
    outcome.events = announcing_->apply(operation).events;
    return outcome;
  }
  void observe(Snapshot& snapshot) const override {
    silent_->observe(snapshot);
    announcing_->observe(announced_);
    for (std::size_t block = 0; block < snapshot.blocks.size(); ++block) {
      snapshot.blocks[block].prefix_tokens = announced_.blocks[block].prefix_tokens;
    }
    snapshot.work->lifetime = announced_.work->lifetime;
    snapshot.work->idle = announced_.work->idle;
  }

 private:
  std::unique_ptr<Subject> silent_;
  std::unique_ptr<Subject> announcing_;
  mutable Snapshot announced_;  // of the last observation
};

namespace variant {

inline std::string unsupported_policy(const CacheConfig& config) {
  return config.groups.size() == 1 ? "" : "a policy does not see which blocks come back together";
}

/// The manager must refuse to be built for the same configurations.
inline std::string unsupported_exact(const CacheConfig& config) {
  const GroupConfig& first = config.groups.front();
  const bool fits = config.groups.size() == 1 && config.num_host_blocks == 0 && !first.eagle &&
                    (first.kind == LayerKind::full || first.kind == LayerKind::mla);
  if (fits) return {};
  try {
    ExactSubject built(config);
  } catch (const std::invalid_argument& refused) {
    return refused.what();
  }
  // unreached: the manager is right to refuse
  throw std::logic_error("exact hits were granted where the block before is not at hand");
}

inline constexpr std::string_view kBatches[] = {"decode"};
inline constexpr std::string_view kPartsOfPrefixes[] = {"evict", "touch", "pin"};

}  // namespace variant

inline constexpr VariantRow kVariants[] = {
    {"optimized-policy", "the free queue as a victim policy", &variant::unsupported_policy,
     [](const CacheConfig& config) -> std::unique_ptr<Subject> {
       return std::make_unique<PolicySubject>(config);
     },
     variant::kBatches, true},
    {"optimized-exact", "exact hits under a block hash of four bits", &variant::unsupported_exact,
     [](const CacheConfig& config) -> std::unique_ptr<Subject> {
       return std::make_unique<ExactSubject>(config);
     },
     variant::kPartsOfPrefixes, false},
    {"optimized-silent",
     "no events and no ages, so that nothing follows the blocks",
     [](const CacheConfig&) { return std::string(); },
     [](const CacheConfig& config) -> std::unique_ptr<Subject> {
       return std::make_unique<SilentSubject>(config);
     },
     {},
     true},
};

}  // namespace kvproof::optimized
