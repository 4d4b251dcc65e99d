// SPDX-License-Identifier: Apache-2.0
// A single copy that went wrong is noticed by the content oracle alone, and a transfer that fails
// leaves both tiers as they were.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "optimized/subjects.h"
#include "properties/audit/audit.h"
#include "properties/audit/runner.h"
#include "properties/sources/random/cases.h"
#include "properties/sources/random/ways.h"
#include "reference/layer_rules.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

/// A mistake in the handling of copies. It is made once, with the third copy that matters.
struct CopyFault {
  Operation of;  // whose copies they are: an allocation's or a swap's
  enum How { skipped, reversed, late } how = skipped;  // late: the step has written before
};

/// A sound allocator whose caller makes the mistake: its answer is told as the caller takes it.
class WrongCopy final : public Subject {
 public:
  WrongCopy(std::unique_ptr<Subject> inner, const CacheConfig& config, CopyFault fault)
      : inner_(std::move(inner)), config_(config), fault_(fault) {}

  Outcome apply(const Operation& operation) override {
    Outcome outcome = inner_->apply(operation);
    auto* granted = std::get_if<Granted>(&outcome.result);
    if (granted == nullptr) return outcome;
    if (std::holds_alternative<op::Allocate>(operation) && !late_.empty()) {
      granted->copies.push_back(late_.front());
      late_.clear();
    }
    if (operation.index() != fault_.of.index()) return outcome;
    Snapshot state;
    inner_->observe(state);
    const RequestState& request = *state.find(request_of(operation));
    for (auto at = granted->copies.begin(); at != granted->copies.end(); ++at) {
      const bool out = std::holds_alternative<op::SwapOut>(operation);
      const auto& tables = out ? request.host_tables : request.tables;
      if (!matters(request.computed, tables, at->to) || ++mattered_ != 3) continue;
      if (fault_.how == CopyFault::reversed) {
        std::swap(at->from, at->to);
      } else {
        if (fault_.how == CopyFault::late) late_.push_back(*at);
        granted->copies.erase(at);
      }
      break;
    }
    return outcome;
  }
  void observe(Snapshot& snapshot) const override { inner_->observe(snapshot); }

 private:
  /// Whether a copied block holds a token that the request will read.
  [[nodiscard]] bool matters(std::uint32_t computed,
                             const std::vector<std::vector<BlockId>>& tables, BlockId to) const {
    for (GroupId g = 0; g < tables.size(); ++g) {
      const GroupConfig& group = config_.groups[g];
      const auto at = std::ranges::find(tables[g], to);
      if (at == tables[g].end()) continue;
      const auto first = static_cast<std::uint64_t>(at - tables[g].begin()) * group.block_size;
      return first < computed && first + group.block_size > skipped_tokens(group, computed);
    }
    return false;
  }

  std::unique_ptr<Subject> inner_;
  CacheConfig config_;
  CopyFault fault_;
  int mattered_ = 0;  // copies of the faulty kind so far
  std::vector<Copy> late_;
};

class CopyFaults : public testing::TestWithParam<CopyFault> {};

TEST_P(CopyFaults, OneWrongCopyIsNoticed) {
  const MakeSubject make = [](const CacheConfig& config) {
    return std::make_unique<WrongCopy>(
        optimized::subject_of(optimized::Role::standard).make(config), config, GetParam());
  };
  int rows = 0;
  for (const Configuration& row : kConfigurations) {
    const bool shared = std::holds_alternative<op::Allocate>(GetParam().of);
    if (shared ? !row.can_fork() : !row.host_tier) continue;
    SCOPED_TRACE(row.name);
    ++rows;
    ChoiceStream stream(seed_from_environment());
    Counts counts;
    std::optional<Failure> failure;
    while (!failure && counts.operations < 60'000) {
      failure = run_case(make, kProfiles[0], without_batches(row), draw_case(stream, 2000),
                         {.laws = false, .model = false}, counts);
    }
    ASSERT_TRUE(failure.has_value()) << "nothing was noticed";
    EXPECT_TRUE(failure->names("content"));
    const Topic& about = failure->said.front().about;
    const bool read = about.position && about.requests.size() == 1;
    const bool leased = !about.position && about.requests.empty();
    EXPECT_TRUE(read || leased) << failure->text;
    EXPECT_EQ(about.blocks.size() + about.host_blocks.size(), 1U) << failure->text;
  }
  EXPECT_GT(rows, 3);
}

INSTANTIATE_TEST_SUITE_P(Faults, CopyFaults,
                         testing::Values(CopyFault{op::Allocate{}, CopyFault::skipped},
                                         CopyFault{op::Allocate{}, CopyFault::reversed},
                                         CopyFault{op::Allocate{}, CopyFault::late},
                                         CopyFault{op::SwapOut{}, CopyFault::skipped},
                                         CopyFault{op::SwapOut{}, CopyFault::reversed},
                                         CopyFault{op::SwapIn{}, CopyFault::skipped},
                                         CopyFault{op::SwapIn{}, CopyFault::reversed}));

/// What a failed transfer must leave as it was: all but the order of the queues and the content of
/// blocks that nobody holds.
struct Holdings {
  std::uint32_t num_free = 0;
  std::uint32_t host_free = 0;
  std::vector<RequestState> requests;
  bool operator==(const Holdings&) const = default;
};

Holdings holdings(const Audit& audit) {
  return {audit.state().num_free, audit.state().host.num_free, audit.state().requests};
}

// All oracles look on.
void fail_both_ways(Audit& audit, const CacheConfig& config) {
  audit.apply(op::Arrive{.req = "a", .tokens = range(0, 18), .extra = {}});
  audit.apply(op::Allocate{"a", {.new_tokens = 18}});
  audit.apply(op::Advance{"a", 18});
  const Holdings here = holdings(audit);
  audit.apply(op::SwapOut{"a", "t"});
  EXPECT_EQ(audit.state().num_free, here.num_free) << "the device keeps its blocks";
  EXPECT_LT(audit.state().host.num_free, here.host_free);
  audit.apply(op::Complete{"t", false});
  EXPECT_TRUE(holdings(audit) == here);

  audit.apply(op::SwapOut{"a", "u"});
  audit.apply(op::Complete{"u", true});
  const Holdings there = holdings(audit);
  EXPECT_EQ(there.num_free, config.num_blocks - 1);
  audit.apply(op::SwapIn{"a", "v"});
  EXPECT_EQ(audit.state().host.num_free, there.host_free) << "the host keeps its blocks";
  EXPECT_LT(audit.state().num_free, there.num_free);
  audit.apply(op::Complete{"v", false});
  EXPECT_TRUE(holdings(audit) == there);

  audit.apply(op::SwapIn{"a", "w"});
  audit.apply(op::Complete{"w", true});
  EXPECT_EQ(audit.state().num_free, here.num_free);
  EXPECT_EQ(audit.state().host.num_free, config.num_host_blocks - 1);
}

TEST(Transfers, ThatFailLeaveBothSidesAsTheyWere) {
  GroupConfig mla = full(4);
  mla.kind = LayerKind::mla;
  const std::vector<std::vector<GroupConfig>> layers = {{full(4)},
                                                        {window(4, 9)},
                                                        {chunked(4, 8)},
                                                        {full(4), window(4, 8)},
                                                        {full(8, true), window(4, 9, true)},
                                                        {mla, window(4, 5), window(4, 12)},
                                                        {full(4), mamba(4, MambaMode::align)}};
  for (const Way& way : ways()) {
    for (const auto& groups : layers) {
      for (const bool caching : {true, false}) {
        if (!caching && groups.size() > 1) continue;
        SCOPED_TRACE(way.name());
        CacheConfig config = pool(groups.size() == 1 ? 28 : 56, groups, caching);
        config.profile = *way.profile;
        config.max_model_len = 72;
        config.num_host_blocks = config.num_blocks / 2;
        const auto subject = way.subject->make(config);
        Audit audit(config, *subject);
        fail_both_ways(audit, config);
      }
    }
  }
}

}  // namespace
}  // namespace kvproof::properties
