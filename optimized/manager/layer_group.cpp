// SPDX-License-Identifier: Apache-2.0
#include "optimized/manager/layer_group.h"

#include "optimized/manager/layer_group_definitions.h"

namespace kvproof::optimized {

template class LayerGroup<BlockPool<Key128>>;
template class LayerGroup<BlockPool<Key256>>;

}  // namespace kvproof::optimized
