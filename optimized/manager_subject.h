// SPDX-License-Identifier: Apache-2.0
// The optimized cache manager behind the Subject seam: names become handles, answers become values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "optimized/manager/capacity.h"
#include "reference/config.h"
#include "reference/ids.h"
#include "reference/subject.h"

namespace kvproof::optimized {

/// What a manager's caller calls its requests and leases, and the blocks that it holds itself.
struct CallerNames {
  std::map<std::string, RequestId> requests;
  std::map<std::string, LeaseId> leases;
  std::vector<BlockId> raw;
};

/// The manager as its caller sees it.
template <class Manager>
void observe_manager(const Manager& manager, const CallerNames& names, Snapshot& out);

/// A Subject over CacheManager<Digest>, which announces its events. `Digest` is one of hashing.h.
/// @param capacity its event_records are set here: nothing is lost between two operations
template <class Digest>
[[nodiscard]] std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                                            Capacity capacity = {
                                                                .max_requests = 4096});

}  // namespace kvproof::optimized
