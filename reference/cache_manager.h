// SPDX-License-Identifier: Apache-2.0
// The naive cache manager, written to be read: requests, their block tables in every group, and the
// rules of admission.
//
// Model:   a manager is a value. A caller copies it, applies an operation and compares, so that it
//          is a pure step function over operations.h.
// Source:  vLLM v1 kv_cache_manager.py and kv_cache_coordinator.py; sharing as in Kwon et al.,
//          SOSP'23, sec. 4.4; the host tier is ours.
// Leaves out: hashes (a key is the content itself), speed, threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reference/block_pool.h"
#include "reference/config.h"
#include "reference/layer_group.h"
#include "reference/operations.h"
#include "reference/prefix_cache.h"
#include "reference/subject.h"

namespace kvproof::reference {

/// What later answers depend on and no snapshot shows.
struct Memory {
  std::vector<std::vector<std::uint64_t>> requests;  // one row of numbers each, sorted by name
  /// Per group: Snapshot::copying, in the order in which the end of a step releases them.
  std::vector<std::vector<BlockId>> copying;
  /// The blocks whose state was published since the step began, sorted.
  std::vector<BlockId> new_states;
  bool operator==(const Memory&) const = default;
};

/// What an allocation asks of the free queue, without a watermark and a reserve. [blocks]
struct Need {
  std::int64_t blocks = 0;
  std::uint32_t free = 0;  // that were there
};

class CacheManager final : public Subject {
 public:
  /// @pre unsupported(config) is empty; throws std::invalid_argument with the reason otherwise.
  explicit CacheManager(const CacheConfig& config);

  Outcome apply(const Operation& operation) override;
  void observe(Snapshot& snapshot) const override;
  /// Refills the requests alone, for operations that touch nothing else.
  void observe_requests(std::vector<RequestState>& states) const;
  [[nodiscard]] Memory memory() const;
  /// Of the last operation, if it came so far that blocks were counted.
  [[nodiscard]] const std::optional<Need>& last_need() const { return last_need_; }

 private:
  using Blocks = std::vector<BlockId>;

  struct Request {
    std::vector<TokenId> tokens;
    std::size_t prompt_tokens = 0;
    ExtraKeys extra;
    std::vector<ContentId> contents;  // per complete hash unit: the prefix that ends with it
    bool skip_lookup = false;
    std::uint32_t encoder_tokens = 0;
    std::uint32_t computed = 0;    // [tokens]
    std::uint32_t hit_tokens = 0;  // [tokens] that the last lookup found
    /// [tokens] The longest prefix that any group had then; 0 = no longer than the hit.
    std::uint32_t junction = 0;
    std::vector<GroupTable> groups;  // shape [groups]
    std::vector<Blocks> host;        // per group: its blocks in the host tier
    /// Per group: what `published` was when the request was swapped out.
    std::vector<std::optional<std::uint32_t>> host_progress;
    std::string transfer;  // the name of its transfer in flight; empty = none
  };

  /// A swap that has started and is not complete.
  struct Transfer {
    std::string req;
    bool out = false;  // true: from the device to the host
  };

  // cache_manager.cpp: requests, lookup, admission, publication
  Result perform(const op::Arrive& o);
  Result perform(const op::Append& o);
  Result perform(const op::Advance& o);
  Result perform(const op::Lookup& o);
  Result perform(const op::Allocate& o);
  Result perform(const op::Free& o);
  Result perform(const op::Finish& o);
  Result perform(const op::Recycle& o);
  Result perform(const op::Cache& o);
  Result perform(const op::Evict& o);
  Result perform(const op::Reset& o);
  Result perform(const op::CommonPrefix& o);
  Result perform(const op::Step& o);
  Result perform(const op::Decode& o);
  // cache_manager_sharing.cpp: holders of blocks other than the table of a request
  Result perform(const op::Take& o);
  Result perform(const op::Touch& o);
  Result perform(const op::Release& o);
  Result perform(const op::Fork& o);
  Result perform(const op::Truncate& o);
  Result perform(const op::Pin& o);
  Result perform(const op::Unpin& o);
  // cache_manager_tiers.cpp: the host tier
  Result perform(const op::SwapOut& o);
  Result perform(const op::SwapIn& o);
  Result perform(const op::Complete& o);

  Request& request(const std::string& name);
  /// As request(). @pre its blocks are neither in transfer nor on the host
  Request& resident(const std::string& name);
  void expect_new_transfer(const std::string& name) const;
  void add_tokens(Request& request, const std::vector<TokenId>& tokens);
  [[nodiscard]] PrefixKey key(const Request& request, GroupId group, std::uint64_t tokens) const;
  /// The prefix by which the block of a hit was found. [tokens]
  [[nodiscard]] std::uint64_t hit_end(const Request& request, GroupId group,
                                      std::size_t block) const;
  [[nodiscard]] std::uint64_t hashed_tokens(const Request& request) const;
  [[nodiscard]] bool running(const Request& request) const;
  void count(const Request& request, bool use_hit);

  void check_hit(const Request& request) const;
  [[nodiscard]] Demand demand_of(const Request& request, const AllocateArgs& args,
                                 std::uint64_t local) const;
  [[nodiscard]] std::int64_t need(const Request& request, bool use_hit, const Demand& demand);
  [[nodiscard]] std::vector<std::size_t> to_copy(const Request& request, GroupId group,
                                                 const Demand& demand) const;
  void forget_relatives(const Request& request, GroupId group, const Demand& demand);
  [[nodiscard]] bool has_other_holder(BlockId block) const;
  [[nodiscard]] Blocks copying() const;
  void note_states(Request& request, const Demand& demand);
  Granted grow(Request& request, const Demand& demand);

  void publish(Request& request, std::uint64_t tokens);
  void publish_group(Request& request, GroupId group, std::uint64_t tokens);
  void publish_prompt_tail(const Request& request, GroupId group, std::uint64_t tokens);
  void publish_states(Request& request, GroupId group, std::uint64_t tokens);
  void publish_state_tail(Request& request, GroupId group, std::uint64_t tokens);
  void publish_checkpoint(Request& r, GroupId group, const Checkpoint& checkpoint,
                          std::uint64_t tokens);
  void release_tables(Request& request);
  void release_host(Request& request);
  std::optional<Granted> start_copies(const std::vector<Blocks>& source, const BlockPool& from,
                                      BlockPool& to, std::vector<Blocks>& target);
  void settle_out(Request& request, bool ok);
  void settle_in(Request& request, bool ok);
  void observe(const Request& request, RequestState& state) const;

  CacheConfig config_;
  std::shared_ptr<ContentBook> book_ = std::make_shared<ContentBook>();
  BlockPool pool_;
  BlockPool host_;
  std::vector<LayerGroup> layer_groups_;
  std::map<std::string, Request> requests_;
  std::set<PrefixKey> new_states_;  // Mamba states published since the step began
  // References held until the copies of this step have run, per group: a step ends those of one
  // group after those of the group before, whichever request asked first.
  std::vector<Blocks> copying_;
  Blocks raw_;  // references held by the raw owner
  std::map<std::string, Blocks> leases_;
  std::map<std::string, Transfer> transfers_;
  HitCounters counters_;
  std::optional<Need> last_need_;
};

}  // namespace kvproof::reference
