// SPDX-License-Identifier: Apache-2.0
// The linearizability check itself: of histories that pass, those with one answer changed must not,
// and wider intervals must not hurt; and its memory must not change an answer.
#include "optimized/concurrent/checks/linearizability.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "optimized/concurrent/checks/broken_pools.h"
#include "optimized/concurrent/checks/run.h"

namespace kvproof::properties::concurrency {
namespace {

bool passes(const History& history) {
  const bool linearizable = linearize(history).linearizable;
  EXPECT_EQ(linearize(history, /*remembers=*/false).linearizable, linearizable);
  return linearizable;
}

TEST(Linearizability, CallsThatOverlapMayTakeEffectInEitherOrder) {
  // The one that began first got what stood second.
  const auto history = [](std::uint32_t first_returned, std::uint32_t second_began) {
    History calls;
    calls.initial = initial_pool_state(3);
    calls.threads = {{{{.kind = StepKind::take, .blocks = {2}}, 1, first_returned}},
                     {{{.kind = StepKind::take, .blocks = {1}}, second_began, 5}}};
    return calls;
  };
  EXPECT_TRUE(passes(history(4, 3)));
  EXPECT_FALSE(passes(history(3, 4)));
  const History wrong = history(3, 4);
  EXPECT_NE(draw(wrong, linearize(wrong)).find("? take 2"), std::string::npos);
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
