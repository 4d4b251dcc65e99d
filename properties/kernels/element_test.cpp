// SPDX-License-Identifier: Apache-2.0
// Element conversions against a search over all values of the type, in double.
#include "kernels/element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace kvproof::kernels {
namespace {

template <class T>
using Bits = decltype(T::bits);

/// Every finite value of a type with its bits, the positive ones, ascending.
template <class T>
std::vector<std::pair<double, std::uint32_t>> finite_values() {
  std::vector<std::pair<double, std::uint32_t>> out;
  for (std::uint32_t bits = 0; bits < (1u << (8 * sizeof(T) - 1)); ++bits) {
    const float value = to_float(T{static_cast<Bits<T>>(bits)});
    if (std::isfinite(value)) out.emplace_back(double{value}, bits);
  }
  return out;
}

/// What IEEE 754 rounding to nearest gives, ties to the even mantissa, by search.
/// @param saturates beyond the largest finite value lies that value again, else infinity
template <class T>
std::uint32_t nearest(const std::vector<std::pair<double, std::uint32_t>>& all, double x,
                      bool saturates) {
  const std::uint32_t sign = std::signbit(x) ? 1u << (8 * sizeof(T) - 1) : 0;
  const double magnitude = std::abs(x);
  const auto last = all.back();
  const double step = last.first - all[all.size() - 2].first;
  if (magnitude >= last.first + step / 2) {  // a tie goes to the even, which lies beyond
    return sign | (saturates ? last.second : last.second + 1);
  }
  if (magnitude >= last.first) return sign | last.second;
  const auto above =
      std::upper_bound(all.begin(), all.end(), magnitude,
                       [](double value, const auto& entry) { return value < entry.first; });
  const auto below = above - 1;
  const double down = magnitude - below->first, up = above->first - magnitude;
  const bool takes_below = down < up || (down == up && below->second % 2 == 0);
  return sign | (takes_below ? below : above)->second;
}

template <class T>
class ElementTest : public testing::Test {};
using Types = testing::Types<Fp16, Bf16, Fp8E4M3, Fp8E5M2>;
TYPED_TEST_SUITE(ElementTest, Types);

template <class T>
constexpr bool kSaturates = sizeof(T) == 1;
template <class T>
constexpr std::uint32_t kNan = sizeof(T) == 1 ? 0x7F : 0x7FFF;

TYPED_TEST(ElementTest, EveryPatternSurvivesTheWayThereAndBack) {
  for (std::uint32_t bits = 0; bits < (1u << (8 * sizeof(TypeParam))); ++bits) {
    const float value = to_float(TypeParam{static_cast<Bits<TypeParam>>(bits)});
    const std::uint32_t back = from_float<TypeParam>(value).bits;
    if (std::isnan(value)) {
      ASSERT_EQ(back, kNan<TypeParam>) << bits;
    } else if (std::isinf(value) && kSaturates<TypeParam>) {
      ASSERT_EQ(back, bits - 1) << "infinity becomes the largest finite value";
    } else {
      ASSERT_EQ(back, bits) << value;
    }
  }
}

TYPED_TEST(ElementTest, RoundsToTheNearestAsASearchFinds) {
  const auto all = finite_values<TypeParam>();
  const auto expect = [&](float x) {
    ASSERT_EQ(from_float<TypeParam>(x).bits, nearest<TypeParam>(all, x, kSaturates<TypeParam>))
        << x;
  };
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {  // every tie and its two neighbours
    const auto tie = static_cast<float>((all[i].first + all[i + 1].first) / 2);
    for (const float x : {tie, std::nextafter(tie, 0.0F), std::nextafter(tie, 1e38F)}) {
      expect(x);
      expect(-x);
    }
  }
  std::uint32_t state = 1;
  for (int i = 0; i < 200'000; ++i) {  // any float
    state = state * 1664525 + 1013904223;
    const float x = as_bits<float>(state ^ (state >> 15));
    if (std::isfinite(x)) expect(x);
  }
}

TYPED_TEST(ElementTest, BeyondTheLargestSaturatesInFp8AndIsInfiniteElsewhere) {
  const auto all = finite_values<TypeParam>();
  const std::uint32_t most = all.back().second, negative = 1u << (8 * sizeof(TypeParam) - 1);
  const std::uint32_t beyond = kSaturates<TypeParam> ? most : most + 1;
  for (const float x :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()}) {
    EXPECT_EQ(from_float<TypeParam>(x).bits, beyond);
    EXPECT_EQ(from_float<TypeParam>(-x).bits, beyond | negative);
  }
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::quiet_NaN()).bits, kNan<TypeParam>);
  EXPECT_EQ(from_float<TypeParam>(-std::numeric_limits<float>::quiet_NaN()).bits, kNan<TypeParam>);
  EXPECT_EQ(from_float<TypeParam>(-0.0F).bits, negative);
}

TEST(ElementTypes, LargestAndSmallestValuesAreThoseOfTheStandards) {
  EXPECT_EQ(finite_values<Fp8E4M3>().back().first, 448);
  EXPECT_EQ(finite_values<Fp8E5M2>().back().first, 57344);
  EXPECT_EQ(finite_values<Fp16>().back().first, 65504);
  EXPECT_EQ(finite_values<Fp8E4M3>()[1].first, 0x1p-9);
  EXPECT_EQ(finite_values<Fp8E5M2>()[1].first, 0x1p-16);
  EXPECT_EQ(finite_values<Fp16>()[1].first, 0x1p-24);
  EXPECT_EQ(finite_values<Fp8E4M3>().size(), 127U);
}

TEST(ElementTypes, TheSearchItselfRejectsTruncation) {
  const auto all = finite_values<Bf16>();
  const float x = 1.0F + 0x1p-8F + 0x1p-9F;  // nearer to the value above
  EXPECT_NE(nearest<Bf16>(all, x, false), as_bits<std::uint32_t>(x) >> 16);
}

}  // namespace
}  // namespace kvproof::kernels
