// SPDX-License-Identifier: Apache-2.0
// What a cache manager is sized for, and which of its options are on.
#pragma once

#include <cstdint>

#include "optimized/pool/victims.h"

namespace kvproof::optimized {

/// Going beyond it is a Breach::capacity, and changes nothing.
struct Capacity {
  std::uint32_t max_requests = 256;
  std::uint32_t event_records = 0;  // see EventLog; 0 = no events
  bool residency = false;           // see Residency
  bool exact_hits = false;          // see ExactContents
  VictimPolicy* victims = nullptr;  // outlives the manager; nullptr = the head of the free queue
};

}  // namespace kvproof::optimized
