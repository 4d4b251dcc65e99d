// SPDX-License-Identifier: Apache-2.0
// The levels of a breadth-first search, each in batches that threads share.
#include "properties/exhaustive/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "reference/cache_manager.h"
#include "reference/operations.h"

namespace kvproof::properties::exhaustive {
namespace {

using StateId = std::uint32_t;

// A batch is expanded in parallel, then its new states are entered one by one, in order. It is
// large enough to keep the threads busy, and small enough that few states wait to be entered.
constexpr StateId kBatch = 1U << 15;
constexpr StateId kChunk = 1U << 8;  // states that a thread takes at once: neighbours share paths

/// A state that was not known when its batch began.
struct Candidate {
  Fingerprint fingerprint;
  StateId from = 0;
  std::uint8_t choice = 0;
};

/// The first violation in the order of the search.
struct Objection {
  StateId from = std::numeric_limits<StateId>::max();
  std::uint8_t choice = 0;
  std::vector<Operation> trace;      // shortest
  std::vector<Operation> performed;  // the operations that the subject really performed
  std::string text;

  [[nodiscard]] bool found() const { return !trace.empty(); }
  [[nodiscard]] auto order() const { return std::pair(from, choice); }
};

class Search {
 public:
  Search(const Space& space, const SearchOptions& options) : space_(space), options_(options) {
    for (std::uint32_t i = 0; i < std::max(options.threads, 1U); ++i) {
      workers_.push_back(std::make_unique<Worker>(space, options));
    }
    enter({workers_.front()->walker.fingerprint(), 0, 0});
  }

  SearchReport run() {
    const auto start = std::chrono::steady_clock::now();
    StateId level = 0;  // its first state
    bool stopped = false;
    for (; level < num_states() && !stopped; ++report_.depth) {
      const StateId end = num_states();
      for (StateId from = level; from < end && !stopped; from += kBatch) {
        expand(from, std::min(end - from, kBatch));
        const bool full = options_.most_states > 0 && num_states() >= options_.most_states;
        stopped = full || objection_.found();
        if (options_.progress) options_.progress({num_states(), from, report_.depth});
      }
      level = end;
    }
    report_.depth -= stopped || report_.depth == 0 ? 0 : 1;  // the last level found no new state
    report_.states = num_states();
    report_.closed = !stopped;
    for (const auto& worker : workers_) report_.counts += worker->walker.counts();
    if (objection_.found()) report_.failure = failure();
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  struct Worker {
    Worker(const Space& space, const SearchOptions& options)
        : walker(space, options.make, options.oracles, options.own_memory) {}
    Walker walker;
    Choices path;
    Objection objection;
    std::exception_ptr error;
  };

  [[nodiscard]] StateId num_states() const { return static_cast<StateId>(parents_.size()); }

  void enter(const Candidate& candidate) {
    if (!visited_.insert(candidate.fingerprint)) return;
    if (parents_.size() == std::numeric_limits<StateId>::max()) {
      throw std::length_error("more states than a search can number");
    }
    parents_.push_back(candidate.from);
    choices_.push_back(candidate.choice);
  }

  void expand(StateId first, StateId count) {
    const StateId num_chunks = ceil_div(count, kChunk);
    chunks_.resize(std::max<std::size_t>(chunks_.size(), num_chunks));
    std::atomic<StateId> next = 0;
    const auto work = [&](Worker& worker) {
      try {
        for (StateId chunk = next++; chunk < num_chunks; chunk = next++) {
          const StateId from = first + chunk * kChunk;
          expand_chunk(worker, from, std::min(first + count, from + kChunk), chunks_[chunk]);
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
    std::size_t waiting = 0;
    for (StateId chunk = 0; chunk < num_chunks; ++chunk) {
      waiting += chunks_[chunk].capacity() * sizeof(Candidate);
      for (const Candidate& candidate : chunks_[chunk]) enter(candidate);
      chunks_[chunk].clear();
    }
    for (const auto& worker : workers_) {
      if (worker->error) std::rethrow_exception(worker->error);
      if (worker->objection.order() < objection_.order()) objection_ = worker->objection;
    }
    report_.bytes = std::max<std::uint64_t>(
        report_.bytes,
        visited_.bytes() + parents_.capacity() * sizeof(StateId) + choices_.capacity() + waiting);
  }

  void expand_chunk(Worker& worker, StateId from, StateId end, std::vector<Candidate>& out) const {
    for (StateId state = from; state < end; ++state) {
      worker.path.clear();
      for (StateId at = state; at != 0; at = parents_[at]) worker.path.push_back(choices_[at]);
      std::ranges::reverse(worker.path);
      worker.walker.go(worker.path);
      worker.walker.expand([&](const Edge& edge) {
        if (!edge.wrong.empty()) {
          object(worker, state, edge);
        } else if (!edge.same && !visited_.contains(edge.fingerprint)) {
          out.push_back({edge.fingerprint, state, edge.choice});
        }
      });
    }
  }

  static void object(Worker& worker, StateId state, const Edge& edge) {
    Objection objection{state, edge.choice, worker.walker.trace(), worker.walker.performed(),
                        edge.wrong};
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
    const std::string breach = objection_.text.substr(0, objection_.text.find_first_of(" :"));
    return {config, objection_.performed, {breach}, objection_.text};
  }

  const Space& space_;
  const SearchOptions& options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  FingerprintSet visited_;
  std::vector<StateId> parents_;       // shape [states]
  std::vector<std::uint8_t> choices_;  // shape [states]: the operation that led there
  std::vector<std::vector<Candidate>> chunks_;
  Objection objection_;
  SearchReport report_;
};

}  // namespace

SearchReport search(const Space& space, const SearchOptions& options) {
  return Search(space, options).run();
}

MakeSubject make_small(const optimized::SubjectRow& row) {
  return [make = row.make_small](const CacheConfig& config) { return make(config, kMostRequests); };
}

}  // namespace kvproof::properties::exhaustive
