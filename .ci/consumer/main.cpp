// SPDX-License-Identifier: Apache-2.0
// Includes each public header, which run.cmake compares with those that are installed, makes a
// manager with each hash and takes one block from it.
#include <cstdio>

#include "optimized/cache_manager.h"
#include "optimized/concurrent/concurrent_pool.h"
#include "optimized/slot_mapping.h"
#include "properties/engines/kit/kvproof_subject.h"
#include "reference/config.h"
#include "reference/contract.h"
#include "reference/ids.h"
#include "reference/model_presets.h"
#include "reference/outcomes.h"
#include "reference/pool_sizing.h"
#include "reference/request.h"
#if __has_include(<nlohmann/json.hpp>)  // which they need
#include "properties/engines/kit/kvproof_engine.h"
#include "properties/engines/kit/kvproof_kit.h"
#endif

/// @return whether 6 are free: 8 blocks less the null block and the one taken
template <class Digest>
bool take_one(const char* name) {
  kvproof::CacheConfig config;
  config.num_blocks = 8;
  config.max_model_len = 64;
  config.hash_block_size = 16;
  config.groups = {kvproof::GroupConfig{}};
  kvproof::optimized::CacheManager<Digest> manager(config);
  kvproof::BlockId block;
  const bool taken = manager.take({&block, 1});
  std::printf("%s: %u free\n", name, manager.pool().num_free());
  return taken && manager.pool().num_free() == 6;
}

int main() {
  using namespace kvproof::optimized;
  const bool good = take_one<Xxh3Digest>("xxh3") && take_one<Sha256Digest>("sha256") &&
                    take_one<VllmSha256Digest>("vllm_sha256") &&
                    take_one<VllmSha256CborDigest>("vllm_sha256_cbor");
  return good ? 0 : 1;
}
