// SPDX-License-Identifier: Apache-2.0
// Descriptors and maps of tensors, decoded. See matrix_layout.h.
#include "kernels/simt/matrix_layout.h"

#include <algorithm>

#include "kernels/simt/runtime.h"

namespace kvproof::simt {
namespace {

using kernels::Major;
using kernels::Refusal;
using kernels::Swizzle;
using kernels::TensorMap;
using kernels::TensorShape;

constexpr std::uint32_t kChunk = 16;                       // [bytes] what a swizzle moves
constexpr std::uint64_t kEncoded = 0x4B56'4D41'5000'0000;  // the upper half of a map's last word
constexpr std::uint64_t kMostShared = 227 * 1024;          // [bytes] of a block on Hopper

/// The bytes of a row, after which the next begins; a swizzle permutes chunks within it.
constexpr std::uint32_t width_of(Swizzle swizzle) {
  constexpr std::uint32_t kWidths[] = {16, 128, 64, 32};
  return kWidths[static_cast<int>(swizzle)];
}

/// Permutes bits 4 to 6 of an address by its bits 7 to 9, less the base offset.
constexpr std::uint32_t permuted(std::uint32_t address, Swizzle swizzle, std::uint32_t base) {
  const std::uint32_t mask = width_of(swizzle) / kChunk - 1;
  return address ^ ((address / 128 - base) & mask) * kChunk;
}

constexpr std::uint32_t bits_of(std::uint64_t word, int first, int count) {
  return static_cast<std::uint32_t>(word >> first & ((std::uint64_t{1} << count) - 1));
}

const char* refused(const TensorShape& shape) {
  const auto row = std::uint64_t{shape.box[0]} * static_cast<unsigned>(shape.element_bytes);
  std::uint64_t bytes = static_cast<unsigned>(shape.element_bytes);
  if (shape.rank < 3 || shape.rank > 5)
    return "a tensor map of less than 3 or more than 5 dimensions";
  if (shape.element_bytes != 1 && shape.element_bytes != 2) return "elements of 1 or 2 bytes only";
  if (shape.data == nullptr || reinterpret_cast<std::uintptr_t>(shape.data) % 16 != 0) {
    return "a tensor that does not begin at a multiple of 16 bytes";
  }
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.sizes[i] < 1 || shape.sizes[i] > std::uint64_t{1} << 32)
      return "a size not in 1 to 2^32";
    if (shape.box[i] < 1 || shape.box[i] > 256) return "a box not of 1 to 256 elements";
    bytes *= shape.box[i];
  }
  for (int i = 0; i + 1 < shape.rank; ++i) {
    if (shape.strides[i] % 16 != 0 || shape.strides[i] >= std::uint64_t{1} << 40) {
      return "a stride that is no multiple of 16 bytes below 2^40";
    }
  }
  if (row % kChunk != 0) return "a box whose rows are no multiple of 16 bytes";
  if (shape.swizzle != Swizzle::none && row > width_of(shape.swizzle)) {
    return "a box whose rows are longer than the swizzle's";
  }
  return bytes > kMostShared ? "a box larger than shared memory" : nullptr;
}

/// Words: 0 data, 1 to 5 sizes, 6 to 9 strides, 10 box (a byte each, less 1), 15 the mark, and
/// behind it rank, bytes of an element, swizzle.
TensorShape decoded(const TensorMap& map) {
  const auto& w = map.words;
  if (w[15] >> 32 != kEncoded >> 32) throw KernelError("a tensor map that was not encoded");
  TensorShape shape;
  shape.rank = static_cast<int>(bits_of(w[15], 0, 8));
  shape.element_bytes = static_cast<int>(bits_of(w[15], 8, 8));
  shape.swizzle = static_cast<Swizzle>(bits_of(w[15], 16, 8));
  shape.data = reinterpret_cast<const void*>(w[0]);
  for (int i = 0; i < shape.rank; ++i) {
    shape.sizes[i] = w[1 + i];
    shape.box[i] = bits_of(w[10], 8 * i, 8) + 1;
    if (i > 0) shape.strides[i - 1] = w[5 + i];
  }
  return shape;
}

/// The row of a box whose outer coordinates are given.
struct Row {
  const std::byte* global;  // its element 0 of the tensor; null: the whole row lies outside
  std::uint32_t shared;     // not yet permuted
};

/// Appends the pieces of a row whose first element has this innermost coordinate.
void append_row(const TensorShape& shape, Row row, std::int64_t first, std::vector<BoxPiece>& to) {
  const std::int64_t bytes = shape.element_bytes;
  const std::int64_t end = std::int64_t{shape.box[0]} * bytes;
  // The bytes of the row that lie inside the tensor.
  const std::int64_t size = static_cast<std::int64_t>(shape.sizes[0]);
  const std::int64_t begins = row.global ? std::clamp(-first * bytes, std::int64_t{0}, end) : end;
  const std::int64_t ends = row.global ? std::clamp((size - first) * bytes, begins, end) : end;
  for (std::int64_t chunk = 0; chunk < end; chunk += kChunk) {
    const std::uint32_t shared =
        permuted(row.shared + static_cast<std::uint32_t>(chunk), shape.swizzle, 0);
    const std::int64_t cuts[] = {chunk, std::clamp(begins, chunk, chunk + kChunk),
                                 std::clamp(ends, chunk, chunk + kChunk), chunk + kChunk};
    for (int part = 0; part < 3; ++part) {
      if (cuts[part] == cuts[part + 1]) continue;
      const std::byte* const from = part == 1 ? row.global + (first * bytes + cuts[part]) : nullptr;
      to.push_back({shared + static_cast<std::uint32_t>(cuts[part] - chunk), from,
                    static_cast<std::uint32_t>(cuts[part + 1] - cuts[part])});
    }
  }
}

}  // namespace

std::uint32_t matrix_element_at(std::uint64_t descriptor, Major major, int mn, int k,
                                int element_bytes) {
  const std::uint32_t start = bits_of(descriptor, 0, 14) * 16;
  const std::uint32_t leading = bits_of(descriptor, 16, 14) * 16;
  const std::uint32_t stride = bits_of(descriptor, 32, 14) * 16;
  const std::uint32_t base = bits_of(descriptor, 49, 3);
  const auto swizzle = static_cast<Swizzle>(bits_of(descriptor, 62, 2));
  const bool plain = swizzle == Swizzle::none;
  const std::uint32_t width = width_of(swizzle);
  // Chunks of 16 bytes lie along `inner`, eight of them behind each other along `outer`.
  const auto inner = static_cast<std::uint32_t>(major == Major::k ? k : mn) *
                     static_cast<std::uint32_t>(element_bytes);
  const auto outer = static_cast<std::uint32_t>(major == Major::k ? mn : k);
  const std::uint32_t chunk = inner / kChunk, chunks = width / kChunk;
  std::uint32_t at = start + outer % 8 * width + inner % kChunk;
  if (major == Major::k) {
    at += outer / 8 * stride + chunk * (plain ? leading : kChunk);
  } else if (plain) {
    at += outer / 8 * leading + chunk * stride;
  } else {
    at += outer / 8 * stride + chunk % chunks * kChunk + chunk / chunks * leading;
  }
  return permuted(at, swizzle, base);
}

std::vector<BoxPiece> box_pieces(const TensorMap& map, const std::int32_t* at,
                                 std::uint32_t shared_start) {
  const TensorShape shape = decoded(map);
  const std::uint32_t row_bytes = shape.box[0] * static_cast<std::uint32_t>(shape.element_bytes);
  if (shared_start % kChunk != 0) throw KernelError("a box that begins at no multiple of 16 bytes");
  if (shape.swizzle != Swizzle::none && row_bytes != width_of(shape.swizzle)) {
    throw KernelError("a box whose rows are shorter than the swizzle's: nobody has measured it");
  }
  const std::uint32_t rows = box_bytes(map) / row_bytes;
  std::vector<BoxPiece> out;
  out.reserve(std::size_t{rows} * (row_bytes / kChunk));
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::uint32_t rest = row;
    bool inside = true;
    std::int64_t behind = 0;  // [bytes] of the row's element 0 behind the tensor's
    for (int i = 1; i < shape.rank; ++i) {
      const std::int64_t index = std::int64_t{at[i]} + rest % shape.box[i];
      rest /= shape.box[i];
      inside = inside && index >= 0 && index < static_cast<std::int64_t>(shape.sizes[i]);
      if (inside) behind += index * static_cast<std::int64_t>(shape.strides[i - 1]);
    }
    const auto* const data = static_cast<const std::byte*>(shape.data);
    append_row(shape, {inside ? data + behind : nullptr, shared_start + row * row_bytes}, at[0],
               out);
  }
  return out;
}

std::uint32_t box_bytes(const TensorMap& map) {
  const TensorShape shape = decoded(map);
  auto bytes = static_cast<std::uint32_t>(shape.element_bytes);
  for (int i = 0; i < shape.rank; ++i) bytes *= shape.box[i];
  return bytes;
}

Refusal encode(const TensorShape& shape, TensorMap& out) {
  if (const char* const reason = refused(shape)) return {reason};
  TensorMap map;
  map.words[0] = reinterpret_cast<std::uintptr_t>(shape.data);
  for (int i = 0; i < shape.rank; ++i) {
    map.words[1 + i] = shape.sizes[i];
    map.words[10] |= std::uint64_t{shape.box[i] - 1} << (8 * i);
    if (i > 0) map.words[5 + i] = shape.strides[i - 1];
  }
  map.words[15] = kEncoded | static_cast<std::uint64_t>(shape.swizzle) << 16 |
                  static_cast<std::uint64_t>(shape.element_bytes) << 8 |
                  static_cast<std::uint64_t>(shape.rank);
  out = map;
  return {};
}

}  // namespace kvproof::simt
