// SPDX-License-Identifier: Apache-2.0
// The content oracle: does every request read, through the observed block table, its own bytes?
//
// Model:   a shadow store outside the subject. Per slot it knows who wrote which token of which
//          prefix; the contiguous cache holds what each request must read. Newly handed out blocks
//          are poisoned, a grant writes its tokens, drafts write garbage until they are accepted.
// Refuses: knowledge of any subject. It sees operations, outcomes and tables, so it works for all,
//          and it is what catches a stale hash, a double owner, a hit past a hole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/prefix_digest.h"
#include "properties/say.h"
#include "reference/config.h"
#include "reference/contiguous_cache.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

class ContentOracle {
 public:
  explicit ContentOracle(const CacheConfig& config);

  /// Follows one operation. @return what some request would misread after it.
  Finding follow(const Operation& operation, const Outcome& outcome, const Snapshot& before,
                 const Snapshot& after);

  /// A caller advanced over, or published, tokens that nobody computed. What a request reads is
  /// then undefined by the caller's own doing, and nothing is reported from there on.
  [[nodiscard]] bool caller_broke_contract() const { return caller_broke_contract_; }

 private:
  static constexpr std::uint32_t kNobody = 0xffffffffU;

  /// What lies in one slot. A digest stands for the K and V of a token: equal digest, equal bytes.
  struct Row {
    std::uint64_t digest = 0;
    std::uint32_t writer = kNobody;  // index into names_
    std::uint32_t position = 0;      // [tokens] in the writer's sequence
  };

  struct Request {
    std::string name;
    std::uint32_t id = 0;  // index into names_
    PrefixDigest digest;
    reference::Run run;  // where its rows lie in contiguous_
    std::uint32_t num_tokens = 0;
    std::uint64_t written = 0;     // [tokens] leading ones that must read right
    std::uint64_t draft_end = 0;   // [tokens] slots [written, draft_end) hold this request's drafts
    std::uint32_t hit_tokens = 0;  // of the last lookup
  };

  bool perform(const Operation& operation, const Result& result, const Snapshot& before,
               const Snapshot& after);
  Request* find(std::string_view name);
  void arrive(const op::Arrive& o);
  void append(Request& r, const std::vector<TokenId>& tokens);
  void grant(Request& r, const AllocateArgs& args, const RequestState& was,
             const RequestState& now);
  void advance(Request& r, std::uint32_t computed, const RequestState& now);
  void poison(const std::vector<BlockId>& blocks, std::size_t from);
  void write(const Request& r, const std::vector<BlockId>& table, std::uint64_t from,
             std::uint64_t to, bool draft);
  void place(Request& r, std::uint32_t num_tokens);
  void rebuild_arena(std::uint64_t capacity);
  Finding check_request(const Request& r, const RequestState& state) const;
  Finding check_hit(const Request& r, const Hit& hit) const;
  Finding check_row(const Request& r, std::uint64_t position,
                    const std::vector<BlockId>& table) const;

  std::uint32_t num_blocks_;
  std::uint32_t block_size_;
  std::uint64_t max_model_len_;
  std::vector<Row> slots_;                 // shape [num_blocks * block_size]
  reference::ContiguousCache contiguous_;  // the arena
  std::vector<std::uint64_t> rows_;        // shape [arena capacity]: digests, placed by contiguous_
  std::vector<Request> requests_;          // sorted by name
  std::vector<std::string> names_;         // of all requests that ever arrived
  std::uint64_t poisons_ = 0;              // distinct garbage, so that garbage never equals garbage
  bool caller_broke_contract_ = false;
};

}  // namespace kvproof::properties
