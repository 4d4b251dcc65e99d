// SPDX-License-Identifier: Apache-2.0
// reshape_and_cache on the device, and the ceilings: large reads and copies.
#include <algorithm>
#include <numeric>
#include <random>

#include "bench/kernels/device/cases.h"
#include "bench/kernels/device/lines.h"
#include "kernels/reshape_and_cache/reshape_and_cache.h"

namespace kvproof::bench {
namespace {

constexpr std::int32_t kHeads = 8;
constexpr std::int32_t kHeadSize = 128;
constexpr std::int32_t kBlockSize = 16;

struct ReshapeMemory {
  explicit ReshapeMemory(std::int64_t tokens)
      : row_bytes(static_cast<std::size_t>(tokens) * kHeads * kHeadSize * 2),
        rows(2 * row_bytes),
        cache_bytes(static_cast<std::size_t>(blocks_of(tokens)) * kBlockSize * kHeads * kHeadSize *
                    2),
        caches(2 * cache_bytes),
        slots(slots_of(tokens)) {
    fill(rows.as<void>(), static_cast<std::int64_t>(row_bytes), kernels::ElementType::bf16, 1);
  }
  static std::int64_t blocks_of(std::int64_t tokens) {
    return (tokens + kBlockSize - 1) / kBlockSize;
  }
  /// The blocks in random order, the tokens of a block one after the other, as a prompt's are.
  static std::vector<SlotId> slots_of(std::int64_t tokens) {
    std::vector<SlotId> blocks(static_cast<std::size_t>(blocks_of(tokens)));
    std::iota(blocks.begin(), blocks.end(), SlotId{0});
    std::mt19937_64 random(1);
    std::ranges::shuffle(blocks, random);
    std::vector<SlotId> out;
    for (std::int64_t t = 0; t < tokens; ++t) {
      out.push_back(blocks[static_cast<std::size_t>(t / kBlockSize)] * kBlockSize + t % kBlockSize);
    }
    return out;
  }

  std::size_t row_bytes;  // of K, and of V
  DeviceMemory rows;
  std::size_t cache_bytes;  // of K, and of V
  DeviceMemory caches, slots;
};

kernels::ReshapeAndCacheParams params_of(const ReshapeMemory& memory, std::int64_t tokens,
                                         LayoutOrder order) {
  kernels::ReshapeAndCacheParams p;
  p.key = memory.rows.as<void>();
  p.value = memory.rows.as<std::byte>() + memory.row_bytes;
  p.num_rows = p.num_tokens = tokens;
  p.key_token_stride = p.value_token_stride = kHeads * kHeadSize;
  p.key_cache = memory.caches.as<void>();
  p.value_cache = memory.caches.as<std::byte>() + memory.cache_bytes;
  p.key_layout = p.value_layout = CacheLayout::packed(order, kBlockSize, kHeads, kHeadSize);
  p.slot_mapping = memory.slots.as<SlotId>();
  p.num_heads = kHeads;
  p.head_size = p.value_head_size = kHeadSize;
  return p;
}

void measure(const Bench& bench, std::int64_t tokens, LayoutOrder order, Cache cache) {
  const ReshapeMemory memory(tokens);
  const auto params = params_of(memory, tokens, order);
  std::string_view name;
  const std::function<void()> copy = [&] {
    copy_all(memory.caches.as<void>(), memory.rows.as<void>(), 2 * memory.row_bytes,
             bench.num_processors);
  };
  for (const auto& row : kernels::reshape_and_cache()) {
    if (!row.on_device()) continue;
    name = row.name;
    const std::function<void()> launches[] = {
        copy, [&] {
          if (const kernels::Refusal refusal = row.launch(params, {})) {
            throw DeviceError(std::string(row.name) + ": " + refusal.reason);
          }
        }};
    const auto times = bench.stopwatch.time(launches, cache, bench.rounds);
    const double bytes = 4.0 * static_cast<double>(memory.row_bytes);  // K and V, read and written
    Line("device_reshape_and_cache")
        .with("implementation", name)
        .with("tokens", tokens)
        .with("layout", order == LayoutOrder::nhd ? "nhd" : "hnd")
        .with("cache_type", "bf16")
        .with("l2", cache == Cache::cold ? "cold" : "hot")
        .measured("time", times[1])
        .measured("copy_time", times[0])
        .measured("bytes_per_us", "bytes", bytes / times[1].median, bytes / times[1].most,
                  bytes / times[1].least)
        .measured("fraction_of_copy", "ratio", times[0].median / times[1].median,
                  times[0].least / times[1].most, times[0].most / times[1].least)
        .measured("fraction_of_copy_bandwidth", "ratio",
                  bytes / times[1].median / bench.copy_bytes_per_us)
        .measured("checksum", "sum",
                  sum_of(memory.caches.as<void>(), kHeadSize, kernels::ElementType::bf16))
        .print();
  }
}

}  // namespace

double measure_ceilings(Bench& bench) {
  const std::size_t bytes = std::size_t{1} << 30;
  const DeviceMemory from(bytes), to(bytes), sink(sizeof(std::uint32_t));
  fill(from.as<void>(), static_cast<std::int64_t>(bytes / 2), kernels::ElementType::bf16, 1);
  const std::function<void()> launches[] = {
      [&] { read_all(from.as<void>(), bytes, sink.as<std::uint32_t>(), bench.num_processors); },
      [&] { copy_all(to.as<void>(), from.as<void>(), bytes, bench.num_processors); },
      [&] {
        expect(cudaMemcpyAsync(to.as<void>(), from.as<void>(), bytes, cudaMemcpyDeviceToDevice),
               "cudaMemcpyAsync");
      }};
  const char* const names[] = {"read", "copy_kernel", "copy_driver"};
  const double moved[] = {1.0 * static_cast<double>(bytes), 2.0 * static_cast<double>(bytes),
                          2.0 * static_cast<double>(bytes)};
  const auto times = bench.stopwatch.time(launches, Cache::cold, bench.rounds);
  for (std::size_t i = 0; i < times.size(); ++i) {
    Line("device_ceiling")
        .with("kind", names[i])
        .with("bytes", static_cast<std::int64_t>(moved[i]))
        .measured("time", times[i])
        .measured("bytes_per_us", "bytes", moved[i] / times[i].median, moved[i] / times[i].most,
                  moved[i] / times[i].least)
        .print();
  }
  return std::max(moved[1] / times[1].median, moved[2] / times[2].median);
}

void measure_reshape(const Bench& bench, bool smoke) {
  if (smoke) {
    measure(bench, 1024, LayoutOrder::nhd, Cache::cold);
    return;
  }
  for (const std::int64_t tokens : {16384, 65536, 4096, 1024, 256, 64, 16, 1}) {
    measure(bench, tokens, LayoutOrder::nhd, Cache::cold);
    measure(bench, tokens, LayoutOrder::hnd, Cache::cold);
  }
  measure(bench, 256, LayoutOrder::nhd, Cache::hot);
}

}  // namespace kvproof::bench
