// SPDX-License-Identifier: Apache-2.0
#include "bench/serving/arrivals.h"

#include <algorithm>
#include <utility>

namespace kvproof::bench {

Arrivals::Arrivals(RequestSource& source, std::uint32_t clients)
    : source_(source), clients_(clients) {
  read_next();
}

void Arrivals::read_next() {
  Request request;
  next_.reset();
  if (source_.next(request)) next_ = std::move(request);
}

void Arrivals::poll(double now) {
  const auto is_there = [&] {
    return clients_ > 0 ? unanswered_.size() < clients_ : next_->arrival_seconds <= now;
  };
  while (next_ && is_there()) {
    Request request = std::move(*next_);
    ++num_read_;
    read_next();
    const double since = clients_ > 0 ? now : request.arrival_seconds;
    release(std::move(request), since);
  }
}

void Arrivals::release(Request&& request, double now) {
  const std::uint64_t index = request.index;
  std::uint32_t num_awaited = 0;
  for (const std::uint64_t other : request.after) {
    if (!unanswered_.contains(other)) continue;
    waiting_[other].push_back(index);
    ++num_awaited;
  }
  unanswered_.insert(index);
  if (num_awaited == 0) {
    ready_.push_back({std::move(request), now});
  } else {
    blocked_.emplace(index, Blocked{std::move(request), num_awaited});
  }
}

void Arrivals::finish(std::uint64_t index, double now) {
  unanswered_.erase(index);
  const auto awaiting = waiting_.extract(index);
  if (awaiting.empty()) return;
  for (const std::uint64_t other : awaiting.mapped()) {
    const auto at = blocked_.find(other);
    if (--at->second.num_awaited > 0) continue;
    ready_.push_back({std::move(at->second.request), now});
    blocked_.erase(at);
  }
}

std::optional<double> Arrivals::next_seconds() const {
  if (!next_ || clients_ > 0) return std::nullopt;
  return next_->arrival_seconds;
}

}  // namespace kvproof::bench
