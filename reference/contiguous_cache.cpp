// SPDX-License-Identifier: Apache-2.0
#include "reference/contiguous_cache.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace kvproof::reference {

std::string_view to_string(Reservation policy) {
  switch (policy) {
    case Reservation::max_length: return "max_length";
    case Reservation::power_of_two: return "power_of_two";
    case Reservation::oracle: return "oracle";
    case Reservation::grow_and_copy: return "grow_and_copy";
  }
  return "unnamed";
}

double ContiguousUsage::external_fragmentation() const {
  if (free == 0) return 0.0;
  return 1.0 - static_cast<double>(largest_free_run) / static_cast<double>(free);
}

ContiguousCache::ContiguousCache(std::uint64_t capacity, std::uint64_t max_length,
                                 Reservation policy)
    : capacity_(capacity), max_length_(max_length), policy_(policy) {
  if (capacity > 0) free_runs_.emplace(0, capacity);
}

std::uint64_t ContiguousCache::wanted(std::uint64_t tokens, std::uint64_t final_tokens) const {
  switch (policy_) {
    case Reservation::max_length: return max_length_;
    case Reservation::power_of_two: return std::min(std::bit_ceil(tokens), max_length_);
    case Reservation::oracle: return final_tokens;
    case Reservation::grow_and_copy: return tokens;
  }
  return tokens;
}

bool ContiguousCache::insert(const std::string& name, std::uint64_t tokens,
                             std::uint64_t final_tokens) {
  last_move_.reset();
  const auto run = take(wanted(tokens, final_tokens));
  if (!run) return false;
  requests_.emplace(name, Owned{*run, tokens});
  return true;
}

bool ContiguousCache::extend(const std::string& name, std::uint64_t tokens) {
  last_move_.reset();
  Owned& owned = requests_.at(name);
  if (tokens > owned.run.length) {
    const std::uint64_t length = wanted(tokens, tokens);
    if (take_behind(owned.run, length - owned.run.length)) {
      owned.run.length = length;
    } else {
      const auto run = take(length);
      if (!run) return false;
      last_move_ = Move{{owned.run.offset, owned.used}, {run->offset, owned.used}};
      moved_ += owned.used;
      give(owned.run);
      owned.run = *run;
    }
  }
  owned.used = tokens;
  return true;
}

void ContiguousCache::erase(const std::string& name) {
  last_move_.reset();
  const auto at = requests_.find(name);
  give(at->second.run);
  requests_.erase(at);
}

std::optional<Run> ContiguousCache::find(const std::string& name) const {
  const auto at = requests_.find(name);
  if (at == requests_.end()) return std::nullopt;
  return at->second.run;
}

ContiguousUsage ContiguousCache::usage() const {
  ContiguousUsage out;
  out.capacity = capacity_;
  out.moved = moved_;
  for (const auto& [name, owned] : requests_) {
    out.reserved += owned.run.length;
    out.used += owned.used;
  }
  out.internal_waste = out.reserved - out.used;
  for (const auto& [offset, length] : free_runs_) {
    out.free += length;
    out.largest_free_run = std::max(out.largest_free_run, length);
  }
  return out;
}

// First fit: the lowest run that is long enough.
std::optional<Run> ContiguousCache::take(std::uint64_t length) {
  for (auto at = free_runs_.begin(); at != free_runs_.end(); ++at) {
    if (at->second < length) continue;
    const Run run{at->first, length};
    const std::uint64_t rest = at->second - length;
    free_runs_.erase(at);
    if (rest > 0) free_runs_.emplace(run.offset + length, rest);
    return run;
  }
  return std::nullopt;
}

// Grows a run in place if the free run right behind it is long enough.
bool ContiguousCache::take_behind(const Run& run, std::uint64_t extra) {
  const auto at = free_runs_.find(run.offset + run.length);
  if (at == free_runs_.end() || at->second < extra) return false;
  const std::uint64_t rest = at->second - extra;
  free_runs_.erase(at);
  if (rest > 0) free_runs_.emplace(run.offset + run.length + extra, rest);
  return true;
}

// Coalesces with both neighbours, so that no two free runs ever touch.
void ContiguousCache::give(Run run) {
  auto next = free_runs_.lower_bound(run.offset);
  if (next != free_runs_.end() && next->first == run.offset + run.length) {
    run.length += next->second;
    next = free_runs_.erase(next);
  }
  if (next != free_runs_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == run.offset) {
      before->second += run.length;
      return;
    }
  }
  free_runs_.emplace(run.offset, run.length);
}

}  // namespace kvproof::reference
