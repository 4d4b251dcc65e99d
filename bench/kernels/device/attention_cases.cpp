// SPDX-License-Identifier: Apache-2.0
// Prefill and MLA decode on the device: paged and contiguous beside both ceilings of the machine.
#include <algorithm>
#include <cstdio>
#include <string>

#include "bench/kernels/device/cases.h"
#include "bench/kernels/device/exact.h"
#include "bench/kernels/device/launches.h"
#include "bench/kernels/device/lines.h"
#include "bench/kernels/device/splits.h"
#include "kernels/contiguous_prefill/contiguous_prefill.h"
#include "kernels/mla_decode/mla_decode.h"
#include "kernels/paged_prefill/paged_prefill.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

constexpr std::string_view kRows[] = {"cuda/wgmma", "cuda/mma"};
constexpr std::int32_t kLatent = 512, kRope = 64;  // [elements]

std::size_t bytes_of(std::int64_t elements, ElementType type) {
  return static_cast<std::size_t>(elements * kernels::bytes_of(type));
}

/// What a call must move and compute, however it goes about it.
struct Work {
  double bytes = 0;          // the cache, once; queries and outputs
  double multiply_adds = 0;  // of visible tokens
};

/// What the matrix unit multiplies when nothing else is asked of the machine.
struct Multiplier {
  explicit Multiplier(const Bench& bench)
      : num_processors(bench.num_processors),
        operands(bytes_of(kMultiplyOperands, ElementType::bf16)),
        sums(static_cast<std::size_t>(multiply_threads(num_processors)) * sizeof(float)) {
    fill(operands.as<void>(), kMultiplyOperands, ElementType::bf16, 4);
  }
  /// @return the multiply-adds that are done
  [[nodiscard]] std::int64_t launch(double multiply_adds) const {
    return multiply_all(operands.as<void>(), sums.as<float>(),
                        static_cast<std::int64_t>(multiply_adds), num_processors);
  }
  int num_processors;
  DeviceMemory operands, sums;
};

/// What every case allocates. The contiguous kernel reads the same bytes in another order.
struct CaseMemory {
  CaseMemory(std::size_t cache_bytes, ElementType type, std::int64_t query_elements,
             std::int64_t output_elements)
      : cache(cache_bytes),
        query(bytes_of(query_elements, ElementType::bf16)),
        paged_output(bytes_of(output_elements, ElementType::bf16)),
        output(bytes_of(output_elements, ElementType::bf16)) {
    fill(cache.as<void>(), static_cast<std::int64_t>(cache_bytes) / kernels::bytes_of(type), type,
         1);
    fill(query.as<void>(), query_elements, ElementType::bf16, 3);
  }
  DeviceMemory cache, query, paged_output, output;
};

/// An implementation over block tables and over one buffer; the latter is empty if it refuses that.
struct Row {
  std::string_view name;
  std::function<void()> paged, contiguous;
  double checksum = 0;
};

/// A launch that was done once; empty if it was refused.
template <class Params>
std::function<void()> unless_refused(std::span<const kernels::Implementation<Params>> rows,
                                     std::string_view name, const Params& params) {
  const auto launch = launch_of(rows, name, params);
  try {
    launch();
  } catch (const DeviceError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return {};
  }
  return launch;
}

/// The rows of a case that a probe asks for, or all. Throws if there is none.
/// @param check holds the output of a row, and whether it is the paged one, against the exact one
template <class Paged, class Contiguous, class Check>
std::vector<Row> rows_of(const Bench& bench, std::span<const kernels::Implementation<Paged>> table,
                         const Paged& paged,
                         std::span<const kernels::Implementation<Contiguous>> dense_table,
                         const Contiguous& contiguous, const Check& check) {
  std::vector<Row> out;
  for (const std::string_view name : kRows) {
    const bool known = std::ranges::count(table, name, &kernels::Implementation<Paged>::name) > 0;
    if (!known || (bench.probe && !bench.probe->row.empty() && bench.probe->row != name)) continue;
    Row row{name, unless_refused(table, name, paged), {}};
    if (!row.paged) continue;
    row.checksum = check(name, true);
    row.contiguous = unless_refused(dense_table, name, contiguous);
    if (row.contiguous) check(name, false);
    out.push_back(row);
  }
  if (out.empty()) throw DeviceError("no such implementation takes this case");
  return out;
}

void add_ratios(Line& line, const Times& paged, const Times& contiguous) {
  line.measured("contiguous_time", contiguous)
      .measured("paged_over_contiguous", "ratio", paged.median / contiguous.median,
                paged.least / contiguous.most, paged.most / contiguous.least);
}

/// Prints a line for each row: its kernels beside both ceilings, all in the same rounds.
/// @param line_of a line with the parameters of a row
void print_beside_ceilings(const Bench& bench, const DeviceMemory& cache, const Work& work,
                           const std::vector<Row>& rows,
                           const std::function<Line(std::string_view)>& line_of) {
  if (bench.probe) return bench.stopwatch.probe(*bench.probe, rows[0].name, rows[0].paged);
  const Multiplier multiplier(bench);
  const DeviceMemory sink(sizeof(std::uint32_t));
  std::int64_t multiplied = 0;
  std::vector<std::function<void()>> launches = {
      [&] {
        read_all(cache.as<void>(), cache.size(), sink.as<std::uint32_t>(), bench.num_processors);
      },
      [&] { multiplied = multiplier.launch(work.multiply_adds); }};
  for (const Row& row : rows) {
    launches.push_back(row.paged);
    if (row.contiguous) launches.push_back(row.contiguous);
  }
  const auto times = bench.stopwatch.time(launches, Cache::cold, bench.rounds);
  const Times &read = times[0], &multiply = times[1], *next = &times[2];
  const double read_us = read.median * work.bytes / static_cast<double>(cache.size());
  const double multiply_us = multiply.median * work.multiply_adds / static_cast<double>(multiplied);
  for (const Row& row : rows) {
    const Times& paged = *next++;
    Line line = line_of(row.name);
    line.measured("time", paged)
        .measured("cycles", "cycles", paged.cycles)
        .measured("read_time", read)
        .measured("multiply_time", multiply)
        .measured("bytes_per_us", "bytes", work.bytes / paged.median)
        .measured("flop_per_us", "flop", 2 * work.multiply_adds / paged.median)
        .measured("multiply_flop_per_us", "flop",
                  2 * static_cast<double>(multiplied) / multiply.median)
        .measured("fraction_of_copy_bandwidth", "ratio",
                  work.bytes / paged.median / bench.copy_bytes_per_us)
        .measured("fraction_of_read_ceiling", "ratio", read_us / paged.median)
        .measured("fraction_of_multiply_ceiling", "ratio", multiply_us / paged.median)
        .measured("fraction_of_ceiling", "ratio", std::max(read_us, multiply_us) / paged.median);
    if (row.contiguous) add_ratios(line, paged, *next++);
    line.measured("checksum", "sum", row.checksum).print();
  }
}

template <class Kv>
kernels::AttentionParams<Kv> params_of(const PrefillCase& c, const CaseMemory& memory, Kv kv,
                                       const DeviceMemory& starts, const DeviceMemory& lens,
                                       const DeviceMemory& output) {
  kernels::AttentionParams<Kv> p;
  p.shape.num_heads = c.num_heads;
  p.shape.num_kv_heads = c.num_kv_heads;
  p.shape.head_size = p.shape.value_head_size = c.head_size;
  p.shape.cache_type = c.cache_type;
  p.shape.scale = 0.1F;
  p.kv = kv;
  p.num_seqs = c.batch;
  p.num_query_tokens = c.batch * c.chunk;
  p.query_starts = starts.as<std::int32_t>();
  p.seq_lens = lens.as<std::int32_t>();
  p.query = memory.query.as<void>();
  p.output = output.as<void>();
  p.query_head_stride = p.output_head_stride = c.head_size;
  p.query_token_stride = p.output_token_stride = std::int64_t{c.num_heads} * c.head_size;
  return p;
}

std::vector<std::int32_t> starts_of(const PrefillCase& c) {
  std::vector<std::int32_t> out;
  for (std::int32_t seq = 0; seq <= c.batch; ++seq) out.push_back(seq * c.chunk);
  return out;
}

Work work_of(const PrefillCase& c) {
  const double tokens = double{1} * c.batch * (c.prefix + c.chunk);
  const double pairs = double{1} * c.batch * c.chunk * (c.prefix + (c.chunk + 1) / 2.0);
  return {2.0 * c.head_size *
              (tokens * c.num_kv_heads * kernels::bytes_of(c.cache_type) +
               2.0 * c.batch * c.chunk * c.num_heads),
          2.0 * pairs * c.num_heads * c.head_size};
}

Work work_of(const MlaCase& c) {
  const double tokens = double{1} * c.batch * c.context;
  const double row = kLatent + kRope;
  return {2.0 * (tokens * row + double{1} * c.batch * c.num_heads * (row + kLatent)),
          tokens * c.num_heads * (row + kLatent)};
}

/// The memory of MLA's launches beside CaseMemory.
struct SplitMemory {
  SplitMemory(const MlaCase& c, int num_processors)
      : splits(mla_splits(c.batch, c.num_heads, c.context, num_processors)),
        output(static_cast<std::size_t>(c.batch) *
               static_cast<std::size_t>(c.num_heads * splits * kLatent) * sizeof(float)),
        lse(output.size() / kLatent),
        arrivals(std::vector<std::uint32_t>(static_cast<std::size_t>(2 * c.batch * c.num_heads))) {}
  std::int32_t splits;
  DeviceMemory output, lse, arrivals;
};

kernels::MlaDecodeParams params_of(const MlaCase& c, const CaseMemory& memory,
                                   const SplitMemory& split, const DeviceMemory& lens,
                                   const DeviceMemory& output) {
  kernels::MlaDecodeParams p;
  p.cache = memory.cache.as<void>();
  p.latent_size = kLatent;
  p.rope_size = kRope;
  p.token_stride = kLatent + kRope;
  p.scale = 0.1F;
  p.seq_lens = lens.as<std::int32_t>();
  p.num_seqs = c.batch;
  p.num_heads = c.num_heads;
  p.query = memory.query.as<void>();
  p.output = output.as<void>();
  p.num_splits = split.splits;
  p.split_output = split.output.as<float>();
  p.split_lse = split.lse.as<float>();
  p.split_arrivals = split.arrivals.as<std::uint32_t>();
  return p;
}

/// @param each blocks of a sequence
kernels::MlaDecodeParams over_blocks(kernels::MlaDecodeParams p, std::int32_t block_size,
                                     const DeviceMemory& table, std::int32_t each) {
  p.block_size = block_size;
  p.block_stride = block_size * p.token_stride;
  p.block_tables = table.as<std::int32_t>();
  p.table_stride = each;
  return p;
}

}  // namespace

void measure_multiply(const Bench& bench) {
  const Multiplier multiplier(bench);
  std::int64_t multiplied = 0;
  const std::function<void()> launches[] = {[&] { multiplied = multiplier.launch(5e11); }};
  const Times times = bench.stopwatch.time(launches, Cache::cold, bench.rounds)[0];
  const double flop = 2 * static_cast<double>(multiplied);
  Line("device_ceiling")
      .with("kind", "multiply_bf16")
      .with("multiply_adds", multiplied)
      .measured("time", times)
      .measured("flop_per_us", "flop", flop / times.median, flop / times.most, flop / times.least)
      .print();
}

void measure(const Bench& bench, const PrefillCase& c) {
  const std::int32_t length = c.prefix + c.chunk, each = num_blocks(length, c.block_size);
  const std::int64_t capacity = std::int64_t{each} * c.block_size;
  const std::size_t half =  // of the cache: K, then V
      bytes_of(c.batch * capacity * c.num_kv_heads * c.head_size, c.cache_type);
  const std::int64_t rows = std::int64_t{c.batch} * c.chunk * c.num_heads * c.head_size;
  const CaseMemory memory(2 * half, c.cache_type, rows, rows);
  const DeviceMemory table(table_of(c.batch, each, true)), starts(starts_of(c));
  const DeviceMemory lens(std::vector<std::int32_t>(static_cast<std::size_t>(c.batch), length));
  const auto layout = [&](std::int64_t tokens) {
    return CacheLayout::packed(c.order, static_cast<std::int32_t>(tokens), c.num_kv_heads,
                               c.head_size);
  };
  const CacheLayout blocks = layout(c.block_size), dense = layout(capacity);
  auto* const key = memory.cache.as<std::byte>();
  const kernels::PagedKv paged_kv{key, key + half, blocks, blocks, table.as<std::int32_t>(), each};
  const auto paged = params_of(c, memory, paged_kv, starts, lens, memory.paged_output);
  const auto contiguous = params_of(c, memory, kernels::ContiguousKv{key, key + half, dense, dense},
                                    starts, lens, memory.output);
  const auto check = [&](std::string_view name, bool is_paged) {
    if (is_paged) {
      check_corners(paged, name,
                    {&memory.cache, &table, &starts, &lens, &memory.query, &memory.paged_output});
    } else {
      check_corners(contiguous, name,
                    {&memory.cache, &starts, &lens, &memory.query, &memory.output});
    }
    return sum_of(memory.paged_output.as<void>(), c.head_size, ElementType::bf16);
  };
  const auto line_of = [&](std::string_view name) {
    Line line("device_paged_prefill");
    line.with("implementation", name)
        .with("batch", c.batch)
        .with("chunk", c.chunk)
        .with("prefix", c.prefix)
        .with("heads", c.num_heads)
        .with("kv_heads", c.num_kv_heads)
        .with("head_size", c.head_size)
        .with("block_size", c.block_size)
        .with("layout", c.order == LayoutOrder::nhd ? "nhd" : "hnd")
        .with("cache_type", kernels::name_of(c.cache_type));
    return line;
  };
  print_beside_ceilings(bench, memory.cache, work_of(c),
                        rows_of(bench, kernels::paged_prefill(), paged,
                                kernels::contiguous_prefill(), contiguous, check),
                        line_of);
}

void measure(const Bench& bench, const MlaCase& c) {
  const std::int32_t each = num_blocks(c.context, c.block_size), capacity = each * c.block_size;
  const std::int64_t row = kLatent + kRope, heads = std::int64_t{c.batch} * c.num_heads;
  const CaseMemory memory(bytes_of(c.batch * capacity * row, ElementType::bf16), ElementType::bf16,
                          heads * row, heads * kLatent);
  const SplitMemory split(c, bench.num_processors);
  const DeviceMemory table(table_of(c.batch, each, true)), whole(table_of(c.batch, 1, false));
  const DeviceMemory lens(std::vector<std::int32_t>(static_cast<std::size_t>(c.batch), c.context));
  const auto paged = over_blocks(params_of(c, memory, split, lens, memory.paged_output),
                                 c.block_size, table, each);
  const auto contiguous =  // a block is a sequence
      over_blocks(params_of(c, memory, split, lens, memory.output), capacity, whole, 1);
  const auto check = [&](std::string_view name, bool is_paged) {
    check_corners(kernels::as_attention(is_paged ? paged : contiguous), name,
                  {&memory.cache, is_paged ? &table : &whole, &lens, &memory.query,
                   is_paged ? &memory.paged_output : &memory.output});
    return sum_of(memory.paged_output.as<void>(), kLatent, ElementType::bf16);
  };
  const auto line_of = [&](std::string_view name) {
    Line line("device_mla_decode");
    line.with("implementation", name)
        .with("batch", c.batch)
        .with("context", c.context)
        .with("heads", c.num_heads)
        .with("latent", kLatent)
        .with("rope", kRope)
        .with("block_size", c.block_size)
        .with("cache_type", kernels::name_of(ElementType::bf16))
        .with("splits", split.splits);
    return line;
  };
  print_beside_ceilings(
      bench, memory.cache, work_of(c),
      rows_of(bench, kernels::mla_decode(), paged, kernels::mla_decode(), contiguous, check),
      line_of);
}

/// The most important cases come first, because a run may be cut off.
void measure_prefill(const Bench& bench, bool smoke) {
  measure(bench, PrefillCase{});
  if (smoke) return;
  for (const std::int32_t chunk : {512, 128, 8192}) measure(bench, PrefillCase{.chunk = chunk});
  measure(bench, PrefillCase{.chunk = 4096, .prefix = 0});
  measure(bench, PrefillCase{.prefix = 32768});
  measure(bench, PrefillCase{.order = LayoutOrder::hnd});
  measure(bench, PrefillCase{.cache_type = ElementType::fp8_e4m3});
}

void measure_mla(const Bench& bench, bool smoke) {
  measure(bench, MlaCase{});
  if (smoke) return;
  for (const std::int32_t heads : {16, 64, 32}) measure(bench, MlaCase{.num_heads = heads});
  for (const std::int32_t heads : {16, 128}) {
    measure(bench, MlaCase{.num_heads = heads, .block_size = 64});
  }
}

}  // namespace kvproof::bench
