// SPDX-License-Identifier: Apache-2.0
#include "optimized/cache_manager.h"

#include "optimized/cache_manager_definitions.h"

namespace kvproof::optimized {

template class CacheManager<Xxh3Digest>;
template class CacheManager<Sha256Digest>;
template class CacheManager<WeakDigest>;

}  // namespace kvproof::optimized
