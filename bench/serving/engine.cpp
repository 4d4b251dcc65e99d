// SPDX-License-Identifier: Apache-2.0
#include "bench/serving/engine.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "bench/serving/closed_loop.h"

namespace kvproof::bench {

Engine::Engine(const EngineOptions& options, const SourceInfo& info, Arrivals& arrivals,
               KvMemory& memory, Recorder& recorder, RunWriter& run)
    : options_(options),
      info_(info),
      arrivals_(arrivals),
      memory_(memory),
      recorder_(recorder),
      run_(run),
      publishes_(options.scheduler.publishes_outputs &&
                 (options.scheduler.steps_in_flight > 0 || options.drafts > 0)),
      random_(options.seed),
      aborting_(options.abort_seed) {
  const std::uint32_t in_flight = options.scheduler.steps_in_flight;
  if (in_flight > kMostStepsInFlight) throw std::invalid_argument("more than one step in flight");
  if (options.swap && in_flight > 0) {
    throw std::invalid_argument("preemption by swap goes with no step in flight");
  }
  if (options.swap && options.aborts > 0) {
    throw std::invalid_argument("preemption by swap goes without aborts");
  }
  if (options.swap && !memory.has_host()) {
    throw std::invalid_argument("preemption by swap needs a paged cache with a host tier");
  }
  if (options.defer_frees && (in_flight == 0 || !memory.has_leases())) {
    throw std::invalid_argument("deferred frees need a step in flight and a paged cache");
  }
}

bool Engine::step() {
  arrivals_.poll(now_);
  if (arrivals_.all_taken() && !std::exchange(quiet_, true)) run_.quiet();
  abort_some();
  if (running_.empty() && waiting_.empty() && arrivals_.ready().empty() && steps_.empty()) {
    return pause();
  }
  // The next step is granted first, so that it can begin when the one in flight is over.
  if (grant_step() && steps_.size() <= options_.scheduler.steps_in_flight) return true;
  if (!steps_.empty()) end_step();
  return true;
}

// Lets the time pass until the next arrival. @return whether there is one
bool Engine::pause() {
  const auto next = arrivals_.next_seconds();
  if (!next && arrivals_.num_unanswered() == 0) {
    check_end();
    run_.end(memory_.free_tokens());
    return false;
  }
  if (!next) throw std::logic_error("requests wait for answers that nobody will give");
  if (*next <= now_) return true;
  recorder_.add_step(*next - now_, 0, 0, memory_.use(), 0);
  now_ = *next;
  return true;
}

void Engine::abort_some() {
  const std::size_t all = running_.size() + waiting_.size();
  if (options_.aborts == 0 || all == 0) return;
  if (static_cast<double>(aborting_()) >= options_.aborts * 0x1p64) return;
  const std::size_t at = aborting_() % all;
  const bool runs = at < running_.size();
  std::deque<Live>& queue = runs ? running_ : waiting_;
  const auto victim = queue.begin() + static_cast<std::ptrdiff_t>(runs ? at : at - running_.size());
  run_.leave("abort", victim->index);
  ++recorder_.totals.aborted;
  if (runs) answered_tokens_ += victim->computed - victim->drafts_in_flight();
  release(*victim);
  queue.erase(victim);
  refused_at_.reset();
}

// @return false if there is nothing to compute
bool Engine::grant_step() {
  budget_ = options_.token_budget;
  preempted_ = false;
  work_ = {};
  memory_.begin_step();
  schedule_running();
  if (!preempted_) schedule_waiting();
  if (work_.empty()) {
    // Steps in flight may complete all that runs; or all that arrived was refused, or empty.
    if (!steps_.empty() || (running_.empty() && waiting_.empty())) return false;
    throw std::logic_error("a step of the simulated engine without any work");
  }
  const std::uint64_t moved = memory_.moved_tokens();
  work_.moved_tokens = moved - std::exchange(moved_before_, moved);
  steps_.push_back(options_.time.seconds(work_));
  ++num_granted_;
  run_.dispatch();
  if (options_.scheduler.steps_in_flight > 0) {
    for (Live& request : running_) tell(request, {});
  }
  return true;
}

void Engine::end_step() {
  const double seconds = steps_.front();
  steps_.pop_front();
  now_ += seconds;
  // Before requests leave: the memory of those that leave now was not free during the step.
  const std::uint64_t stranded = preempted_ || refused_at_ ? memory_.free_tokens() : 0;
  finish_step();
  const MemoryUse use = memory_.use();
  check(use);
  ++recorder_.totals.steps;
  recorder_.add_step(seconds, running_.size(), waiting_.size() + arrivals_.num_waiting(), use,
                     stranded);
}

Engine::Ask Engine::next_of(const Live& request) const {
  const bool whole = options_.scheduler.whole_drafts;
  const std::uint32_t left = request.known + request.expected - request.computed;
  // The steps in flight end the answer even if all of its drafts are rejected.
  const bool ends = request.expected > 0 &&
                    request.computed + 2 - request.expected >= request.known + request.remaining;
  if (ends) return {};
  if (left > 1 || request.remaining == 0) {
    return {std::min(left, budget_), 0, whole ? options_.drafts : 0};
  }
  const std::uint32_t most = whole ? options_.drafts : request.remaining - 1;
  return {1, std::min({options_.drafts, most, budget_ - 1}), options_.drafts};
}

void Engine::schedule_running() {
  for (std::size_t at = 0; at < running_.size() && budget_ > 0; ++at) {
    const Ask ask = next_of(running_[at]);
    if (ask.tokens == 0) continue;
    if (make_room(at, ask)) {
      schedule(running_[at], ask.tokens, ask.drafts);
    } else if (options_.defer_frees) {
      return;  // nobody behind it is served before it
    }
  }
}

// @return whether running_[at] has room for its next tokens; if not, it may have been preempted
bool Engine::make_room(std::size_t at, const Ask& ask) {
  const Live& request = running_[at];
  const std::uint32_t drafts = request.computed - request.told;  // in flight
  const auto grow = [&] {
    return memory_.grow(request.handle, ask.tokens + ask.drafts + drafts, ask.lookahead,
                        request.in_flight - drafts);
  };
  return bench::make_room(running_, waiting_, at, grow,
                          [this](Live& victim) { return preempt(victim); });
}

// @return whether its blocks are free. Those that go to the host, or that a step in flight may
// write, become free when the step is over; until then no other request is preempted.
bool Engine::preempt(Live& victim) {
  if (work_.swapped_tokens > 0) return false;
  if (options_.defer_frees && victim.in_flight > 0) return false;
  preempted_ = true;
  refused_at_.reset();
  ++recorder_.totals.preemptions;
  if (options_.swap && swap_out(victim)) return true;
  run_.leave("preempt", victim.index);
  memory_.preempt(victim.handle);
  victim.lost = std::exchange(victim.computed, 0) - victim.drafts_in_flight();
  victim.told = victim.expected = 0;
  lost_tokens_ += victim.lost;
  return true;
}

bool Engine::swap_out(Live& victim) {
  if (victim.computed == 0 || !memory_.swap_out(victim.handle)) return false;
  victim.on_host = victim.in_transfer = true;
  work_.swapped_tokens += victim.computed;
  ++recorder_.totals.swaps;
  return true;
}

void Engine::schedule_waiting() {
  const bool is_as_then = refused_at_ && memory_.free_tokens() <= *refused_at_;
  if (is_as_then && !running_.empty() && !options_.scheduler.retries_each_step) return;
  refused_at_.reset();
  const bool all = admit_waiting(
      running_, waiting_, [this] { return budget_ > 0 && running_.size() < options_.max_running; },
      [this] { admit_arrivals(); },
      [this](Live& head) { return head.on_host ? resume(head) : start(head); });
  if (all) return;
  ++recorder_.totals.refused_admissions;
  refused_at_ = memory_.free_tokens();
}

// The first ready request that can be served at all; requests before it that cannot are answered.
void Engine::admit_arrivals() {
  while (!arrivals_.ready().empty() && waiting_.empty()) {
    const Arrived arrived = std::move(arrivals_.ready().front());
    arrivals_.ready().pop_front();
    const Request& request = arrived.request;
    ServingTotals& totals = recorder_.totals;
    ++totals.requests;
    totals.input_tokens += static_cast<std::uint64_t>(request.input_tokens);
    fill_tokens(request, info_, tokens_, options_.tokens);
    const auto prompt = static_cast<std::uint32_t>(tokens_.size());
    const auto output = static_cast<std::uint32_t>(request.output_tokens);
    const std::uint32_t most = prompt + output + options_.spare_slots();
    if (prompt == 0 || !memory_.could_hold(most)) {
      ++(prompt == 0 ? totals.empty : totals.refused);
      arrivals_.finish(request.index, now_);
      continue;
    }
    Live live;
    live.index = request.index;
    live.input = static_cast<std::uint32_t>(request.input_tokens);
    live.known = prompt;
    live.remaining = output;
    live.times.arrived = arrived.seconds;
    live.times.output_tokens = output;
    live.handle = memory_.arrive(tokens_, most);
    run_.arrive(live.index, tokens_);
    waiting_.push_back(live);
  }
}

// Resumes a request from the host; its blocks are here when the step is over.
bool Engine::resume(Live& request) {
  if (!memory_.swap_in(request.handle)) return false;
  request.on_host = false;
  request.in_transfer = true;
  work_.swapped_tokens += request.computed;
  return true;
}

bool Engine::start(Live& request) {
  const std::uint32_t hit = memory_.cached_prefix(request.handle);
  const std::uint32_t tokens = std::min(request.known - hit, budget_);
  const bool resumed = request.times.admitted >= 0;
  const Scheduler& scheduler = options_.scheduler;
  const bool beside = scheduler.watermark_beside_running ? !running_.empty() : work_.tokens > 0;
  if (!memory_.start(request.handle, {.new_tokens = tokens,
                                      .lookahead = scheduler.whole_drafts ? options_.drafts : 0,
                                      .resumed = resumed,
                                      .has_scheduled = beside})) {
    return false;
  }
  ServingTotals& totals = recorder_.totals;
  if (!resumed) {
    request.times.admitted = now_;
    totals.hit_tokens += std::min(hit, request.input);
  } else {
    totals.recomputed_tokens += request.lost - std::min(hit, request.lost);
  }
  run_.hit(request.index, hit);
  request.lost = 0;
  request.computed = hit;
  skipped_tokens_ += hit;
  schedule(request, tokens, 0);
  return true;
}

void Engine::schedule(Live& request, std::uint32_t tokens, std::uint32_t drafts) {
  Grant& grant = request.grants[num_granted_ % request.grants.size()];
  grant = {tokens, drafts, false};
  grant.answers =
      request.remaining > 0 && request.computed + tokens == request.known + request.expected;
  run_.grant({request.index, request.computed, tokens, drafts, grant.answers},
             memory_.table(request.handle));
  const std::uint64_t all = tokens + drafts;
  budget_ -= tokens + drafts;
  work_.tokens += all;
  work_.context_tokens += request.computed;
  work_.attended_pairs += all * request.computed + all * (all + 1) / 2;
  recorder_.totals.computed_tokens += tokens;
  recorder_.totals.drafts += drafts;
  request.computed += tokens + drafts;
  request.in_flight += tokens + drafts;
  if (grant.answers) request.expected += 1 + drafts;
}

// Tells the memory what is computed, if that has changed, and what was generated.
void Engine::tell(Live& request, std::span<const TokenId> generated) {
  const std::uint32_t computed = std::min(request.computed, request.known);
  if (computed == request.told && generated.empty()) return;
  memory_.advance(request.handle, generated, computed);
  request.told = computed;
}

void Engine::finish_step() {
  if (options_.defer_frees) memory_.let_go();
  for (Live& request : running_) {
    if (std::exchange(request.in_transfer, false)) memory_.settle(request.handle);
  }
  for (Live& request : waiting_) {
    if (std::exchange(request.in_transfer, false)) memory_.settle(request.handle);
  }
  const std::size_t slot = num_ended_++ % std::tuple_size_v<decltype(Live::grants)>;
  const auto ended = [&](bool preempted) {
    return [this, slot, preempted](Live& request) {
      const Grant grant = std::exchange(request.grants[slot], {});
      return grant.tokens > 0 && conclude(request, grant, preempted);
    };
  };
  run_.begin_retire();
  std::erase_if(running_, ended(false));
  std::erase_if(waiting_, ended(true));
  run_.end_retire();
}

// Gives a request the outputs of a step. @return whether that was its last token
bool Engine::conclude(Live& request, const Grant& grant, bool preempted) {
  request.in_flight -= grant.tokens + grant.drafts;
  tokens_.clear();
  std::uint32_t accepted = 0;
  if (grant.answers) {
    accepted = std::min(num_accepted(grant.drafts), request.remaining - 1);
    if (request.times.first_token < 0) request.times.first_token = now_;
    for (std::uint32_t i = 0; i <= accepted; ++i) {
      tokens_.push_back(answer_token(request.index, request.known + i));
    }
    run_.sample(request.index, accepted);
    run_.take(request.index, tokens_);
    request.known += accepted + 1;
    request.remaining -= accepted + 1;
    recorder_.totals.accepted_drafts += accepted;
    recorder_.totals.output_tokens += accepted + 1;
  }
  if (preempted) {
    lost_tokens_ += accepted;
  } else {
    request.computed -= grant.drafts - accepted;
    if (grant.answers) request.expected -= 1 + grant.drafts;
  }
  tell(request, tokens_);
  if (grant.answers && !preempted && publishes_) {
    memory_.publish(request.handle, request.computed - request.in_flight);
  }
  const bool computed = request.computed - request.in_flight == request.known;
  if (request.remaining > 0 || !(grant.answers || computed)) return false;
  finish(request);
  return true;
}

void Engine::finish(Live& request) {
  answered_tokens_ += request.computed - request.drafts_in_flight();
  request.times.finished = now_;
  recorder_.finish(request.times);
  run_.leave("finish", request.index);
  release(request);
}

// Gives back its memory, which a step in flight may still write.
void Engine::release(Live& request) {
  if (options_.defer_frees && request.in_flight > 0) memory_.hold(request.handle);
  memory_.finish(request.handle);
  arrivals_.finish(request.index, now_);
}

// Drafts are accepted in order, up to the first that is rejected.
std::uint32_t Engine::num_accepted(std::uint32_t drafts) {
  std::uint32_t accepted = 0;
  const double limit = options_.acceptance * 0x1p64;
  while (accepted < drafts && static_cast<double>(random_()) < limit) ++accepted;
  return accepted;
}

void Engine::check(const MemoryUse& use) const {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::logic_error(std::string("the simulated engine has lost ") + what);
  };
  require(running_.size() + waiting_.size() + arrivals_.num_waiting() == arrivals_.num_unanswered(),
          "a request");
  require(use.held() + use.free == memory_.capacity_tokens(), "memory");
  std::uint64_t sum = 0;
  std::uint64_t most = 0;
  for (const Live& request : running_) {
    sum += request.told;
    most = std::max<std::uint64_t>(most, request.told);
  }
  require(memory_.shares() ? use.tokens <= sum && use.tokens >= most : use.tokens == sum,
          "tokens in memory");
}

void Engine::check_end() const {
  const ServingTotals& totals = recorder_.totals;
  if (memory_.use().held() != 0) throw std::logic_error("the simulated engine leaks memory");
  const std::uint64_t had = answered_tokens_ + lost_tokens_;
  if (totals.computed_tokens + totals.accepted_drafts + skipped_tokens_ != had) {
    throw std::logic_error(
        "the simulated engine has computed tokens that nobody has, or the other way");
  }
}

}  // namespace kvproof::bench
