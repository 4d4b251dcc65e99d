// SPDX-License-Identifier: Apache-2.0
// Operations as events of a run: the judge of runs is told what a caller does with what an
// allocator answers, and judges it beside the content oracle.
//
// Model:   a grant is a step of one row, which is dispatched, runs and retires at once. A swap is a
//          transfer, a lease one that only reads, a fork the arrival of a request with the tables
//          of another. The number of a token is made of its whole prefix, keys included, so that
//          keys of a part of a prompt (an image) count from there on.
// Slots:   no event says that a block was handed out, that a draft was accepted or a token loaded,
//          and what a request must find after an operation. The judge has methods for these.
// Leaves out: states and encoder rows, which only the content oracle judges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/caller/caller_book.h"
#include "properties/shadow/content_oracle.h"
#include "properties/shadow/judge.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof::properties {

class OperationEvents {
 public:
  explicit OperationEvents(const CacheConfig& config);

  /// Follows one operation. @param book of the caller, with the operation folded @param content
  /// has followed it @return what the judge found first in it; null = nothing
  const live::Found* follow(const Operation& operation, const Outcome& outcome,
                            const Snapshot& before, const Snapshot& after, const CallerBook& book,
                            const ContentOracle& content);

  [[nodiscard]] const live::Judge& judge() const { return judge_; }

 private:
  using Tables = std::vector<std::vector<BlockId>>;
  using Request = RequestRecord;

  struct Told {
    std::uint32_t number = 0;  // of the request, in the run
    Tables tables = {};        // one a group with rows
  };
  struct Span {  // [tokens]
    std::uint32_t start = 0;
    std::uint32_t known = 0;  // behind it are drafts
    std::uint32_t end = 0;
  };

  void tell(live::Event event) { judge_.take(event); }
  void tell_own(const Request& r, const Operation& operation, const Result& result,
                const Snapshot& before, const Snapshot& after, const CallerBook& book);
  /// Its arrival is told with its first mention.
  Told& told(const Request& r);
  void grant(const Request& r, const TokenCounts& old, const op::Allocate& allocate,
             const std::vector<Copy>& copies, const RequestState& was, const Tables& now);
  void step(const Request& r, const Span& span, const std::vector<Copy>& copies, const Tables& now);
  [[nodiscard]] live::event::Row row_of(Told& told, const Tables& now) const;
  void know(const Request& r, const Tables& tables, std::uint32_t from, std::uint32_t to);
  void tell_tables(const Snapshot& after, const CallerBook& book);
  void swap(const Request& r, const std::string& transfer, bool out,
            const std::vector<Copy>& copies);
  void look(live::LawId law, const Request& r, const Progress& now, const Tables& tables,
            std::uint32_t tier);
  [[nodiscard]] bool is_of(std::uint32_t tier, BlockId block) const {
    return block != kNullBlock && block < judge_.header().tiers[tier].blocks;
  }
  [[nodiscard]] std::vector<TokenId> tokens_of(const Request& r, std::uint64_t from) const;

  CacheConfig config_;
  std::vector<GroupId> groups_;  // those whose blocks rows write: the groups of the run
  live::Judge judge_;
  const ContentOracle* content_ = nullptr;  // of the operation that is followed
  std::map<std::string, Told, std::less<>> told_;
  std::uint64_t steps_ = 0;
  TokenId draft_ = 0;  // the last one's number
};

}  // namespace kvproof::properties
