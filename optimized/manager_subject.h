// SPDX-License-Identifier: Apache-2.0
// The optimized cache manager as a Subject.
#pragma once

#include <cstdint>
#include <memory>

#include "reference/config.h"
#include "reference/subject.h"

namespace kvproof::optimized {

struct Capacity;

/// A Subject over CacheManager<Digest>, which announces its events. `Digest` is one of hashing.h or
/// vllm_hashing.h.
template <class Digest>
[[nodiscard]] std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                                            std::uint32_t max_requests = 4096);
/// @param capacity its event_records are set here, so that no event is lost between operations, and
/// its residency, which a snapshot shows
template <class Digest>
[[nodiscard]] std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                                            const Capacity& capacity);
/// One that announces nothing and follows no ages: its loops leave out the work for that.
template <class Digest>
[[nodiscard]] std::unique_ptr<Subject> make_silent_subject(const CacheConfig& config);

}  // namespace kvproof::optimized
