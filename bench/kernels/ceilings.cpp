// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/parallel.h"
#include "kernels/stream_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace kvproof::bench {
namespace {

constexpr std::size_t kLine = 64;              // [bytes]
constexpr std::size_t kHugePage = 2 << 20;     // [bytes]
constexpr std::size_t kBytesAhead = 64 << 10;  // of a gather
constexpr std::size_t kReadAhead = 4 << 10;    // of a sequential read

/// 32 bytes, or two registers of 16 on a processor without registers of 32; DRAM makes no
/// difference.
using Words = std::uint64_t __attribute__((vector_size(32), may_alias, aligned(32)));

/// Four sums, so that no addition waits for the one before.
struct Sums {
  Words lanes[4]{};

  void line(const std::byte* at, std::size_t which) {
    const auto* words = reinterpret_cast<const Words*>(at);
    lanes[2 * which] ^= words[0];
    lanes[2 * which + 1] ^= words[1];
  }
  [[nodiscard]] std::uint64_t all() const {
    const Words sum = lanes[0] ^ lanes[1] ^ lanes[2] ^ lanes[3];
    return sum[0] ^ sum[1] ^ sum[2] ^ sum[3];
  }
};

template <int locality>
void prefetch(const std::byte* at) {
  __builtin_prefetch(at, 0, locality);
}

template <ReadKernel kernel>
std::uint64_t read_part(const std::byte* const* parts, std::size_t num_parts, std::size_t bytes) {
  Sums sums;
  for (std::size_t at = 0; at + 2 * kLine <= bytes; at += 2 * kLine) {
    for (std::size_t i = 0; i < num_parts; ++i) {
      const std::byte* from = parts[i] + at;
      for (std::size_t line = 0; line < 2; ++line) {
        const std::byte* ahead = from + kReadAhead + line * kLine;  // past the end: harmless
        if constexpr (kernel == ReadKernel::prefetch_l1) prefetch<3>(ahead);
        if constexpr (kernel == ReadKernel::prefetch_l2) prefetch<2>(ahead);
        sums.line(from + line * kLine, line);
      }
    }
  }
  if (bytes % (2 * kLine) != 0) {
    for (std::size_t i = 0; i < num_parts; ++i) sums.line(parts[i] + bytes - kLine, 0);
  }
  return sums.all();
}

std::uint64_t read_with(ReadKernel kernel, const std::byte* const* parts, std::size_t num_parts,
                        std::size_t bytes) {
  switch (kernel) {
    case ReadKernel::plain: return read_part<ReadKernel::plain>(parts, num_parts, bytes);
    case ReadKernel::prefetch_l1:
      return read_part<ReadKernel::prefetch_l1>(parts, num_parts, bytes);
    default: return read_part<ReadKernel::prefetch_l2>(parts, num_parts, bytes);
  }
}

std::uint64_t gather_one(const std::byte* from, std::size_t bytes, const std::byte* ahead) {
  Sums sums;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    if (ahead != nullptr) prefetch<2>(ahead + at);
    sums.line(from + at, at / kLine % 2);
  }
  return sums.all();
}

std::uint64_t gather_two(const std::byte* a, const std::byte* b, std::size_t bytes,
                         const std::byte* ahead_a, const std::byte* ahead_b) {
  Sums sums;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    prefetch<2>(ahead_a + at);
    prefetch<2>(ahead_b + at);
    sums.line(a + at, 0);
    sums.line(b + at, 1);
  }
  return sums.all();
}

std::uint64_t gather_some(const Gather& gather, GatherKernel kernel, std::size_t begin,
                          std::size_t end) {
  const std::size_t bytes = gather.piece_bytes;
  const std::size_t distance = (kBytesAhead + bytes - 1) / bytes;
  const auto piece = [&](std::size_t i) { return gather.pieces[i < end ? i : end - 1]; };
  std::uint64_t sum = 0;
  std::size_t i = begin;
  if (kernel == GatherKernel::two_at_once) {
    for (; i + 2 <= end; i += 2) {
      sum ^=
          gather_two(piece(i), piece(i + 1), bytes, piece(i + distance), piece(i + distance + 1));
    }
  }
  for (; i < end; ++i) {
    const bool ahead = kernel != GatherKernel::plain;
    sum ^= gather_one(piece(i), bytes, ahead ? piece(i + distance) : nullptr);
  }
  return sum;
}

void copy_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(Words)) {
    *reinterpret_cast<Words*>(to + at) = *reinterpret_cast<const Words*>(from + at);
  }
}

/// Stores that do not first read the line they replace.
void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  for (std::size_t at = 0; at < bytes; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
  _mm_sfence();
#else
  copy_lines(to, from, bytes);
#endif
}

constexpr int kSums = 12;  // as many as a latency of 4 to 6 cycles needs, and 16 registers have

// Zeros and ones below are numbers that the compiler does not know: it would count once for all.

/// The sum of all lanes of kSums vectors.
template <class Vector>
double total(const Vector* sums) {
  float lanes[kSums * sizeof(Vector) / sizeof(float)];
  std::memcpy(lanes, sums, sizeof(lanes));
  double out = 0;
  for (const float lane : lanes) out += double{lane};
  return out;
}

double multiply_plain(std::int64_t times) {
  float sums[kSums] = {};
  float one = 1;
  for (float& sum : sums) asm("" : "+m"(sum));
  asm("" : "+m"(one));
  for (std::int64_t i = 0; i < times; ++i) {
#pragma GCC unroll 16
    for (float& sum : sums) sum += one * one;
  }
  return total(sums);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double multiply_avx2(std::int64_t times) {
  __m256 sums[kSums] = {};
  for (__m256& sum : sums) asm("" : "+m"(sum));
  __m256 one = _mm256_set1_ps(1);
  asm("" : "+x"(one));
  for (std::int64_t i = 0; i < times; ++i) {
#pragma GCC unroll 16
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(one, one, sum);
  }
  return total(sums);
}

__attribute__((target("avx512f"))) double multiply_avx512(std::int64_t times) {
  __m512 sums[kSums] = {};
  for (__m512& sum : sums) asm("" : "+m"(sum));
  __m512 one = _mm512_set1_ps(1);
  asm("" : "+v"(one));
  for (std::int64_t i = 0; i < times; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(one, one, sum);
  }
  return total(sums);
}

__attribute__((target("avx512f,avx512bf16"))) double multiply_avx512_bf16(std::int64_t times) {
  __m512 sums[kSums] = {};
  for (__m512& sum : sums) asm("" : "+m"(sum));
  __m512i one = _mm512_set1_epi32(0x3F803F80);  // twice 1
  asm("" : "+v"(one));
  for (std::int64_t i = 0; i < times; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, (__m512bh)one, (__m512bh)one);
  }
  return total(sums);
}
#endif

/// How often one pass over the sums multiplies and adds.
std::int64_t multiplies_at_once(MultiplyKernel kernel) {
  constexpr int kLanes[] = {1, 8, 16, 32};
  return std::int64_t{kSums} * kLanes[static_cast<int>(kernel)];
}

double multiply_some(MultiplyKernel kernel, std::int64_t times) {
  switch (kernel) {
#if defined(__x86_64__)
    case MultiplyKernel::avx2: return multiply_avx2(times);
    case MultiplyKernel::avx512: return multiply_avx512(times);
    case MultiplyKernel::avx512_bf16: return multiply_avx512_bf16(times);
#endif
    default: return multiply_plain(times);
  }
}

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes) : bytes_(bytes) {
  const std::size_t whole = (bytes / kHugePage + 1) * kHugePage;
  void* memory = std::aligned_alloc(kHugePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
  madvise(memory, whole, MADV_HUGEPAGE);  // may be refused; the result file then says so
  std::memset(memory, 0, whole);
  data_ = static_cast<std::byte*>(memory);
}

HugeBuffer::~HugeBuffer() { std::free(data_); }

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

double now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::nano>(now).count();
}

const char* name_of(ReadKernel kernel) {
  constexpr const char* kNames[] = {"plain", "prefetch_l1", "prefetch_l2"};
  return kNames[static_cast<int>(kernel)];
}
const char* name_of(CopyKernel kernel) {
  constexpr const char* kNames[] = {"plain", "library", "streaming", "streaming_ahead"};
  return kNames[static_cast<int>(kernel)];
}
const char* name_of(GatherKernel kernel) {
  constexpr const char* kNames[] = {"plain", "prefetch_l2", "two_at_once"};
  return kNames[static_cast<int>(kernel)];
}

const char* name_of(MultiplyKernel kernel) {
  constexpr const char* kNames[] = {"plain", "avx2", "avx512", "avx512_bf16"};
  return kNames[static_cast<int>(kernel)];
}

bool runs_here(MultiplyKernel kernel) {
  switch (kernel) {
#if defined(__x86_64__)
    case MultiplyKernel::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case MultiplyKernel::avx512: return __builtin_cpu_supports("avx512f");
    case MultiplyKernel::avx512_bf16:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
#endif
    default: return kernel == MultiplyKernel::plain;
  }
}

double multiply_all(MultiplyKernel kernel, std::int64_t count, int num_threads) {
  constexpr std::int64_t kExact = 1 << 20;  // times that a float counts without rounding
  const std::int64_t at_once = multiplies_at_once(kernel);
  std::mutex mutex;
  double sum = 0;
  kernels::for_each_share(num_threads, (count + at_once - 1) / at_once, [&](auto begin, auto end) {
    double part = 0;
    for (std::int64_t at = begin; at < end; at += kExact) {
      part += multiply_some(kernel, std::min(kExact, end - at));
    }
    const std::lock_guard lock(mutex);
    sum += part;
  });
  return sum;
}

std::uint64_t read_all(std::span<const std::span<const std::byte>> parts, bool side_by_side,
                       ReadKernel kernel, int num_threads) {
  std::atomic<std::uint64_t> sum = 0;
  const std::size_t lines = parts[0].size() / kLine;
  kernels::for_each_share(num_threads, static_cast<std::int64_t>(lines), [&](auto begin, auto end) {
    std::vector<const std::byte*> from;
    for (const auto& part : parts)
      from.push_back(part.data() + static_cast<std::size_t>(begin) * kLine);
    const std::size_t bytes = static_cast<std::size_t>(end - begin) * kLine;
    if (side_by_side) {
      sum ^= read_with(kernel, from.data(), from.size(), bytes);
      return;
    }
    for (const std::byte* const& part : from) sum ^= read_with(kernel, &part, 1, bytes);
  });
  return sum;
}

void copy_all(std::span<std::byte> to, std::span<const std::byte> from, CopyKernel kernel,
              int num_threads) {
  kernels::for_each_share(
      num_threads, static_cast<std::int64_t>(from.size() / kLine), [&](auto begin, auto end) {
        const std::size_t at = static_cast<std::size_t>(begin) * kLine;
        const std::size_t bytes = static_cast<std::size_t>(end - begin) * kLine;
        switch (kernel) {
          case CopyKernel::plain: return copy_lines(to.data() + at, from.data() + at, bytes);
          case CopyKernel::library: std::memcpy(to.data() + at, from.data() + at, bytes); return;
          case CopyKernel::streaming: return stream_lines(to.data() + at, from.data() + at, bytes);
          default:  // past the end: harmless
            kernels::stream_bytes(to.data() + at, from.data() + at,
                                  static_cast<std::int64_t>(bytes), from.data() + at + kReadAhead);
            kernels::end_stream();
        }
      });
}

std::uint64_t gather_all(const Gather& gather, GatherKernel kernel, int num_threads) {
  std::atomic<std::uint64_t> sum = 0;
  kernels::for_each_share(num_threads, static_cast<std::int64_t>(gather.pieces.size()),
                          [&](auto begin, auto end) {
                            sum ^= gather_some(gather, kernel, static_cast<std::size_t>(begin),
                                               static_cast<std::size_t>(end));
                          });
  return sum;
}

}  // namespace kvproof::bench
