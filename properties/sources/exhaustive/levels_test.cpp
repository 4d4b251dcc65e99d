// SPDX-License-Identifier: Apache-2.0
// A search on disk finds what one in memory finds, in spaces that are searched in seconds and in a
// larger one than memory holds, and one that loses a state says so.
#include "properties/sources/exhaustive/levels.h"

#include <gtest/gtest.h>

#include <iostream>

#include "properties/sources/exhaustive/search.h"
#include "properties/sources/exhaustive/spaces.h"

namespace kvproof::properties::exhaustive {
namespace {

constexpr std::uint64_t kTiny = 1U << 16;  // [bytes] a table of 819 fingerprints
constexpr std::uint64_t kLimit = 16U << 20;
constexpr std::uint64_t kMuch = std::uint64_t{1} << 30;
const Oracles kNone{false, false, false};

MakeSubject make_standard() { return make_small(optimized::subject_of(optimized::Role::standard)); }

struct Walked {
  std::uint64_t states = 0;
  std::uint64_t edges = 0;
  std::uint64_t depth = 0;
  std::uint64_t paths = 0;  // a hash of the paths to all states in their order
  bool operator==(const Walked&) const = default;
};

/// The managers of a space are asked once; then their graph can be walked again.
class Graph {
 public:
  explicit Graph(const Space& space) : walker_(space, make_standard(), kNone) {}

  /// Walks it breadth first. @param levels hold nothing yet
  template <class L>
  Walked walk(L& levels) {
    Walked out;
    levels.enter({key_of<decltype(L::Found::key)>(root_), 0});
    levels.end_level();
    for (; levels.level_begin() < levels.num_states(); levels.end_level()) {
      Choices path(levels.depth());
      out.depth = path.size();
      for (const std::uint64_t end = levels.num_states(); out.states < end; ++out.states) {
        levels.path(out.states, path);
        for (const std::uint8_t choice : path) out.paths = (out.paths + choice + 1) * 0x100000001b3;
        out.edges += enter_next(levels, out.states, path);
      }
    }
    return out;
  }

 private:
  template <class L>
  std::size_t enter_next(L& levels, std::uint64_t state, const Choices& path) {
    if (state == next_.size()) {
      std::vector<Fingerprint>& next = next_.emplace_back();
      walker_.go(path);
      EXPECT_TRUE(reached_.insert(walker_.fingerprint()))
          << "the path leads to a state that was there before";
      walker_.expand([&](const Edge& edge) { next.push_back(edge.fingerprint); });
    }
    std::uint8_t choice = 0;
    for (const Fingerprint& fingerprint : next_.at(state)) {
      const auto key = key_of<decltype(L::Found::key)>(fingerprint);
      if (!levels.contains(key)) levels.enter({key, L::step_of(state, choice)});
      ++choice;
    }
    return next_[state].size();
  }

  Walker walker_;
  Fingerprint root_ = walker_.fingerprint();
  FingerprintSet<Fingerprint> reached_;
  std::vector<std::vector<Fingerprint>> next_;  // by the number of a state
};

class Spaces : public testing::TestWithParam<const Space*> {};

TEST_P(Spaces, FiguresAreTheSameInMemoryAsFingerprintsAndOnDisk) {
  Graph graph(*GetParam());
  Levels<Fingerprint> memory(0);
  const Walked expected = graph.walk(memory);
  Levels<std::uint64_t> fingerprints(kMuch);
  EXPECT_EQ(graph.walk(fingerprints), expected);
  EXPECT_EQ(fingerprints.disk_bytes(), 0U);
  Levels<std::uint64_t> limited(kLimit);
  EXPECT_EQ(graph.walk(limited), expected);
  EXPECT_LE(limited.memory_bytes(), kLimit);
  if (limited.disk_bytes() < 12 * expected.states) {  // 16 MiB are enough for most of it
    Levels<std::uint64_t> tiny(kTiny);
    EXPECT_EQ(graph.walk(tiny), expected);
    EXPECT_GT(tiny.disk_bytes(), 12 * expected.states);
  }
  std::cout << GetParam()->name << ": " << expected.states << " states, " << expected.edges
            << " edges, depth " << expected.depth << "; " << limited.disk_bytes()
            << " bytes on disk beyond 16 MiB\n";
}

INSTANTIATE_TEST_SUITE_P(All, Spaces,
                         testing::Values(find_space("lone"), find_space("drafts"),
                                         find_space("retention"), find_space("full_roomy")),
                         [](const auto& row) { return std::string(row.param->name); });

/// Forgets a run whenever there are two: of visited states, or of what was met in a level.
template <bool kOfVisited>
class Careless : public Levels<std::uint64_t> {
 public:
  Careless() : Levels(kTiny) {}
  bool contains(std::uint64_t key) {
    std::vector<Run>& runs = kOfVisited ? visited_.runs : candidates_.runs;
    if (runs.size() > 1) runs.pop_back();
    return Levels::contains(key);
  }
};

TEST(Levels, ARunThatIsForgottenEndsTheSearch) {
  Graph graph(*find_space("lone"));
  Careless<true> of_visited;
  EXPECT_THROW(graph.walk(of_visited), std::logic_error);
  Careless<false> of_met;
  EXPECT_THROW(graph.walk(of_met), std::logic_error);
}

TEST(Search, FiguresOnDiskAreThoseInMemory) {
  SearchOptions options{.make = make_standard(), .oracles = kNone, .threads = 2};
  const SearchReport memory = search(*find_space("lone"), options);
  for (const std::uint64_t limit : {kMuch, kTiny}) {
    options.memory_bytes = limit;
    const SearchReport report = search(*find_space("lone"), options);
    EXPECT_TRUE(report.closed);
    EXPECT_EQ(report.states, memory.states);
    EXPECT_EQ(report.depth, memory.depth);
    EXPECT_EQ(report.counts, memory.counts);
    EXPECT_EQ(report.disk_bytes > 0, limit == kTiny);
    EXPECT_NEAR(report.collision_probability(), 11655.0 * 11654 / 2 / 1.8446744e19, 1e-15);
  }
  options.most_states = 5000;
  EXPECT_FALSE(search(*find_space("lone"), options).closed);
}

TEST(Search, AViolationOnDiskHasTheSameTrace) {
  SearchOptions options{.make = [](CacheConfig config) {
    config.profile.grants_hits_alone = false;
    return make_standard()(config);
  }};
  const SearchReport memory = search(*find_space("retention"), options);
  options.memory_bytes = kTiny;
  const SearchReport disk = search(*find_space("retention"), options);
  ASSERT_TRUE(memory.failure && disk.failure);
  EXPECT_EQ(memory.states, disk.states);
  EXPECT_EQ(memory.failure->trace, disk.failure->trace);
  EXPECT_GT(disk.disk_bytes, 0U);
}

}  // namespace
}  // namespace kvproof::properties::exhaustive
