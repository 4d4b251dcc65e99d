// SPDX-License-Identifier: Apache-2.0
// Tests of what the kernel measurements are held against, and of their check of the outputs.
#include "bench/kernels/ceilings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "bench/kernels/decode_problem.h"
#include "bench/kernels/rounds.h"

namespace kvproof::bench {
namespace {

/// A buffer of that many lines, no two words alike.
HugeBuffer lines(std::size_t count) {
  HugeBuffer buffer(count * 64);
  for (std::uint64_t i = 0; i < count * 8; ++i) {
    const std::uint64_t word = (i + 1) * 0x9E3779B97F4A7C15U;
    std::memcpy(buffer.data() + i * 8, &word, sizeof(word));
  }
  return buffer;
}

std::uint64_t words_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    sum ^= word;
  }
  return sum;
}

TEST(Ceilings, EveryReadSeesEveryWordOnce) {
  for (const std::size_t count : {1U, 2U, 7U, 64U, 1001U}) {
    const HugeBuffer a = lines(count), b = lines(count);
    b.data()[count * 64 - 1] ^= std::byte{1};
    const std::vector<std::span<const std::byte>> parts{a.bytes(), b.bytes()};
    for (const ReadKernel kernel : kReadKernels) {
      for (const bool side_by_side : {false, true}) {
        for (const int threads : {1, 2, 3}) {
          EXPECT_EQ(read_all(parts, side_by_side, kernel, threads),
                    words_of(a.bytes()) ^ words_of(b.bytes()))
              << count << " " << name_of(kernel) << " " << side_by_side << " " << threads;
        }
      }
    }
  }
}

TEST(Ceilings, EveryGatherSeesEveryPieceOnce) {
  const HugeBuffer buffer = lines(1000);
  for (const std::size_t piece_lines : {1U, 2U, 5U}) {
    Gather gather;
    gather.piece_bytes = piece_lines * 64;
    std::uint64_t expected = 0;
    for (std::size_t i = 0; i < 33; ++i) {
      gather.pieces.push_back(buffer.data() + (i * 37 % 190) * gather.piece_bytes);
      expected ^= words_of({gather.pieces.back(), gather.piece_bytes});
    }
    for (const GatherKernel kernel : kGatherKernels) {
      for (const int threads : {1, 2, 3}) {
        EXPECT_EQ(gather_all(gather, kernel, threads), expected) << name_of(kernel) << threads;
      }
    }
  }
}

TEST(Ceilings, EveryCopyCopies) {
  const HugeBuffer from = lines(333);
  for (const CopyKernel kernel : kCopyKernels) {
    for (const int threads : {1, 2}) {
      const HugeBuffer to(from.size());
      copy_all({to.data(), to.size()}, from.bytes(), kernel, threads);
      EXPECT_EQ(std::memcmp(to.data(), from.data(), from.size()), 0) << name_of(kernel);
    }
  }
}

TEST(Ceilings, EveryMultiplyCountsWhatItAdds) {
  for (const MultiplyKernel kernel : kMultiplyKernels) {
    if (!runs_here(kernel)) continue;
    for (const std::int64_t count : {1, 1000, 10'000'019}) {
      for (const int threads : {1, 2, 3}) {
        const double found = multiply_all(kernel, count, threads);
        EXPECT_GE(found, static_cast<double>(count)) << name_of(kernel) << threads;
        EXPECT_LT(found, static_cast<double>(count + 12 * 32)) << name_of(kernel) << threads;
      }
    }
  }
}

#if defined(__x86_64__)
/// An addition that waits for the one before takes one cycle. A loop of one addition may take two:
/// where its bytes lie decides how often a jump back is taken. Several additions of a constant may
/// take one: some processors add it up while they rename registers.
void wait_cycles(int count) {
  std::uint64_t sum = 0;
  const std::uint64_t step = 1;
  for (int i = 0; i < count; i += 64) {
    asm volatile(".rept 64\n add %1, %0\n .endr" : "+r"(sum) : "r"(step));
  }
}

/// [per cycle] products that one thread adds: the median of rounds, each with a clock of its own,
/// since the processor's pace changes from one millisecond to the next.
double products_per_cycle(MultiplyKernel kernel) {
  constexpr int kCycles = 64'000;
  constexpr std::int64_t kProducts = 4'000'000;
  std::vector<double> rounds;
  for (int round = 0; round < 301; ++round) {
    const double waited = timed([] { wait_cycles(kCycles); });
    const double multiplied = timed([&] { multiply_all(kernel, kProducts, 1); });
    rounds.push_back(kProducts * waited / (kCycles * multiplied));
  }
  std::ranges::nth_element(rounds, rounds.begin() + 150);
  return rounds[150];
}

// What a compiler leaves out, or does once for several sums, would be a rate that nothing reaches.
TEST(Ceilings, NoMultiplyIsFasterThanTheInstruction) {
  for (const auto& [kernel, products] :
       {std::pair{MultiplyKernel::avx2, 8}, std::pair{MultiplyKernel::avx512, 16},
        std::pair{MultiplyKernel::avx512_bf16, 32}}) {
    if (!runs_here(kernel)) continue;
    const double instructions = products_per_cycle(kernel) / products;
    EXPECT_LT(instructions, 2.2) << name_of(kernel);  // none starts more than 2 a cycle
    EXPECT_GT(instructions, 0.2) << name_of(kernel);
  }
}
#endif

TEST(Ceilings, TheLowerRateBinds) {
  const std::vector<double> read{10, 10, 4}, multiply{5, 20, 4}, kernel{20, 25, 8};
  EXPECT_EQ(ceilings(read, multiply), (std::vector<double>{10, 20, 4}));
  EXPECT_EQ(ratios(ceilings(read, multiply), kernel), (std::vector<double>{0.5, 0.8, 0.5}));
}

TEST(DecodeProblem, RejectsOutputsThatAreNotTheResult) {
  for (const LayoutOrder order : {LayoutOrder::hnd, LayoutOrder::nhd}) {
    const DecodeProblem problem({.order = order, .context = 96, .batch = 2}, 1);
    EXPECT_THROW(problem.check("cpu/general"), std::logic_error);  // zeros still
    const auto& paged = kernels::paged_decode()[1];
    const auto& contiguous = kernels::contiguous_decode()[1];
    ASSERT_EQ(paged.name, "cpu/general");
    ASSERT_EQ(contiguous.name, "cpu/general");
    ASSERT_FALSE(paged.launch(problem.paged(), {}));
    EXPECT_THROW(problem.check("cpu/general"), std::logic_error);  // of the contiguous kernel
    ASSERT_FALSE(contiguous.launch(problem.contiguous(), {}));
    EXPECT_NO_THROW(problem.check("cpu/general"));
  }
}

}  // namespace
}  // namespace kvproof::bench
