// SPDX-License-Identifier: Apache-2.0
// The executor that runs CUDA kernels on fibers: what it must compute, and what it must refuse.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/implementation.h"
#include "kernels/simt/cuda.h"
#include "kernels/simt/warp_matrix.h"
#include "properties/kernels/memory.h"
#include "reference/support/fiber.h"

namespace kvproof::properties {
namespace {

using kernels::Bf16;
using kernels::Dim3;
using kernels::Fp16;

constexpr kernels::Context kContext;

/// What a launch throws, or nothing.
template <class Kernel>
std::string error_of(Dim3 grid, Dim3 block, const Kernel& kernel) {
  try {
    KVPROOF_LAUNCH(kernel, grid, block, 0, kContext);
  } catch (const simt::KernelError& error) {
    return error.what();
  }
  return "";
}

std::string here(int line) { return "simt_test.cpp:" + std::to_string(line); }

// The launcher prints this line: with ucontext the kernel tests take several times as long.
TEST(Simt, SaysWhichFibersItRunsOn) {
  std::printf("fibers: %s\n", Fiber::kind());
  EXPECT_STREQ(Fiber::kind(), KVPROOF_FIBERS);
}

TEST(Simt, ReportsADivergentBarrierAndWhoWaitsWhere) {
  int low = 0, high = 0;
  const auto kernel = [&] {
    if (threadIdx.x < 32) {
      low = __LINE__ + 1;
      KVPROOF_BARRIER();
    } else {
      high = __LINE__ + 1;
      KVPROOF_BARRIER();
    }
  };
  const std::string error = error_of({1, 1, 1}, {64, 1, 1}, kernel);
  EXPECT_NE(error.find("divergent barrier"), std::string::npos) << error;
  EXPECT_NE(error.find("threads 0-31 at the barrier " + here(low)), std::string::npos) << error;
  EXPECT_NE(error.find(here(high)), std::string::npos) << error;
}

TEST(Simt, ReportsABarrierThatSomeNeverReach) {
  const auto kernel = [] {
    if (threadIdx.x >= 32) return;
    KVPROOF_BARRIER();
  };
  const std::string error = error_of({1, 1, 1}, {64, 1, 1}, kernel);
  EXPECT_NE(error.find("barrier never met"), std::string::npos) << error;
  EXPECT_NE(error.find("threads 32-63 ended"), std::string::npos) << error;
}

TEST(Simt, ReportsAWarpOperationOfPartOfAWarp) {
  const auto kernel = [] {
    if (threadIdx.x % 2 == 0) static_cast<void>(KVPROOF_BALLOT(true));
  };
  const std::string error = error_of({1, 1, 1}, {32, 1, 1}, kernel);
  EXPECT_NE(error.find("at the warp operation"), std::string::npos) << error;
}

TEST(Simt, LaunchesAgainAfterAnError) {
  EXPECT_NE(error_of({1, 1, 1}, {32, 1, 1}, [] { simt::fail("on purpose"); }), "");
  int ran = 0;
  EXPECT_EQ(error_of({2, 1, 1}, {32, 1, 1}, [&] { ++ran; }), "");
  EXPECT_EQ(ran, 64);
}

TEST(Simt, RefusesBadLaunches) {
  const auto nothing = [] {};
  for (const unsigned threads : {0U, 33U, 1056U}) {
    EXPECT_NE(error_of({1, 1, 1}, {threads, 1, 1}, nothing), "") << threads;
  }
  EXPECT_NE(error_of({0, 1, 1}, {32, 1, 1}, nothing), "");
  EXPECT_NE(error_of({1, 65536, 1}, {32, 1, 1}, nothing), "");
  EXPECT_NE(error_of({1, 1, 65536}, {32, 1, 1}, nothing), "");
}

TEST(Simt, NumbersThreadsAndBlocks) {
  std::set<std::array<unsigned, 6>> seen;
  const auto kernel = [&] {
    EXPECT_EQ(blockDim.y, 4U);
    EXPECT_EQ(gridDim.z, 2U);
    seen.insert({threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z});
  };
  EXPECT_EQ(error_of({3, 1, 2}, {8, 4, 2}, kernel), "");
  EXPECT_EQ(seen.size(), 6U * 64);
}

TEST(Simt, ShufflesAndBallots) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    simt::set_schedule({seed});
    const auto kernel = [] {
      const int lane = static_cast<int>(threadIdx.x) % 32,
                warp = static_cast<int>(threadIdx.x) / 32;
      EXPECT_EQ(KVPROOF_SHUFFLE(100 * warp + lane, 5), 100 * warp + 5);
      EXPECT_EQ(KVPROOF_SHUFFLE_XOR(100 * warp + lane, 3), 100 * warp + (lane ^ 3));
      EXPECT_EQ(KVPROOF_BALLOT(lane % 3 == 0), 0x49249249U);
      double sum = lane;
      for (int step = 16; step > 0; step /= 2) sum += KVPROOF_SHUFFLE_XOR(sum, step);
      EXPECT_EQ(sum, 496.0);
    };
    EXPECT_EQ(error_of({1, 1, 1}, {96, 1, 1}, kernel), "");
  }
  simt::set_schedule({});
}

TEST(Simt, SharesMemoryOfABlockAndOfNobodyElse) {
  int counted = 0;
  const auto kernel = [&] {
    KVPROOF_SHARED(int, counter, 2);
    KVPROOF_DYNAMIC_SHARED(float, row);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(row) % 128, 0U);
    if (threadIdx.x == 0) {
      EXPECT_EQ(counter[0], -1) << "what the block before left";
      EXPECT_NE(row[7], row[7]) << "shared memory is not initialised";
      counter[0] = 0;
    }
    row[threadIdx.x] = static_cast<float>(threadIdx.x);
    KVPROOF_BARRIER();
    kernels::atomic_add(&counter[0], static_cast<int>(row[63 - threadIdx.x]));
    KVPROOF_BARRIER();
    if (threadIdx.x == 63) counted += counter[0];
  };
  KVPROOF_LAUNCH(kernel, (Dim3{3, 1, 1}), (Dim3{64, 1, 1}), 64 * sizeof(float), kContext);
  EXPECT_EQ(counted, 3 * 2016);
}

/// Results of 32 schedules: the sum of what thread 0 reads, in another warp's place.
std::set<float> seen_without_barrier(bool barrier) {
  std::set<float> out;
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    simt::set_schedule({seed});
    float read = 0;
    const auto kernel = [&] {
      KVPROOF_SHARED(float, cells, 64);
      cells[threadIdx.x] = 1;
      if (barrier) KVPROOF_BARRIER();
      if (threadIdx.x == 0) read = cells[40] == 1 ? 1.0F : 0.0F;
    };
    KVPROOF_LAUNCH(kernel, (Dim3{1, 1, 1}), (Dim3{64, 1, 1}), 0, kContext);
    out.insert(read);
  }
  simt::set_schedule({});
  return out;
}

TEST(Simt, ShowsAMissingBarrierUnderSomeSchedule) {
  EXPECT_EQ(seen_without_barrier(true), std::set<float>{1});
  EXPECT_EQ(seen_without_barrier(false), (std::set<float>{0, 1}));
}

/// Whether all 32 schedules read what was copied.
bool copies_arrive(int groups_left) {
  alignas(16) const std::array<float, 4> from{1, 2, 3, 4};
  bool all = true;
  for (std::uint64_t seed = 1; seed <= 32; ++seed) {
    simt::set_schedule({seed});
    const auto kernel = [&] {
      KVPROOF_SHARED(kernels::Bytes16, cells, 32);
      kernels::copy_async16(&cells[threadIdx.x], from.data(), true);
      kernels::copy_async_commit();
      if (groups_left == 0) kernels::copy_async_wait<0>();
      if (groups_left == 1) kernels::copy_async_wait<1>();
      std::array<float, 4> read{};
      std::memcpy(read.data(), &cells[threadIdx.x], 16);
      all = all && read == from;
    };
    KVPROOF_LAUNCH(kernel, (Dim3{1, 1, 1}), (Dim3{32, 1, 1}), 0, kContext);
  }
  simt::set_schedule({});
  return all;
}

TEST(Simt, LandsCopiesAtTheirWaitAndUnderSomeScheduleNotBefore) {
  EXPECT_TRUE(copies_arrive(0));
  EXPECT_FALSE(copies_arrive(1)) << "the newest group is not awaited";
  EXPECT_FALSE(copies_arrive(2)) << "nothing is awaited";
}

TEST(Simt, CopiesZerosWhereNothingIsValidAndRefusesOddAddresses) {
  const auto zeros = [] {
    KVPROOF_SHARED(kernels::Bytes16, cells, 32);
    kernels::copy_async16(&cells[threadIdx.x], nullptr, false);
    kernels::copy_async_commit();
    kernels::copy_async_wait<0>();
    EXPECT_EQ(cells[threadIdx.x].words[3], 0U);
  };
  EXPECT_EQ(error_of({1, 1, 1}, {32, 1, 1}, zeros), "");
  alignas(16) std::array<char, 32> bytes{};
  const auto odd = [&] {
    KVPROOF_SHARED(kernels::Bytes16, cells, 32);
    kernels::copy_async16(&cells[threadIdx.x], bytes.data() + 2, true);
  };
  EXPECT_NE(error_of({1, 1, 1}, {32, 1, 1}, odd).find("no multiple of 16"), std::string::npos);
}

std::vector<unsigned> order_of(std::uint64_t seed) {
  simt::set_schedule({seed});
  std::vector<unsigned> order;
  const auto kernel = [&] { order.push_back(blockIdx.x * 128 + threadIdx.x); };
  KVPROOF_LAUNCH(kernel, (Dim3{3, 1, 1}), (Dim3{128, 1, 1}), 0, kContext);
  simt::set_schedule({});
  return order;
}

TEST(Simt, DrawsSchedulesThatDifferAndCanBeHadAgain) {
  std::set<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    orders.insert(order_of(seed));
    EXPECT_EQ(order_of(seed), order_of(seed));
  }
  EXPECT_GT(orders.size(), 5U);
}

/// c += a . b through shared memory, row-major a (16 x 16), b by columns (8 x 16).
template <class T>
void check_matrix_unit() {
  Random random(3);
  alignas(16) std::array<std::array<T, 16>, 16> a;
  alignas(16) std::array<std::array<T, 16>, 8> b;
  alignas(16) std::array<std::array<T, 8>, 16> b_by_rows;
  for (auto& row : a)
    for (T& x : row) x = kernels::from_float<T>(random.unit());
  for (std::size_t n = 0; n < 8; ++n) {
    for (std::size_t k = 0; k < 16; ++k) {
      b_by_rows[k][n] = b[n][k] = kernels::from_float<T>(random.unit());
    }
  }
  std::array<std::array<float, 8>, 16> c{};
  const auto kernel = [&] {
    const unsigned lane = threadIdx.x;
    std::uint32_t of_a[4], of_b[4], of_b_transposed[4];
    // Tiles of A: rows 0-7 and 8-15 of the left half, then of the right half.
    kernels::load_tiles(of_a, &a[lane % 16][lane / 16 * 8]);
    kernels::load_tiles(of_b, &b[lane % 8][lane / 8 % 2 * 8]);
    kernels::load_tiles_transposed(of_b_transposed, &b_by_rows[lane % 16][0]);
    const std::uint32_t two[2] = {of_b[0], of_b[1]};
    EXPECT_EQ(of_b[0], of_b_transposed[0]);
    EXPECT_EQ(of_b[1], of_b_transposed[1]);
    std::uint32_t turned[4];
    kernels::load_tiles_transposed(turned, &b[lane % 8][lane / 8 % 2 * 8]);
    EXPECT_EQ(kernels::transpose_tile(of_b[0]), turned[0]);
    float sums[4] = {1, 1, 1, 1};
    kernels::multiply_add<T>(sums, of_a, two);
    for (unsigned i = 0; i < 4; ++i) c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = sums[i];
  };
  EXPECT_EQ(error_of({1, 1, 1}, {32, 1, 1}, kernel), "");
  for (std::size_t m = 0; m < 16; ++m) {
    for (std::size_t n = 0; n < 8; ++n) {
      double expected = 1;
      for (std::size_t k = 0; k < 16; ++k) {
        expected += double{kernels::to_float(a[m][k])} * double{kernels::to_float(b[n][k])};
      }
      EXPECT_NEAR(c[m][n], expected, 1e-5) << m << ", " << n;
    }
  }
}

TEST(Simt, MultipliesAsTheMatrixUnitDoes) {
  check_matrix_unit<Bf16>();
  check_matrix_unit<Fp16>();
}

}  // namespace
}  // namespace kvproof::properties
