// SPDX-License-Identifier: Apache-2.0
// The closed loop of continuous batching: who is admitted, and who gives way.
//
// Model:   requests are admitted in order, until one is refused. A running request that finds no
//          room takes that of the request that was admitted last, which may be itself. Whoever
//          gives way is the first to be admitted again.
// Leaves out: what a request asks for, and of whom (engine.h, bench/gate/player.h).
#pragma once

#include <cstddef>
#include <utility>

namespace kvproof::bench {

/// Admits from the head of the waiting requests, while `more` allows one more to run.
/// @param arrive lets the next request wait, if there is one
/// @param start makes room for a request @return false if it refused one
bool admit_waiting(auto& running, auto& waiting, const auto& more, const auto& arrive,
                   const auto& start) {
  while (more()) {
    if (waiting.empty()) arrive();
    if (waiting.empty()) return true;
    if (!start(waiting.front())) return false;
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  return true;
}

/// @param grow makes room for running[at], or refuses
/// @param give_up takes the room of a request, or refuses @return whether there is room for
/// running[at]; if not, it may have given way
bool make_room(auto& running, auto& waiting, std::size_t at, const auto& grow,
               const auto& give_up) {
  while (!grow()) {
    if (!give_up(running.back())) return false;
    waiting.push_front(std::move(running.back()));
    running.pop_back();
    if (at == running.size()) return false;
  }
  return true;
}

}  // namespace kvproof::bench
