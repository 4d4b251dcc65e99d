// SPDX-License-Identifier: Apache-2.0
// Tests of what the kernel measurements are held against, and of their check of the outputs.
#include "bench/kernels/ceilings.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "bench/kernels/decode_problem.h"

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
