// SPDX-License-Identifier: Apache-2.0
// Makes every allocator of the list through the public headers and takes one block from each.
#include <cstdio>

#include "optimized/subjects.h"
#include "reference/config.h"
#include "reference/operations.h"
#include "reference/snapshot.h"

int main() {
  kvproof::CacheConfig config;
  config.num_blocks = 8;
  config.max_model_len = 64;
  config.hash_block_size = 16;
  config.groups = {kvproof::GroupConfig{}};
  for (const auto& row : kvproof::optimized::kSubjects) {
    const auto subject = row.make(config);
    subject->apply(kvproof::op::Take{1});
    kvproof::Snapshot snapshot;
    subject->observe(snapshot);
    const int name_length = static_cast<int>(row.name.size());
    std::printf("%.*s: %u free\n", name_length, row.name.data(), snapshot.num_free);
    if (snapshot.num_free != 6) return 1;  // 8 blocks less the null block and the one taken
  }
  return 0;
}
