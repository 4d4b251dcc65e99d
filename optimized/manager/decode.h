// SPDX-License-Identifier: Apache-2.0
// The decode steps of running requests, one at a time or a batch.
//
// Model:   nearly all steps of a batch only write a token (RequestTable::write_all). The others are
//          "due" and are made in order. A request is "settled" if it shares nothing, is on the
//          device and moves no states: its step takes, publishes and gives back blocks, and asks no
//          admission gate. The step is "plain" if there is one group of full attention and nobody
//          listens to the pool. A request that is not settled makes the three calls of the manager.
// Leaves out: admission, copies and moving states, which the three calls know.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "optimized/manager/admission.h"
#include "optimized/manager/batch.h"
#include "optimized/manager/capacity.h"
#include "optimized/manager/copies.h"
#include "optimized/manager/exact_contents.h"
#include "optimized/manager/layer_group.h"
#include "optimized/manager/requests.h"
#include "optimized/pool/block_pool.h"
#include "reference/config.h"

namespace kvproof::optimized {

/// The step of a settled request, in tokens.
struct Step {
  std::uint32_t slots;     // that it needs, those for drafts included
  std::uint32_t complete;  // that may be published once it is computed; 0 = none
};

template <class Digest>
class Decode {
 public:
  using Key = typename Digest::Key;
  using Group = LayerGroup<Key>;
  /// append(), allocate() and advance() of the manager for one token.
  using ThreeCalls = std::function<Admission(RequestId, TokenId)>;

  /// It refers to these parts of a manager, which outlive it.
  Decode(const CacheConfig& config, const Capacity& capacity, BlockPool<Key>& pool,
         std::span<const Group> groups, RequestTable<Digest>& requests, const Copies& copies,
         std::optional<ExactContents>& exact, ThreeCalls three_calls);

  /// One token for each of the requests. @pre of all calls, or nothing happens
  const DecodeGrant& batch(std::span<const RequestId> ids, std::span<const TokenId> tokens);

  /// Makes slots and publishes. Where it takes blocks, growth() is what it has appended.
  /// @pre the request is settled for so many slots @return the number of blocks taken
  Admission step(RequestId id, const Step& next);

 private:
  /// The same where it is plain. @param taken is told of the block that it takes, if it does
  /// @return false, with nothing changed, where it needs more than one or none is free
  template <class Taken>
  bool step_plain(const HotRequest<Key>& r, RequestId id, const Step& next, const Taken& taken);
  /// The step of a batch that is due and not plain. @param written its token stands there
  void step_any(RequestId id, TokenId token, std::uint32_t index, bool written);
  void check(std::span<const RequestId> ids, std::span<const std::uint32_t> due,
             std::size_t reached);
  void audit() const;

  bool in_turn_;  // a token that is written early completes a key that an earlier step would find
  bool plain_;
  std::uint32_t block_size_;  // [tokens] of the first group
  BlockPool<Key>& pool_;
  std::span<const Group> groups_;
  RequestTable<Digest>& requests_;
  const Copies& copies_;
  std::optional<ExactContents>& exact_;
  ThreeCalls three_calls_;
  Batch batch_;
};

}  // namespace kvproof::optimized
