// SPDX-License-Identifier: Apache-2.0
// The allocator in a program of one's own: two prompts with a common beginning, and a shortage.
// In CMake: add_subdirectory(kvproof) or find_package(kvproof REQUIRED), then
// target_link_libraries(mine PRIVATE kvproof::optimized). It prints:
//> first admitted: 47 tokens computed, table 1 2 3, 5 blocks free
//> two tokens later: 49 tokens computed, table 1 2 3 4, 4 blocks free
//> second admitted: 96 tokens computed, table 1 2 4 5 6 7, 2 blocks free
#include <cstdio>
#include <vector>

#include "optimized/cache_manager.h"

using namespace kvproof;
using Cache = optimized::CacheManager<optimized::Xxh3Digest>;

void show(const Cache& cache, RequestId id, const char* what) {
  std::printf("%s: %u tokens computed, table", what, cache.computed(id));
  for (const BlockId block : cache.table(id)) std::printf(" %u", unsigned{block});
  std::printf(", %u blocks free\n", cache.pool().num_free());
}

/// @return false, with nothing changed, if it has to wait until blocks are given back
bool admit(Cache& cache, RequestId id, bool others_run) {
  const auto length = static_cast<std::uint32_t>(cache.tokens(id).size());
  const AllocateArgs rest{.new_tokens = length - cache.lookup(id),  // behind what was found
                          .use_lookup = true,
                          .has_scheduled = others_run};
  if (!cache.allocate(id, rest)) return false;
  // Here a model computes the rest. The rows of token p lie in block table[p / 16].
  cache.advance(id, length);
  return true;
}

int main() {
  CacheConfig config;
  config.num_blocks = 9;  // of which block 0 is a placeholder
  config.groups = {{.block_size = 16}};
  config.hash_block_size = 16;
  config.max_model_len = 128;
  config.watermark = 0.12;  // an admission leaves one block to those that run
  Cache cache(config);

  std::vector<TokenId> prompt(47, 3);
  const RequestId first = cache.arrive({.tokens = prompt});
  if (!admit(cache, first, false)) return 1;
  show(cache, first, "first admitted");
  for (const TokenId token : {5, 6}) {
    cache.append(first, {&token, 1});
    if (!cache.allocate(first, kDecodeStep)) return 1;  // or preempt somebody: cache.free(id)
    cache.advance(first, cache.computed(first) + 1);
  }
  show(cache, first, "two tokens later");

  prompt.resize(96, 7);
  const RequestId second = cache.arrive({.tokens = prompt});
  if (admit(cache, second, true)) return 1;  // four are free, and it needs four and the watermark
  cache.finish(first);
  if (!admit(cache, second, false)) return 1;
  show(cache, second, "second admitted");
}
