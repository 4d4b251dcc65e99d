// SPDX-License-Identifier: Apache-2.0
// The fast CPU attention in AVX2, FMA and F16C.
#include "kernels/attention/attention_cpu_tile.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

#include "kernels/attention/attention_cpu_see.h"

namespace kvproof::kernels::cpu {
namespace {

struct Avx2 {
  using F = __m256;
  using Words = __m256i;  // 16 times 16 bits
  static constexpr int kLanes = 8;
  static constexpr int kAccumulators = 8;  // 2 a cycle, 4 cycles each; 16 registers in all
  struct Pair {
    F part[2];
  };

  static F set(float x) { return _mm256_set1_ps(x); }
  static F load(const float* p) { return _mm256_loadu_ps(p); }
  /// Keeps a value in a register: it is used more than once, and g++ would load it each time.
  static F keep(F x) {
    asm("" : "+x"(x));
    return x;
  }
  static void store(float* p, F x) { _mm256_storeu_ps(p, x); }
  static float first(F x) { return _mm256_cvtss_f32(x); }
  static F add(F x, F y) { return _mm256_add_ps(x, y); }
  static F sub(F x, F y) { return _mm256_sub_ps(x, y); }
  static F mul(F x, F y) { return _mm256_mul_ps(x, y); }
  static F div(F x, F y) { return _mm256_div_ps(x, y); }
  static F max(F x, F y) { return _mm256_max_ps(x, y); }
  static F fma(F x, F y, F z) { return _mm256_fmadd_ps(x, y, z); }
  /// sum += x * y in sum's register: g++ takes another one, and runs out of them.
  static F add_product(F sum, F x, F y) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
    return sum;
  }
  static F low_bits_as_exponent(F x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 23));
  }
  static bool any_less(F x, F y) {
    return _mm256_movemask_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ)) != 0;
  }
  static F if_less(F x, F y, F then, F otherwise) {
    return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
  }
  template <int level>  // for fold(); one of two is a blend where it can be, more units do those
  static Pair halves_of(F x, F y) {
    if constexpr (level == 0) return {{_mm256_shuffle_ps(x, y, 0x4E), _mm256_blend_ps(x, y, 0xCC)}};
    if constexpr (level == 1) {
      return {{_mm256_shuffle_ps(x, y, 0x88), _mm256_shuffle_ps(x, y, 0xDD)}};
    }
    return {{_mm256_permute2f128_ps(x, y, 0x21), _mm256_blend_ps(x, y, 0xF0)}};
  }

  static Words load_words(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  static Words widen_bytes(const void* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  template <int n>
  static Words shift_left(Words x) {
    return _mm256_slli_epi16(x, n);
  }
  template <int n>
  static Words shift_right(Words x) {  // copies of the sign come in
    return _mm256_srai_epi16(x, n);
  }
  static Words both(Words x, std::int16_t y) { return _mm256_and_si256(x, _mm256_set1_epi16(y)); }
  static Words either(Words x, Words y) { return _mm256_or_si256(x, y); }
  static Words if_equal(Words x, std::int16_t y, std::int16_t then) {  // else 0
    return both(_mm256_cmpeq_epi16(x, _mm256_set1_epi16(y)), then);
  }
  static Pair halves(Words x) {  // fp16 to float
    return {{_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
             _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))}};
  }
  static Pair even_odd(Words x) {  // bf16 to float: even places, odd places
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)),
             _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-65536)))}};
  }
};

template <class T>
constexpr TileKernel kernel_of(const std::uint8_t* order, float unit = 1) {
  using V = WithLoads<Avx2>;
  return tile_kernel<V, T, FloatPath<V, T>>(order, order, unit);
}

constexpr std::uint8_t kInOrder[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr std::uint8_t kEvenOdd[] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
constexpr TileKernel kKernels[] = {kernel_of<float>(kInOrder), kernel_of<Fp16>(kInOrder),
                                   kernel_of<Bf16>(kEvenOdd), kernel_of<Fp8E4M3>(kInOrder, 256),
                                   kernel_of<Fp8E5M2>(kInOrder)};

}  // namespace

const TileKernel* avx2_tile_kernels() { return kKernels; }

}  // namespace kvproof::kernels::cpu
#else
const kvproof::kernels::cpu::TileKernel* kvproof::kernels::cpu::avx2_tile_kernels() {
  return nullptr;
}
#endif
