// SPDX-License-Identifier: Apache-2.0
// The cache manager over a pool whose eviction policy is chosen at run time.
#pragma once

#include "bench/hit_rate/chosen_victims.h"
#include "optimized/cache_manager.h"

namespace kvproof::optimized {

extern template class BlockPool<Key128, bench::ChosenVictims>;
extern template class LayerGroup<BlockPool<Key128, bench::ChosenVictims>>;
extern template class CacheManager<Xxh3Digest, BlockPool<Key128, bench::ChosenVictims>>;

}  // namespace kvproof::optimized

namespace kvproof::bench {

using ChosenPool = optimized::BlockPool<optimized::Key128, ChosenVictims>;
using ChosenManager = optimized::CacheManager<optimized::Xxh3Digest, ChosenPool>;

}  // namespace kvproof::bench
