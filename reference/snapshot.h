// SPDX-License-Identifier: Apache-2.0
// Everything that can be observed of a cache manager at one moment, recomputed from its structures.
//
// Laws read only this. A snapshot is refilled in place, so that auditing after every operation does
// not allocate once its vectors have grown.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/ids.h"

namespace kvproof {

struct BlockState {
  std::int64_t ref_cnt = 0;         // holders; not maintained for the null block
  bool linked = false;              // its links say that it is in the free queue
  bool hashed = false;              // it carries a key
  GroupId group = 0;                // of the key
  std::uint64_t key = 0;            // fingerprint of the key; equal content has equal fingerprints
  std::uint32_t prefix_tokens = 0;  // tokens that the key covers; 0 when not tracked
  std::optional<std::uint64_t> tail_key;  // a second key: that of the prompt which ends in it
  bool operator==(const BlockState&) const = default;
};

/// One key of a prefix index with the blocks that hold its content, oldest registration first.
struct IndexEntry {
  GroupId group = 0;
  std::uint64_t key = 0;
  std::vector<BlockId> blocks;
  bool operator==(const IndexEntry&) const = default;
};

struct RequestState {
  std::string name;
  std::uint32_t num_tokens = 0;
  std::uint32_t computed = 0;
  std::vector<std::uint64_t> hashes;              // fingerprints, one per complete hash unit
  std::vector<std::vector<BlockId>> tables;       // per group
  std::vector<std::vector<BlockId>> host_tables;  // per group: its blocks in the host tier
  /// Per group: how many table positions publication has looked at; none: it does not run.
  std::vector<std::optional<std::uint32_t>> progress;
  bool operator==(const RequestState&) const = default;
};

/// References held under the name of a lease.
struct LeaseState {
  std::string name;
  std::vector<BlockId> blocks;
  bool operator==(const LeaseState&) const = default;
};

/// A key of a block besides its first two: that of one more prompt that ends in it.
struct FurtherKey {
  BlockId block = kNullBlock;
  std::uint64_t key = 0;
  bool operator==(const FurtherKey&) const = default;
};

/// A pool of blocks with its free queue and its index.
struct PoolState {
  std::uint32_t num_free = 0;  // the pool's own counter
  double usage = 0.0;
  std::vector<BlockId> queue;           // free ids from head (handed out next) to tail
  std::vector<BlockId> queue_backward;  // the same walk from the tail
  std::vector<BlockState> blocks;       // shape [num_blocks]
  std::vector<IndexEntry> index;  // sorted by first block; of one block in the order of its keys
  std::vector<FurtherKey> further_keys;  // sorted by block; in the order of their registration
  bool operator==(const PoolState&) const = default;
};

/// The counters of a manager's prefix cache since construction. An admission counts once, when it
/// is granted with use_lookup; the admission that resumes a preempted request does not count.
struct HitCounters {
  std::uint64_t lookups = 0;
  std::uint64_t lookup_tokens = 0;  // tokens that could have hit
  std::uint64_t hit_tokens = 0;
  bool operator==(const HitCounters&) const = default;
};

/// Bucket k counts durations of [2^(k-1), 2^k) steps, bucket 0 those of none.
using StepBuckets = std::array<std::uint64_t, 33>;

/// What a manager says of its own work on the device since construction.
struct WorkCounters {
  std::uint64_t taken = 0;        // [blocks] handed out
  std::uint64_t evictions = 0;    // [blocks] that lost their content when they were handed out
  std::uint64_t revivals = 0;     // [blocks] that were held again while they waited in the queue
  std::uint64_t refusals = 0;     // of allocations
  std::uint64_t preemptions = 0;  // requests that were freed
  std::uint64_t copies = 0;       // [blocks] copied because they had another holder
  std::uint64_t granted = 0;      // [blocks] that the answers to allocations count
  std::uint64_t keys = 0;         // in the index now
  std::uint64_t lost_events = 0;
  StepBuckets lifetime{};  // [evictions] by the steps since the block was handed out before
  StepBuckets idle{};      // [evictions] by the steps since it was last held

  /// Whether the same work was done: a refusal did none.
  bool operator==(const WorkCounters& other) const {
    return taken == other.taken && evictions == other.evictions && revivals == other.revivals &&
           preemptions == other.preemptions && copies == other.copies && granted == other.granted &&
           keys == other.keys && lost_events == other.lost_events && lifetime == other.lifetime &&
           idle == other.idle;
  }
};

/// What is read back at one position of a request from the tensors in which it is kept.
struct ReadBack {
  bool kept = true;            // false: nothing is kept there any more
  std::int64_t token = -1;     // by the K there; -1: its elements do not agree on one
  std::int64_t position = -1;  // by the V there
};

/// What each request reads from real tensors, if that is shown. Tokens say whether it is right, so
/// states that differ in it alone are the same.
struct Contents {
  std::map<std::string, std::vector<ReadBack>> of;
  bool operator==(const Contents&) const { return true; }
};

struct Snapshot : PoolState {
  PoolState host;                       // the host tier; no blocks when there is none
  std::vector<RequestState> requests;   // sorted by name
  std::vector<BlockId> raw;             // references held by the raw owner, sorted, with repeats
  std::vector<BlockId> copying;         // held until this step's copies ran, sorted, with repeats
  std::vector<LeaseState> leases;       // sorted by name
  std::optional<HitCounters> counters;  // nullopt if the manager does not count
  std::optional<WorkCounters> work;     // nullopt if it does not count its work
  Contents contents;                    // of requests that hold blocks
  bool operator==(const Snapshot&) const = default;

  [[nodiscard]] const RequestState* find(std::string_view name) const {
    auto at =
        std::lower_bound(requests.begin(), requests.end(), name,
                         [](const RequestState& r, std::string_view n) { return r.name < n; });
    return at != requests.end() && at->name == name ? &*at : nullptr;
  }
};

}  // namespace kvproof
