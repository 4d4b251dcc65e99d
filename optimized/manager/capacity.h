// SPDX-License-Identifier: Apache-2.0
// The sizes that a cache manager is built for, and the options that are on.
#pragma once

#include <cstdint>

namespace kvproof::optimized {

class VictimPolicy;  // optimized/pool/victims.h

/// A call beyond the capacity is a Breach::capacity and changes nothing.
struct Capacity {
  std::uint32_t max_requests = 256;
  std::uint32_t event_records = 0;  // see EventLog; 0 = no events
  bool residency = false;           // see Residency
  bool exact_hits = false;          // see ExactContents
  VictimPolicy* victims = nullptr;  // outlives the manager; nullptr = the head of the free queue
};

}  // namespace kvproof::optimized
