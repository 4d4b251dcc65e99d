// SPDX-License-Identifier: Apache-2.0
#include "optimized/pool/block_pool.h"

#include "optimized/pool/block_pool_definitions.h"

namespace kvproof::optimized {

template class BlockPool<Key128>;
template class BlockPool<Key256>;

}  // namespace kvproof::optimized
