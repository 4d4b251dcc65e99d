// SPDX-License-Identifier: Apache-2.0
// The 16-lane kernels on plain arrays. Each operation computes what its AVX-512 twin in
// attention_cpu_avx512.cpp computes; VDPBF16PS keeps its order and flushes subnormals as there.
#include <cmath>

#define KVPROOF_ROLLED
#include "kernels/attention/attention_cpu_16_lanes.h"

namespace kvproof::kernels::cpu {
namespace {

struct Portable {
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 16;
  struct F {
    float lane[16];
  };
  struct Words {
    std::int16_t lane[32];
  };
  struct Packed {
    Bf16 lane[32];
  };
  struct Pair {
    F part[2];
  };

  template <class Op>
  static F each(Op op) {
    F out;
    for (int i = 0; i < kLanes; ++i) out.lane[i] = op(i);
    return out;
  }
  template <class Op>
  static Words each_word(Op op) {
    Words out;
    for (int i = 0; i < 32; ++i) out.lane[i] = static_cast<std::int16_t>(op(i));
    return out;
  }

  static F set(float x) {
    return each([&](int) { return x; });
  }
  static F load(const float* p) {
    return each([&](int i) { return p[i]; });
  }
  static F keep(const F& x) { return x; }
  static void store(float* p, const F& x) { __builtin_memcpy(p, x.lane, sizeof(x)); }
  static float first(const F& x) { return x.lane[0]; }
  static F add(const F& x, const F& y) {
    return each([&](int i) { return x.lane[i] + y.lane[i]; });
  }
  static F sub(const F& x, const F& y) {
    return each([&](int i) { return x.lane[i] - y.lane[i]; });
  }
  static F mul(const F& x, const F& y) {
    return each([&](int i) { return x.lane[i] * y.lane[i]; });
  }
  static F div(const F& x, const F& y) {
    return each([&](int i) { return x.lane[i] / y.lane[i]; });
  }
  static F max(const F& x, const F& y) {  // the second where either is a NaN, as VMAXPS
    return each([&](int i) { return x.lane[i] > y.lane[i] ? x.lane[i] : y.lane[i]; });
  }
  static F fma(const F& x, const F& y, const F& z) {
    return each([&](int i) { return std::fma(x.lane[i], y.lane[i], z.lane[i]); });
  }
  static F add_product(const F& sum, const F& x, const F& y) { return fma(x, y, sum); }
  static F low_bits_as_exponent(const F& x) {
    return each([&](int i) { return as_bits<float>(as_bits<std::uint32_t>(x.lane[i]) << 23); });
  }
  static bool any_less(const F& x, const F& y) {
    bool any = false;
    for (int i = 0; i < kLanes; ++i) any |= x.lane[i] < y.lane[i];
    return any;
  }
  static F if_less(const F& x, const F& y, const F& then, const F& otherwise) {
    return each([&](int i) { return x.lane[i] < y.lane[i] ? then.lane[i] : otherwise.lane[i]; });
  }

  /// The levels 0 and 1 move single lanes within 128 bits, 2 and 3 move 128 bits at once.
  template <int level>
  static Pair halves_of(const F& x, const F& y) {
    constexpr int kFrom[2][2][4] = {{{2, 3, 4, 5}, {0, 1, 6, 7}}, {{0, 2, 4, 6}, {1, 3, 5, 7}}};
    constexpr int kUnit = level < 2 ? 1 : 4;  // [lanes]; 4 to 7 in kFrom are y's
    Pair out;
    for (int half = 0; half < 2; ++half) {
      out.part[half] = each([&](int i) {
        const int from = kFrom[level % 2][half][i / kUnit % 4];
        return (from < 4 ? x : y).lane[i / (4 * kUnit) * 4 * kUnit + from % 4 * kUnit + i % kUnit];
      });
    }
    return out;
  }

  static Words load_words(const void* p) {
    Words out;
    __builtin_memcpy(out.lane, p, sizeof(out));
    return out;
  }
  static Words widen_bytes(const void* p) {
    return each_word([&](int i) { return static_cast<const std::uint8_t*>(p)[i]; });
  }
  template <int n>
  static Words shift_left(const Words& x) {
    return each_word([&](int i) { return static_cast<std::uint16_t>(x.lane[i]) << n; });
  }
  template <int n>
  static Words shift_right(const Words& x) {
    return each_word([&](int i) { return x.lane[i] >> n; });
  }
  static Words both(const Words& x, std::int16_t y) {
    return each_word([&](int i) { return x.lane[i] & y; });
  }
  static Words either(const Words& x, const Words& y) {
    return each_word([&](int i) { return x.lane[i] | y.lane[i]; });
  }
  static Words if_equal(const Words& x, std::int16_t y, std::int16_t then) {
    return each_word([&](int i) { return x.lane[i] == y ? then : 0; });
  }
  static Pair halves(const Words& x) {
    const auto at = [&](int i) { return to_float(Fp16{static_cast<std::uint16_t>(x.lane[i])}); };
    return {{each(at), each([&](int i) { return at(i + 16); })}};
  }

  static Packed load_packed(const Bf16* p) {
    Packed out;
    __builtin_memcpy(out.lane, p, sizeof(out));
    return out;
  }
  static Packed set_pair(const Bf16* p) {
    Packed out;
    for (int i = 0; i < 32; ++i) out.lane[i] = p[i % 2];
    return out;
  }
  static Packed interleave(const Packed& x, const Packed& y, int first) {
    Packed out;
    for (int i = 0; i < 32; ++i) {
      out.lane[i] = (i % 2 == 0 ? x : y).lane[i / 8 * 8 + first + i % 8 / 2];
    }
    return out;
  }
  static Packed low16(const Packed& x, const Packed& y) { return interleave(x, y, 0); }
  static Packed high16(const Packed& x, const Packed& y) { return interleave(x, y, 4); }
  struct PackedPair {
    Packed part[2];
  };
  template <class T>
  static PackedPair fp8_rows(const T* x, const T* y) {
    PackedPair out;
    for (int i = 0; i < 32; ++i) {
      out.part[0].lane[i] = from_float<Bf16>(to_float(x[i]));
      out.part[1].lane[i] = from_float<Bf16>(to_float(y[i]));
    }
    return out;
  }
  template <class T>
  static PackedPair fp8_pairs(const T* x, const T* y) {
    PackedPair out;
    for (int i = 0; i < 64; ++i) {
      out.part[i / 32].lane[i % 32] = from_float<Bf16>(to_float((i % 2 == 0 ? x : y)[i / 2]));
    }
    return out;
  }
  static float flushed(float x) {
    return std::abs(x) < 1.17549435e-38F ? std::copysign(0.0F, x) : x;
  }
  static F dot2(const F& sum, const Packed& x, const Packed& y) {
    return each([&](int i) {
      const auto product = [&](int at) {  // exact: two times 8 bits
        return flushed(to_float(x.lane[at])) * flushed(to_float(y.lane[at]));
      };
      const float odd = flushed(flushed(sum.lane[i]) + product(2 * i + 1));
      return flushed(odd + product(2 * i));
    });
  }
  static void store_bf16(Bf16* p, const F& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = from_float<Bf16>(flushed(x.lane[i]));
  }
};

constexpr FiveKernels kKernels = kernels_of_16_lanes<Portable>();
constexpr TwoKernels kFp8AsBf16Kernels = kernels_of_fp8_as_bf16<Portable>();

}  // namespace

const TileKernel* portable_tile_kernels() { return kKernels.rows; }
const TileKernel* portable_fp8_as_bf16_tile_kernels() { return kFp8AsBf16Kernels.rows; }

}  // namespace kvproof::kernels::cpu
