// SPDX-License-Identifier: Apache-2.0
// The optimized cache manager behind the Subject seam: names become handles, answers become values.
#pragma once

#include <memory>

#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::optimized {

/// A Subject over CacheManager<Digest>, with events on. `Digest` is one of those in hashing.h.
/// @param max_requests that may be known at one time
template <class Digest>
[[nodiscard]] std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                                            std::uint32_t max_requests = 4096);

}  // namespace kvproof::optimized
