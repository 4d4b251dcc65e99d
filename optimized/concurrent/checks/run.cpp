// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/run.h"

#include <thread>

#include "reference/mix64.h"

namespace kvproof::properties::concurrency {

Run::Run(const Plan& plan) : plan_(plan), num_calls_(plan.num_calls) {
  std::minstd_rand random(static_cast<std::uint32_t>(mix64(plan.seed)));
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() >> 8) % n; };
  constexpr FreeOrder kOrders[] = {FreeOrder::append, FreeOrder::prepend,
                                   FreeOrder::unhashed_first};
  field_.recorded = plan.num_calls == 0;
  field_.num_blocks = plan.num_blocks;
  field_.num_keys = plan.num_blocks + plan.num_blocks / 4;
  history_.order = plan.order;
  if (field_.recorded) {
    field_.num_blocks = 4 + below(kMostModelBlocks - 3);
    field_.num_keys = 1 + below(kMostModelKeys);
    num_calls_ = 3 + below(plan.most_calls - 2);
    history_.order = kOrders[below(3)];
    history_.initial = initial_pool_state(field_.num_blocks);
  }
  field_.pool = plan.make(field_.num_blocks, history_.order);
  field_.cells = std::vector<Cell>(std::max(field_.num_blocks, kMostModelBlocks));
  field_.references = std::vector<std::atomic<std::uint32_t>>(field_.num_blocks);
  history_.threads.resize(plan.num_threads);
  clients_.reserve(plan.num_threads);
  for (auto& log : history_.threads) {
    clients_.emplace_back(field_, log, static_cast<std::uint32_t>(random()));
  }
  calls_of(0, below(7));
}

void Run::calls_of(std::uint32_t thread, std::uint32_t num) {
  try {
    for (std::uint32_t i = 0; i < num; ++i) clients_[thread].call();
  } catch (const std::exception& error) {
    const std::lock_guard guard(mutex_);
    thrown_ = error.what();
  }
}

Finding Run::check() {
  if (!thrown_.empty()) return say("a call that keeps the contract threw: ", thrown_);
  try {
    return field_.recorded ? check_history() : check_counts();
  } catch (const std::exception& error) {
    return error.what();
  }
}

Finding Run::check_history() {
  PoolState& found = history_.found.emplace();
  for (const BlockId block : field_.pool->queue()) {
    found.queue[found.num_free++] = static_cast<std::uint8_t>(block);
  }
  for (BlockId block = 1; block < field_.num_blocks; ++block) {
    found.references[block] = static_cast<std::uint8_t>(field_.pool->references(block));
    found.cell[block] = static_cast<std::uint8_t>(field_.cells[block]);
  }
  for (std::uint8_t key = 1; key <= kMostModelKeys; ++key) {
    std::uint8_t rank = 0;
    for (const BlockId block : field_.pool->copies(key)) {
      found.key[block] = key;
      found.rank[block] = rank++;
    }
  }
  const Verdict verdict = linearize(history_);
  if (verdict.linearizable) return std::nullopt;
  return "not linearizable\n" + draw(history_, verdict);
}

Finding Run::check_counts() {
  static_cast<void>(field_.pool->queue());  // audits
  for (BlockId block = 1; block < field_.num_blocks; ++block) {
    std::uint32_t held = 0;
    for (const Client& client : clients_) held += client.references(block);
    const std::uint32_t counted = field_.pool->references(block);
    if (counted != held) return say("block ", block, " counts ", counted, " references for ", held);
  }
  for (Client& client : clients_) client.drain();
  const std::size_t num_free = field_.pool->queue().size();
  if (num_free + 1 != field_.num_blocks) return say("drained, ", num_free, " blocks are free");
  for (std::uint32_t key = 1; key <= field_.num_keys; ++key) {
    for (const BlockId block : field_.pool->copies(key)) {
      if (field_.cells[block] != key) return say("block ", block, " lacks what its key says");
    }
  }
  return std::nullopt;
}

void Runner::on_fibers(Plan plan, const Choose& choose) {
  plan.make = make_;
  Run run(plan);
  const bool ended = schedule_.run(
      plan.num_threads, [&](std::uint32_t fiber) { run.run(fiber); }, choose);
  add(run, ended ? run.check() : Finding("everybody waits for somebody"));
}

void Runner::on_random_fibers(std::uint64_t seed) {
  std::minstd_rand random(static_cast<std::uint32_t>(mix64(~seed)));
  const std::uint32_t one_in = 2U << (seed % 4);
  on_fibers({.seed = seed, .num_threads = 2 + static_cast<std::uint32_t>(seed % 3)},
            [&](std::uint32_t options, bool forced) {
              const auto drawn = static_cast<std::uint32_t>(random() >> 8);
              if (forced) return drawn % options;
              return drawn % one_in == 0 ? 1 + drawn / one_in % (options - 1) : 0;
            });
}

void Runner::on_every_schedule(std::uint64_t seed, std::uint32_t most_preemptions) {
  EveryWay ways(most_preemptions);
  do {
    on_fibers({.seed = seed, .num_threads = 2, .most_calls = 3},
              [&](std::uint32_t options, bool forced) { return ways.choose(options, forced); });
  } while (whole() && ways.next());
}

namespace {

/// Yields the core at one race point in `kOneIn`.
template <std::uint32_t kOneIn>
void yield_sometimes(void* random, bool) {
  if ((*static_cast<std::minstd_rand*>(random))() % kOneIn == 0) std::this_thread::yield();
}

}  // namespace

void Runner::on_threads(Plan plan, std::uint64_t num) {
  constexpr std::uint64_t kBatch = 250;  // threads are started once for so many runs
  plan.make = make_;
  for (const std::uint64_t end = plan.seed + num; plan.seed < end && whole();) {
    std::vector<std::unique_ptr<Run>> runs;
    for (; runs.size() < kBatch && plan.seed < end; ++plan.seed) {
      runs.push_back(std::make_unique<Run>(plan));
    }
    std::atomic<std::uint64_t> num_arrived{0};
    std::vector<std::jthread> threads;
    for (std::uint32_t thread = 0; thread < plan.num_threads; ++thread) {
      threads.emplace_back([&, thread] {
        std::minstd_rand random(static_cast<std::uint32_t>(plan.seed + thread));
        RacePoint::context = &random;
        RacePoint::passed = plan.num_calls == 0 ? yield_sometimes<4> : yield_sometimes<64>;
        std::uint64_t awaited = 0;
        for (const auto& run : runs) {  // none sleeps before all have come, so that they overlap
          ++num_arrived;
          awaited += plan.num_threads;
          while (num_arrived < awaited) std::this_thread::yield();
          run->run(thread);
        }
      });
    }
    threads.clear();  // joins
    for (const auto& run : runs) {
      if (whole()) add(*run, run->check());
    }
  }
}

void Runner::add(Run& run, const Finding& finding) {
  ++num_runs;
  for (const Client& client : run.clients()) {
    num_calls += client.num_calls;
    num_overlapping += client.num_overlapping;
    num_hits += client.num_hits;
    num_refused += client.num_refused;
    blocks_in_order += client.blocks_in_order;
  }
  last = std::move(run.history());
  if (!finding) return;
  complaint = *finding;
  bad_seed = run.plan().seed;
}

}  // namespace kvproof::properties::concurrency
