// SPDX-License-Identifier: Apache-2.0
#include "properties/concurrency/schedule.h"

#include <ucontext.h>

#include "properties/concurrency/race_point.h"

namespace kvproof::properties {

struct Schedule::Fibers {
  static constexpr std::size_t kStackBytes = 256 * 1024;
  static constexpr std::uint32_t kMostWaits = 10'000;  // in a row: nobody can go on

  struct Fiber {
    std::unique_ptr<std::byte[]> stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    ucontext_t context;
    bool done = false;
  };

  /// What a fiber starts with; makecontext hands over no pointers.
  static void enter() {
    Fibers& self = *static_cast<Fibers*>(RacePoint::context);
    (*self.body)(self.now);
    self.all[self.now].done = true;
    self.leave();
  }

  static void passed(void* context, bool waits) {
    Fibers& self = *static_cast<Fibers*>(context);
    if (!waits) {
      self.num_waits = 0;
    } else if (++self.num_waits > kMostWaits) {
      swapcontext(&self.all[self.now].context, &self.main);  // stuck: never comes back
    }
    const std::uint32_t before = self.now;
    self.now = self.pick(waits);
    if (self.now != before) swapcontext(&self.all[before].context, &self.all[self.now].context);
  }

  void leave() {
    num_waits = 0;
    if (--num_running == 0) setcontext(&main);
    now = pick(true);
    setcontext(&all[now].context);
  }

  /// The option `choose` takes of all that are not done, counted from `now` on.
  std::uint32_t pick(bool forced) {
    const bool may_stay = !all[now].done && !forced;
    const std::uint32_t num_others = num_running - (all[now].done ? 0 : 1);
    if (num_others == 0) return now;
    const std::uint32_t options = num_others + (may_stay ? 1 : 0);
    std::uint32_t taken = options == 1 ? 0 : (*choose)(options, forced);
    if (may_stay && taken-- == 0) return now;
    std::uint32_t at = now;
    do {
      do at = (at + 1) % num;
      while (all[at].done || at == now);
    } while (taken-- > 0);
    return at;
  }

  std::vector<Fiber> all;
  ucontext_t main;
  std::uint32_t num = 0;
  std::uint32_t num_running = 0;
  std::uint32_t now = 0;
  std::uint32_t num_waits = 0;
  const std::function<void(std::uint32_t)>* body = nullptr;
  const Choose* choose = nullptr;
};

Schedule::Schedule(std::uint32_t most_fibers) : fibers_(std::make_unique<Fibers>()) {
  fibers_->all.resize(most_fibers);
}

Schedule::~Schedule() = default;

bool Schedule::run(std::uint32_t num, const std::function<void(std::uint32_t)>& body,
                   const Choose& choose) {
  Fibers& self = *fibers_;
  for (std::uint32_t i = 0; i < num; ++i) {
    Fibers::Fiber& fiber = self.all[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = Fibers::kStackBytes;
    fiber.context.uc_link = nullptr;
    fiber.done = false;
    makecontext(&fiber.context, Fibers::enter, 0);
  }
  self.num = self.num_running = num;
  self.num_waits = 0;
  self.body = &body;
  self.choose = &choose;
  self.now = num == 1 ? 0 : choose(num, true);
  RacePoint::context = &self;
  RacePoint::passed = Fibers::passed;
  swapcontext(&self.main, &self.all[self.now].context);
  RacePoint::passed = nullptr;
  return self.num_running == 0;
}

std::uint32_t EveryWay::choose(std::uint32_t options, bool forced) {
  if (at_ == path_.size()) {
    path_.push_back({0, forced || num_preemptions_ < most_preemptions_ ? options : 1});
  }
  const Decision& decision = path_[at_++];
  if (!forced && decision.taken > 0) ++num_preemptions_;
  return decision.taken;
}

bool EveryWay::next() {
  at_ = 0;
  num_preemptions_ = 0;
  while (!path_.empty() && path_.back().taken + 1 == path_.back().options) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

}  // namespace kvproof::properties
