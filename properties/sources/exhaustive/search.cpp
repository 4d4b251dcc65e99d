// SPDX-License-Identifier: Apache-2.0
// The levels of a breadth-first search, each in batches that threads share.
#include "properties/sources/exhaustive/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "properties/sources/exhaustive/levels.h"
#include "reference/cache_manager.h"
#include "reference/operations.h"

namespace kvproof::properties::exhaustive {
namespace {

using StateId = std::uint64_t;

// A batch is expanded in parallel, then its new states are entered one by one, in order. It is
// large enough to keep the threads busy, and small enough that few states wait to be entered.
constexpr StateId kBatch = 1U << 15;
constexpr StateId kChunk = 1U << 8;  // states that a thread takes at once: neighbours share paths

/// The first violation in the order of the search.
struct Objection {
  StateId from = std::numeric_limits<StateId>::max();
  std::uint8_t choice = 0;
  std::vector<Operation> trace;      // shortest
  std::vector<Operation> performed;  // the operations that the subject really performed
  Broken wrong;

  [[nodiscard]] bool found() const { return !trace.empty(); }
  [[nodiscard]] auto order() const { return std::pair(from, choice); }
};

template <class Key>
class Search {
 public:
  Search(const Space& space, const SearchOptions& options)
      : space_(space), options_(options), levels_(options.memory_bytes) {
    for (std::uint32_t i = 0; i < std::max(options.threads, 1U); ++i) {
      workers_.push_back(std::make_unique<Worker>(space, options));
    }
    levels_.enter({key_of<Key>(workers_.front()->walker.fingerprint()), 0});
    levels_.end_level();
  }

  SearchReport run() {
    const auto start = std::chrono::steady_clock::now();
    bool stopped = false;
    for (; levels_.level_begin() < levels_.num_states() && !stopped; ++report_.depth) {
      const StateId end = levels_.num_states();
      for (StateId from = levels_.level_begin(); from < end && !stopped; from += kBatch) {
        expand(from, std::min(end - from, kBatch));
        stopped = full() || objection_.found();
        if (options_.progress) options_.progress({levels_.num_states(), from, report_.depth});
      }
      levels_.end_level();
      stopped = stopped || full();
    }
    report_.depth -= stopped || report_.depth == 0 ? 0 : 1;  // the last level found no new state
    report_.states = levels_.num_states();
    report_.bytes = levels_.memory_bytes() + most_waiting_;
    report_.disk_bytes = levels_.disk_bytes();
    report_.fingerprint_bits = 8 * sizeof(Key);
    report_.closed = !stopped;
    for (const auto& worker : workers_) report_.counts += worker->walker.counts();
    if (objection_.found()) report_.failure = failure();
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  using Found = typename Levels<Key>::Found;
  struct Worker {
    Worker(const Space& space, const SearchOptions& options)
        : walker(space, options.make, options.oracles, options.own_memory) {}
    Walker walker;
    Objection objection;
    std::exception_ptr error;
  };

  [[nodiscard]] bool full() const {
    return options_.most_states > 0 && levels_.num_states() >= options_.most_states;
  }

  void expand(StateId first, StateId count) {
    const std::size_t depth = levels_.depth();
    paths_.resize(count * depth);
    for (StateId i = 0; i < count; ++i) {
      levels_.path(first + i, std::span(paths_).subspan(i * depth, depth));
    }
    const StateId num_chunks = ceil_div(count, kChunk);
    chunks_.resize(std::max<std::size_t>(chunks_.size(), num_chunks));
    std::atomic<StateId> next = 0;
    const auto work = [&](Worker& worker) {
      try {
        for (StateId chunk = next++; chunk < num_chunks; chunk = next++) {
          const StateId begin = chunk * kChunk;
          expand_chunk(worker, first, begin, std::min(count, begin + kChunk), chunks_[chunk]);
        }
      } catch (...) {
        worker.error = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < workers_.size() && num_chunks > 1; ++i) {
        threads.emplace_back(work, std::ref(*workers_[i]));
      }
      work(*workers_.front());
    }
    std::uint64_t waiting = paths_.capacity();
    for (StateId chunk = 0; chunk < num_chunks; ++chunk) {
      waiting += chunks_[chunk].capacity() * sizeof(Found);
      for (const Found& found : chunks_[chunk]) levels_.enter(found);
      chunks_[chunk].clear();
    }
    most_waiting_ = std::max(most_waiting_, waiting);
    for (const auto& worker : workers_) {
      if (worker->error) std::rethrow_exception(worker->error);
      if (worker->objection.order() < objection_.order()) objection_ = worker->objection;
    }
  }

  // States are counted from the first of the batch.
  void expand_chunk(Worker& worker, StateId first, StateId begin, StateId end,
                    std::vector<Found>& out) const {
    const std::size_t depth = levels_.depth();
    for (StateId i = begin; i < end; ++i) {
      worker.walker.go(std::span(paths_).subspan(i * depth, depth));
      worker.walker.expand([&](const Edge& edge) {
        if (edge.wrong != nullptr) return object(worker, first + i, edge);
        const Key key = key_of<Key>(edge.fingerprint);
        if (edge.same || levels_.contains(key)) return;
        out.push_back({key, Levels<Key>::step_of(first + i, edge.choice)});
      });
    }
  }

  static void object(Worker& worker, StateId state, const Edge& edge) {
    Objection objection{state, edge.choice, worker.walker.trace(), worker.walker.performed(),
                        *edge.wrong};
    objection.trace.push_back(edge.operation);
    if (objection.order() < worker.objection.order()) worker.objection = std::move(objection);
  }

  // Runs the shortest trace again. If the violation only shows after operations that change
  // nothing, these stay in the trace.
  [[nodiscard]] Failure failure() const {
    const CacheConfig config = space_.config();
    for (const auto* trace : {&objection_.trace, &objection_.performed}) {
      if (auto failed = run_trace(options_.make, config, *trace, options_.oracles)) return *failed;
    }
    return {objection_.wrong, config, objection_.performed};
  }

  const Space& space_;
  const SearchOptions& options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Levels<Key> levels_;
  std::vector<std::uint8_t> paths_;  // shape [states of a batch, depth]
  std::vector<std::vector<Found>> chunks_;
  std::uint64_t most_waiting_ = 0;  // [bytes] of these two
  Objection objection_;
  SearchReport report_;
};

}  // namespace

SearchReport search(const Space& space, const SearchOptions& options) {
  if (options.memory_bytes == 0) return Search<Fingerprint>(space, options).run();
  return Search<std::uint64_t>(space, options).run();
}

MakeSubject make_small(const optimized::SubjectRow& row) {
  return [make = row.make_small](const CacheConfig& config) { return make(config, kMostRequests); };
}

}  // namespace kvproof::properties::exhaustive
