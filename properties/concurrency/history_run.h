// SPDX-License-Identifier: Apache-2.0
// One random history of a pool: its size, its threads' calls, and what was found at the end.
//
// Model:   a seed decides everything but the interleaving. Thread 0 makes some calls before the
//          others begin, so that they meet content. Who runs the threads is the caller's choice:
//          history_threads.h or schedule.h.
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include "optimized/block_record.h"
#include "properties/concurrency/history_client.h"
#include "properties/oracles/prefix_digest.h"
#include "properties/say.h"

namespace kvproof::properties {

struct HistoryPlan {
  std::uint64_t seed = 1;
  std::uint32_t num_threads = 2;
  std::uint32_t most_calls = 8;  // of one thread; at least 3
};

template <class Pool>
class HistoryRun {
 public:
  explicit HistoryRun(const HistoryPlan& plan) : plan_(plan) {
    std::minstd_rand random(static_cast<std::uint32_t>(scramble(plan.seed)));
    const auto below = [&](std::uint32_t n) {
      return static_cast<std::uint32_t>(random() >> 8) % n;
    };
    constexpr FreeOrder kOrders[] = {FreeOrder::append, FreeOrder::prepend,
                                     FreeOrder::unhashed_first};
    const std::uint32_t num_blocks = 4 + below(kMostModelBlocks - 3);
    const std::uint32_t num_keys = 1 + below(3);
    num_calls_ = 3 + below(plan.most_calls - 2);
    history_.order = kOrders[below(3)];
    history_.initial = initial_pool_state(num_blocks);
    field_ = std::make_unique<Field<Pool>>(num_blocks, history_.order);
    clients_.reserve(plan.num_threads);
    for (std::uint32_t thread = 0; thread < plan.num_threads; ++thread) {
      clients_.emplace_back(*field_, history_.threads[thread], num_keys,
                            static_cast<std::uint32_t>(random()));
    }
    calls_of(0, below(7));
  }

  /// All calls of one thread.
  void run(std::uint32_t thread) { calls_of(thread, num_calls_); }

  /// After all threads. @return what is wrong, or nothing
  [[nodiscard]] Finding check() {
    if (!thrown_.empty()) return say("a call that keeps the contract threw: ", thrown_);
    try {
      field_->pool.audit();
    } catch (const std::exception& error) {
      return error.what();
    }
    history_.found = found();
    const Verdict verdict = linearize(history_);
    num_visited_ = verdict.num_visited;
    if (verdict.linearizable) return std::nullopt;
    return "not linearizable\n" + draw(history_, verdict);
  }

  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] std::uint64_t num_visited() const { return num_visited_; }
  [[nodiscard]] std::uint32_t num_calls() const { return num_calls_ * plan_.num_threads; }

 private:
  void calls_of(std::uint32_t thread, std::uint32_t num) {
    try {
      for (std::uint32_t i = 0; i < num; ++i) clients_[thread].call();
    } catch (const std::exception& error) {
      const std::lock_guard guard(mutex_);
      thrown_ = error.what();
    }
  }

  /// The pool at rest, as a state of the model. @pre audit() has passed
  [[nodiscard]] PoolState found() const {
    const auto& pool = field_->pool;
    PoolState state;
    for (BlockId at = pool.queue().head(); at != pool.queue().sentinel();) {
      state.queue[state.num_free++] = static_cast<std::uint8_t>(at);
      at = pool.record(at).next;
    }
    for (BlockId block = 1; block < pool.num_blocks(); ++block) {
      state.references[block] = static_cast<std::uint8_t>(pool.ref_cnt(block));
      state.cell[block] = field_->cells[block].load();
    }
    for (std::uint8_t key = 1; key <= 3; ++key) {
      std::uint8_t rank = 0;
      for (BlockId block = pool.index().find(pool_key(key)); block != optimized::kNoBlock;
           block = pool.index().next_copy(block)) {
        state.key[block] = key;
        state.rank[block] = rank++;
      }
    }
    return state;
  }

  HistoryPlan plan_;
  std::uint32_t num_calls_ = 0;
  History history_;
  std::unique_ptr<Field<Pool>> field_;
  std::vector<HistoryClient<Pool>> clients_;
  std::mutex mutex_;
  std::string thrown_;  // under mutex_
  std::uint64_t num_visited_ = 0;
};

/// What was found in a number of histories.
struct HistoryReport {
  std::string complaint;  // of the first history that was wrong; empty: none was
  std::uint64_t bad_seed = 0;
  std::uint64_t num_histories = 0;  // up to that one
  std::uint64_t num_calls = 0;
  std::uint64_t num_visited = 0;  // states of the search
  // That something happened: calls during which another thread's call was in progress, and answers.
  std::uint64_t num_overlapping = 0;
  std::uint64_t num_hits = 0;
  std::uint64_t num_refused = 0;

  template <class Pool>
  void add(const HistoryRun<Pool>& run, const Finding& finding, std::uint64_t seed) {
    ++num_histories;
    num_calls += run.num_calls();
    num_visited += run.num_visited();
    count(run.history());
    if (!finding) return;
    complaint = *finding;
    bad_seed = seed;
  }
  void add(const HistoryReport& other) {
    complaint = other.complaint;
    bad_seed = other.bad_seed;
    num_histories += other.num_histories;
    num_calls += other.num_calls;
    num_visited += other.num_visited;
    num_overlapping += other.num_overlapping;
    num_hits += other.num_hits;
    num_refused += other.num_refused;
  }

 private:
  void count(const History& history) {
    for (const auto& events : history.threads) {
      for (const Event& event : events) {
        const Step& step = event.step;
        num_hits += step.kind == StepKind::acquire && step.blocks[0] != 0 ? 1 : 0;
        num_refused += step.kind == StepKind::take && !step.answer ? 1 : 0;
        // Every call ticks twice, so that one with others in it takes more than one tick.
        const bool first = &event == events.data() || (&event)[-1].invoked != event.invoked;
        num_overlapping += first && event.returned - event.invoked > 1 ? 1 : 0;
      }
    }
  }
};

}  // namespace kvproof::properties
