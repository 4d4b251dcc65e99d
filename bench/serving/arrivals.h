// SPDX-License-Identifier: Apache-2.0
// Arrivals: releases the requests of a source to a simulated engine.
//
// Model:   open loop     a request arrives at the time of the source, independent of the engine;
//          closed loop   a fixed number of clients; each sends its next request when it has its
//                        answer, and the times of the source do not count.
//          In both, a request also waits for the answers that Request::after names.
// Leaves out: reading ahead. Only requests that have arrived, and the next one, are read.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bench/requests/request.h"

namespace kvproof::bench {

struct Arrived {
  Request request;
  double seconds = 0;  // it could be served from this time on
};

class Arrivals {
 public:
  /// @param source outlives this. @param clients of a closed loop; 0 = open loop
  Arrivals(RequestSource& source, std::uint32_t clients);

  /// Releases all requests that have arrived at `now` to ready().
  void poll(double now);

  /// First come, first served; the caller that takes a request pops it.
  [[nodiscard]] std::deque<Arrived>& ready() { return ready_; }

  /// Notes that a request has its answer at `now`.
  void finish(std::uint64_t index, double now);

  /// When the next request arrives if no request finishes before; nullopt if there is none.
  [[nodiscard]] std::optional<double> next_seconds() const;

  /// Whether every request was read and taken.
  [[nodiscard]] bool all_taken() const { return !next_ && num_waiting() == 0; }
  [[nodiscard]] std::uint64_t num_read() const { return num_read_; }
  [[nodiscard]] std::size_t num_unanswered() const { return unanswered_.size(); }
  /// Makes a request ready, or lets it wait for others that have no answer yet.
  [[nodiscard]] std::size_t num_waiting() const { return ready_.size() + blocked_.size(); }

 private:
  void read_next();
  void release(Request&& request, double now);

  RequestSource& source_;
  std::uint32_t clients_;
  std::optional<Request> next_;
  std::uint64_t num_read_ = 0;
  std::deque<Arrived> ready_;
  std::unordered_set<std::uint64_t> unanswered_;  // read and not finished
  struct Blocked {
    Request request;
    std::uint32_t num_awaited = 0;
  };
  std::unordered_map<std::uint64_t, Blocked> blocked_;                     // by index
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> waiting_;  // by the awaited one
};

}  // namespace kvproof::bench
