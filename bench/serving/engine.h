// SPDX-License-Identifier: Apache-2.0
// The simulated engine: continuous batching, step by step, on a real allocator.
//
// Model:   each step has a budget of tokens. The running requests are served first, in the order of
//          their admission: one token each and its drafts, or the next chunk of tokens that are not
//          computed yet. Unless a request was preempted, waiting requests are admitted next, first
//          come first served; closed_loop.h says who gives way, and when. A refused admission is
//          tried again. Then the step takes its time (step_time.h).
//          A request that has computed all its tokens gets one more, and its accepted drafts; a
//          request with all of its output leaves. A request that could not run even alone is
//          refused when it arrives.
//          A step may be granted while the one before it runs, whose outputs are not known: what
//          that one computes counts as computed, and a request which it certainly completes is
//          granted nothing. A request that is preempted still gets its outputs. With deferred
//          frees no request is preempted whose blocks it may write, and when one ends, its blocks
//          are free when that step is over.
//          With aborts a request that runs or waits may leave before any step is granted.
//          scheduler.h has the values in which versions differ.
// Source:  vLLM v1 Scheduler.schedule() and update_from_output(); Yu et al., Orca, OSDI'22; Agrawal
//          et al., Sarathi, 2023.
// Checked: at every step requests, tokens and memory are conserved (std::logic_error).
// Leaves out: priorities, several cards, prefill apart from decoding.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "bench/requests/tokens.h"
#include "bench/serving/arrivals.h"
#include "bench/serving/recorder.h"
#include "bench/serving/run_writer.h"
#include "bench/serving/scheduler.h"
#include "bench/serving/step_time.h"
#include "bench/storage/storage.h"

namespace kvproof::bench {

struct EngineOptions {
  Scheduler scheduler = kDefaultScheduler;
  /// The blocks of a request that ends are kept from others until the steps in flight are over, as
  /// for a connector whose loads do not wait for them.
  bool defer_frees = false;
  std::uint32_t token_budget = 8192;  // [tokens] of one step
  std::uint32_t max_running = 256;    // [requests]
  bool swap = false;                  // a preempted request goes to the host, not back to its start
  std::uint32_t drafts = 0;           // [tokens] that a step verifies beside its own
  double acceptance = 0.7;            // chance of a draft whose predecessors were accepted
  std::uint64_t seed = 0;             // of the drafts
  double aborts = 0;                  // chance of one before each step
  std::uint64_t abort_seed = 0;
  TokenMode tokens = TokenMode::as_recorded;
  StepTime time;

  /// The slots that a request may ask for beyond its last token.
  [[nodiscard]] std::uint32_t spare_slots() const {
    // Drafts to verify, which may all lie beyond it, those for the next step, those in flight.
    return drafts * ((scheduler.whole_drafts ? 2 : 1) + scheduler.steps_in_flight);
  }
};

class Engine {
 public:
  /// @param all of them outlive this
  Engine(const EngineOptions& options, const SourceInfo& info, Arrivals& arrivals, KvMemory& memory,
         Recorder& recorder, RunWriter& run);

  /// Runs one step, or pauses until the next arrival. @return false when all requests were served
  bool step();

 private:
  /// What a step was granted for one request.
  struct Grant {
    std::uint32_t tokens = 0;  // without drafts
    std::uint32_t drafts = 0;  // [tokens]
    bool answers = false;      // it brings a token of output
  };

  struct Live {
    std::uint64_t index = 0;  // of the request
    KvHandle handle = 0;
    std::uint32_t input = 0;      // [tokens] as the source states it
    std::uint32_t known = 0;      // [tokens] of the prompt and of the output so far
    std::uint32_t computed = 0;   // [tokens] in the cache when all granted steps are over
    std::uint32_t told = 0;       // [tokens] of these that the memory knows of: none is a draft
    std::uint32_t in_flight = 0;  // [tokens] of granted steps that are not over
    std::uint32_t expected = 0;   // [tokens] of output, drafts included, that they can bring
    std::uint32_t remaining = 0;  // [tokens] of output still to come
    std::uint32_t lost = 0;       // [tokens] computed when it was last preempted
    std::array<Grant, 1 + kMostStepsInFlight> grants;  // of step i at i % size
    bool on_host = false;
    bool in_transfer = false;
    RequestTimes times;

    [[nodiscard]] std::uint32_t drafts_in_flight() const {
      std::uint32_t out = 0;
      for (const Grant& grant : grants) out += grant.drafts;
      return out;
    }
  };

  /// The tokens that a running request asks of a step.
  struct Ask {
    std::uint32_t tokens = 0;
    std::uint32_t drafts = 0;
    std::uint32_t lookahead = 0;
  };

  bool pause();
  void abort_some();
  bool grant_step();
  void end_step();
  [[nodiscard]] Ask next_of(const Live& request) const;
  void schedule_running();
  bool make_room(std::size_t at, const Ask& ask);
  bool preempt(Live& victim);
  bool swap_out(Live& victim);
  void schedule_waiting();
  void admit_arrivals();
  bool resume(Live& request);
  bool start(Live& request);
  void schedule(Live& request, std::uint32_t tokens, std::uint32_t drafts);
  void tell(Live& request, std::span<const TokenId> generated);
  void finish_step();
  bool conclude(Live& request, const Grant& grant, bool preempted);
  void finish(Live& request);
  void release(Live& request);
  std::uint32_t num_accepted(std::uint32_t drafts);
  void check(const MemoryUse& use) const;
  void check_end() const;

  EngineOptions options_;
  const SourceInfo& info_;
  Arrivals& arrivals_;
  KvMemory& memory_;
  Recorder& recorder_;
  RunWriter& run_;
  bool quiet_ = false;        // nobody arrives any more, and the run says so
  bool publishes_;            // the blocks that outputs complete, when these arrive
  double now_ = 0;            // [s]
  std::deque<Live> running_;  // in the order of their admission
  std::deque<Live> waiting_;  // preempted ones, then the head of the arrivals once it was read
  std::uint32_t budget_ = 0;  // [tokens] left in this step
  bool preempted_ = false;    // in this step
  std::optional<std::uint64_t> refused_at_;  // [tokens] free when an admission was last refused
  StepWork work_;                            // of the step that is granted
  std::deque<double> steps_;                 // [s] of those that are granted and not over
  std::uint64_t num_granted_ = 0;            // steps
  std::uint64_t num_ended_ = 0;              // steps
  std::uint64_t moved_before_ = 0;
  std::vector<TokenId> tokens_;  // of the request at hand
  std::mt19937_64 random_;
  std::mt19937_64 aborting_;
  // For the balance at the end. [tokens]
  std::uint64_t skipped_tokens_ = 0;   // found in the cache
  std::uint64_t lost_tokens_ = 0;      // computed, and lost by a preemption
  std::uint64_t answered_tokens_ = 0;  // computed by requests that have left
};

}  // namespace kvproof::bench
