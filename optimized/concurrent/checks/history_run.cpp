// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/history_run.h"

#include <exception>

#include "reference/mix64.h"

namespace kvproof::properties::concurrency {

HistoryRun::HistoryRun(const HistoryPlan& plan) : plan_(plan) {
  std::minstd_rand random(static_cast<std::uint32_t>(mix64(plan.seed)));
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() >> 8) % n; };
  constexpr FreeOrder kOrders[] = {FreeOrder::append, FreeOrder::prepend,
                                   FreeOrder::unhashed_first};
  field_.num_blocks = 4 + below(kMostModelBlocks - 3);
  field_.num_keys = 1 + below(kMostModelKeys);
  num_calls_ = 3 + below(plan.most_calls - 2);
  history_.order = kOrders[below(3)];
  history_.initial = initial_pool_state(field_.num_blocks);
  field_.pool = plan.make_pool(field_.num_blocks, history_.order);
  clients_.reserve(plan.num_threads);
  for (std::uint32_t thread = 0; thread < plan.num_threads; ++thread) {
    clients_.emplace_back(field_, history_.threads[thread], static_cast<std::uint32_t>(random()));
  }
  calls_of(0, below(7));
}

Finding HistoryRun::check() {
  if (!thrown_.empty()) return say("a call that keeps the contract threw: ", thrown_);
  try {
    history_.found = field_.pool->found();
  } catch (const std::exception& error) {
    return error.what();
  }
  for (std::size_t block = 0; block < kMostModelBlocks; ++block) {
    history_.found->cell[block] = field_.cells[block].load();
  }
  const Verdict verdict = linearize(history_);
  num_visited_ = verdict.num_visited;
  if (verdict.linearizable) return std::nullopt;
  return "not linearizable\n" + draw(history_, verdict);
}

void HistoryRun::calls_of(std::uint32_t thread, std::uint32_t num) {
  try {
    for (std::uint32_t i = 0; i < num; ++i) clients_[thread].call();
  } catch (const std::exception& error) {
    const std::lock_guard guard(mutex_);
    thrown_ = error.what();
  }
}

void HistoryReport::add(const HistoryRun& run, const Finding& finding) {
  ++num_histories;
  num_calls += run.num_calls();
  num_visited += run.num_visited();
  for (const auto& events : run.history().threads) {
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Step& step = events[i].step;
      num_hits += step.kind == StepKind::acquire && step.blocks[0] != 0 ? 1 : 0;
      num_refused += step.kind == StepKind::take && !step.answer ? 1 : 0;
      // Every call ticks twice, so that a call during which others tick takes more than one tick.
      const bool first = i == 0 || events[i - 1].invoked != events[i].invoked;
      num_overlapping += first && events[i].returned - events[i].invoked > 1 ? 1 : 0;
    }
  }
  if (!finding) return;
  complaint = *finding;
  bad_seed = run.plan().seed;
}

void HistoryReport::add(const HistoryReport& other) {
  complaint = other.complaint;
  bad_seed = other.bad_seed;
  num_histories += other.num_histories;
  num_calls += other.num_calls;
  num_visited += other.num_visited;
  num_overlapping += other.num_overlapping;
  num_hits += other.num_hits;
  num_refused += other.num_refused;
}

}  // namespace kvproof::properties::concurrency
