// SPDX-License-Identifier: Apache-2.0
// The simulated asynchronous units: a small producer and consumer kernel, which must be right under
// every schedule, and its seeded faults, each of which must be noticed under every schedule.
//
// Model:   Two blocks deal the tiles of 64 tokens out. sums[r][d] = sum over tokens t of
//          (q[r] . k[t]) v[t][d], in whole numbers, so that no order of sums matters. A warp copies
//          K with the tensor unit by pages, another one V by copy_async16; a warpgroup keeps its
//          weights in registers, the other one writes them to shared memory. The block that arrives
//          last adds both sums up.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/simt/hopper.h"
#include "properties/kernels/memory.h"

namespace kvproof::properties::simt_async {
namespace {

using namespace kernels;  // NOLINT: the kernel below reads as those of kernels/

constexpr int kTokens = 64, kDepth = 64, kRows = 128, kPage = 16, kStages = 2, kBlocks = 2;
constexpr std::uint32_t kTile = 8192;  // [bytes] 64 x 64 elements
constexpr int kEntries = 5 * kTokens / kPage;

enum class Fault {
  none,
  // fence
  no_fence_behind_tiles,
  no_fence_behind_copies,
  fence_before_copies_land,
  fence_after_arrival,
  raw_store,
  raw_store_behind,
  // wait
  full_not_awaited,
  empty_not_awaited,
  parity_of_consumer,
  parity_of_producer,
  released_before_wait,
  tiles_loaded_before_wait,
  stores_not_awaited,
  // counts
  one_arrival_less,
  one_arrival_more,
  bytes_short,
  bytes_long,
  arrives_twice,
  named_threads,
  // products
  no_matrix_fence,
  sums_read_before_wait,
  sums_changed_before_wait,
  weights_changed_before_wait,
  no_commit,
  waits_for_all_but_one,
  unlike_descriptors,
  // layout
  values_off_the_pattern,
  strides_swapped,
  values_by_token,
  weights_not_permuted,
  // pages
  page_of_tile_before,
  tail_not_zero,
  // registers
  no_registers_down,
  too_many_registers,
  unlike_registers,
  // order
  no_named_barrier,
  named_twice,
  barriers_not_fenced,
  barriers_not_ordered,
  initialised_again,
  barrier_overwritten,
  counter_not_reset,
  never_last,
};

struct Params {
  const int* table;  // [kEntries] page of 16 tokens; those past the end are wild
  const Bf16* values;
  float* partial;  // [kBlocks][kRows][kDepth]
  float* sums;     // [kRows][kDepth]
  int* arrivals;   // 0 before and after
  int num_tokens;
  Fault fault;
};

/// Where the block has what: addresses of shared memory.
struct Places {
  SharedAddress query, keys, values, weights, query_full, key_full, key_empty, value_full,
      value_empty;
  unsigned char* memory;  // of address `origin`
  SharedAddress origin;

  /// Chunk c of 16 bytes in a row of 128 of a permuted tile.
  unsigned char* chunk(SharedAddress tile, int row, int c) const {
    return memory + (tile - origin) + row * 128 + ((c ^ (row & 7)) * 16);
  }
};

Places places_in(unsigned char* memory) {
  const SharedAddress origin = shared_address(memory);
  const SharedAddress base = (origin + 1023) & ~1023u, barriers = base + 8 * kTile;
  return {base,         base + 2 * kTile, base + 4 * kTile, base + 7 * kTile, barriers,
          barriers + 8, barriers + 24,    barriers + 40,    barriers + 56,    memory,
          origin};
}
constexpr std::size_t kSharedBytes = 1024 + 8 * kTile + 128;

__device__ void init_barriers(const Places& at, Fault fault) {
  barrier_init(at.query_full, 1);
  for (unsigned i = 0; i < 8 * kStages; i += 8) {
    const int warps = fault == Fault::one_arrival_less   ? 7
                      : fault == Fault::one_arrival_more ? 9
                                                         : 8;
    barrier_init(at.key_full + i, 1);
    barrier_init(at.key_empty + i, warps);
    barrier_init(at.value_full + i, 32);
    barrier_init(at.value_empty + i, 8);
  }
  if (fault == Fault::initialised_again) barrier_init(at.key_full, 1);
  if (fault != Fault::barriers_not_fenced) fence_barrier_init();
}

/// One thread: the query, and the keys by pages.
__device__ void produce_keys(const Places& at, const TensorMap& q, const TensorMap& k,
                             const Params& p, int from, int to) {
  const Fault fault = p.fault;
  barrier_expect(at.query_full, 2 * kTile);
  for (unsigned half = 0; half < 2; ++half) {
    tensor_load(at.query + half * kTile, q, {0, static_cast<int>(half) * 64, 0, 0}, at.query_full);
  }
  for (int n = from; n < to; ++n) {
    const int i = n - from, round = i / kStages;
    const unsigned turn = static_cast<unsigned>(i % kStages), stage = turn * 8;
    const SharedAddress tile = at.keys + turn * kTile;
    if (fault != Fault::empty_not_awaited) {
      barrier_wait(at.key_empty + stage,
                   (round + (fault == Fault::parity_of_producer ? 0 : 1)) & 1);
    }
    barrier_expect(at.key_full + stage, fault == Fault::bytes_short  ? kTile - 128
                                        : fault == Fault::bytes_long ? kTile + 128
                                                                     : kTile);
    if (fault == Fault::arrives_twice) barrier_arrive(at.key_full + stage);
    for (int j = 0; j < kTokens / kPage; ++j) {
      int entry = n * kTokens / kPage + j;
      const bool inside = entry * kPage < p.num_tokens;
      if (fault == Fault::page_of_tile_before && n > from) entry -= kTokens / kPage;
      tensor_load(tile + static_cast<unsigned>(j) * (kTile / 4), k,
                  {0, 0, 0, inside ? p.table[entry] : -1}, at.key_full + stage);
    }
  }
}

/// A warp: the values, and zeros behind the last token.
__device__ void produce_values(const Places& at, const Params& p, int from, int to) {
  const Fault fault = p.fault;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int n = from; n < to; ++n) {
    const int i = n - from;
    const unsigned turn = static_cast<unsigned>(i % kStages), stage = turn * 8;
    const SharedAddress tile = at.values + turn * kTile;
    barrier_wait(at.value_empty + stage, (i / kStages + 1) & 1);
    for (int c = lane; c < kTokens * 8; c += 32) {
      const int token = n * kTokens + c / 8;
      const bool inside = token < p.num_tokens || fault == Fault::tail_not_zero;
      const int page = inside ? p.table[token / kPage] : 0;
      copy_async16(at.chunk(tile, c / 8, c % 8),
                   p.values + (page * kPage + token % kPage) * kDepth + c % 8 * 8, inside);
    }
    copy_async_commit();
    if (fault == Fault::fence_before_copies_land) fence_async();
    copy_async_wait<0>();
    if (fault == Fault::fence_after_arrival) {
      barrier_arrive(at.value_full + stage);
      fence_async();
      continue;
    }
    if (fault != Fault::no_fence_behind_copies && fault != Fault::fence_before_copies_land) {
      fence_async();
    }
    barrier_arrive(at.value_full + stage);
  }
}

constexpr MatrixDescriptor kLayout = matrix_layout(16, 1024, Swizzle::bytes128);

/// Scores become weights, as A's registers and, of the second group, in shared memory.
__device__ void weigh(const Places& at, const float (&s)[32], std::uint32_t (&w)[4][4], int group,
                      Fault fault) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) % 128 / 32;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) w[i][j] = pack_two<Bf16>(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
    if (group == 0) continue;
    const int row = warp * 16 + lane % 16, c = 2 * i + lane / 16;
    if (fault == Fault::raw_store) {
      for (unsigned j = 0; j < 4; ++j) {
        const int of_row = warp * 16 + lane / 4 + static_cast<int>(j % 2) * 8;
        std::memcpy(at.chunk(at.weights, of_row, 2 * i + static_cast<int>(j / 2)) + lane % 4 * 4,
                    &w[i][j], 4);
      }
    } else {
      store_tiles(at.chunk(at.weights, row, fault == Fault::weights_not_permuted ? c ^ 1 : c),
                  w[i]);
    }
  }
  if (fault != Fault::no_fence_behind_tiles) fence_async();
  if (fault == Fault::raw_store_behind && group == 1) {
    *at.chunk(at.weights, warp * 16 + lane % 16, lane / 16) ^= 1;
  }
  KVPROOF_WARP_BARRIER();
}

/// d = the scores of a tile of keys.
__device__ void issue_scores(float (&s)[32], SharedAddress query, SharedAddress keys, Fault fault) {
  const bool odd = fault == Fault::unlike_descriptors && threadIdx.x % 128 == 77;
  const MatrixDescriptor layout =
      fault == Fault::strides_swapped ? matrix_layout(1024, 16, Swizzle::bytes128) : kLayout;
  for (unsigned i = 0; i < 4; ++i) {
    warpgroup_multiply<Bf16, Major::k>(s, matrix_at(kLayout, query + 32 * i),
                                       matrix_at(layout, keys + 32 * i + (odd ? 16 : 0)), i > 0);
  }
  if (fault != Fault::no_commit) matrix_commit();
}

/// o += the weights . a tile of values.
__device__ void issue_sums(float (&o)[32], const std::uint32_t (&w)[4][4], const Places& at,
                           SharedAddress values, int group, Fault fault) {
  for (unsigned i = 0; i < 4; ++i) {
    const MatrixDescriptor b = matrix_at(kLayout, values + 2048 * i);
    const MatrixDescriptor a = matrix_at(kLayout, at.weights + 32 * i);
    if (fault == Fault::values_by_token && group == 0) {
      warpgroup_multiply<Bf16, Major::k>(o, w[i], matrix_at(kLayout, values + 32 * i), true);
    } else if (group == 0) {
      warpgroup_multiply<Bf16, Major::mn>(o, w[i], b, true);
    } else {
      warpgroup_multiply<Bf16, Major::mn>(o, a, b, true);
    }
  }
  matrix_commit();
}

/// A warpgroup: 64 rows.
__device__ void consume(float (&o)[32], const Places& at, int group, int num_tiles, Fault fault) {
  const bool leads = threadIdx.x % 32 == 0;
  const SharedAddress query = at.query + static_cast<unsigned>(group) * kTile;
  float s[32];
  std::uint32_t w[4][4];
  for (float& x : o) x = 0;
  if (fault == Fault::tiles_loaded_before_wait) load_tiles(w[0], at.chunk(query, 0, 0));
  barrier_wait(at.query_full, 0);
  for (int i = 0; i < num_tiles; ++i) {
    const unsigned turn = static_cast<unsigned>(i % kStages), stage = turn * 8;
    const int parity = fault == Fault::parity_of_consumer ? 0 : i / kStages & 1;
    if (fault != Fault::full_not_awaited) barrier_wait(at.key_full + stage, parity);
    matrix_fence();
    issue_scores(s, query, at.keys + turn * kTile, fault);
    if (leads && fault == Fault::released_before_wait) barrier_arrive(at.key_empty + stage);
    if (fault == Fault::sums_read_before_wait) o[0] += s[0];
    if (fault == Fault::sums_changed_before_wait) s[3] = 0;
    if (fault == Fault::waits_for_all_but_one) {
      matrix_wait<1>();
      for (float& x : o) x += s[1];
    }
    matrix_wait<0>();
    if (leads && fault != Fault::released_before_wait) barrier_arrive(at.key_empty + stage);
    weigh(at, s, w, group, fault);
    barrier_wait(at.value_full + stage, i / kStages & 1);
    if (fault != Fault::no_matrix_fence) matrix_fence();
    issue_sums(o, w, at, at.values + turn * kTile, group, fault);
    if (fault == Fault::weights_changed_before_wait) w[2][1] = 0;
    matrix_wait<0>();
    if (leads) barrier_arrive(at.value_empty + stage);
  }
}

/// The sums as bf16, by the tensor unit, out of the query's place; one thread stores both groups'.
__device__ void store_sums(const float (&o)[32], const Places& at, const TensorMap& map, int group,
                           Fault fault) {
  const int t = static_cast<int>(threadIdx.x) % 128, lane = t % 32;
  const SharedAddress tile = at.query + static_cast<unsigned>(group) * kTile;
  for (int i = 0; i < 4; ++i) {
    std::uint32_t w[4];
    for (int j = 0; j < 4; ++j) w[j] = pack_two<Bf16>(o[8 * i + 2 * j], o[8 * i + 2 * j + 1]);
    store_tiles(at.chunk(tile, t / 32 * 16 + lane % 16, 2 * i + lane / 16), w);
  }
  fence_async();
  const int threads = fault == Fault::named_threads && group == 0 ? 384 : 256;
  if (fault == Fault::no_named_barrier) {
    named_sync(2 + group, 128);
  } else if (group == 0) {
    named_arrive(1, threads);
    if (fault == Fault::named_twice && t < 32) named_arrive(1, threads);
  } else {
    named_sync(1, threads);
  }
  if (group == 1 && t == 0) {
    for (int half = 0; half < 2; ++half) {
      tensor_store(map, {0, half * 64, static_cast<int>(blockIdx.x), 0},
                   at.query + static_cast<unsigned>(half) * kTile);
    }
    bulk_commit();
    if (fault != Fault::stores_not_awaited) bulk_wait_read<0>();
  }
}

/// The block that arrives last adds the blocks' sums up.
__device__ void merge(const Params& p) {
  KVPROOF_SHARED(int, last, 1);
  KVPROOF_BARRIER();
  if (threadIdx.x == 0) {
    const int before = atomic_add(p.arrivals, 1);
    last[0] = p.fault == Fault::never_last ? before > kBlocks - 1 : before == kBlocks - 1;
    if (last[0] != 0 && p.fault != Fault::counter_not_reset) *p.arrivals = 0;
  }
  KVPROOF_BARRIER();
  if (last[0] == 0) return;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDepth; i += 384) {
    p.sums[i] = p.partial[i] + p.partial[kRows * kDepth + i];
  }
}

__device__ void take_registers(int group, Fault fault) {
  if (group == 0) {
    if (fault != Fault::no_registers_down) registers_down<24>();
  } else if (fault == Fault::too_many_registers) {
    registers_up<248>();
  } else if (fault == Fault::unlike_registers && threadIdx.x == 200) {
    registers_up<232>();
  } else {
    registers_up<240>();
  }
}

__global__ void chain_kernel(KVPROOF_GRID_CONSTANT const TensorMap& q,
                             KVPROOF_GRID_CONSTANT const TensorMap& k,
                             KVPROOF_GRID_CONSTANT const TensorMap& o_map, const Params p) {
  KVPROOF_DYNAMIC_SHARED(unsigned char, memory);
  Places at = places_in(memory);
  if (p.fault == Fault::values_off_the_pattern) at.values += 512;
  const int t = static_cast<int>(threadIdx.x), group = t / 128;
  if (t == 0) init_barriers(at, p.fault);
  if (p.fault != Fault::barriers_not_ordered) KVPROOF_BARRIER();
  if (p.fault == Fault::barrier_overwritten && t == 0) {
    memory[at.key_empty + 3 - at.origin] = 1;
  }
  const int tiles = (p.num_tokens + kTokens - 1) / kTokens, half = (tiles + 1) / kBlocks;
  const int from = blockIdx.x == 0 ? 0 : half, to = blockIdx.x == 0 ? half : tiles;
  take_registers(group, p.fault);
  if (t == 0) produce_keys(at, q, k, p, from, to);
  if (t / 32 == 1) produce_values(at, p, from, to);
  if (group > 0) {
    float o[32];
    consume(o, at, group - 1, to - from, p.fault);
    float* const out =
        p.partial + (static_cast<int>(blockIdx.x) * kRows + (group - 1) * 64) * kDepth;
    for (int r = 0; r < 32; ++r) {
      out[(t % 128 / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8) * kDepth + r / 4 * 8 + t % 4 * 2 +
          r % 2] = o[r];
    }
    store_sums(o, at, o_map, group - 1, p.fault);
  }
  merge(p);
}

struct Problem {
  static constexpr int kNumTokens = 4 * kTokens + 21;

  Problem() {
    Random random(7);
    const auto fill = [&](Memory& to) {
      for (std::size_t i = 0; i < to.size() / 2; ++i) {
        to.as<Bf16>()[i] = from_float<Bf16>(static_cast<float>(random.between(-2, 2)));
      }
    };
    fill(query);
    fill(keys);
    fill(values);
    for (int i = 0; i < kEntries; ++i) {  // pages in another order; wild ones past the end
      table.as<int>()[i] = i * kPage < kNumTokens ? (i * 7 + 3) % kEntries : kEntries;
    }
    const int page = table.as<int>()[kNumTokens / kPage];
    for (int i = kNumTokens % kPage * kDepth; i < kPage * kDepth; ++i) {  // what a page held before
      values.as<Bf16>()[page * kPage * kDepth + i] = {0x7FC0};
      keys.as<Bf16>()[page * kPage * kDepth + i] = {0};
    }
    for (int i = 0; i < kPage * kDepth; ++i) {
      values.as<Bf16>()[kEntries * kPage * kDepth + i] = {0x7FC0};
    }
    find_expected();
  }

  void find_expected() {
    const auto at = [](const Memory& m, int i) { return to_float(m.as<Bf16>()[i]); };
    expected.assign(kRows * kDepth, 0);
    for (int t = 0; t < kNumTokens; ++t) {
      const int slot = table.as<int>()[t / kPage] * kPage + t % kPage;
      for (int r = 0; r < kRows; ++r) {
        float score = 0;
        for (int d = 0; d < kDepth; ++d)
          score += at(query, r * kDepth + d) * at(keys, slot * kDepth + d);
        for (int d = 0; d < kDepth; ++d) {
          expected[static_cast<std::size_t>(r * kDepth + d)] +=
              score * at(values, slot * kDepth + d);
        }
      }
    }
  }

  /// Launches twice. @return the error, or "numbers" if they are wrong, or nothing
  std::string run(Fault fault) {
    const auto map_of = [](const Memory& data, std::uint64_t rows, std::uint64_t outer,
                           std::uint64_t far, std::uint32_t box) {
      TensorShape shape;
      shape.rank = 4;
      shape.data = data.data();
      const std::uint64_t sizes[4] = {kDepth, rows, outer, far};
      std::copy_n(sizes, 4, shape.sizes);
      for (int i = 0; i < 3; ++i) shape.strides[i] = 2 * kDepth * (i == 0 ? 1 : rows);
      shape.strides[2] *= outer;
      shape.box[0] = kDepth;
      shape.box[1] = box;
      shape.box[2] = shape.box[3] = 1;
      TensorMap map;
      const Refusal refusal = encode_tensor_map(shape, map);
      EXPECT_FALSE(refusal) << refusal.reason;
      return map;
    };
    const TensorMap q = map_of(query, kRows, 1, 1, 64), k = map_of(keys, kPage, 1, kEntries, kPage),
                    o = map_of(stored, kRows, kBlocks, 1, 64);
    int arrivals = 0;
    for (int launch = 0; launch < 2; ++launch) {
      std::memset(sums.data(), 0xFF, sums.size());
      std::memset(stored.data(), 0xFF, stored.size());
      const Params p{table.as<int>(),
                     values.as<Bf16>(),
                     partial.as<float>(),
                     sums.as<float>(),
                     &arrivals,
                     kNumTokens,
                     fault};
      try {
        KVPROOF_LAUNCH(chain_kernel, (Dim3{kBlocks, 1, 1}), (Dim3{384, 1, 1}), kSharedBytes,
                       Context{}, q, k, o, p);
      } catch (const simt::KernelError& error) {
        return error.what();
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (sums.as<float>()[i] != expected[i]) return "numbers";
      }
      for (int i = 0; i < kBlocks * kRows * kDepth; ++i) {
        if (stored.as<Bf16>()[i].bits != from_float<Bf16>(partial.as<float>()[i]).bits) {
          return "numbers";
        }
      }
    }
    return "";
  }

  Memory query{kRows * kDepth * 2}, keys{kEntries * kPage * kDepth * 2},
      values{(kEntries + 1) * kPage * kDepth * 2}, table{kEntries * 4},
      partial{kBlocks * kRows * kDepth * 4}, sums{kRows * kDepth * 4},
      stored{kBlocks * kRows * kDepth * 2};
  std::vector<float> expected;
};

std::string run_under(std::uint64_t seed, Problem& problem, Fault fault) {
  simt::set_schedule({seed});
  std::string out = problem.run(fault);
  simt::set_schedule({});
  return out;
}

TEST(SimtAsync, ASoundKernelIsRightUnderEverySchedule) {
  Problem problem;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const std::uint64_t seed = i < 56 ? i : ~(i - 56);
    EXPECT_EQ(run_under(seed, problem, Fault::none), "") << "seed " << seed;
  }
}

struct Row {
  const char* of;  // class
  Fault fault;
  const char* words;               // of the error, or "numbers": no error, but wrong results
  const char* or_words = nullptr;  // the fault's other face, under other schedules
};

constexpr Row kFaults[] = {
    {"fence", Fault::no_fence_behind_tiles, "not fenced"},
    {"fence", Fault::no_fence_behind_copies, "not fenced"},
    {"fence", Fault::fence_before_copies_land, "not fenced", "no barrier orders the fence before"},
    {"fence", Fault::fence_after_arrival, "no barrier orders the fence before"},
    {"fence", Fault::raw_store, "written by no noted store"},
    {"fence", Fault::raw_store_behind, "changed by no noted store"},
    {"wait", Fault::full_not_awaited, "not waited for: the copy started by thread 0"},
    {"wait", Fault::empty_not_awaited, "overwritten by thread 0", "too many arrivals in phase 0"},
    {"wait", Fault::parity_of_consumer, "not waited for: the copy started by thread 0",
     "two phases back"},
    {"wait", Fault::parity_of_producer, "barrier never met"},
    {"wait", Fault::released_before_wait, "still read by the product of warp"},
    {"wait", Fault::tiles_loaded_before_wait, "not waited for: the copy started by thread 0"},
    {"wait", Fault::stores_not_awaited, "did not wait for its store"},
    {"counts", Fault::one_arrival_less, "still read by the product of warp"},
    {"counts", Fault::one_arrival_more, "lacks 1 of 9 arrivals"},
    {"counts", Fault::bytes_short, "128 bytes more than phase 0 expects"},
    {"counts", Fault::bytes_long, "and 128 bytes"},
    {"counts", Fault::arrives_twice, "too many arrivals"},
    {"counts", Fault::named_threads, "named barrier 1"},
    {"products", Fault::no_matrix_fence, "without a matrix_fence"},
    {"products", Fault::sums_read_before_wait, "numbers"},
    {"products", Fault::sums_changed_before_wait, "changed before the wait"},
    {"products", Fault::weights_changed_before_wait, "A's registers"},
    {"products", Fault::no_commit, "not committed"},
    {"products", Fault::waits_for_all_but_one, "numbers"},
    {"products", Fault::unlike_descriptors, "operands are not the same"},
    {"layout", Fault::values_off_the_pattern, "numbers"},
    {"layout", Fault::strides_swapped, "numbers"},
    {"layout", Fault::values_by_token, "numbers"},
    {"layout", Fault::weights_not_permuted, "numbers"},
    {"pages", Fault::page_of_tile_before, "numbers"},
    {"pages", Fault::tail_not_zero, "numbers"},
    {"registers", Fault::no_registers_down, "registers are free"},
    {"registers", Fault::too_many_registers, "registers are free"},
    {"registers", Fault::unlike_registers, "unlike numbers of registers"},
    {"order", Fault::no_named_barrier, "no barrier orders the fence before"},
    {"order", Fault::named_twice, "comes again before its round has ended"},
    {"order", Fault::barriers_not_fenced, "not fenced"},
    {"order", Fault::barriers_not_ordered, "barrier"},
    {"order", Fault::initialised_again, "lives since"},
    {"order", Fault::barrier_overwritten, "were overwritten"},
    {"order", Fault::counter_not_reset, "numbers"},
    {"order", Fault::never_last, "numbers"},
};

// AddressSanitizer ends the program where a barrier is overwritten; ThreadSanitizer reports the
// races that faults are.
#if defined(__has_feature)
#define KVPROOF_HAS_FEATURE(name) __has_feature(name)
#else
#define KVPROOF_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || KVPROOF_HAS_FEATURE(thread_sanitizer)
constexpr bool kSeesRaces = true;
#else
constexpr bool kSeesRaces = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || KVPROOF_HAS_FEATURE(address_sanitizer)
constexpr bool kSeesAddresses = true;
#else
constexpr bool kSeesAddresses = false;
#endif

/// Whether an error, up to its list of waiting threads, names a place in this file.
bool names_a_place(const std::string& error) {
  return error.find("simt_async_test.cpp:") < error.find("; thread") ||
         error.find("barrier never met") == 0;
}

TEST(SimtAsync, NoticesEveryFaultUnderEverySchedule) {
  if (kSeesRaces) GTEST_SKIP() << "faults are races";
  Problem problem;
  for (const Row& row : kFaults) {
    if (kSeesAddresses && row.fault == Fault::barrier_overwritten) continue;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const std::string found = run_under(seed, problem, row.fault);
      const bool noticed =
          found.find(row.words) != std::string::npos ||
          (row.or_words != nullptr && found.find(row.or_words) != std::string::npos);
      EXPECT_TRUE(noticed && (found == "numbers" || names_a_place(found)))
          << row.of << ", fault " << static_cast<int>(row.fault) << ", seed " << seed << ": \""
          << found << "\"";
    }
  }
}

constexpr unsigned kStep = 144, kFar = 9216;  // [bytes] between chunks along either side

/// Where chunks of tiles lie that are not permuted: row m of a K-major tile, k of an MN-major one.
constexpr unsigned k_major_at(int m, int k) {
  return static_cast<unsigned>(m % 8 * 16) + static_cast<unsigned>(m / 8) * kStep +
         static_cast<unsigned>(k / 8) * kFar;
}
constexpr unsigned mn_major_at(int mn, int k) {
  return static_cast<unsigned>(k % 8 * 16) + static_cast<unsigned>(k / 8) * kFar +
         static_cast<unsigned>(mn / 8) * kStep;
}

/// Stores the chunk of elements first, first + step, ...
template <class T>
void put(unsigned char* to, const T* first, int step) {
  T chunk[8];
  for (int i = 0; i < 8; ++i) chunk[i] = first[i * step];
  Bytes16 bytes;
  std::memcpy(&bytes, chunk, 16);
  store16(to, bytes);
}

/// out = 1 + a . b, 64 x 16 by 16 x columns.
template <class T, Major kMajor, int kCount>
__global__ void product_kernel(const T* a, const T* b, float* out, bool from_registers) {
  KVPROOF_DYNAMIC_SHARED(unsigned char, memory);
  constexpr int kColumns = 2 * kCount;
  const SharedAddress base = shared_address(memory);  // from here on, stores are noted
  const int t = static_cast<int>(threadIdx.x);
  for (int i = t; i < 64 * 2; i += 128) {
    put(memory + k_major_at(i / 2, i % 2 * 8), a + i / 2 * 16 + i % 2 * 8, 1);
  }
  for (int i = t; i < kColumns * 2; i += 128) {
    if constexpr (kMajor == Major::k) {
      const int n = i / 2, k = i % 2 * 8;
      put(memory + 2 * kFar + k_major_at(n, k), b + k * kColumns + n, kColumns);
    } else {
      const int k = i % 16, n = i / 16 * 8;
      put(memory + 2 * kFar + mn_major_at(n, k), b + k * kColumns + n, 1);
    }
  }
  fence_async();
  KVPROOF_BARRIER();
  std::uint32_t words[4];
  for (int r = 0; r < 4; ++r) {
    const int row = t / 32 * 16 + t % 32 / 4 + r % 2 * 8, k = r / 2 * 8 + t % 4 * 2;
    std::memcpy(&words[r], a + row * 16 + k, 4);
  }
  float d[kCount];
  for (float& x : d) x = 1;
  const MatrixDescriptor layout = matrix_layout(kFar, kStep, Swizzle::none);
  const MatrixDescriptor of_a = matrix_at(layout, base), of_b = matrix_at(layout, base + 2 * kFar);
  matrix_fence();
  if (from_registers) {
    warpgroup_multiply<T, kMajor>(d, words, of_b, true);
  } else {
    warpgroup_multiply<T, kMajor>(d, of_a, of_b, true);
  }
  matrix_commit();
  matrix_wait<0>();
  for (int r = 0; r < kCount; ++r) {
    const int row = t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8, n = r / 4 * 8 + t % 4 * 2 + r % 2;
    out[row * kColumns + n] = d[r];
  }
}

template <class T, Major kMajor, int kCount>
void check_product(bool from_registers) {
  constexpr int kColumns = 2 * kCount;
  std::vector<T> a(64 * 16), b(16 * kColumns);
  Random random(static_cast<std::uint64_t>(kCount));
  for (auto* values : {&a, &b}) {
    for (T& x : *values) x = from_float<T>(static_cast<float>(random.between(-8, 8)) / 4);
  }
  std::vector<float> out(64 * kColumns);
  const auto kernel = product_kernel<T, kMajor, kCount>;
  KVPROOF_LAUNCH(kernel, (Dim3{1, 1, 1}), (Dim3{128, 1, 1}), 4 * kFar, Context{}, a.data(),
                 b.data(), out.data(), from_registers);
  int wrong = 0;
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t n = 0; n < kColumns; ++n) {
      float expected = 1;  // exact: sixteenths
      for (std::size_t k = 0; k < 16; ++k) {
        expected += to_float(a[row * 16 + k]) * to_float(b[k * kColumns + n]);
      }
      wrong += out[row * kColumns + n] != expected ? 1 : 0;
    }
  }
  EXPECT_EQ(wrong, 0) << kColumns << " columns, from registers " << from_registers;
}

template <class T>
void check_products() {
  for (const bool from_registers : {false, true}) {
    check_product<T, Major::k, 32>(from_registers);
    check_product<T, Major::k, 64>(from_registers);
    check_product<T, Major::k, 128>(from_registers);
    check_product<T, Major::mn, 32>(from_registers);
    check_product<T, Major::mn, 64>(from_registers);
    check_product<T, Major::mn, 128>(from_registers);
  }
}

TEST(SimtAsync, MultipliesTilesOfEitherMajorAndFromRegisters) {
  check_products<Bf16>();
  check_products<Fp16>();
}

}  // namespace
}  // namespace kvproof::properties::simt_async
