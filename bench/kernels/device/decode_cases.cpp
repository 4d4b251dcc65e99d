// SPDX-License-Identifier: Apache-2.0
// Decode attention on the device: paged, contiguous, and a plain read of as many bytes.
#include <algorithm>
#include <cmath>
#include <string>

#include "bench/kernels/device/cases.h"
#include "bench/kernels/device/launches.h"
#include "bench/kernels/device/lines.h"
#include "bench/kernels/device/splits.h"
#include "kernels/contiguous_decode/contiguous_decode.h"
#include "kernels/paged_decode/paged_decode.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

ElementType query_type(const DecodeCase& c) {
  return c.cache_type == ElementType::fp16 ? ElementType::fp16 : ElementType::bf16;
}

/// The memory that the launches of a case use.
struct DecodeMemory {
  explicit DecodeMemory(const DecodeCase& c, int num_processors)
      : splits(decode_splits(c.batch, c.num_kv_heads, c.context, num_processors)),
        table(table_of(c.batch, num_blocks(c.context, c.block_size), c.shuffled)),
        blocks(table.size() / sizeof(std::int32_t)),
        cache_bytes(blocks * static_cast<std::size_t>(c.block_size * c.num_kv_heads * c.head_size) *
                    static_cast<std::size_t>(kernels::bytes_of(c.cache_type))),
        cache(2 * cache_bytes),
        query(query_elements(c) * 2),
        paged_output(query_elements(c) * 2),
        output(query_elements(c) * 2),
        split_output(query_elements(c) * 4 * static_cast<std::size_t>(splits)),
        split_lse(query_elements(c) * 4 * static_cast<std::size_t>(splits)),
        arrivals(std::vector<std::uint32_t>(static_cast<std::size_t>(2 * c.batch * c.num_heads))),
        lens(std::vector<std::int32_t>(static_cast<std::size_t>(c.batch), c.context)) {
    fill(key(), static_cast<std::int64_t>(cache.size()) / kernels::bytes_of(c.cache_type),
         c.cache_type, 1);
    fill(query.as<void>(), static_cast<std::int64_t>(query_elements(c)), query_type(c), 3);
  }
  static std::size_t query_elements(const DecodeCase& c) {
    return static_cast<std::size_t>(c.batch) * static_cast<std::size_t>(c.num_heads * c.head_size);
  }

  [[nodiscard]] std::byte* key() const { return cache.as<std::byte>(); }
  [[nodiscard]] std::byte* value() const { return key() + cache_bytes; }

  std::int32_t splits;
  DeviceMemory table;
  std::size_t blocks;
  std::size_t cache_bytes;  // of K, and of V
  DeviceMemory cache, query, paged_output, output, split_output, split_lse, arrivals, lens;
};

template <class Kv>
kernels::AttentionParams<Kv> params_of(const DecodeCase& c, const DecodeMemory& memory, Kv kv,
                                       const DeviceMemory& output) {
  kernels::AttentionParams<Kv> p;
  p.shape.num_heads = c.num_heads;
  p.shape.num_kv_heads = c.num_kv_heads;
  p.shape.head_size = p.shape.value_head_size = c.head_size;
  p.shape.cache_type = c.cache_type;
  p.shape.type = query_type(c);
  p.shape.scale = 0.1F;
  p.kv = kv;
  p.num_seqs = p.num_query_tokens = c.batch;
  p.seq_lens = memory.lens.as<std::int32_t>();
  p.query = memory.query.as<void>();
  p.output = output.as<void>();
  p.query_head_stride = p.output_head_stride = c.head_size;
  p.query_token_stride = p.output_token_stride = std::int64_t{c.num_heads} * c.head_size;
  p.num_splits = memory.splits;
  p.split_output = memory.split_output.as<float>();
  p.split_lse = memory.split_lse.as<float>();
  p.split_arrivals = memory.arrivals.as<std::uint32_t>();
  return p;
}

/// The sum of the first output row. Throws if it is not a number, or if the two kernels read the
/// same bytes in the same order and differ.
double checked_sum(const DecodeCase& c, const DecodeMemory& memory) {
  const double sum = sum_of(memory.paged_output.as<void>(), c.head_size, query_type(c));
  if (!std::isfinite(sum)) throw DeviceError(std::string(c.row) + ": the output is no number");
  if (!c.shuffled && c.order == LayoutOrder::nhd) {
    std::vector<std::byte> paged(memory.output.size()), contiguous(memory.output.size());
    expect(cudaMemcpy(paged.data(), memory.paged_output.as<void>(), paged.size(),
                      cudaMemcpyDeviceToHost),
           "paged output");
    expect(cudaMemcpy(contiguous.data(), memory.output.as<void>(), contiguous.size(),
                      cudaMemcpyDeviceToHost),
           "contiguous output");
    if (paged != contiguous) throw DeviceError("paged and contiguous outputs differ");
  }
  return sum;
}

void print(const DecodeCase& c, const DecodeMemory& memory, Cache cache, const Bench& bench,
           const std::vector<Times>& times) {
  const double bytes = 2.0 * static_cast<double>(memory.cache_bytes);
  const Times &read = times[0], &paged = times[1], &contiguous = times[2];
  const auto ratio = [](const Times& a, const Times& b) { return a.median / b.median; };
  Line("device_paged_decode")
      .with("implementation", c.row)
      .with("batch", c.batch)
      .with("context", c.context)
      .with("heads", c.num_heads)
      .with("kv_heads", c.num_kv_heads)
      .with("head_size", c.head_size)
      .with("block_size", c.block_size)
      .with("layout", c.order == LayoutOrder::nhd ? "nhd" : "hnd")
      .with("tables", c.shuffled ? "shuffled" : "identity")
      .with("cache_type", kernels::name_of(c.cache_type))
      .with("splits", memory.splits)
      .with("l2", cache == Cache::cold ? "cold" : "hot")
      .measured("time", paged)
      .measured("cycles", "cycles", paged.cycles)
      .measured("contiguous_time", contiguous)
      .measured("read_time", read)
      .measured("bytes_per_us", "bytes", bytes / paged.median, bytes / paged.most,
                bytes / paged.least)
      .measured("fraction_of_read_ceiling", "ratio", ratio(read, paged))
      .measured("fraction_of_copy_bandwidth", "ratio",
                bytes / paged.median / bench.copy_bytes_per_us)
      .measured("contiguous_fraction_of_read_ceiling", "ratio", ratio(read, contiguous))
      .measured("paged_over_contiguous", "ratio", ratio(paged, contiguous),
                paged.least / contiguous.most, paged.most / contiguous.least)
      .measured("checksum", "sum", checked_sum(c, memory))
      .print();
}

/// The most important cases come first, because a run may be cut off.
std::vector<DecodeCase> sweep(bool smoke) {
  std::vector<DecodeCase> out;
  const auto add = [&](auto change) {
    DecodeCase c;
    change(c);
    out.push_back(c);
  };
  add([](DecodeCase&) {});
  if (smoke) return out;
  add([](DecodeCase& c) { c.order = LayoutOrder::hnd; });
  add([](DecodeCase& c) { c.shuffled = false; });
  for (const ElementType type : {ElementType::fp16, ElementType::fp8_e4m3}) {
    add([&](DecodeCase& c) { c.cache_type = type; });
  }
  for (const std::int32_t size : {1, 2, 4, 8, 32, 64, 128, 256}) {
    add([&](DecodeCase& c) { c.block_size = size; });
  }
  for (const std::int32_t batch : {1, 4, 16, 64, 256}) {
    add([&](DecodeCase& c) { c.batch = batch; });
  }
  for (const std::int32_t context : {1024, 8192, 32768, 131072}) {  // as many tokens in all
    add([&](DecodeCase& c) { c.context = context, c.batch = 131072 / context; });
  }
  for (const std::int32_t heads : {8, 16, 64, 128}) {
    add([&](DecodeCase& c) { c.num_heads = heads; });
  }
  for (const std::int32_t size : {64, 256}) {
    add([&](DecodeCase& c) { c.head_size = size; });
  }
  for (const std::int32_t size : {1, 64}) {
    add([&](DecodeCase& c) { c.block_size = size, c.order = LayoutOrder::hnd; });
  }
  add([](DecodeCase& c) { c.row = "cuda/general", c.batch = 4; });
  return out;
}

}  // namespace

void measure(const Bench& bench, const DecodeCase& c, Cache cache) {
  const DecodeMemory memory(c, bench.num_processors);
  const CacheLayout blocks =
      CacheLayout::packed(c.order, c.block_size, c.num_kv_heads, c.head_size);
  const std::int32_t each = num_blocks(c.context, c.block_size);
  const CacheLayout dense =
      CacheLayout::packed(c.order, each * c.block_size, c.num_kv_heads, c.head_size);
  const kernels::PagedKv paged{
      memory.key(), memory.value(), blocks, blocks, memory.table.as<std::int32_t>(), each};
  const kernels::ContiguousKv contiguous{memory.key(), memory.value(), dense, dense};
  const DeviceMemory sink(sizeof(std::uint32_t));
  const std::function<void()> launches[] = {
      [&] {
        read_all(memory.key(), memory.cache.size(), sink.as<std::uint32_t>(), bench.num_processors);
      },
      launch_of(kernels::paged_decode(), c.row, params_of(c, memory, paged, memory.paged_output)),
      launch_of(kernels::contiguous_decode(), c.row,
                params_of(c, memory, contiguous, memory.output))};
  if (bench.probe) return bench.stopwatch.probe(*bench.probe, c.row, launches[1]);
  print(c, memory, cache, bench, bench.stopwatch.time(launches, cache, bench.rounds));
}

void measure_decode(const Bench& bench, bool smoke) {
  for (const DecodeCase& c : sweep(smoke)) measure(bench, c, Cache::cold);
  DecodeCase small;  // fits in L2
  small.batch = 4;
  small.context = 1024;
  measure(bench, small, Cache::cold);
  measure(bench, small, Cache::hot);
}

}  // namespace kvproof::bench
