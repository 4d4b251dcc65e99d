// SPDX-License-Identifier: Apache-2.0
// Times decode attention over a paged cache beside the same over contiguous buffers, the fastest
// read of the same bytes, as many multiply-adds in registers, and the bare gather of the pieces.
//
// Workload: 8 KV heads of 128 elements, every sequence `context` tokens long, every block full.
//           Each round runs read, multiply-adds, gather, contiguous and paged once, in turn; a
//           ratio is of two times of one round, and the value is the median over the rounds, min
//           and max the 10th and 90th percentile. The ceiling is whichever takes longer of the
//           read and the multiply-adds. Before that, outputs are checked on the same buffers.
//           If processor_share is not near 1, the machine was busy with other work, and only the
//           ratios can be used.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <stdexcept>

#include "bench/kernels/decode_problem.h"
#include "bench/kernels/rounds.h"
#include "bench/suites.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

template <class Params>
const kernels::Implementation<Params>& row_of(std::span<const kernels::Implementation<Params>> rows,
                                              std::string_view name) {
  return *std::ranges::find(rows, name, &kernels::Implementation<Params>::name);
}

/// The implementations that run here, the best one first.
std::vector<std::string> implementations() {
  kernels::PagedDecodeParams nothing;
  nothing.shape.num_heads = nothing.shape.num_kv_heads = 1;
  nothing.shape.head_size = nothing.shape.value_head_size = kHeadSize;
  std::vector<std::string> out;
  for (const char* name : {"cpu/avx512_bf16", "cpu/avx2", "cpu/portable"}) {
    if (!row_of(kernels::paged_decode(), name).launch(nothing, {})) out.emplace_back(name);
  }
  return out;
}

/// The instruction that does an implementation's products of this type.
MultiplyKernel multiply_kernel(std::string_view implementation, ElementType type) {
  if (implementation == "cpu/avx2") return MultiplyKernel::avx2;
  if (implementation != "cpu/avx512_bf16") return MultiplyKernel::plain;
  const bool as_bf16 = type == ElementType::bf16 || kernels::is_fp8(type);
  return as_bf16 ? MultiplyKernel::avx512_bf16 : MultiplyKernel::avx512;
}

std::string short_name(std::string_view implementation) {
  return std::string(implementation.substr(implementation.find('/') + 1));
}

/// A case, and who is timed in it.
struct TimedCase {
  DecodeCase decode;
  std::string implementation;

  [[nodiscard]] std::string name() const { return decode.name(short_name(implementation)); }
};

std::vector<DecodeCase> smoke_cases() {
  std::vector<DecodeCase> out;
  for (const LayoutOrder order : {LayoutOrder::hnd, LayoutOrder::nhd}) {
    for (const int threads : {1, 2}) {
      out.push_back({.order = order, .context = 96, .batch = 2, .num_threads = threads});
    }
  }
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::fp8_e4m3}) {
    out.push_back({.type = type, .context = 96, .batch = 2});
  }
  return out;
}

/// One step in every direction from bf16, block 16 shuffled, 4 times 8k tokens.
std::vector<DecodeCase> best_cases() {
  std::vector<DecodeCase> out;
  const std::array orders{LayoutOrder::hnd, LayoutOrder::nhd};
  for (const LayoutOrder order : orders) {
    for (const int threads : {1, 2}) out.push_back({.order = order, .num_threads = threads});
  }
  for (const LayoutOrder order : orders) {
    for (const int block_size : {1, 2, 4, 8, 32, 64, 128, 256}) {
      out.push_back({.order = order, .block_size = block_size});
    }
    out.push_back({.order = order, .shuffled = false});
  }
  constexpr std::pair<int, int> kLengths[] = {{1024, 32}, {2048, 16},  {4096, 8},   {16384, 2},
                                              {32768, 1}, {131072, 1}, {1024, 128}, {512, 256}};
  for (const auto& [context, batch] : kLengths) out.push_back({.context = context, .batch = batch});
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::fp8_e4m3}) {
    out.push_back({.type = type});
  }
  for (const int ratio : {1, 2, 8, 16}) out.push_back({.ratio = ratio});
  return out;
}

/// What is said of AVX2 on a processor that has more.
std::vector<DecodeCase> second_cases() {
  std::vector<DecodeCase> out;
  for (const LayoutOrder order : {LayoutOrder::hnd, LayoutOrder::nhd}) {
    for (const int block_size : {1, 4, 16, 64}) {
      out.push_back({.order = order, .block_size = block_size});
    }
  }
  for (const ElementType type : {ElementType::fp32, ElementType::fp16, ElementType::fp8_e4m3}) {
    out.push_back({.type = type});
  }
  for (const int ratio : {1, 2, 8, 16}) out.push_back({.ratio = ratio});
  return out;
}

std::vector<TimedCase> decode_cases(const BenchOptions& options) {
  const std::vector<std::string> names = implementations();
  std::vector<TimedCase> out;
  const auto add = [&](const std::string& name, const std::vector<DecodeCase>& cases) {
    for (const DecodeCase& c : cases) out.push_back({c, name});
  };
  add(names[0], options.smoke ? smoke_cases() : best_cases());
  if (names[0] == "cpu/avx512_bf16" && !options.smoke) add(names[1], second_cases());
  return out;
}

Contender quickest_read(const DecodeProblem& problem, int num_threads, std::uint64_t& sum) {
  std::vector<Contender> ways;
  for (const ReadKernel kernel : kReadKernels) {
    for (const bool both : {false, true}) {
      ways.push_back(
          {std::string(name_of(kernel)) + (both ? "_two_streams" : ""),
           [=, &problem, &sum] { sum ^= read_all(problem.pools(), both, kernel, num_threads); }});
    }
  }
  return quickest(ways);
}

Contender quickest_gather(const Gather& gather, int num_threads, std::uint64_t& sum) {
  std::vector<Contender> ways;
  for (const GatherKernel kernel : kGatherKernels) {
    ways.push_back(
        {name_of(kernel), [=, &gather, &sum] { sum ^= gather_all(gather, kernel, num_threads); }});
  }
  return quickest(ways);
}

/// [ns] shape [rounds] each
struct Times {
  std::vector<double> read, multiply, gather, contiguous, paged;
  std::vector<double> processor_share;  // of each paged call: the share of its time on a processor
};

Result result_of(const DecodeCase& c, const Times& times) {
  Result out;
  out.experiment = "paged_decode";
  const auto bytes = static_cast<double>(c.cache_bytes());
  const auto rate = [&](const std::vector<double>& ns) {
    return metric_of(ratios(std::vector<double>(ns.size(), bytes), ns), "GB/s");
  };
  const auto products = static_cast<double>(c.multiply_adds());
  const std::vector<double> ceiling = ceilings(times.read, times.multiply);
  out.metrics.emplace_back("ns_per_call", metric_of(times.paged, "ns"));
  out.metrics.emplace_back("gb_per_second", rate(times.paged));
  out.metrics.emplace_back("read_gb_per_second", rate(times.read));
  out.metrics.emplace_back("fraction_of_read_ceiling",
                           metric_of(ratios(times.read, times.paged), "ratio"));
  out.metrics.emplace_back(
      "fma_ceiling",
      metric_of(ratios(std::vector<double>(times.multiply.size(), products), times.multiply),
                "multiply-adds/ns"));
  out.metrics.emplace_back("fraction_of_fma_ceiling",
                           metric_of(ratios(times.multiply, times.paged), "ratio"));
  out.metrics.emplace_back("fraction_of_ceiling", metric_of(ratios(ceiling, times.paged), "ratio"));
  out.metrics.emplace_back("fraction_of_gather_ceiling",
                           metric_of(ratios(times.gather, times.paged), "ratio"));
  out.metrics.emplace_back("paged_over_contiguous",
                           metric_of(ratios(times.paged, times.contiguous), "ratio"));
  out.metrics.emplace_back("contiguous_fraction_of_read_ceiling",
                           metric_of(ratios(times.read, times.contiguous), "ratio"));
  out.metrics.emplace_back("processor_share", metric_of(times.processor_share, "ratio"));
  out.metrics.emplace_back("rounds", count(times.paged.size()));
  return out;
}

void demand(const kernels::Refusal& refusal) {
  if (refusal) throw std::logic_error(std::string("paged_decode: refused: ") + refusal.reason);
}

Result run_case(const TimedCase& timed_case, const BenchOptions& options) {
  const DecodeCase& c = timed_case.decode;
  const auto& paged_row = row_of(kernels::paged_decode(), timed_case.implementation);
  const auto& contiguous_row = row_of(kernels::contiguous_decode(), timed_case.implementation);
  const MultiplyKernel instruction = multiply_kernel(timed_case.implementation, c.type);
  const DecodeProblem problem(c, options.seed);
  const Gather gather = problem.gather();
  const kernels::Context context{.num_threads = c.num_threads};
  const auto paged = [&] { demand(paged_row.launch(problem.paged(), context)); };
  const auto contiguous = [&] { demand(contiguous_row.launch(problem.contiguous(), context)); };
  paged();
  contiguous();
  problem.check(paged_row.name);
  const std::uint64_t checksum = problem.checksum();
  std::uint64_t sum = 0;
  const Contender read = quickest_read(problem, c.num_threads, sum);
  const Contender bare_gather = quickest_gather(gather, c.num_threads, sum);
  Times times;
  const double start = now_ns();
  for (std::uint32_t round = 0;
       round < options.fewest_rounds || now_ns() - start < options.min_seconds_per_case * 1e9;
       ++round) {
    times.read.push_back(timed(read.run));
    times.multiply.push_back(
        timed([&] { multiply_all(instruction, c.multiply_adds(), c.num_threads); }));
    times.contiguous.push_back(timed(contiguous));
    times.gather.push_back(timed(bare_gather.run));
    const double before = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
    times.paged.push_back(timed(paged));
    times.processor_share.push_back(1e9 * (processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - before) /
                                    (times.paged.back() * c.num_threads));
  }
  if (problem.checksum() != checksum) throw std::logic_error("paged_decode: the output changed");
  Result out = result_of(c, times);
  const bool by_products = median(times.multiply) > median(times.read);
  out.parameters = {{"type", std::string(kernels::name_of(c.type))},
                    {"layout", std::string(c.order == LayoutOrder::hnd ? "hnd" : "nhd")},
                    {"block_size", std::int64_t{c.block_size}},
                    {"order", std::string(c.shuffled ? "shuffled" : "identity")},
                    {"context", std::int64_t{c.context}},
                    {"batch", std::int64_t{c.batch}},
                    {"ratio", std::int64_t{c.ratio}},
                    {"threads", std::int64_t{c.num_threads}},
                    {"implementation", short_name(paged_row.name)},
                    {"read_kernel", read.name},
                    {"gather_kernel", bare_gather.name},
                    {"multiply_kernel", std::string(name_of(instruction))},
                    {"lower_ceiling", std::string(by_products ? "fma" : "read")},
                    {"checksum", std::to_string(checksum ^ sum)}};
  return out;
}

}  // namespace

std::vector<std::string> paged_decode_cases(const BenchOptions& options) {
  std::vector<std::string> names;
  for (const TimedCase& c : decode_cases(options)) names.push_back(c.name());
  return names;
}

std::vector<Result> run_paged_decode_suite(std::span<const std::string> selected,
                                           const BenchOptions& options) {
  std::vector<Result> out;
  for (const TimedCase& c : decode_cases(options)) {
    const std::string name = c.name();
    if (std::ranges::find(selected, name) == selected.end()) continue;
    options.progress->update(static_cast<double>(out.size()) / static_cast<double>(selected.size()),
                             name);
    out.push_back(run_case(c, options));
  }
  return out;
}

}  // namespace kvproof::bench
