// SPDX-License-Identifier: Apache-2.0
// The fault host: an allocator in which one seeded bug can live. It is made of arrays, deques,
// dictionaries and a 64-bit chained hash, as engines write it.
//
// Model:   as reference/cache_manager.h; without a fault it is equal to it block for block.
// Fault:   the line where a real engine went wrong can be broken in the same way. One allocator has
//          at most one fault; mutants.h lists them with their reports.
// Leaves out: states that move (Mamba mode align), encoder rows, and second keys for the ends of
//          prompts. It only serves as a subject whose fault the oracles must notice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "properties/mutants.h"
#include "properties/mutants/fault_host_pool.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// Whether the fault host has the mechanisms of a configuration.
[[nodiscard]] bool fault_host_supports(const CacheConfig& config);

class FaultHost final : public Subject {
 public:
  /// @pre unsupported(config) is empty and fault_host_supports(config)
  FaultHost(const CacheConfig& config, Fault fault);

  Outcome apply(const Operation& operation) override;
  void observe(Snapshot& snapshot) const override;

 private:
  using Blocks = std::vector<BlockId>;

  /// One request in one group.
  struct Table {
    Blocks blocks;                        // 0 = null
    std::optional<std::uint32_t> cached;  // [blocks] considered for the index; set = running
    Blocks found;                         // what the last lookup found
  };

  struct Sequence {
    std::vector<TokenId> tokens;
    ExtraKeys extra;
    bool skip_lookup = false;
    std::uint32_t computed = 0;
    std::uint32_t found_tokens = 0;          // what the last lookup found
    std::vector<std::uint64_t> hashes;       // one per complete unit
    std::vector<std::uint64_t> tier_hashes;  // as the other tier names them
    std::vector<Table> tables;               // per group
    std::vector<Blocks> host;                // per group; empty = not in the host tier
    std::vector<std::optional<std::uint32_t>> host_cached;
    std::string transfer;             // in flight; empty = none
    std::uint64_t salt = 0;           // of one run only; used by a fault
    std::uint32_t lost_capacity = 0;  // [tokens] per block; set by a fault
    Blocks recycled;                  // remembered by a fault
  };

  /// The demand of an allocation on every group. [tokens]
  struct Ask {
    std::uint64_t slots = 0;     // in the end
    std::uint64_t computed = 0;  // local, found and external
    std::uint64_t external = 0;  // those of them that a connector loads
    bool starts = false;         // the tables start from found and loaded tokens
    bool found = false;          // they start from found tokens
    bool gate = false;           // count only the blocks that recycling leaves
  };

  struct Transfer {
    std::string req;
    bool out = false;
  };

  // fault_host.cpp
  Result run(const op::Arrive& o);
  Result run(const op::Append& o);
  Result run(const op::Advance& o);
  Result run(const op::Free& o);
  Result run(const op::Finish& o);
  Result run(const op::Recycle& o);
  Result run(const op::Step& o);
  Result run(const op::Evict& o);
  Result run(const op::Reset& o);
  Result run(const op::CommonPrefix& o);
  Result run(const op::Decode& o);
  // fault_host_lookup.cpp
  Result run(const op::Lookup& o);
  // fault_host_admission.cpp
  Result run(const op::Allocate& o);
  // fault_host_keys.cpp
  Result run(const op::Cache& o);
  // fault_host_sharing.cpp
  Result run(const op::Take& o);
  Result run(const op::Touch& o);
  Result run(const op::Release& o);
  Result run(const op::Fork& o);
  Result run(const op::Truncate& o);
  Result run(const op::Pin& o);
  Result run(const op::Unpin& o);
  // fault_host_tiers.cpp
  Result run(const op::SwapOut& o);
  Result run(const op::SwapIn& o);
  Result run(const op::Complete& o);

  static void require(bool holds, const char* what);
  Sequence& sequence(const std::string& name);
  Sequence& resident(const std::string& name);
  void free_tables(Sequence& s);
  void free_table(Sequence& s, GroupId group);
  void free_host(Sequence& s);
  void recycle(Sequence& s, GroupId group, std::uint64_t computed);
  [[nodiscard]] static Blocks without_null(const Blocks& blocks);
  [[nodiscard]] static Blocks reversed(const Blocks& blocks);

  void extend_hashes(Sequence& s) const;
  [[nodiscard]] std::uint64_t hash_unit(std::uint64_t parent, const Sequence& s,
                                        std::uint32_t start, bool tier) const;
  [[nodiscard]] FaultHostKey key(const Sequence& s, GroupId group, std::size_t position) const;
  void publish(Sequence& s, std::uint64_t tokens);
  void publish_group(Sequence& s, GroupId group, std::uint64_t tokens);
  bool publish_block(Sequence& s, GroupId group, std::uint32_t position);

  using Reads = std::vector<bool>;  // per position of a hit: is it read?
  using Has = std::function<bool(std::uint32_t position)>;
  struct Kin;
  struct End;
  [[nodiscard]] std::optional<BlockId> found_at(const Sequence& s, GroupId group,
                                                std::uint32_t position) const;
  [[nodiscard]] Reads find(const GroupConfig& group, End end, const Has& has) const;
  [[nodiscard]] Reads find_full(const GroupConfig& group, End end, const Has& has) const;
  [[nodiscard]] static Reads find_window(const GroupConfig& group, End end, const Has& has);
  [[nodiscard]] static Reads find_chunk(const GroupConfig& group, End end, const Has& has);
  [[nodiscard]] static Reads find_state(const GroupConfig& group, End end, const Has& has);
  std::uint64_t find_common(const Sequence& s, std::uint64_t limit, std::vector<Reads>& reads);
  std::uint64_t find_alone(const Sequence& s, std::uint64_t limit, std::vector<Reads>& reads);
  bool find_round(const Sequence& s, std::uint64_t limit, std::vector<Kin>& kin,
                  std::uint64_t& hit);
  void find_kin(const Sequence& s, std::uint64_t limit, Kin& k, std::vector<Kin>& all,
                std::uint64_t& current);
  void count(const Sequence& s, bool resumed);

  void check_hit(const Sequence& s) const;
  [[nodiscard]] std::uint64_t wanted(const Sequence& s, GroupId group, const Ask& ask) const;
  [[nodiscard]] std::uint64_t loaded(GroupId group, const Ask& ask) const;
  [[nodiscard]] std::uint64_t need(const Sequence& s, GroupId group, const Ask& ask) const;
  [[nodiscard]] std::uint64_t need(const Sequence& s, const Ask& ask) const;
  [[nodiscard]] bool gate_opens(const Sequence& s, const AllocateArgs& args, Ask ask,
                                std::uint64_t keep) const;
  [[nodiscard]] bool fits(const Sequence& s, const AllocateArgs& args, const Ask& ask,
                          std::uint64_t keep) const;
  void refuse(Sequence& s, const Ask& ask);
  [[nodiscard]] std::vector<std::size_t> to_write(const Sequence& s, GroupId group,
                                                  const Ask& ask) const;
  [[nodiscard]] std::vector<std::size_t> to_copy(const Sequence& s, GroupId group,
                                                 const Ask& ask) const;
  void start(Sequence& s, const Ask& ask);
  Granted grow(Sequence& s, const Ask& ask);
  Blocks grow_group(Sequence& s, GroupId group, const Ask& ask, std::vector<Copy>& copies);

  std::optional<Granted> start_copies(const std::vector<Blocks>& source, const FaultHostPool& from,
                                      FaultHostPool& to, std::vector<Blocks>& target);
  void settle_out(Sequence& s, bool ok);
  void settle_in(Sequence& s, bool ok);

  [[nodiscard]] bool is(Fault fault) const { return fault_ == fault; }

  CacheConfig config_;
  Fault fault_;
  FaultHostPool pool_;
  FaultHostPool host_;
  std::map<std::string, Sequence> sequences_;
  std::map<std::string, Sequence> finished_;                // remembered by a fault
  std::set<std::pair<GroupId, std::uint64_t>> new_states_;  // published since the step began
  Blocks raw_;
  std::map<std::string, Blocks> leases_;
  std::map<std::string, Transfer> transfers_;
  HitCounters counts_;
  std::uint32_t since_pin_ = 0;  // [operations], for a fault
};

}  // namespace kvproof::properties
