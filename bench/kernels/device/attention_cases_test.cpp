// SPDX-License-Identifier: Apache-2.0
// Runs the device's prefill and MLA cases on fibers, small, and shows that their check refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/kernels/device/cases.h"
#include "bench/kernels/device/exact.h"
#include "bench/kernels/device/launches.h"
#include "bench/kernels/device/splits.h"
#include "kernels/paged_prefill/paged_prefill.h"

namespace kvproof::bench {
namespace {

using kernels::ElementType;

/// What a case prints on a made-up device of so many processors.
template <class Case>
std::string text_of(const Case& c, int num_processors, const Probe* probe = nullptr) {
  Stopwatch stopwatch(num_processors);
  const Bench bench{num_processors, 1, 1e6, stopwatch, probe};
  testing::internal::CaptureStdout();
  try {
    measure(bench, c);
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  return testing::internal::GetCapturedStdout();
}

/// A line for each implementation that takes the case; `cuda/mma` is one.
template <class Case>
std::vector<std::string> lines_of(const Case& c, int num_processors) {
  std::istringstream text(text_of(c, num_processors));
  std::vector<std::string> out;
  for (std::string line; std::getline(text, line);) out.push_back(line);
  EXPECT_EQ(std::ranges::count_if(out,
                                  [](const std::string& line) {
                                    return line.find("\timplementation=cuda/mma ") !=
                                           std::string::npos;
                                  }),
            1);
  return out;
}

double metric_of(const std::string& line, const std::string& name) {
  for (const char before : {'\t', ' '}) {
    const std::size_t at = line.find(before + name + "=");
    if (at != std::string::npos) return std::stod(line.substr(at + name.size() + 2));
  }
  ADD_FAILURE() << "no metric " << name << " in " << line;
  return 0;
}

/// Every rate of a line is one amount of work by one time.
void expect_work(const std::string& line, double flop, double bytes) {
  const double time = metric_of(line, "time");
  EXPECT_NEAR(metric_of(line, "flop_per_us") * time, flop, 1e-6 * flop) << line;
  EXPECT_NEAR(metric_of(line, "bytes_per_us") * time, bytes, 1e-6 * bytes) << line;
  const double read = metric_of(line, "fraction_of_read_ceiling");
  const double multiply = metric_of(line, "fraction_of_multiply_ceiling");
  EXPECT_EQ(metric_of(line, "fraction_of_ceiling"), std::max(read, multiply)) << line;
  EXPECT_NEAR(multiply, metric_of(line, "flop_per_us") / metric_of(line, "multiply_flop_per_us"),
              1e-6 * multiply);
  EXPECT_GT(std::min({read, multiply, metric_of(line, "paged_over_contiguous")}), 0);
  EXPECT_NEAR(metric_of(line, "cycles"), 1000 * time, time / 1000) << "a CPU counts nanoseconds";
}

TEST(DeviceCases, PrefillIsExactAndCountsWhatItSees) {
  for (const LayoutOrder order : {LayoutOrder::nhd, LayoutOrder::hnd}) {
    for (const ElementType type : {ElementType::bf16, ElementType::fp8_e4m3}) {
      const PrefillCase c{.batch = 2,
                          .chunk = 21,
                          .prefix = 38,
                          .num_heads = 4,
                          .num_kv_heads = 2,
                          .head_size = 64,
                          .order = order,
                          .cache_type = type};
      double seen = 0;  // pairs of a query token and a token
      for (std::int32_t query = 0; query < 21; ++query) {
        seen += kernels::visible_to(query, 21, 59, 0).end;
      }
      const double rows = 2.0 * 2 * 2 * 59 * 64 * kernels::bytes_of(type);
      for (const std::string& line : lines_of(c, 1)) {
        EXPECT_TRUE(line.starts_with("device_paged_prefill\timplementation=cuda/")) << line;
        EXPECT_NE(line.find(" batch=2 "), std::string::npos) << line;
        expect_work(line, 2 * 2 * seen * 4 * 64 * 2, rows + 2.0 * 2 * 21 * 4 * 64 * 2);
      }
    }
  }
}

TEST(DeviceCases, MlaIsExactAndSplitsWhereProcessorsWouldBeIdle) {
  for (const auto& [heads, block_size] : {std::pair{70, 16}, std::pair{16, 64}}) {
    const MlaCase c{.batch = 1, .context = 530, .num_heads = heads, .block_size = block_size};
    for (const std::string& line : lines_of(c, 5)) {
      EXPECT_TRUE(line.starts_with("device_mla_decode\timplementation=cuda/")) << line;
      EXPECT_NE(line.find(" splits=2\t"), std::string::npos) << line;
      expect_work(line, 2.0 * 530 * heads * (576 + 512), 2.0 * (530 * 576 + heads * (576 + 512)));
    }
  }
}

TEST(DeviceCases, AProbeLaunchesOneKernelAndTimesNothing) {
  const PrefillCase prefill{.chunk = 5, .prefix = 3, .num_heads = 1, .num_kv_heads = 1};
  const MlaCase mla{.batch = 1, .context = 20, .num_heads = 2};
  const Probe probe{.row = "cuda/mma", .launches = 3}, absent{.row = "cuda/absent"};
  EXPECT_EQ(text_of(prefill, 1, &probe), "cuda/mma, 3 launches\n");
  EXPECT_EQ(text_of(mla, 1, &probe), "cuda/mma, 3 launches\n");
  EXPECT_THROW(text_of(prefill, 1, &absent), DeviceError);
}

TEST(DeviceCases, TheMatrixUnitDoesTheProductsThatItReports) {
  const std::vector<std::uint16_t> ones(kMultiplyOperands, 0x3F80);
  const DeviceMemory operands(ones), sums(4 * static_cast<std::size_t>(multiply_threads(2)));
  const std::int64_t count = multiply_all(operands.as<void>(), sums.as<float>(), 1'500'000, 2);
  EXPECT_GE(count, 1'500'000);
  EXPECT_EQ(sum_of(sums.as<void>(), multiply_threads(2), ElementType::fp32),
            static_cast<double>(count));
}

/// One prompt of 5 tokens over blocks of 2, and the exact output.
struct Prompt {
  Prompt() : lens(std::vector<std::int32_t>{5}), starts(std::vector<std::int32_t>{0, 5}) {
    fill(cache.as<void>(), 6 * 64, ElementType::bf16, 1);
    fill(query.as<void>(), 5 * 128, ElementType::bf16, 2);
    const CacheLayout layout = CacheLayout::packed(LayoutOrder::nhd, 2, 1, 64);
    params.kv = {cache.as<void>(), cache.as<void>(), layout, layout, table.as<std::int32_t>(), 3};
    params.shape.num_heads = 2;
    params.shape.num_kv_heads = 1;
    params.shape.head_size = params.shape.value_head_size = 64;
    params.num_seqs = 1;
    params.num_query_tokens = 5;
    params.query_starts = starts.as<std::int32_t>();
    params.seq_lens = lens.as<std::int32_t>();
    params.query = query.as<void>();
    params.output = output.as<void>();
    params.query_head_stride = params.output_head_stride = 64;
    params.query_token_stride = params.output_token_stride = 128;
    launch_of(kernels::paged_prefill(), "cuda/mma", params)();
  }
  void check() const {
    check_corners(params, "cuda/mma", {&cache, &query, &output, &table, &lens, &starts});
  }
  DeviceMemory cache{6 * 64 * 2}, query{5 * 128 * 2}, output{5 * 128 * 2}, lens, starts;
  DeviceMemory table{std::vector<std::int32_t>{2, 0, 1}};
  kernels::PagedPrefillParams params;
};

TEST(DeviceCases, TheCheckRefusesAWrongElement) {
  const Prompt prompt;
  EXPECT_NO_THROW(prompt.check());
  auto* const last = prompt.output.as<std::uint16_t>() + 4 * 128 + 63;  // of head 0
  const std::uint16_t right = *last;
  *last = static_cast<std::uint16_t>(right ^ 0x0004);
  EXPECT_THROW(prompt.check(), DeviceError);
  *last = 0x7FFF;  // no number
  EXPECT_THROW(prompt.check(), DeviceError);
  *last = right;
  EXPECT_NO_THROW(prompt.check());
}

TEST(DeviceCases, TheCheckRefusesAnotherBlock) {
  const Prompt prompt;
  std::swap(prompt.table.as<std::int32_t>()[0], prompt.table.as<std::int32_t>()[2]);
  EXPECT_THROW(prompt.check(), DeviceError);
}

TEST(DeviceCases, TheCheckRefusesMemoryThatWasNotCopied) {
  const Prompt prompt;
  EXPECT_THROW(check_corners(prompt.params, "cuda/mma", {&prompt.cache}), DeviceError);
}

TEST(DeviceCases, SplitsOfADecodeAreResidentAtOnceAndLeaveFewProcessorsIdle) {
  EXPECT_EQ(decode_splits(4, 8, 32768, 132), 8);  // 256 blocks at 264 places
  EXPECT_EQ(decode_splits(1, 8, 4096, 132), 16);  // none is shorter than 256 tokens
  for (std::int32_t batch = 1; batch <= 64; ++batch) {
    const std::int32_t blocks = batch * 8 * decode_splits(batch, 8, 1 << 20, 132);
    EXPECT_TRUE(blocks <= 264 || blocks == batch * 8) << batch;
    EXPECT_GE(blocks, 132) << batch;
  }
}

TEST(DeviceCases, NoCaseRunsAnImplementationThatIsNotThere) {
  EXPECT_THROW(launch_of(kernels::paged_prefill(), "cuda/absent", kernels::PagedPrefillParams{}),
               DeviceError);
  EXPECT_THROW(launch_of(kernels::paged_prefill(), "cuda/mma", kernels::PagedPrefillParams{})(),
               DeviceError);
}

}  // namespace
}  // namespace kvproof::bench
