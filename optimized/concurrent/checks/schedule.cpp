// SPDX-License-Identifier: Apache-2.0
#include "optimized/concurrent/checks/schedule.h"

#include "optimized/concurrent/checks/race_point.h"

namespace kvproof::properties::concurrency {

Schedule::Schedule(std::uint32_t most_fibers) {
  while (fibers_.size() < most_fibers) fibers_.emplace_back(/*ordered=*/true);
}

bool Schedule::run(std::uint32_t num, const std::function<void(std::uint32_t)>& body,
                   const Choose& choose) {
  num_ = num_running_ = num;
  num_waits_ = 0;
  body_ = &body;
  choose_ = &choose;
  for (std::uint32_t i = 0; i < num; ++i) fibers_[i].start(enter, this);
  now_ = num == 1 ? 0 : choose(num, true);
  RacePoint::context = this;
  RacePoint::passed = passed;
  RacePoint::on_fibers = true;
  while (num_running_ > 0 && num_waits_ <= kMostWaits) {
    Fiber& fiber = fibers_[now_];
    fiber.resume();
    if (!fiber.ended()) continue;
    num_waits_ = 0;
    if (--num_running_ > 0) now_ = pick(true);
  }
  RacePoint::on_fibers = false;
  RacePoint::passed = nullptr;
  return num_running_ == 0;
}

void Schedule::enter(void* context) {
  const Schedule& self = *static_cast<Schedule*>(context);
  (*self.body_)(self.now_);
}

void Schedule::passed(void* context, bool waits) {
  Schedule& self = *static_cast<Schedule*>(context);
  const std::uint32_t before = self.now_;
  self.num_waits_ = waits ? self.num_waits_ + 1 : 0;
  if (self.num_waits_ <= kMostWaits) self.now_ = self.pick(waits);
  if (self.num_waits_ > kMostWaits || self.now_ != before) self.fibers_[before].pause();
}

std::uint32_t Schedule::pick(bool forced) const {
  const bool may_stay = !fibers_[now_].ended() && !forced;
  const std::uint32_t num_others = num_running_ - (fibers_[now_].ended() ? 0 : 1);
  if (num_others == 0) return now_;
  const std::uint32_t options = num_others + (may_stay ? 1 : 0);
  std::uint32_t taken = options == 1 ? 0 : (*choose_)(options, forced);
  if (may_stay && taken-- == 0) return now_;
  std::uint32_t at = now_;
  do {
    do at = (at + 1) % num_;
    while (fibers_[at].ended() || at == now_);
  } while (taken-- > 0);
  return at;
}

}  // namespace kvproof::properties::concurrency
