// SPDX-License-Identifier: Apache-2.0
// Where fibers put bytes for Hopper's asynchronous units, held to what an H100 did with them.
//
// Model:   golden/hopper.tsv.zst has what a program on the device measured: for 244 matrix
//          descriptors, the sums that a product had when each element of memory alone was set; for
//          115 boxes, every byte of the memory around them. Each comes as a checksum over all of
//          it, and a few bytes in full, for a failure that one can read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/element.h"
#include "kernels/simt/hopper.h"
#include "kernels/simt/matrix_layout.h"
#include "reference/support/line_reader.h"

namespace kvproof::properties {
namespace {

using kernels::Major;
using kernels::Swizzle;
using simt::BoxPiece;

using Words = std::vector<std::string>;

Words split(std::string_view text, char at) {
  Words out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

/// The rows of a table that was measured.
const std::vector<Words>& table(const std::string& name) {
  static const auto kTables = [] {
    std::map<std::string, std::vector<Words>> tables;
    std::vector<Words>* rows = nullptr;
    LineReader lines(KVPROOF_SOURCE_DIR "/properties/kernels/golden/hopper.tsv.zst");
    for (std::string_view line; lines.next(line);) {
      if (line.starts_with("#")) continue;
      const Words words = split(line, '\t');
      if (words[0] == "table") {
        rows = &tables[words[1]];
      } else {
        rows->push_back(words);
      }
    }
    return tables;
  }();
  return kTables.at(name);
}

Swizzle swizzle_of(const std::string& bytes) {
  const std::map<std::string, Swizzle> named{{"none", Swizzle::none},
                                             {"32", Swizzle::bytes32},
                                             {"64", Swizzle::bytes64},
                                             {"128", Swizzle::bytes128}};
  return named.at(bytes);
}

/// Bits 4 to 6 of an address permuted by its bits 7 to 9; twice is not at all.
std::uint32_t permuted(std::uint32_t address, Swizzle swizzle, std::uint32_t base = 0) {
  constexpr std::uint32_t kMasks[] = {0, 7, 3, 1};
  return address ^ ((address / 128 - base) & kMasks[static_cast<int>(swizzle)]) << 4;
}

// ---- matrix descriptors -------------------------------------------------------------------------

/// A descriptor that was measured.
struct Tile {
  bool is_a = false;  // else B
  int element_bytes = 2;
  int n = 0;  // columns of the product
  Major major = Major::k;
  Swizzle swizzle = Swizzle::none;
  std::uint32_t start = 0, leading = 0, stride = 0, base = 0;
  std::string checksum;

  [[nodiscard]] int ks() const { return 32 / element_bytes; }
  [[nodiscard]] std::uint64_t bits() const {
    return kernels::matrix_at(kernels::matrix_layout(leading, stride, swizzle), start).bits |
           std::uint64_t{base} << 49;
  }
};
using AddressOf = std::function<std::uint32_t(const Tile&, int mn, int k)>;

std::uint32_t decoded(const Tile& t, int mn, int k) {
  return simt::matrix_element_at(t.bits(), t.major, mn, k, t.element_bytes);
}

std::vector<Tile> tiles() {
  std::vector<Tile> out;
  for (const Words& w : table("tiles")) {
    const auto number = [&](std::size_t i) { return static_cast<std::uint32_t>(std::stoi(w[i])); };
    out.push_back({w[0] == "A", w[1] == "e4m3" ? 1 : 2, std::stoi(w[2]),
                   w[3] == "mn" ? Major::mn : Major::k, swizzle_of(w[4]), number(5), number(6),
                   number(7), number(8), w[9]});
  }
  return out;
}

/// What sum number `index` adds to the checksum of a product's sums.
std::uint64_t mixed(std::uint64_t index, std::uint32_t sum) {
  std::uint64_t h = (index + 1) * 0x9E3779B97F4A7C15 ^ std::uint64_t{sum + 1} * 0xC2B2AE3D27D4EB4F;
  h ^= h >> 29;
  return h * 0xBF58476D1CE4E5B9;
}

/// How many sums all products of a tile have.
std::uint64_t count_of(const Tile& t) {
  const int products = t.is_a ? 32768 / t.element_bytes : 64 * t.ks();
  return static_cast<std::uint64_t>(products) * 64 * static_cast<unsigned>(t.n);
}

/// The checksum of so many sums that are all 0. @param count that of a tile
std::uint64_t zeros(std::uint64_t count) {
  static const auto kSums = [] {
    std::map<std::uint64_t, std::uint64_t> sums;
    for (const Tile& t : tiles()) sums[count_of(t)] = 0;
    std::uint64_t sum = 0, i = 0;
    for (auto& [end, sum_here] : sums) {
      for (; i < end; ++i) sum += mixed(i, 0);
      sum_here = sum;
    }
    return sums;
  }();
  return kSums.at(count);
}

std::string hexadecimal(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

/// The checksum of all sums of all products in which one element of A is 1 and each of B is its
/// place in memory, from 1. If A is under test it lies in 32 KiB, each element of which is set
/// once; else it is in registers: thread by thread, word by word, part by part.
std::string sums_of(const Tile& t, const AddressOf& address) {
  Tile plain;
  plain.element_bytes = t.element_bytes, plain.leading = 128, plain.stride = 256;
  const int ks = t.ks(), parts = 4 / t.element_bytes;
  const auto eb = static_cast<std::uint32_t>(t.element_bytes);
  std::vector<std::vector<std::uint32_t>> b(static_cast<std::size_t>(ks));
  for (int k = 0; k < ks; ++k) {
    for (int column = 0; column < t.n; ++column) {
      const std::uint32_t at = t.is_a ? decoded(plain, column, k) : address(t, column, k);
      b[static_cast<std::size_t>(k)].push_back(at / eb + 1);
    }
  }
  std::uint64_t sum = zeros(count_of(t));
  const auto set = [&](std::uint32_t element, int row, int k) {  // of A
    std::uint64_t index =
        (std::uint64_t{element} * 64 + static_cast<unsigned>(row)) * static_cast<unsigned>(t.n);
    for (const std::uint32_t of_b : b[static_cast<std::size_t>(k)]) {
      sum += mixed(index, of_b) - mixed(index, 0);
      ++index;
    }
  };
  for (int i = 0; i < 64 * ks; ++i) {
    if (t.is_a) {
      set(address(t, i / ks, i % ks) / eb, i / ks, i % ks);
      continue;
    }
    const int part = i % parts, word = i / parts % 4, thread = i / parts / 4;
    set(static_cast<std::uint32_t>(i), thread / 32 * 16 + thread % 32 / 4 + word % 2 * 8,
        thread % 4 * parts + part + word / 2 * 4 * parts);
  }
  return hexadecimal(sum);
}

TEST(SimtLayout, PutsElementsOfATileWhereTheDeviceReadThem) {
  const std::vector<Tile> all = tiles();
  ASSERT_EQ(all.size(), 244U);
  std::size_t compared = 0;
  for (const Words& w : table("tile_bytes")) {
    const Tile& t = all.at(std::stoul(w[0]));
    for (std::size_t i = 2; i < w.size(); ++i, ++compared) {
      const int column = static_cast<int>(i) - 2;  // K-major: 0 to 8, 16, 24 ...
      const int mn =
          t.major == Major::k ? std::min(column, 8) + std::max(column - 8, 0) * 8 : column * 8;
      ASSERT_EQ(decoded(t, mn, std::stoi(w[1])), std::stoul(w[i]))
          << "descriptor " << w[0] << ", k " << w[1] << ", m or n " << mn;
    }
  }
  EXPECT_EQ(compared, 9313U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(sums_of(all[i], decoded), all[i].checksum) << "descriptor " << i;
  }
}

/// The tile with its descriptor changed.
template <class Change>
AddressOf changed(const Change& change) {
  return [=](Tile t, int mn, int k) {
    change(t);
    return decoded(t, mn, k);
  };
}

/// Rules that one might believe, and for how many descriptors the device did otherwise. The program
/// on the device counted three of them itself: 24, 33 and 93.
TEST(SimtLayout, TellsWrongRulesOfATileFromTheDevice) {
  const struct {
    const char* what;
    AddressOf address;
    int differ;
  } wrong[] = {
      {"leading and stride exchanged", changed([](Tile& t) { std::swap(t.leading, t.stride); }),
       205},
      {"the base offset is added", changed([](Tile& t) { t.base = (8 - t.base) % 8; }), 24},
      {"the base offset is ignored", changed([](Tile& t) { t.base = 0; }), 33},
      {"steps of k within a row are ignored", changed([](Tile& t) { t.start &= ~127U; }), 60},
      {"nothing is permuted",
       [](const Tile& t, int mn, int k) { return permuted(decoded(t, mn, k), t.swizzle, t.base); },
       206},
      {"permuted by the address within the tile",
       [](Tile t, int mn, int k) {
         const std::uint32_t start = std::exchange(t.start, 0);
         t.base = 0;
         return start + decoded(t, mn, k);
       },
       93},
  };
  for (const auto& rule : wrong) {
    int differ = 0;
    for (const Tile& t : tiles()) differ += sums_of(t, rule.address) != t.checksum;
    EXPECT_EQ(differ, rule.differ) << rule.what;
  }
}

// ---- boxes of tensor copies ---------------------------------------------------------------------

/// A copy that was measured, and the memory around it.
struct Copy {
  kernels::TensorShape shape;
  std::int32_t at[5] = {};
  std::uint32_t to = 0;      // [bytes] behind a multiple of 1,024
  std::uint32_t window = 0;  // [bytes] that were looked at, from 1,024 before that multiple
  std::string checksum, note;
};
using Pieces = std::vector<BoxPiece>;

/// Five blocks of 128 tokens, three heads of 128 elements.
const std::byte* source() {
  static const std::vector<std::byte> kMemory(std::size_t{5} * 128 * 3 * 128 * 2);
  return kMemory.data();
}

std::vector<Copy> copies() {
  std::vector<Copy> out;
  for (const Words& w : table("boxes")) {
    const auto number = [](const std::string& text) { return std::stoll(text); };
    Copy c;
    c.shape.data = source();
    c.shape.element_bytes = std::stoi(w[0]);
    c.shape.swizzle = swizzle_of(w[1]);
    const Words sizes = split(w[2], ','), strides = split(w[3], ',');
    const Words box = split(w[4], ','), at = split(w[5], ',');
    c.shape.rank = static_cast<int>(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      c.shape.sizes[i] = static_cast<std::uint64_t>(number(sizes[i]));
      c.shape.box[i] = static_cast<std::uint32_t>(number(box[i]));
      c.at[i] = std::stoi(at[i]);
      if (i > 0) c.shape.strides[i - 1] = static_cast<std::uint64_t>(number(strides[i - 1]));
    }
    c.to = static_cast<std::uint32_t>(number(w[6]));
    c.window = static_cast<std::uint32_t>(number(w[7]));
    c.checksum = w[8], c.note = w[9];
    out.push_back(c);
  }
  return out;
}

kernels::TensorMap encoded(const kernels::TensorShape& shape) {
  kernels::TensorMap map;
  const kernels::Refusal refusal = simt::encode(shape, map);
  if (refusal) throw std::runtime_error(refusal.reason);
  return map;
}

Pieces pieces_of(const Copy& c) { return simt::box_pieces(encoded(c.shape), c.at, 1024 + c.to); }

/// The checksum of the memory's elements: each has its place in the source, from 1; 0 where the
/// copy wrote zeros; all bits set where it wrote nothing.
std::string memory_of(const Copy& c, const Pieces& pieces) {
  const auto eb = static_cast<std::uint32_t>(c.shape.element_bytes);
  std::vector<std::uint32_t> memory(c.window / eb, 0xFFFFFFFF);
  for (const BoxPiece& piece : pieces) {
    for (std::uint32_t i = 0; i < piece.bytes; i += eb) {
      std::uint32_t place = 0;
      if (piece.global) place = static_cast<std::uint32_t>(piece.global + i - source()) / eb + 1;
      memory.at((piece.shared + i) / eb) = place;
    }
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) sum = (sum ^ memory[i]) * 0x100000001B3 + i;
  return hexadecimal(sum);
}

TEST(SimtLayout, PutsBytesOfABoxWhereTheDevicePutThem) {
  const std::vector<Copy> all = copies();
  ASSERT_EQ(all.size(), 75U + 40U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Pieces pieces = pieces_of(all[i]);
    EXPECT_EQ(memory_of(all[i], pieces), all[i].checksum) << "box " << i << ": " << all[i].note;
    std::uint32_t bytes = 0;
    for (const BoxPiece& piece : pieces) {
      bytes += piece.bytes;
      EXPECT_LE(piece.shared % 16 + piece.bytes, 16U) << "box " << i;
    }
    EXPECT_EQ(bytes, simt::box_bytes(encoded(all[i].shape))) << "box " << i;
  }
}

using PiecesOf = std::function<Pieces(Copy)>;
/// The copy changed before, or its pieces afterwards.
template <class Change>
PiecesOf before(const Change& change) {
  return [=](Copy c) { return change(c), pieces_of(c); };
}
template <class Change>
PiecesOf after(const Change& change) {
  return [=](const Copy& c) {
    Pieces pieces = pieces_of(c);
    for (BoxPiece& piece : pieces) change(piece, c);
    return pieces;
  };
}

/// The same, for boxes.
TEST(SimtLayout, TellsWrongRulesOfABoxFromTheDevice) {
  const struct {
    const char* what;
    PiecesOf pieces;
    int differ;
  } wrong[] = {
      {"nothing is permuted",
       after([](BoxPiece& p, const Copy& c) { p.shared = permuted(p.shared, c.shape.swizzle); }),
       80},
      {"permuted by the address within the box",
       [](Copy c) {
         const std::uint32_t to = std::exchange(c.to, 0);
         return after([=](BoxPiece& p, const Copy&) { p.shared += to; })(c);
       },
       5},
      {"nothing is written for what lies outside",
       after([](BoxPiece& p, const Copy&) { p.bytes = p.global ? p.bytes : 0; }), 52},
      {"a tensor of 2^31 tokens", before([](Copy& c) { c.shape.sizes[1] = 1U << 31; }), 22},
      {"strides of tokens and heads exchanged",
       before([](Copy& c) { std::swap(c.shape.strides[0], c.shape.strides[1]); }), 84},
  };
  for (const auto& rule : wrong) {
    int differ = 0;
    for (const Copy& c : copies()) differ += memory_of(c, rule.pieces(c)) != c.checksum;
    EXPECT_EQ(differ, rule.differ) << rule.what;
  }
}

/// A map of [block, head, token, element] of the source, and a box of two tokens.
kernels::TensorShape small_shape() {
  return {4, 2, source(), {128, 16, 3, 5}, {768, 256, 12288}, {64, 2, 1, 1}, Swizzle::bytes128};
}

TEST(SimtLayout, CutsABoxWhereTheTensorEndsWithinAChunk) {
  kernels::TensorShape shape = small_shape();
  shape.sizes[0] = 100;
  const std::int32_t at[] = {-4, 3, 1, 2}, later[] = {64, 3, 1, 2};
  Pieces pieces = simt::box_pieces(encoded(shape), at, 128);
  ASSERT_EQ(pieces.size(), 2 * 9U);  // the first chunk of each row in two
  EXPECT_EQ(pieces[0].global, nullptr);
  EXPECT_EQ(pieces[0].bytes, 8U);
  EXPECT_EQ(pieces[1].shared, pieces[0].shared + 8);
  EXPECT_EQ(pieces[1].global, source() + 2 * 12288 + 256 + 3 * 768);
  pieces = simt::box_pieces(encoded(shape), later, 128);
  ASSERT_EQ(pieces.size(), 2 * 9U);
  EXPECT_EQ(pieces[4].bytes, 8U);  // 36 elements are inside
  EXPECT_EQ(pieces[4].global, source() + 2 * 12288 + 256 + 3 * 768 + 2 * 96);
  EXPECT_EQ(pieces[5].global, nullptr);
}

TEST(SimtLayout, RefusesTheMapsThatTheDriverRefuses) {
  using Shape = kernels::TensorShape;
  const struct {
    const char* reason;  // null: accepted
    void (*change)(Shape&);
  } cases[] = {
      {nullptr, [](Shape&) {}},
      {"dimensions", [](Shape& s) { s.rank = 2; }},
      {"dimensions", [](Shape& s) { s.rank = 6; }},
      {"elements of 1 or 2", [](Shape& s) { s.element_bytes = 4; }},
      {"begin at a multiple", [](Shape& s) { s.data = nullptr; }},
      {"begin at a multiple", [](Shape& s) { s.data = source() + 8; }},
      {"a size", [](Shape& s) { s.sizes[3] = 0; }},
      {nullptr, [](Shape& s) { s.sizes[3] = std::uint64_t{1} << 32; }},
      {"a size", [](Shape& s) { s.sizes[3] = (std::uint64_t{1} << 32) + 1; }},
      {"a stride", [](Shape& s) { s.strides[0] = 776; }},
      {nullptr, [](Shape& s) { s.strides[2] = (std::uint64_t{1} << 40) - 16; }},
      {"a stride", [](Shape& s) { s.strides[2] = std::uint64_t{1} << 40; }},
      {"1 to 256", [](Shape& s) { s.box[2] = 0; }},
      {nullptr, [](Shape& s) { s.box[1] = 256; }},
      {"1 to 256", [](Shape& s) { s.box[1] = 257; }},
      {"multiple of 16 bytes", [](Shape& s) { s.box[0] = 60; }},
      {"longer than the swizzle's", [](Shape& s) { s.box[0] = 72; }},
      {nullptr, [](Shape& s) { s.box[0] = 72, s.swizzle = Swizzle::none; }},
      {"longer than the swizzle's", [](Shape& s) { s.swizzle = Swizzle::bytes64; }},
      {"larger than shared memory", [](Shape& s) { s.box[1] = 256, s.box[2] = 8; }},
  };
  for (const auto& c : cases) {
    kernels::TensorShape shape = small_shape();
    c.change(shape);
    kernels::TensorMap map{{7}};
    const kernels::Refusal refusal = simt::encode(shape, map);
    if (c.reason == nullptr) {
      EXPECT_FALSE(refusal) << refusal.reason;
      continue;
    }
    ASSERT_TRUE(refusal) << c.reason;
    EXPECT_NE(std::string(refusal.reason).find(c.reason), std::string::npos) << refusal.reason;
    EXPECT_EQ(map.words[0], 7U) << "a refusal touches nothing: " << c.reason;
  }
}

TEST(SimtLayout, RefusesBoxesThatNobodyMeasured) {
  kernels::TensorShape narrow = small_shape();
  narrow.box[0] = 32;
  const std::int32_t at[5] = {};
  EXPECT_THROW(static_cast<void>(simt::box_pieces(encoded(narrow), at, 0)), simt::KernelError);
  EXPECT_THROW(static_cast<void>(simt::box_pieces(encoded(small_shape()), at, 8)),
               simt::KernelError);
  EXPECT_THROW(static_cast<void>(simt::box_bytes({})), simt::KernelError);
}

// ---- registers: moves of 8 x 8 matrices, and the sums of a product ------------------------------

template <class Kernel>
void run(const Kernel& kernel, unsigned threads, std::size_t shared_bytes) {
  KVPROOF_LAUNCH(kernel, (kernels::Dim3{1, 1, 1}), (kernels::Dim3{threads, 1, 1}), shared_bytes,
                 kernels::Context{});
}

/// Numbers with points between them, as the tables have them.
std::string dotted(unsigned a, unsigned b, unsigned c) {
  return std::to_string(a) + "." + std::to_string(b) + "." + std::to_string(c);
}

TEST(SimtLayout, LoadsMatricesAsTheDevice) {
  struct alignas(16) Row {
    std::uint16_t elements[8];
  };
  Row rows[32];  // of four matrices
  for (int i = 0; i < 256; ++i) rows[i / 8].elements[i % 8] = static_cast<std::uint16_t>(i);
  for (const std::string instruction : {"ldmatrix.x4", "ldmatrix.x4.trans"}) {
    std::uint32_t words[32][4] = {};
    const bool transposed = instruction.ends_with(".trans");
    const auto kernel = [&] {
      auto& mine = words[threadIdx.x];
      if (transposed) kernels::load_tiles_transposed(mine, &rows[threadIdx.x]);
      if (!transposed) kernels::load_tiles(mine, &rows[threadIdx.x]);
    };
    run(kernel, 32, 0);
    int compared = 0;
    for (const Words& w : table("matrices")) {
      if (w[0] != instruction) continue;
      for (std::size_t half = 0; half < 2; ++half, ++compared) {
        const unsigned value = words[std::stoul(w[2])][std::stoul(w[1])] >> (16 * half) & 0xFFFF;
        EXPECT_EQ(dotted(value / 64, value / 8 % 8, value % 8), w[3 + half])
            << w[0] << ", word " << w[1] << " of lane " << w[2];
      }
    }
    EXPECT_EQ(compared, 256) << instruction;
  }
}

TEST(SimtLayout, StoresMatricesAsTheDevice) {
  std::uint16_t stored[32][8] = {};
  const auto kernel = [&] {
    KVPROOF_DYNAMIC_SHARED(unsigned char, shared);
    std::uint32_t words[4];
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned first = threadIdx.x * 8 + i * 2;
      words[i] = first | (first + 1) << 16;
    }
    kernels::store_tiles(shared + 16 * threadIdx.x, words);
    KVPROOF_BARRIER();
    std::memcpy(stored[threadIdx.x], shared + 16 * threadIdx.x, 16);
  };
  run(kernel, 32, sizeof(stored));
  int compared = 0;
  for (const Words& w : table("matrices")) {
    if (w[0] != "stmatrix.x4") continue;
    const std::size_t row = std::stoul(w[1]) * 8 + std::stoul(w[2]);
    for (std::size_t i = 0; i < 8; ++i, ++compared) {
      const unsigned value = stored[row][i];
      EXPECT_EQ(dotted(value / 8, value % 8 / 2, value % 2), w[3 + i]) << "row " << row;
    }
  }
  EXPECT_EQ(compared, 256);
}

TEST(SimtLayout, TransposesAMatrixAsTheDevice) {
  std::uint32_t words[32] = {};
  const auto kernel = [&] {
    const unsigned first = 2 * threadIdx.x;
    words[threadIdx.x] = kernels::transpose_tile(first | (first + 1) << 16);
  };
  run(kernel, 32, 0);
  int compared = 0;
  for (const Words& w : table("matrices")) {
    if (w[0] != "movmatrix.trans") continue;
    for (std::size_t half = 0; half < 2; ++half, ++compared) {
      const unsigned value = words[std::stoul(w[2])] >> (16 * half) & 0xFFFF;
      EXPECT_EQ(std::to_string(value / 2) + "." + std::to_string(value % 2), w[3 + half])
          << "lane " << w[2];
    }
  }
  EXPECT_EQ(compared, 64);
}

/// For each register of each thread the row of its sum, or the column, from a product of 64 x 16
/// and 16 x 2 * kCount in which only k = 0 counts.
template <int kCount>
std::vector<std::vector<int>> places_of_sums(bool is_row) {
  std::vector<std::vector<int>> out(128);
  const auto kernel = [&] {
    KVPROOF_DYNAMIC_SHARED(unsigned char, shared);
    const auto a = kernels::matrix_at(kernels::matrix_layout(128, 256, Swizzle::none),
                                      kernels::shared_address(shared));
    for (unsigned i = threadIdx.x; i < 64 + 2 * kCount; i += 128) {  // B lies behind A
      const unsigned row = i < 64 ? i : i - 64;
      const float value = (i < 64) == is_row ? static_cast<float>(row + 1) : 1.0F;
      unsigned char* const at = shared + i / 8 * 256 + i % 8 * 16;
      kernels::store16(at, {{kernels::from_float<kernels::Fp16>(value).bits}});
      kernels::store16(at + 128, {});
    }
    kernels::fence_async();
    KVPROOF_BARRIER();
    float d[kCount] = {};
    kernels::matrix_fence();
    kernels::warpgroup_multiply<kernels::Fp16, Major::k>(d, a, a.behind(8 * 256), false);
    kernels::matrix_commit();
    kernels::matrix_wait<0>();
    for (const float sum : d) out[threadIdx.x].push_back(static_cast<int>(sum) - 1);
  };
  run(kernel, 128, (64 + 2 * kCount) * 32);
  return out;
}

/// @tparam kCount registers @param width the product's columns, as the table names them
template <int kCount>
void expect_sums_of_the_device(const std::string& width, int expected) {
  const auto rows = places_of_sums<kCount>(true), columns = places_of_sums<kCount>(false);
  int compared = 0;
  for (const Words& w : table("accumulators")) {
    if (w[0] != width) continue;
    const std::size_t thread = std::stoul(w[1]), number = std::stoul(w[2]);
    EXPECT_EQ(rows[thread][number], std::stoi(w[3])) << "thread " << thread << ", " << number;
    EXPECT_EQ(columns[thread][number], std::stoi(w[4])) << "thread " << thread << ", " << number;
    ++compared;
  }
  EXPECT_EQ(compared, expected);
}

TEST(SimtLayout, LeavesSumsInTheRegistersOfTheDevice) {
  expect_sums_of_the_device<32>("8", 512);  // the first registers of every width are the same
  expect_sums_of_the_device<32>("64", 48);
  expect_sums_of_the_device<64>("128", 48);
  expect_sums_of_the_device<128>("256", 48);
}

}  // namespace
}  // namespace kvproof::properties
