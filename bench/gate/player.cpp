// SPDX-License-Identifier: Apache-2.0
#include "bench/gate/player.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <utility>

#include "bench/gate/collected.h"
#include "bench/serving/closed_loop.h"
#include "reference/mix64.h"
#include "reference/trace_json.h"

namespace kvproof::bench {
namespace {

enum Status : std::uint32_t { kWaiting = 0, kRunning = 1, kPreempted = 2 };

/// The tokens of request i, which do not depend on earlier requests.
class Tokens {
 public:
  Tokens(const GateWorkload& workload, std::uint64_t seed) : w_(workload), seed_(seed) {}

  [[nodiscard]] std::int32_t at(std::uint64_t request, std::uint32_t position) const {
    const std::uint64_t source = position < w_.shared_tokens
                                     ? mix(request * 2 + 1) % w_.num_prefixes
                                     : w_.num_prefixes + request;
    return static_cast<std::int32_t>(mix(source << 24U | position) & 0x1ffffU);
  }
  void prompt(std::uint64_t request, std::vector<std::int32_t>& out) const {
    out.resize(w_.prompt_tokens);
    for (std::uint32_t i = 0; i < w_.prompt_tokens; ++i) out[i] = at(request, i);
  }

 private:
  [[nodiscard]] std::uint64_t mix(std::uint64_t x) const {
    return mix64(x + (seed_ + 1) * kMixStep);
  }

  const GateWorkload& w_;
  std::uint64_t seed_;
};

std::string header_of(const GateWorkload& w, const Profile& profile) {
  TraceHeader header;
  header.config.profile = profile;
  header.config.num_blocks = w.num_blocks;
  header.config.max_model_len = w.max_tokens();
  header.config.hash_block_size = GateWorkload::kBlockTokens;
  header.config.groups = {{.block_size = GateWorkload::kBlockTokens}};
  return to_json(header);
}

/// The manager of one run, each call in its brackets.
class Manager {
  template <class F>
  auto call(const F& f) {
    return brackets_itself_ ? f() : brackets_(f);
  }

 public:
  Manager(const Calls& subject, const GateWorkload& w)
      : f_(subject.functions),
        brackets_(*subject.brackets),
        brackets_itself_(subject.brackets_itself) {
    const std::string header = header_of(w, subject.profile);
    self_ = call([&] { return subject.create(header.c_str(), w.live + 1); });
    if (self_ == nullptr) throw BadAnswer("it cannot be built for this workload");
  }
  ~Manager() { f_.destroy(self_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  kvproof_direct_request arrive(const std::vector<std::int32_t>& tokens) {
    return call(
        [&] { return f_.arrive(self_, tokens.data(), static_cast<std::uint32_t>(tokens.size())); });
  }
  void append(kvproof_direct_request request, std::int32_t token) {
    call([&] { f_.append(self_, request, &token, 1); });
  }
  void advance(kvproof_direct_request request, std::uint32_t computed) {
    call([&] { f_.advance(self_, request, computed); });
  }
  std::uint32_t lookup(kvproof_direct_request request) {
    if (f_.lookup == nullptr) return 0;
    return call([&] { return f_.lookup(self_, request); });
  }
  std::int64_t allocate(kvproof_direct_request request, std::uint32_t new_tokens, bool use_lookup,
                        bool has_scheduled, std::uint32_t status) {
    const kvproof_direct_allocation arguments = {sizeof arguments, new_tokens, use_lookup ? 1U : 0U,
                                                 has_scheduled ? 1U : 0U, status};
    return call([&] { return f_.allocate(self_, request, &arguments); });
  }
  void free(kvproof_direct_request request) {
    call([&] { f_.free(self_, request); });
  }
  void finish(kvproof_direct_request request) {
    call([&] { f_.finish(self_, request); });
  }

  /// Whether the measured part has begun.
  void measure(bool on) { brackets_.measure(on); }

  // For time: the functions themselves.
  [[nodiscard]] const properties::DirectPlugin& functions() const { return f_; }
  [[nodiscard]] kvproof_direct* self() const { return self_; }

 private:
  properties::DirectPlugin f_;
  Brackets& brackets_;
  bool brackets_itself_;
  kvproof_direct* self_ = nullptr;
};

struct GatedRequest {
  std::uint32_t number = 0;
  kvproof_direct_request handle = 0;
  std::uint32_t tokens = 0;  // known
  bool preempted = false;
};

class Loop {
 public:
  Loop(const Calls& subject, const GateWorkload& w, std::uint64_t seed, std::uint32_t factor,
       std::vector<Call>* record)
      : w_(w),
        tokens_(w, seed),
        manager_(subject, w),
        total_(w.warm_up + w.requests * factor),
        record_(record) {}

  Played run() {
    while (arrived_ < total_ || !running_.empty() || !waiting_.empty()) {
      admit_all();
      if (running_.empty()) throw BadAnswer("it refuses a request that has the pool for itself");
      decode_all();
    }
    manager_.measure(false);
    return played_;
  }

 private:
  void note(Call::Kind kind, const GatedRequest& r, std::uint32_t value = 0, Call how = {}) {
    if (record_ == nullptr) return;
    how.kind = kind;
    how.request = r.number;
    how.value = value;
    record_->push_back(how);
  }
  void answer(std::uint64_t value) { played_.checksum = played_.checksum * 1099511628211U + value; }

  void arrive_one() {
    if (arrived_ == w_.warm_up) {
      note(Call::Kind::measure, {});
      manager_.measure(true);
      played_ = {};
      forget_allocations();
    }
    GatedRequest r;
    r.number = arrived_++;
    tokens_.prompt(r.number, prompt_);
    r.tokens = w_.prompt_tokens;
    r.handle = manager_.arrive(prompt_);
    note(Call::Kind::arrive, r);
    waiting_.push_back(r);
  }

  void admit_all() {
    const auto arrive = [this] {
      if (arrived_ < total_) arrive_one();
    };
    admit_waiting(
        running_, waiting_, [this] { return running_.size() < w_.live; }, arrive,
        [this](GatedRequest& r) { return admit(r); });
  }

  bool admit(GatedRequest& r) {
    const std::uint32_t hit = manager_.lookup(r.handle);
    note(Call::Kind::lookup, r);
    if (hit >= r.tokens) throw BadAnswer("it looked up more than all but the last token");
    for (std::uint32_t from = hit; from < r.tokens;) {
      const std::uint32_t chunk = std::min(w_.chunk_tokens, r.tokens - from);
      if (!allocate(r, Call::Kind::admit, chunk, from == hit)) {
        give_up(r);
        return false;
      }
      from += chunk;
      manager_.advance(r.handle, from);
      note(Call::Kind::advance, r, from);
    }
    played_.looked_up_tokens += r.tokens;
    played_.hit_tokens += hit;
    answer(hit);
    return true;
  }

  bool allocate(const GatedRequest& r, Call::Kind kind, std::uint32_t new_tokens, bool admission) {
    const Status status = !admission ? kRunning : r.preempted ? kPreempted : kWaiting;
    const std::int64_t taken =
        manager_.allocate(r.handle, new_tokens, admission, admission && !running_.empty(), status);
    answer(static_cast<std::uint64_t>(taken));
    played_.taken_blocks += taken > 0 ? static_cast<std::uint64_t>(taken) : 0;
    Call how;
    how.admission = !admission ? 0 : running_.empty() ? 1 : 2;
    how.status = static_cast<std::uint8_t>(status);
    how.refused = taken < 0 ? 1 : 0;
    note(kind, r, kind == Call::Kind::admit ? new_tokens : r.tokens, how);
    return taken >= 0;
  }

  bool give_up(GatedRequest& r) {
    manager_.free(r.handle);
    note(Call::Kind::free, r);
    r.preempted = true;
    return true;
  }

  void decode_all() {
    for (std::size_t i = 0; i < running_.size();) {
      if (running_[i].tokens == w_.max_tokens()) {
        finish(i);
      } else if (decode(i)) {
        ++i;
      }
    }
  }

  /// @return false if the request itself gave way
  bool decode(std::size_t i) {
    GatedRequest& r = running_[i];
    manager_.append(r.handle, tokens_.at(r.number, r.tokens));
    ++r.tokens;
    Call::Kind kind = Call::Kind::step;
    const auto grow = [&] { return allocate(r, std::exchange(kind, Call::Kind::retry), 1, false); };
    const auto preempt = [this](GatedRequest& victim) {
      ++played_.preemptions;
      return give_up(victim);
    };
    if (!make_room(running_, waiting_, i, grow, preempt)) return false;
    manager_.advance(r.handle, r.tokens);
    return true;
  }

  void finish(std::size_t i) {
    manager_.finish(running_[i].handle);
    note(Call::Kind::finish, running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  const GateWorkload& w_;
  Tokens tokens_;
  Manager manager_;
  std::uint32_t total_;
  std::vector<Call>* record_;
  std::uint32_t arrived_ = 0;
  std::vector<std::int32_t> prompt_;
  std::vector<GatedRequest> running_;  // oldest first
  std::deque<GatedRequest> waiting_;
  Played played_;
};

/// Makes one recorded call.
class CallReplay {
 public:
  CallReplay(Manager& manager, const GateWorkload& w, const Tokens& tokens,
             std::size_t num_requests)
      : f_(manager.functions()), self_(manager.self()), handles_(num_requests) {
    prompts_.resize(num_requests * std::size_t{w.max_tokens()});
    max_tokens_ = w.max_tokens();
    prompt_tokens_ = w.prompt_tokens;
    for (std::size_t r = 0; r < num_requests; ++r) {
      for (std::uint32_t i = 0; i < max_tokens_; ++i) {
        prompts_[r * max_tokens_ + i] = tokens.at(r, i);
      }
    }
  }

  void make(const Call& call) {
    const kvproof_direct_request handle = handles_[call.request];
    switch (call.kind) {
      case Call::Kind::arrive:
        handles_[call.request] = f_.arrive(self_, tokens(call.request), prompt_tokens_);
        break;
      case Call::Kind::lookup:
        if (f_.lookup != nullptr) f_.lookup(self_, handle);
        break;
      case Call::Kind::admit: allocate(call, handle, call.value); break;
      case Call::Kind::step:
        f_.append(self_, handle, tokens(call.request) + call.value - 1, 1);
        [[fallthrough]];
      case Call::Kind::retry:
        allocate(call, handle, 1);
        if (call.refused == 0) f_.advance(self_, handle, call.value);
        break;
      case Call::Kind::advance: f_.advance(self_, handle, call.value); break;
      case Call::Kind::free: f_.free(self_, handle); break;
      case Call::Kind::finish: f_.finish(self_, handle); break;
      case Call::Kind::measure: break;
    }
  }

 private:
  [[nodiscard]] const std::int32_t* tokens(std::uint32_t request) const {
    return prompts_.data() + std::size_t{request} * max_tokens_;
  }
  void allocate(const Call& call, kvproof_direct_request handle, std::uint32_t new_tokens) {
    const kvproof_direct_allocation arguments = {sizeof arguments, new_tokens,
                                                 call.admission > 0 ? 1U : 0U,
                                                 call.admission > 1 ? 1U : 0U, call.status};
    f_.allocate(self_, handle, &arguments);
  }

  const properties::DirectPlugin& f_;
  kvproof_direct* self_;
  std::vector<kvproof_direct_request> handles_;
  std::vector<std::int32_t> prompts_;  // shape [requests, max_tokens]
  std::uint32_t max_tokens_ = 0;
  std::uint32_t prompt_tokens_ = 0;
};

}  // namespace

Played play(const Calls& subject, const GateWorkload& workload, std::uint64_t seed,
            std::uint32_t factor, std::vector<Call>* record) {
  return Loop(subject, workload, seed, factor, record).run();
}

void try_manager(const Calls& subject, const GateWorkload& workload) {
  const Manager built(subject, workload);
}

double time_calls(const Calls& subject, const GateWorkload& workload, std::uint64_t seed,
                  const std::vector<Call>& calls) {
  const Tokens tokens(workload, seed);
  Manager manager(subject, workload);
  const std::size_t num_requests = 1 + std::ranges::max_element(calls, {}, &Call::request)->request;
  CallReplay replay(manager, workload, tokens, num_requests);
  const auto begin = std::ranges::find(calls, Call::Kind::measure, &Call::kind);
  std::for_each(calls.begin(), begin, [&](const Call& call) { replay.make(call); });
  const auto start = std::chrono::steady_clock::now();
  std::for_each(begin, calls.end(), [&](const Call& call) { replay.make(call); });
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace kvproof::bench
