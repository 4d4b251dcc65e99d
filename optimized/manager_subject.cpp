// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager_subject.h"

#include "optimized/manager_subject_definitions.h"

namespace kvproof::optimized {

template <class Digest>
std::unique_ptr<Subject> make_manager_subject(const CacheConfig& config,
                                              std::uint32_t max_requests) {
  return std::make_unique<ManagerSubject<CacheManager<Digest>>>(config, max_requests);
}

template void observe_manager(const CacheManager<Xxh3Digest>&, const CallerNames&, Snapshot&);
template void observe_manager(const CacheManager<Sha256Digest>&, const CallerNames&, Snapshot&);
template void observe_manager(const CacheManager<WeakDigest>&, const CallerNames&, Snapshot&);
template std::unique_ptr<Subject> make_manager_subject<Xxh3Digest>(const CacheConfig&,
                                                                   std::uint32_t);
template std::unique_ptr<Subject> make_manager_subject<Sha256Digest>(const CacheConfig&,
                                                                     std::uint32_t);
template std::unique_ptr<Subject> make_manager_subject<WeakDigest>(const CacheConfig&,
                                                                   std::uint32_t);

}  // namespace kvproof::optimized
