// SPDX-License-Identifier: Apache-2.0
// The search visits what there is, takes for one what is one, and finds seeded bugs by traces that
// no other is shorter than.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <random>

#include "properties/audit/shrink.h"
#include "properties/selftest/kill_matrix.h"
#include "properties/sources/exhaustive/search.h"
#include "properties/sources/exhaustive/spaces.h"
#include "properties/sources/random/cases.h"
#include "reference/operations.h"

namespace kvproof::properties::exhaustive {
namespace {

const Oracles kLaws{true, false, false};
const Oracles kLawsAndModel{true, true, false};

MakeSubject make_optimized() {
  return make_small(optimized::subject_of(optimized::Role::standard));
}

SearchReport search_all(const Space& space, const MakeSubject& make, Oracles oracles,
                        std::uint32_t threads = 2) {
  return search(space, {.make = make, .oracles = oracles, .threads = threads});
}

/// A request of one token in a pool of one block: small enough to count by hand.
Space one_token() { return {"one_token", "", 1, 1, 1, 1, 1, false, kNone, {kFull}}; }

/// The fingerprint of what a few operations lead to.
Fingerprint after(const Space& space, const std::vector<Operation>& operations) {
  const auto subject = make_optimized()(space.config());
  History history(space.config());
  reference::CacheManager naive(space.config());
  Canonical canonical;
  Snapshot state;
  Snapshot before;
  Known known;
  subject->observe(state);
  for (const Operation& operation : operations) {
    std::swap(before, state);
    const Outcome outcome = subject->apply(operation);
    subject->observe(state);
    history.fold(before, operation, outcome, state);
    note(space.config(), operation, outcome.result, state, known);
    naive.apply(operation);
  }
  return canonical.fingerprint(state, history, known, naive.memory());
}

op::Arrive arrive(const char* name, std::vector<TokenId> tokens) {
  return {.req = name, .tokens = std::move(tokens), .extra = {}};
}
op::Allocate admit(const char* name, std::uint32_t tokens) {
  return {name, {.new_tokens = tokens, .use_lookup = true}};
}

// Nothing; for each of two prompts: arrived, granted, computed. A preempted request is one that
// arrived. Edges: 2 arrivals and a reset; a grant, finish and reset; free, advance, finish and
// reset; free, finish and reset.
TEST(Exhaustive, CountsOfASmallestSpaceAreThoseCountedByHand) {
  const SearchReport report = search_all(one_token(), make_optimized(), kLawsAndModel);
  EXPECT_TRUE(report.closed);
  EXPECT_EQ(report.states, 1U + 2 * 3);
  EXPECT_EQ(report.counts.edges, 3U + 2 * (3 + 4 + 3));
  EXPECT_EQ(report.depth, 3U);
}

// With a prefix cache the block of a request remembers. Prompts of one token never fill a block, so
// nothing is published; a lookup finds nothing and changes nothing.
TEST(Exhaustive, CachingAddsNoStateWhereNothingFillsABlock) {
  Space space = one_token();
  space.caching = true;
  EXPECT_EQ(search_all(space, make_optimized(), kLawsAndModel).states, 7U);
}

TEST(Exhaustive, ASpaceWithAPrefixCacheIsClosedAndNothingInItIsWrong) {
  const SearchReport report = search_all(*find_space("full"), make_optimized(), kLawsAndModel);
  if (report.failure) FAIL() << describe_failure(*report.failure, 0, "");
  EXPECT_TRUE(report.closed);
  EXPECT_GT(report.counts.hits, 1000U);
  EXPECT_GT(report.counts.evictions, 1000U);
  EXPECT_GT(report.counts.refusals, 1000U);
  EXPECT_GT(report.counts.revivals, 1000U);
  EXPECT_LT(report.collision_probability(), 1e-20);
  EXPECT_LT(report.bytes, 160 * report.states);
  std::cout << report.states << " states, " << report.counts.edges << " edges, depth "
            << report.depth << ", " << report.seconds << " s\n";
}

TEST(Exhaustive, TheNaiveModelAloneReachesAsManyStates) {
  for (const char* name : {"lone", "drafts"}) {
    const Space& space = *find_space(name);
    const SearchReport fast = search_all(space, make_optimized(), kLaws);
    const SearchReport naive =
        search_all(space, make_small(optimized::subject_of(optimized::Role::model)), kLaws);
    ASSERT_FALSE(fast.failure || naive.failure);
    EXPECT_TRUE(fast.closed && naive.closed);
    EXPECT_EQ(fast.states, naive.states) << name;
    EXPECT_EQ(fast.counts.edges, naive.counts.edges) << name;
    EXPECT_EQ(fast.depth, naive.depth) << name;
  }
}

TEST(Exhaustive, FiguresDoNotDependOnThreads) {
  Space space = *find_space("full_chunks");
  const auto cut = [&](std::uint32_t threads) {
    return search(space, {.make = make_optimized(),
                          .oracles = {false, false, false},
                          .threads = threads,
                          .most_states = 20000});
  };
  const SearchReport one = cut(1);
  const SearchReport three = cut(3);
  EXPECT_FALSE(one.closed);
  EXPECT_GE(one.states, 20000U);
  EXPECT_EQ(one.states, three.states);
  EXPECT_EQ(one.counts.edges, three.counts.edges);
  EXPECT_EQ(one.counts.hits, three.counts.hits);
}

TEST(Exhaustive, ASubjectComesBackAsIfItPerformedItsPathAgain) {
  for (const char* name : {"forks", "raw", "hybrid", "states"}) {
    const auto cut = [&](bool own_memory) {
      return search(*find_space(name), {.make = make_optimized(),
                                        .own_memory = own_memory,
                                        .oracles = kLawsAndModel,
                                        .most_states = 5000});
    };
    const SearchReport back = cut(true);
    const SearchReport again = cut(false);
    ASSERT_FALSE(back.failure || again.failure) << name;
    EXPECT_EQ(back.states, again.states) << name;
    EXPECT_EQ(back.counts.edges, again.counts.edges) << name;
    EXPECT_EQ(back.counts.evictions, again.counts.evictions) << name;
  }
}

TEST(Arena, PutsBackWhatWasThereAndRefusesWhatIsMoreThanItHas) {
  Arena arena;
  auto* text = static_cast<char*>(arena.take(100, 16));
  auto* aligned = arena.take(300, 64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 64, 0U);
  EXPECT_EQ(Arena::of(text), &arena);
  EXPECT_EQ(Arena::of(&arena), nullptr);
  text[99] = 'a';
  Arena::Image image;
  arena.save(image);
  text[99] = 'b';
  arena.give(text);
  EXPECT_EQ(arena.take(100, 16), text) << "memory that was given back is taken first";
  arena.restore(image);
  EXPECT_EQ(text[99], 'a');
  EXPECT_NE(arena.take(100, 16), text);
  EXPECT_THROW(arena.take(Arena::kBytes, 16), std::bad_alloc);
}

TEST(Canonical, NamesOfRequestsAndBlocksDoNotMatter) {
  const Space& space = *find_space("full");
  const std::vector<Operation> run = {arrive("a", {0, 1}), admit("a", 2), op::Advance{"a", 2},
                                      arrive("b", {1, 1}), admit("b", 1)};
  const std::vector<Operation> renamed = {arrive("b", {0, 1}), admit("b", 2), op::Advance{"b", 2},
                                          arrive("a", {1, 1}), admit("a", 1)};
  EXPECT_EQ(after(space, run), after(space, renamed));

  // The same with other blocks: first the pool is turned by one, without leaving content.
  std::vector<Operation> turned = {op::Take{1}, op::Take{2}, op::Release{{1}}, op::Release{{2, 3}}};
  const auto ids = [&](std::vector<Operation> operations) {
    const auto subject = make_optimized()(space.config());
    for (const Operation& operation : operations) subject->apply(operation);
    Snapshot state;
    subject->observe(state);
    return state.find("a") != nullptr ? state.find("a")->tables.front() : std::vector<BlockId>{};
  };
  turned.insert(turned.end(), run.begin(), run.end());
  EXPECT_NE(ids(run), ids(turned));
  EXPECT_EQ(after(space, run), after(space, turned));
}

TEST(Canonical, TheOrderOfTheQueueMatters) {
  const Space& space = *find_space("full");
  const auto both_left = [&](const char* first, const char* second) {
    return after(space, {arrive("a", {0, 1}), admit("a", 2), arrive("b", {1, 1}), admit("b", 2),
                         op::Finish{first}, op::Finish{second}});
  };
  EXPECT_NE(both_left("a", "b"), both_left("b", "a"));
}

TEST(Canonical, WhatCallersKnowAndWhatBlocksHoldMatters) {
  const Space& space = *find_space("full_chunks");
  const std::vector<Operation> left = {arrive("a", {0, 1, 0}), admit("a", 2), op::Finish{"a"},
                                       arrive("a", {0, 1, 1})};
  std::vector<Operation> looked_up = left;
  looked_up.emplace_back(op::Lookup{"a"});
  EXPECT_NE(after(space, left), after(space, looked_up));
  const auto prompt = [&](TokenId last) { return after(space, {arrive("a", {0, 1, last})}); };
  EXPECT_NE(prompt(0), prompt(1));
  const auto content = [&](TokenId token) {
    return after(space, {arrive("a", {0, token, 0}), admit("a", 2), op::Finish{"a"}});
  };
  EXPECT_NE(content(0), content(1));
}

TEST(Canonical, WhatAManagerRemembersMatters) {
  const Space& retention = *find_space("retention");
  std::vector<Operation> run = {arrive("a", {0, 0})};
  const auto with = [&](const Space& space, const Operation& next) {
    std::vector<Operation> longer = run;
    longer.push_back(next);
    return after(space, longer);
  };
  EXPECT_EQ(after(retention, run), with(retention, op::Lookup{"a"})) << "nothing is cached";
  EXPECT_NE(with(retention, op::Append{"a", {0}}), after(retention, {arrive("a", {0, 0, 0})}))
      << "how long the prompt was";
  run = {arrive("a", {0, 0, 0}), admit("a", 2), op::Finish{"a"}, arrive("a", {0, 1})};
  EXPECT_NE(after(retention, run), with(retention, op::Lookup{"a"})) << "where prompts part";

  const Space& states = *find_space("states");
  run = {arrive("a", {0, 0}), admit("a", 2)};
  EXPECT_NE(after(states, run), with(states, op::Step{})) << "the state was published just now";
  run.emplace_back(op::Step{});
  EXPECT_EQ(after(states, run), with(states, op::Step{}));

  const auto covered = [&](TokenId behind) {
    return after(*find_space("lookahead"),
                 {arrive("a", {0, 0, behind}), admit("a", 3), op::Finish{"a"}});
  };
  EXPECT_NE(covered(0), covered(1)) << "the key covers the token behind its block";
}

/// The successors of a state without regard to their order, which a renaming must keep.
std::vector<std::pair<std::uint64_t, std::uint64_t>> successors(Walker& walker) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> out;
  walker.expand([&](const Edge& edge) {
    EXPECT_EQ(edge.wrong, nullptr) << edge.wrong->text;
    out.emplace_back(edge.fingerprint.low, edge.fingerprint.high);
  });
  std::ranges::sort(out);
  return out;
}

// If two states are taken for one, all that follows must be alike, else the search misses states.
TEST(Canonical, StatesThatAreTakenForOneHaveTheSameSuccessors) {
  std::uint64_t met_again = 0;
  for (const Space& space : kSpaces) {
    Walker walker(space, make_optimized(), kLaws);
    std::mt19937_64 random(1);
    std::map<std::pair<std::uint64_t, std::uint64_t>, decltype(successors(walker))> known;
    for (int walk = 0; walk < 120; ++walk) {
      Choices path;
      for (int i = 0; i < 14; ++i) {
        walker.go(path);
        const Fingerprint here = walker.fingerprint();
        const auto next = successors(walker);
        const auto [at, fresh] = known.try_emplace({here.low, here.high}, next);
        met_again += fresh ? 0 : 1;
        ASSERT_EQ(at->second, next) << space.name;
        path.push_back(static_cast<std::uint8_t>(random() % walker.num_operations()));
      }
    }
  }
  EXPECT_GT(met_again, 1000U);
}

/// A seeded bug, and a space whose operations reach it.
struct Hunt {
  const char* mutant;
  const char* space;
};

constexpr Hunt kHunts[] = {
    {"B002", "raw"},         {"B004", "raw"},  {"B014", "full"}, {"B032", "full_chunks"},
    {"B034", "raw"},         {"B035", "full"}, {"B052", "full"}, {"B055", "full_chunks"},
    {"B058", "full_chunks"}, {"B070", "lone"}, {"B139", "full"},
};

/// The first failure of random runs, shrunk.
std::optional<Failure> found_at_random(const Seeded& mutant) {
  Counts counts;
  ChoiceStream stream(1);
  const Configuration row = without_batches(*find_configuration("plain"));  // as the spaces are
  while (counts.operations < 100000) {
    const auto failure =
        run_case(mutant.make, kProfiles[0], row, draw_case(stream, 200), kLaws, counts);
    if (failure) return shrink(mutant.make, *failure, kLaws);
  }
  return std::nullopt;
}

// A random run may take ways that no space has (tokens that a connector loads, tokens that nobody
// computed), so a single row may be longer here; together they are not.
TEST(Exhaustive, SeededBugsAreFoundByTracesThatAreNotLongerThanShrunkOnes) {
  const std::vector<Seeded> mutants = museum_mutants();
  std::size_t shortest = 0;
  std::size_t shrunk_ones = 0;
  for (const Hunt& hunt : kHunts) {
    const auto mutant = std::ranges::find(mutants, std::string(hunt.mutant), &Seeded::id);
    ASSERT_NE(mutant, mutants.end()) << hunt.mutant;
    const SearchReport report = search_all(*find_space(hunt.space), mutant->make, kLaws);
    ASSERT_TRUE(report.failure) << hunt.mutant << " survives all " << report.states << " states";
    const auto shrunk = found_at_random(*mutant);
    ASSERT_TRUE(shrunk) << hunt.mutant;
    shortest += report.failure->trace.size();
    shrunk_ones += shrunk->trace.size();
    std::cout << hunt.mutant << ": " << report.failure->trace.size() << " operations ("
              << report.failure->breaches.front() << ") after " << report.states << " states of "
              << hunt.space << "; shrunk from random runs: " << shrunk->trace.size() << " ("
              << shrunk->breaches.front() << ")\n";
  }
  EXPECT_LE(shortest, shrunk_ones);
}

// ---- what is new in vllm-0.33 ----

enum class Forgets { junction, new_states, copies };

/// A sound manager that forgets one thing too early, which no answer shows at once.
class Forgetful final : public Subject {
 public:
  Forgetful(const CacheConfig& config, Forgets what)
      : sound_(make_optimized()(config)), what_(what) {}

  Outcome apply(const Operation& operation) override {
    const auto* allocate = std::get_if<op::Allocate>(&operation);
    if (allocate != nullptr && what_ == Forgets::junction && nothing_found_) {
      sound_->apply(op::Finish{arrived_.req});
      sound_->apply(arrived_);
    }
    if (allocate != nullptr && what_ == Forgets::new_states) {
      observe(state_);
      if (state_.copying.empty()) sound_->apply(op::Step{});
    }
    Outcome outcome = sound_->apply(operation);
    if (const auto* arrive = std::get_if<op::Arrive>(&operation)) arrived_ = *arrive;
    const auto* hit = std::get_if<Hit>(&outcome.result);
    nothing_found_ = hit != nullptr && hit->hit_tokens == 0;
    const auto* granted = std::get_if<Granted>(&outcome.result);
    const bool copies = granted != nullptr && !granted->copies.empty();
    if (copies && what_ == Forgets::copies) sound_->apply(op::Step{});
    return outcome;
  }
  void observe(Snapshot& snapshot) const override { sound_->observe(snapshot); }

 private:
  std::unique_ptr<Subject> sound_;
  Forgets what_;
  op::Arrive arrived_;          // the last
  bool nothing_found_ = false;  // by a lookup just now, for the request that arrived last
  Snapshot state_;
};

struct Forgotten {
  const char* space;
  Forgets what;
  const char* found_by;
};

TEST(Since033, WhatIsForgottenTooEarlyIsFound) {
  for (const auto& [name, what, found_by] : {Forgotten{"retention", Forgets::junction, "model"},
                                             {"states", Forgets::new_states, "I19"},
                                             {"states", Forgets::copies, "I19"},
                                             {"checkpoint", Forgets::new_states, "I19"}}) {
    const MakeSubject make = [forgets = what](const CacheConfig& config) {
      return std::make_unique<Forgetful>(config, forgets);
    };
    const SearchReport report = search_all(*find_space(name), make, kLawsAndModel);
    ASSERT_TRUE(report.failure) << name << ": nothing in " << report.states << " states";
    EXPECT_EQ(report.failure->breaches.front(), found_by);
    std::cout << name << ": " << report.failure->trace.size() << " operations after "
              << report.states << " states: " << report.failure->text << '\n';
  }
}

struct WrongRule {
  const char* space;
  void (*change)(CacheConfig& config);
};

constexpr WrongRule kWrongRules[] = {
    {"retention", [](CacheConfig& c) { c.retention.reset(); }},
    {"retention", [](CacheConfig& c) { c.profile.grants_hits_alone = false; }},
    {"lookahead", [](CacheConfig& c) { c.hash_lookahead = 0; }},
    {"states", [](CacheConfig& c) { c.hash_block_size = 2; }},
    {"states_shared", [](CacheConfig& c) { c.profile.hits_inside_blocks = false; }},
    {"checkpoint", [](CacheConfig& c) { c.groups[1].checkpoint_alignment = 0; }},
    {"checkpoint", [](CacheConfig& c) { c.groups[1].checkpoint_alignment = 2; }},
};

TEST(Since033, EachSpaceNeedsItsMechanism) {
  for (const WrongRule& row : kWrongRules) {
    const MakeSubject make = [&row](CacheConfig config) {
      row.change(config);
      return make_optimized()(config);
    };
    const SearchReport report = search_all(*find_space(row.space), make, kLawsAndModel);
    EXPECT_TRUE(report.failure) << row.space << ": nothing in " << report.states << " states";
  }
}

TEST(Since033, SpacesCloseAndBothManagersReachAsManyStates) {
  for (const char* name : {"retention", "states_shared"}) {  // the smaller ones
    const Space& space = *find_space(name);
    const SearchReport fast = search_all(space, make_optimized(), kLawsAndModel);
    if (fast.failure) FAIL() << describe_failure(*fast.failure, 0, "");
    const SearchReport naive = search_all(
        space, make_small(optimized::subject_of(optimized::Role::model)), {false, false, false});
    EXPECT_TRUE(fast.closed && naive.closed) << space.name;
    EXPECT_EQ(fast.states, naive.states) << space.name;
    EXPECT_EQ(fast.counts.edges, naive.counts.edges) << space.name;
    EXPECT_GT(fast.counts.hits, 1000U) << space.name;
    EXPECT_GT(fast.counts.evictions, 1000U) << space.name;
  }
}

}  // namespace
}  // namespace kvproof::properties::exhaustive
