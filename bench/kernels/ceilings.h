// SPDX-License-Identifier: Apache-2.0
// The ceilings of this machine: the fastest read, copy and gather of the bytes that a kernel moves,
// in the same pages, and the multiply-adds that it does, in registers; on as many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvproof::bench {

/// Memory in huge pages if the system has them, with every page touched.
class HugeBuffer {
 public:
  /// Throws std::bad_alloc.
  explicit HugeBuffer(std::size_t bytes);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// [ns] of the monotonic clock.
[[nodiscard]] double now_ns();

/// Ways to read a span of whole cache lines from its beginning to its end.
enum class ReadKernel : std::uint8_t { plain, prefetch_l1, prefetch_l2 };
inline constexpr ReadKernel kReadKernels[] = {ReadKernel::plain, ReadKernel::prefetch_l1,
                                              ReadKernel::prefetch_l2};
[[nodiscard]] const char* name_of(ReadKernel kernel);

/// Reads all parts, each cut among the threads, all at once if side_by_side (as many streams as
/// parts) or one after the other. @return the exclusive or of their words
std::uint64_t read_all(std::span<const std::span<const std::byte>> parts, bool side_by_side,
                       ReadKernel kernel, int num_threads);

enum class CopyKernel : std::uint8_t { plain, library, streaming, streaming_ahead };
inline constexpr CopyKernel kCopyKernels[] = {CopyKernel::plain, CopyKernel::library,
                                              CopyKernel::streaming, CopyKernel::streaming_ahead};
[[nodiscard]] const char* name_of(CopyKernel kernel);

/// @pre both of one size, a multiple of 64 bytes, cache line aligned
void copy_all(std::span<std::byte> to, std::span<const std::byte> from, CopyKernel kernel,
              int num_threads);

/// Pieces of equal size that lie anywhere: the addresses that a paged kernel reads, in its order.
struct Gather {
  std::vector<const std::byte*> pieces;
  std::size_t piece_bytes = 0;  // whole cache lines
};
enum class GatherKernel : std::uint8_t { plain, prefetch_l2, two_at_once };
inline constexpr GatherKernel kGatherKernels[] = {GatherKernel::plain, GatherKernel::prefetch_l2,
                                                  GatherKernel::two_at_once};
[[nodiscard]] const char* name_of(GatherKernel kernel);

std::uint64_t gather_all(const Gather& gather, GatherKernel kernel, int num_threads);

/// Instructions that multiply and add; the last one is of pairs of bf16.
enum class MultiplyKernel : std::uint8_t { plain, avx2, avx512, avx512_bf16 };
inline constexpr MultiplyKernel kMultiplyKernels[] = {MultiplyKernel::plain, MultiplyKernel::avx2,
                                                      MultiplyKernel::avx512,
                                                      MultiplyKernel::avx512_bf16};
[[nodiscard]] const char* name_of(MultiplyKernel kernel);
[[nodiscard]] bool runs_here(MultiplyKernel kernel);

/// Adds 1 * 1 to sums that do not wait for each other, at least `count` times on each thread's
/// share. @pre runs_here(kernel) @return the sum: how many times
double multiply_all(MultiplyKernel kernel, std::int64_t count, int num_threads);

}  // namespace kvproof::bench
