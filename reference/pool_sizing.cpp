// SPDX-License-Identifier: Apache-2.0
#include "reference/pool_sizing.h"

#include <algorithm>
#include <stdexcept>

#include "reference/ids.h"

namespace kvproof {
namespace {

[[nodiscard]] bool equal_but_for_layers(KvSpec a, const KvSpec& b) {
  a.num_layers = b.num_layers;
  return a == b;
}

/// The layers by equal caches, in order of first appearance.
std::vector<KvSpec> buckets_of(const ModelSpec& model, std::uint32_t block_size) {
  std::vector<KvSpec> buckets;
  for (const KvSpec& spec : model.layers) {
    if (spec.num_layers == 0) continue;
    if (spec.compress_ratio == 0 || block_size % spec.compress_ratio != 0) {
      throw std::invalid_argument("blocks of " + std::to_string(block_size) +
                                  " tokens are not whole rows of " +
                                  std::to_string(spec.compress_ratio) + " compressed tokens");
    }
    const auto same = std::find_if(buckets.begin(), buckets.end(), [&](const KvSpec& bucket) {
      return equal_but_for_layers(bucket, spec);
    });
    if (same == buckets.end()) {
      buckets.push_back(spec);
    } else {
      same->num_layers += spec.num_layers;
    }
  }
  if (buckets.empty()) throw std::invalid_argument("a model without a layer that caches anything");
  return buckets;
}

/// Whether every request holds the same number of blocks of each, so that one table serves all.
bool of_one_kind(const std::vector<KvSpec>& buckets) {
  const KvSpec& first = buckets.front();
  return std::all_of(buckets.begin(), buckets.end(), [&](const KvSpec& other) {
    return other.kind == first.kind && other.window_tokens == first.window_tokens &&
           other.mamba_mode == first.mamba_mode && other.num_speculative == first.num_speculative;
  });
}

PoolLayout one_group(const std::vector<KvSpec>& buckets, std::uint32_t block_size) {
  PoolLayout layout;
  KvSpec all = buckets.front();
  all.num_layers = 0;
  for (const KvSpec& bucket : buckets) {
    all.num_layers += bucket.num_layers;
    layout.block_bytes += bucket.bytes_per_block(block_size);
  }
  layout.groups.push_back({all, block_size});
  return layout;
}

/// Tokens per block of each bucket, and the page that all of them then have.
struct EqualPages {
  std::vector<std::uint32_t> block_sizes;
  std::uint64_t page_bytes = 0;
};

EqualPages equal_pages(const std::vector<KvSpec>& buckets, std::uint32_t block_size) {
  std::uint64_t largest = 0;        // attention page
  std::uint64_t largest_state = 0;  // Mamba page
  for (const KvSpec& bucket : buckets) {
    std::uint64_t& most = bucket.kind == LayerKind::mamba ? largest_state : largest;
    most = std::max(most, bucket.page_bytes(block_size));
  }
  if (largest == 0) {
    return {std::vector<std::uint32_t>(buckets.size(), block_size), largest_state};
  }
  const std::uint64_t growth = std::max<std::uint64_t>(1, ceil_div(largest_state, largest));
  EqualPages pages{{}, largest * growth};
  for (const KvSpec& bucket : buckets) {
    const std::uint64_t page = bucket.page_bytes(block_size);
    const bool state = bucket.kind == LayerKind::mamba;
    if (!state && (page == 0 || largest % page != 0)) {
      throw std::invalid_argument("a page of " + std::to_string(largest) +
                                  " bytes is no multiple of a page of " + std::to_string(page));
    }
    const std::uint64_t factor = state ? growth : growth * (largest / page);
    pages.block_sizes.push_back(static_cast<std::uint32_t>(block_size * factor));
  }
  return pages;
}

}  // namespace

std::vector<std::uint32_t> deal_layers(std::uint32_t num_layers, std::uint32_t group_size) {
  const std::uint32_t num_groups = ceil_div(num_layers, group_size);
  std::vector<std::uint32_t> groups;
  for (std::uint32_t group = 0; group < num_groups; ++group) {
    groups.push_back(ceil_div(num_layers - group, num_groups));
  }
  return groups;
}

std::uint32_t group_size_for(const std::vector<std::uint32_t>& buckets) {
  const std::uint64_t smallest = *std::min_element(buckets.begin(), buckets.end());
  const std::uint64_t largest = *std::max_element(buckets.begin(), buckets.end());
  return static_cast<std::uint32_t>(2 * largest < 3 * smallest ? largest : smallest);
}

PoolLayout lay_out(const ModelSpec& model, std::uint32_t block_size) {
  const std::vector<KvSpec> buckets = buckets_of(model, block_size);
  if (of_one_kind(buckets)) return one_group(buckets, block_size);
  std::vector<std::uint32_t> sizes;
  for (const KvSpec& bucket : buckets) sizes.push_back(bucket.num_layers);
  const std::uint32_t group_size = group_size_for(sizes);
  const EqualPages pages = equal_pages(buckets, block_size);
  PoolLayout layout;
  std::uint32_t most_layers = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (const std::uint32_t layers : deal_layers(sizes[i], group_size)) {
      KvSpec spec = buckets[i];
      spec.num_layers = layers;
      layout.groups.push_back({spec, pages.block_sizes[i]});
      most_layers = std::max(most_layers, layers);
    }
  }
  layout.block_bytes = pages.page_bytes * most_layers;
  return layout;
}

std::uint64_t PoolLayout::worst_case_blocks(const RequestLimits& limits) const {
  std::uint64_t blocks = 0;
  for (const LayoutGroup& group : groups) {
    blocks += group.spec.worst_case_blocks(group.block_size, limits);
  }
  return blocks;
}

std::uint64_t PoolLayout::blocks_held(std::uint64_t tokens, std::uint64_t encoder_tokens) const {
  std::uint64_t blocks = 0;
  for (const LayoutGroup& group : groups) {
    blocks += group.spec.blocks_held(group.block_size, tokens, encoder_tokens);
  }
  return blocks;
}

std::uint64_t num_blocks(const PoolLayout& layout, std::uint64_t available_bytes) {
  return layout.block_bytes == 0 ? 0 : available_bytes / layout.block_bytes;
}

double max_concurrency(const PoolLayout& layout, std::uint64_t num_blocks,
                       const RequestLimits& limits) {
  const std::uint64_t blocks = layout.worst_case_blocks(limits);
  return blocks == 0 ? 0 : static_cast<double>(num_blocks) / static_cast<double>(blocks);
}

std::uint64_t whole_requests(const PoolLayout& layout, std::uint64_t num_blocks,
                             const RequestLimits& limits) {
  const std::uint64_t blocks = layout.worst_case_blocks(limits);
  return num_blocks == 0 || blocks == 0 ? 0 : (num_blocks - 1) / blocks;
}

std::uint64_t longest_request(const PoolLayout& layout, std::uint64_t num_blocks,
                              const RequestLimits& limits) {
  std::uint64_t served = 0;  // tokens
  std::uint64_t refused = limits.max_tokens + 1;
  while (refused - served > 1) {
    const std::uint64_t middle = served + (refused - served) / 2;
    RequestLimits shorter = limits;
    shorter.max_tokens = middle;
    (whole_requests(layout, num_blocks, shorter) > 0 ? served : refused) = middle;
  }
  return served;
}

}  // namespace kvproof
