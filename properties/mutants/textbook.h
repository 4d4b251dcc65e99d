// SPDX-License-Identifier: Apache-2.0
// The textbook allocator: arrays, a deque, a dictionary, a 64-bit chained hash, as engines write
// it.
//
// Model:   what reference/cache_manager.h specifies, and, without fault, equal to it block for
//          block.
// Fault:   the line where a real engine went wrong can be broken in the same way. One allocator has
//          at most one fault; mutants.h lists them with their reports.
// Refuses: any use but as a subject that the oracles must see through.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::properties {

/// Named by what the faulty line does. Each is one row of mutants.h.
enum class Fault {
  none,
  free_queues_duplicates,       // B002
  touch_leaves_queued,          // B004
  take_without_reference,       // B014
  hash_truncated,               // B015
  hash_without_images,          // B019
  hash_without_image_offset,    // B020
  hash_without_adapter,         // B026
  hash_untagged,                // B027
  take_keeps_index_entry,       // B032
  evict_keeps_block_hash,       // B034
  index_holds_one_block,        // B035
  removal_names_first_copy,     // B036
  lookup_continues_after_miss,  // B044
  lookup_takes_last_token,      // B052
  stale_hit_accepted,           // B055
  touch_before_check,           // B057
  check_ignores_queued_hits,    // B058
  check_ignores_partial_block,  // B062
  gate_reserves_chunk_only,     // B065
  free_parents_first,           // B070
  take_before_touch,            // B071
  rollback_to_tail,             // B074
  preempt_frees_published,      // B103
  lookup_pins,                  // B139
  reset_forgets_blocks,         // B156
  common_prefix_by_count,       // B158
};

class Textbook final : public Subject {
 public:
  /// @pre unsupported(config) is empty
  Textbook(const CacheConfig& config, Fault fault);

  Outcome apply(const Operation& operation) override;
  void observe(Snapshot& snapshot) const override;

 private:
  struct Block {
    std::int64_t refs = 0;
    bool hashed = false;
    std::uint64_t hash = 0;
    std::uint32_t prefix_tokens = 0;
  };

  struct Sequence {
    std::vector<TokenId> tokens;
    ExtraKeys extra;
    bool skip_lookup = false;
    std::uint32_t computed = 0;
    std::vector<std::uint64_t> hashes;  // one per complete block
    std::vector<BlockId> table;
    std::optional<std::uint32_t> cached;  // [blocks] considered for the index
    std::vector<BlockId> found;           // by the last lookup
  };

  /// Where an allocation ends and what it has to take.
  struct Plan {
    std::uint64_t loaded_blocks = 0;   // table length with the external tokens; 0 = none are loaded
    std::uint64_t end_blocks = 0;      // table length in the end
    std::uint64_t publish_tokens = 0;  // of which the complete blocks may be published
    std::uint64_t first_written = 0;   // position of the first block that is written to
  };

  Result run(const op::Arrive& o);
  Result run(const op::Append& o);
  Result run(const op::Advance& o);
  Result run(const op::Lookup& o);
  Result run(const op::Allocate& o);
  Result run(const op::Free& o);
  Result run(const op::Finish& o);
  Result run(const op::Recycle& o);
  Result run(const op::Cache& o);
  Result run(const op::Evict& o);
  Result run(const op::Reset& o);
  Result run(const op::CommonPrefix& o);
  Result run(const op::Step& o);
  Result run(const op::Take& o);
  Result run(const op::Touch& o);
  Result run(const op::Release& o);
  Result run(const auto&) { return Rejected{"not_supported: no forks, leases or tiers"}; }

  static void require(bool holds, const char* what);
  Sequence& sequence(const std::string& name);
  void extend_hashes(Sequence& s) const;
  [[nodiscard]] std::uint64_t hash_block(std::uint64_t parent, const Sequence& s,
                                         std::uint32_t start) const;
  [[nodiscard]] Plan plan(const Sequence& s, const AllocateArgs& args,
                          std::uint64_t hit_blocks) const;
  [[nodiscard]] bool fits(const Sequence& s, const AllocateArgs& args, const Plan& p,
                          const std::vector<BlockId>& hit) const;
  [[nodiscard]] std::vector<std::size_t> to_copy(const Sequence& s, const Plan& p) const;
  void admit(Sequence& s, const Plan& p, const std::vector<BlockId>& hit);
  void check_hit(const Sequence& s) const;

  std::vector<BlockId> take(std::uint64_t n);
  void touch(const std::vector<BlockId>& blocks);
  void free(const std::vector<BlockId>& blocks);
  void enqueue(const std::vector<BlockId>& blocks);
  void unpublish(BlockId block);
  void publish(Sequence& s, std::uint64_t tokens);
  void free_table(Sequence& s);
  [[nodiscard]] bool is(Fault fault) const { return fault_ == fault; }

  CacheConfig config_;
  Fault fault_;
  std::uint32_t block_size_;
  std::vector<Block> blocks_;
  std::deque<BlockId> free_;                                       // head first
  std::unordered_map<std::uint64_t, std::vector<BlockId>> index_;  // hash -> blocks, oldest first
  std::map<std::string, Sequence> sequences_;
  std::vector<BlockId> raw_;
  std::vector<Event> events_;
};

}  // namespace kvproof::properties
