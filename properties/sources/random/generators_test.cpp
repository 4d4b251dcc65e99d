// SPDX-License-Identifier: Apache-2.0
// The generator reaches what it is biased towards; a feature that it lost would go unnoticed
// elsewhere.
#include "properties/sources/random/generators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "optimized/subjects.h"
#include "properties/audit/runner.h"
#include "properties/audit/shrink.h"
#include "properties/selftest/patches.h"
#include "properties/sources/random/cases.h"
#include "reference/mix64.h"
#include "reference/operations.h"

namespace kvproof::properties {
namespace {

/// One random run, with every operation and what was known before it shown to `look`.
template <class Look>
void tour(const Configuration& row, const Case& c, const Look& look) {
  const CacheConfig config = draw_config(kProfiles[0], row, c.setup);
  const Generator generator(config, draw_swarm(row, mix64(c.setup)));
  const auto& row_of_subject = *optimized::find_subject("naive");
  const auto subject = row_of_subject.make(config);
  Audit audit(config, *subject, {false, false, false}, row_of_subject.make(config));
  for (Choice choice : c.choices) {
    const Operation operation = generator.next(choice, audit.state(), audit.history());
    look(config, operation, audit);
    audit.apply(operation);
  }
}

TEST(Generators, MakeTheSameRunFromTheSameChoices) {
  ChoiceStream stream(5);
  const Case c = draw_case(stream, 200);
  std::vector<Operation> first;
  std::vector<Operation> second;
  tour(*find_configuration("full_host"), c,
       [&](const auto&, const Operation& o, const auto&) { first.push_back(o); });
  tour(*find_configuration("full_host"), c,
       [&](const auto&, const Operation& o, const auto&) { second.push_back(o); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.size(), c.choices.size());
}

TEST(Generators, DrawZerosFromZeroAndStayInRangeOtherwise) {
  Draws zeros(0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(zeros.below(300), 0U);
  Draws draws(0x123456789abcdef0U);
  for (std::uint32_t n = 1; n < 1000; ++n) EXPECT_LT(draws.below(n), n);
}

TEST(Generators, DrawSmallPoolsAndBlocksOfEverySize) {
  std::set<std::uint32_t> usable;
  std::set<std::uint32_t> block_sizes;
  ChoiceStream stream(1);
  for (int i = 0; i < 1000; ++i) {
    const CacheConfig config =
        draw_config(kProfiles[0], *find_configuration("plain"), stream.next());
    EXPECT_EQ(unsupported(config), std::nullopt);
    usable.insert(config.num_blocks - 1);
    block_sizes.insert(config.hash_block_size);
  }
  EXPECT_EQ(*usable.begin(), 3U);
  EXPECT_EQ(*usable.rbegin(), 12U);
  EXPECT_EQ(usable.size(), 10U);
  EXPECT_EQ(block_sizes, (std::set<std::uint32_t>{1, 2, 3, 4}));
}

TEST(Generators, DrawEveryConfigurationAndOnlyWhatIsSupported) {
  std::set<std::string_view> names;
  for (const Configuration& row : kConfigurations) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " is listed twice";
    EXPECT_EQ(find_configuration(row.name), &row);
    EXPECT_FALSE(row.sentence.empty()) << row.name;
    std::set<std::uint32_t> limits;
    std::set<bool> in_flight;
    ChoiceStream stream(2);
    for (int i = 0; i < 300; ++i) {
      const CacheConfig config = draw_config(kProfiles[0], row, stream.next());
      EXPECT_EQ(unsupported(config), std::nullopt) << row.name;
      EXPECT_EQ(config.groups.size(), row.groups.size());
      EXPECT_EQ(config.enable_caching, row.caching);
      EXPECT_EQ(config.num_host_blocks > 0, row.host_tier);
      EXPECT_GE(config.num_blocks, 4U);
      for (const GroupConfig& group : config.groups) limits.insert(group.window + group.chunk);
      in_flight.insert(config.max_in_flight_tokens.has_value());
    }
    EXPECT_EQ(in_flight.size(), 2U);
    const bool limited = row.has(LayerKind::sliding_window) || row.has(LayerKind::chunked_local);
    EXPECT_EQ(limits.size() > 4, limited) << row.name;
  }
}

void note_arrival(const CacheConfig& config, const op::Arrive& o,
                  std::set<std::vector<TokenId>>& prompts, std::map<std::string, int>& seen) {
  const std::uint32_t size = config.hash_block_size;
  const auto n = static_cast<std::uint32_t>(o.tokens.size());
  if (size > 2 && n % size == size - 1) ++seen["prompt of k*B-1"];
  if (n > 0 && n % size == 0) ++seen["prompt of k*B"];
  if (size > 1 && n > size && n % size == 1) ++seen["prompt of k*B+1"];
  if (n / size >= config.num_blocks - 1) ++seen["prompt beyond the pool"];
  if (n > size && !prompts.insert(o.tokens).second) ++seen["prompt replayed"];
  if (n == config.max_model_len) ++seen["prompt of the token limit"];
  if (n > config.max_model_len) ++seen["prompt beyond the token limit"];
  if (!o.extra.lora.empty() && !o.extra.salt.empty()) ++seen["adapter before a salt"];
  if (o.extra.mm.size() > 1) ++seen["two images"];
  if (o.skip_lookup) ++seen["skip_lookup"];
  if (!o.extra.lora.empty()) ++seen["adapter " + o.extra.lora];
  if (!o.extra.salt.empty()) ++seen["salt " + o.extra.salt];
  if (!o.extra.layout.empty()) ++seen["layout " + o.extra.layout];
  for (const MultimodalItem& item : o.extra.embeds) ++seen["embedded " + item.id];
  for (const MultimodalItem& item : o.extra.mm) ++seen["image " + item.id];
}

void note_allocation(const op::Allocate& o, const Audit& audit, std::map<std::string, int>& seen) {
  const RequestState* r = audit.state().find(o.req);
  const AllocateArgs& args = o.args;
  if (args.use_lookup) ++seen["use_lookup"];
  if (args.lookahead > 0) ++seen["lookahead"];
  if (args.external > 0) ++seen[args.new_tokens == 0 ? "asynchronous load" : "external"];
  if (args.delay_cache) ++seen["delay_cache"];
  if (args.full_sequence_must_fit) ++seen["full_sequence_must_fit"];
  if (args.has_scheduled) ++seen["has_scheduled"];
  if (args.reserved > 0) ++seen["reserved"];
  if (args.status == RequestStatus::preempted) ++seen["retry after preemption"];
  if (r == nullptr) return;
  const std::uint32_t end = r->computed + args.new_tokens;
  if (!without_blocks(*r) && end > r->num_tokens) ++seen["drafts"];
  const RequestRecord& record = *audit.history().find(o.req);
  if (args.status == RequestStatus::running && !record.holds()) {
    ++seen[say("running, but ", record.status == RequestStatus::waiting ? "new" : "preempted")];
  }
  const std::uint64_t loaded = std::uint64_t{r->computed} + args.external;
  if (args.external > 0 && loaded == audit.config().max_model_len) ++seen["load up to the limit"];
  if (args.external > 0 && loaded > audit.config().max_model_len) ++seen["load beyond the limit"];
  if (args.use_lookup && record.swapped && record.resident()) ++seen["lookup used after a swap"];
  if (without_blocks(*r) && args.external == 0 && !args.use_lookup && end < r->num_tokens)
    ++seen["chunk"];
}

void note_swap(const Operation& operation, const Audit& audit, std::map<std::string, int>& seen) {
  const RequestRecord* r = audit.history().find(request_of(operation));
  const bool tier = audit.config().num_host_blocks > 0;
  if (std::holds_alternative<op::SwapOut>(operation) && !tier) ++seen["swap without a tier"];
  if (!std::holds_alternative<op::SwapIn>(operation) || r == nullptr) return;
  const TransferRecord* transfer = audit.history().book.find_transfer(r->transfer);
  if (transfer != nullptr && !transfer->out) ++seen["second swap_in"];
}

template <class Op>
void note_duplicates(const char* what, const Operation& operation,
                     std::map<std::string, int>& seen) {
  const auto* o = std::get_if<Op>(&operation);
  if (o == nullptr) return;
  std::set<BlockId> distinct(o->blocks.begin(), o->blocks.end());
  if (distinct.size() < o->blocks.size()) ++seen[what];
}

constexpr const char* kBiases[] = {"prompt of k*B-1",
                                   "prompt of k*B",
                                   "prompt of k*B+1",
                                   "prompt beyond the pool",
                                   "prompt replayed",
                                   "prompt of the token limit",
                                   "prompt beyond the token limit",
                                   "adapter before a salt",
                                   "two images",
                                   "running, but new",
                                   "running, but preempted",
                                   "load up to the limit",
                                   "load beyond the limit",
                                   "lookup used after a swap",
                                   "swap without a tier",
                                   "second swap_in",
                                   "skip_lookup",
                                   "adapter a",
                                   "adapter b",
                                   "salt a",
                                   "salt s",
                                   "layout a",
                                   "layout d",
                                   "embedded x-1234",
                                   "image x-1234",
                                   "image y-1234",
                                   "use_lookup",
                                   "lookahead",
                                   "external",
                                   "asynchronous load",
                                   "delay_cache",
                                   "full_sequence_must_fit",
                                   "has_scheduled",
                                   "reserved",
                                   "retry after preemption",
                                   "drafts",
                                   "chunk",
                                   "duplicate touch",
                                   "duplicate release",
                                   "duplicate evict"};

TEST(Generators, ReachWhatTheyAreBiasedTowards) {
  std::map<std::string, int> seen;
  std::set<std::size_t> kinds;
  ChoiceStream stream(1);
  for (int i = 0; i < 2000; ++i) {
    std::set<std::vector<TokenId>> prompts;  // of one manager
    tour(*find_configuration(i % 4 == 0 ? "full" : "full_host"), draw_case(stream, 200),
         [&](const CacheConfig& config, const Operation& operation, const Audit& audit) {
           kinds.insert(operation.index());
           if (const auto* arrive = std::get_if<op::Arrive>(&operation))
             note_arrival(config, *arrive, prompts, seen);
           if (const auto* allocate = std::get_if<op::Allocate>(&operation))
             note_allocation(*allocate, audit, seen);
           note_swap(operation, audit, seen);
           note_duplicates<op::Touch>("duplicate touch", operation, seen);
           note_duplicates<op::Release>("duplicate release", operation, seen);
           note_duplicates<op::Evict>("duplicate evict", operation, seen);
         });
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<OperationVariant>)
      << "some operation is never generated";
  for (const char* what : kBiases) {
    EXPECT_GE(seen[what], 10) << what;
  }
}

// A kind that is off in some runs and on in others: what one feature hides shows when it is absent.
TEST(Generators, SwitchKindsOffInSomeRuns) {
  std::map<std::size_t, int> off;
  ChoiceStream stream(1);
  for (int i = 0; i < 100; ++i) {
    const Swarm swarm = draw_swarm(*find_configuration("full_host"), stream.next());
    for (std::size_t k = 0; k < kNumKinds; ++k) off[k] += swarm.weight[k] == 0 ? 1 : 0;
  }
  for (std::size_t k = 0; k < kNumKinds; ++k) {
    const bool needed = k <= static_cast<std::size_t>(Kind::finish);
    const bool ends = k == static_cast<std::size_t>(Kind::unpin) ||
                      k >= static_cast<std::size_t>(Kind::swap_in);  // on with what they end
    EXPECT_EQ(off[k] == 0, needed) << "kind " << k << (ends ? ", which ends another" : "");
    EXPECT_LT(off[k], 60) << "kind " << k;
  }
}

/// Counts what it is asked beyond kPlain, by what it was told and has answered. It has a bug, so
/// that there is something to shrink.
class Declining final : public Subject {
 public:
  Declining(const CacheConfig& config, std::uint64_t& beyond)
      : caching_(config.enable_caching), inner_(make_museum("B004", config)), beyond_(beyond) {}

  Outcome apply(const Operation& operation) override {
    beyond_ += is_beyond(operation) ? 1 : 0;
    Outcome out = inner_->apply(operation);
    hit_ = std::get_if<Hit>(&out.result) ? std::get<Hit>(out.result).hit_tokens : 0;
    looked_up_ = std::holds_alternative<op::Lookup>(operation) ? request_of(operation) : "";
    inner_->observe(state_);
    return out;
  }
  void observe(Snapshot& out) const override { inner_->observe(out); }

  static constexpr const char* kPlain =
      R"({"chunks":false,"drafts":false,"external":false,"extra":false,"delay_cache":false,)"
      R"("skip_lookup":false,"without_lookup":false,"reserved":false,"in_flight":false,)"
      R"("full_sequence_must_fit":false,"max_tokens":false,"appends":"one","advance":"whole"})";

 private:
  [[nodiscard]] bool is_beyond(const Operation& operation) const {
    const RequestState* r = state_.find(request_of(operation));
    if (const auto* o = std::get_if<op::Arrive>(&operation)) {
      return o->skip_lookup || o->extra != ExtraKeys{};
    }
    if (r == nullptr) return false;
    if (const auto* o = std::get_if<op::Lookup>(&operation)) return o->max_tokens.has_value();
    if (const auto* o = std::get_if<op::Append>(&operation)) {
      return o->tokens.size() != 1 || r->computed != r->num_tokens;
    }
    const auto* o = std::get_if<op::Allocate>(&operation);
    if (o == nullptr) return false;
    const AllocateArgs& a = o->args;
    const bool starts = without_blocks(*r);
    const bool blind = starts && caching_ && (!a.use_lookup || looked_up_ != o->req);
    const std::uint32_t end = r->computed + (starts && a.use_lookup ? hit_ : 0) + a.new_tokens;
    return blind || end != r->num_tokens || a.lookahead > 0 || a.external > 0 || a.delay_cache ||
           a.reserved > 0 || a.full_sequence_must_fit || a.in_flight > 0;
  }

  bool caching_;
  std::unique_ptr<Subject> inner_;
  std::uint64_t& beyond_;
  Snapshot state_;
  std::string looked_up_;
  std::uint32_t hit_ = 0;
};

TEST(Generators, NeitherDrawNorShrinkToWhatTheSubjectIsNotAsked) {
  const Abilities plain = parse_abilities(Declining::kPlain);
  Oracles oracles;
  oracles.promises.abilities = plain;
  std::uint64_t beyond = 0;
  std::size_t shrunk = 0;
  const MakeSubject make = [&](const CacheConfig& config) {
    return std::make_unique<Declining>(config, beyond);
  };
  for (const char* name : {"plain", "full", "full_uncached", "full_window", "full_mamba_align"}) {
    Configuration row = *find_configuration(name);
    row.within = &plain;
    for (const Profile* profile : {find_profile("vllm-0.24"), find_profile("vllm-0.33")}) {
      ChoiceStream stream(8);
      Counts counts;
      for (int i = 0; i < 40; ++i) {
        const Case c = draw_case(stream, 200);
        Swarm swarm = draw_swarm(row, mix64(c.setup));
        swarm.of(Kind::wrong) = 0;
        const auto failure = run_choices(make, draw_config(*profile, row, c.setup), swarm,
                                         c.choices, oracles, counts);
        EXPECT_EQ(beyond, 0U) << "drawn, " << name;
        if (failure && ++shrunk % 8 == 1) {
          EXPECT_FALSE(shrink(make, *failure, oracles).trace.empty());
        }
        EXPECT_EQ(beyond, 0U) << "shrunk, " << name;
        beyond = 0;
      }
      EXPECT_GT(counts.grants, 20U) << name;
    }
  }
  EXPECT_GT(shrunk, 16U);
}

TEST(Generators, DrainLeavesNothingBehind) {
  ChoiceStream stream(3);
  for (int i = 0; i < 20; ++i) {
    const Case c = draw_case(stream, 100);
    Counts counts;
    const Configuration& row = *find_configuration("full_window_host");
    EXPECT_FALSE(run_case(optimized::find_subject("naive")->make, kProfiles[0], row, c, {}, counts)
                     .has_value());
    EXPECT_GE(counts.operations, c.choices.size());
  }
}

}  // namespace
}  // namespace kvproof::properties
