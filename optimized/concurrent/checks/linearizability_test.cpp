// SPDX-License-Identifier: Apache-2.0
// The linearizability check itself: histories by hand, in pairs that differ in one event, of which
// one must pass and one must fail; recorded histories, which must fail with one answer changed and
// must pass with wider intervals; and its memory, which must not change an answer.
#include "optimized/concurrent/checks/linearizability.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/run.h"

namespace kvproof::properties::concurrency {
namespace {

bool passes(const History& history) {
  const bool linearizable = linearize(history).linearizable;
  EXPECT_EQ(linearize(history, /*remembers=*/false).linearizable, linearizable);
  return linearizable;
}

constexpr std::uint8_t kA = 1;

Step take(std::initializer_list<std::uint8_t> blocks) {
  Step step{.kind = StepKind::take, .num = static_cast<std::uint8_t>(blocks.size())};
  std::copy(blocks.begin(), blocks.end(), step.blocks.begin());
  return step;
}
Step refused(std::uint8_t num) { return {.kind = StepKind::take, .answer = false, .num = num}; }
Step on(StepKind kind, std::uint8_t block) { return {.kind = kind, .blocks = {block}}; }
Step touch(std::uint8_t block) { return on(StepKind::touch, block); }
Step publish(std::uint8_t block, std::uint8_t key) {
  return {.kind = StepKind::publish, .key = key, .blocks = {block}};
}
Step acquire(std::uint8_t key, std::uint8_t block) {
  return {.kind = StepKind::acquire, .key = key, .blocks = {block}};
}

/// A history of a pool with so many usable blocks, call by call.
class Written {
 public:
  explicit Written(std::uint32_t usable) {
    history_.initial = initial_pool_state(usable + 1);
    history_.threads.resize(kMostHistoryThreads);
  }

  Written& call(std::uint32_t thread, std::uint32_t invoked, std::uint32_t returned,
                std::initializer_list<Step> steps) {
    for (const Step& step : steps) history_.threads[thread].push_back({step, invoked, returned});
    return *this;
  }
  Written& release(std::uint32_t thread, std::uint32_t invoked, std::uint32_t returned,
                   std::initializer_list<std::uint8_t> blocks) {
    for (const std::uint8_t* block = blocks.begin(); block != blocks.end(); ++block) {
      Step step = on(StepKind::release, *block);
      step.last = block + 1 == blocks.end();
      call(thread, invoked, returned, {step});
      if (!step.last) call(thread, invoked, returned, {on(StepKind::look, block[1])});
    }
    return *this;
  }
  [[nodiscard]] bool passes() const {
    const Verdict verdict = linearize(history_);
    EXPECT_EQ(concurrency::passes(history_), verdict.linearizable);
    const bool marks = draw(history_, verdict).find("  ? ") != std::string::npos;
    EXPECT_TRUE(verdict.linearizable || marks) << "names no call that is wrong";
    return verdict.linearizable;
  }

 private:
  History history_;
};

TEST(Linearizability, AnswersAreThoseOfOneThread) {
  EXPECT_TRUE(Written(2).call(0, 1, 2, {take({1, 2})}).call(0, 3, 4, {refused(1)}).passes());
  EXPECT_FALSE(Written(2).call(0, 1, 2, {take({2, 1})}).passes());
  EXPECT_FALSE(Written(2).call(0, 1, 2, {take({1})}).call(0, 3, 4, {refused(1)}).passes());
  EXPECT_FALSE(Written(2).call(0, 1, 2, {take({1, 2})}).call(0, 3, 4, {take({1})}).passes());
}

TEST(Linearizability, CallsThatOverlapMayTakeEffectInEitherOrder) {
  // The one that began first got what stood second.
  EXPECT_TRUE(Written(2).call(0, 1, 4, {take({2})}).call(1, 2, 3, {take({1})}).passes());
  EXPECT_FALSE(Written(2).call(0, 1, 2, {take({2})}).call(1, 3, 4, {take({1})}).passes());
}

TEST(Linearizability, AMissNeedsAMomentWithout) {
  const auto history = [](std::uint32_t published) {
    return Written(3)
        .call(0, 1, 2, {take({1})})
        .call(0, 3, published, {publish(1, kA)})
        .call(1, 6, 7, {acquire(kA, 0)});
  };
  EXPECT_TRUE(history(8).passes());
  EXPECT_FALSE(history(5).passes());
}

TEST(Linearizability, AHitIsTheOldestCopy) {
  const auto history = [](std::uint8_t hit) {
    return Written(3)
        .call(0, 1, 2, {take({1, 2})})
        .call(0, 3, 4, {publish(2, kA)})
        .call(0, 5, 6, {publish(1, kA)})
        .call(1, 7, 8, {acquire(kA, hit)});
  };
  EXPECT_TRUE(history(2).passes());
  EXPECT_FALSE(history(1).passes());
}

TEST(Linearizability, AReleaseIsOneSectionWhileItIsTheLastHolder) {
  // Another's block between the two that one call put back: not if both were the caller's alone.
  const auto history = [](bool shared) {
    Written written(3);
    written.call(0, 1, 2, {take({1, 2})}).call(1, 3, 4, {take({3})});
    if (shared) written.call(1, 5, 6, {touch(2)});
    written.release(0, 7, 14, {1, 2}).release(1, 8, 9, {3});
    if (shared) written.release(1, 10, 11, {2});
    return written.call(2, 15, 16, {take({1, 3, 2})});
  };
  EXPECT_TRUE(history(true).passes());
  EXPECT_FALSE(history(false).passes());
}

/// Steps that differ from a recorded one by a wrong answer.
std::vector<Step> wrong_answers(const Step& step) {
  std::vector<Step> wrong;
  const auto add = [&](auto&& change) { change(wrong.emplace_back(step)); };
  switch (step.kind) {
    case StepKind::take:
      if (step.answer)
        add([](Step& x) { x.blocks[0] = static_cast<std::uint8_t>(x.blocks[0] % 3 + 1); });
      if (step.answer && step.num > 1) add([](Step& x) { std::swap(x.blocks[0], x.blocks[1]); });
      [[fallthrough]];
    case StepKind::publish:
    case StepKind::reset: add([](Step& x) { x.answer = !x.answer; }); break;
    case StepKind::acquire:
      add([](Step& x) { x.blocks[0] = static_cast<std::uint8_t>((x.blocks[0] + 1) % 4); });
      if (step.blocks[0] != 0) add([](Step& x) { x.blocks[0] = 0; });
      break;
    case StepKind::read: add([](Step& x) { ++x.key; }); break;
    default: break;
  }
  return wrong;
}

std::vector<PoolState> wrong_states(const PoolState& state, FreeOrder order) {
  std::vector<PoolState> wrong(3, state);
  ++wrong[0].references[1];
  ++wrong[1].cell[1];
  wrong[2].key[1] = static_cast<std::uint8_t>(wrong[2].key[1] == 0 ? 1 : 0);
  // A release to the front may have a choice of places.
  if (state.num_free < 2 || order != FreeOrder::append) return wrong;
  PoolState& other_order = wrong.emplace_back(state);
  std::swap(other_order.queue[0], other_order.queue[1]);
  return wrong;
}

TEST(Linearizability, OneChangedAnswerIsNoticed) {
  std::uint32_t num_changed = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(say("seed ", seed));
    Runner runner(tested_pool("sound"));
    // One thread after another, which leaves no second explanation.
    runner.on_fibers({.seed = seed}, [](std::uint32_t, bool) { return 0U; });
    ASSERT_EQ(runner.complaint, "");
    History history = std::move(runner.last);
    for (auto& events : history.threads) {
      for (Event& event : events) {
        const Step recorded = event.step;
        for (const Step& wrong : wrong_answers(recorded)) {
          event.step = wrong;
          ++num_changed;
          EXPECT_FALSE(passes(history)) << to_string(recorded) << " became " << to_string(wrong);
        }
        event.step = recorded;
      }
    }
    const PoolState found = *history.found;
    for (const PoolState& wrong : wrong_states(found, history.order)) {
      history.found = wrong;
      EXPECT_FALSE(passes(history)) << to_string(found) << " became " << to_string(wrong);
    }
    history.found = found;
    for (auto& events : history.threads) {
      for (Event& event : events) {
        event.invoked -= event.invoked > 0 ? 1 : 0;
        event.returned += 1;
      }
    }
    EXPECT_TRUE(passes(history)) << "wider intervals";
  }
  std::printf("%u answers changed\n", num_changed);
  EXPECT_GT(num_changed, 2'000U);
}

}  // namespace
}  // namespace kvproof::properties::concurrency
