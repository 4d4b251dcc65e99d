// SPDX-License-Identifier: Apache-2.0
#include "bench/hit_rate/chosen_manager.h"

#include "optimized/cache_manager_definitions.h"
#include "optimized/manager/layer_group_definitions.h"
#include "optimized/pool/block_pool_definitions.h"

namespace kvproof::optimized {

template class BlockPool<Key128, bench::ChosenVictims>;
template class LayerGroup<BlockPool<Key128, bench::ChosenVictims>>;
template class CacheManager<Xxh3Digest, BlockPool<Key128, bench::ChosenVictims>>;

}  // namespace kvproof::optimized
