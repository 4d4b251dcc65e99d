// SPDX-License-Identifier: Apache-2.0
// Who asks when: the requests of a source, released to a simulated engine.
//
// Model:   open loop     a request is there at the time of the source, whatever the engine does;
//          closed loop   a fixed number of clients, each asks its next request when it has its
//                        answer; the times of the source are not looked at.
//          In both a request also waits for the answers that Request::after names.
// Refuses: reading ahead: a request is read when it is there, or the next to be.
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
  double seconds = 0;  // since when it could be served
};

class Arrivals {
 public:
  /// @param source outlives this. @param clients of a closed loop; 0 = open loop
  Arrivals(RequestSource& source, std::uint32_t clients);

  /// Releases everything that is there at `now` to ready().
  void poll(double now);

  /// First come, first served; whoever takes one pops it.
  [[nodiscard]] std::deque<Arrived>& ready() { return ready_; }

  /// A request has its answer, at `now`.
  void finish(std::uint64_t index, double now);

  /// When the next one will be there if nobody finishes; nullopt when there is none.
  [[nodiscard]] std::optional<double> next_seconds() const;

  [[nodiscard]] std::uint64_t num_read() const { return num_read_; }
  [[nodiscard]] std::size_t num_unanswered() const { return unanswered_.size(); }
  /// Ready, or kept from it by others that have no answer yet.
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
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> waiting_;  // by who is awaited
};

}  // namespace kvproof::bench
