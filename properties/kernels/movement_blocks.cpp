// SPDX-License-Identifier: Apache-2.0
// copy_blocks, swap_blocks and slot_mapping: random pairs of blocks, random tables.
#include <limits>

#include "properties/kernels/movement_checks.h"

namespace kvproof::properties {
namespace {

using kernels::CopyBlocksParams;
using kernels::SlotMappingParams;
using kernels::SwapBlocksParams;

/// Bytes of a block: odd, short, or more than one thread block moves.
std::int64_t draw_block_bytes(Random& random) {
  return random.of<std::int64_t>({0, 1, 2, 30, 92, 256, 1024, 1472, 2048, 8192, 16'432});
}

/// Launches, then compares all bytes in `arenas` with those that the reference leaves there.
template <class Params>
Finding compare_memory(const kernels::Implementation<Params>& row, const Params& params,
                       kernels::Refusal (*reference)(const Params&, const kernels::Context&),
                       const std::vector<const Arena*>& arenas, std::uint64_t seed,
                       const std::string& who, const std::string& text, MovementTally& tally) {
  std::vector<std::vector<std::byte>> before, after;
  for (const Arena* arena : arenas) before.push_back(arena->memory().copy());
  const Launched launched = launch_row(row, params, seed, who, tally);
  if (launched.finding) return say(*launched.finding, " (", text, ")");
  for (std::size_t i = 0; i < arenas.size(); ++i) {
    after.push_back(arenas[i]->memory().copy());
    arenas[i]->memory().set(before[i]);
  }
  if (!launched.refused && reference(params, {})) return say(who, ": the reference refuses");
  for (std::size_t i = 0; i < arenas.size(); ++i) {
    const std::size_t where = first_difference(after[i], arenas[i]->memory().bytes());
    if (where == after[i].size()) continue;
    return say(who, launched.refused ? ": refused, and changed" : ": wrong in", " memory ", i,
               " at byte ", where, " (", text, ")");
  }
  return {};
}

/// Pairs whose sources sometimes follow one another; no destination is written twice.
std::vector<std::int64_t> draw_pairs(Random& random, std::int64_t count,
                                     const std::vector<std::int64_t>& from,
                                     std::vector<std::int64_t> to) {
  if (random.one_in(2)) std::sort(to.begin(), to.begin() + count);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(random.one_in(2) ? from[static_cast<std::size_t>(i) % from.size()]
                                   : from[random.next() % from.size()]);
    out.push_back(to[static_cast<std::size_t>(i)]);
  }
  return out;
}

/// Puts pairs that stand for no copy among the others.
void add_pads(Random& random, std::int64_t num_blocks, std::vector<std::int64_t>& pairs) {
  const auto none = [&] { return random.of<std::int64_t>({-1, -1, -2}); };
  for (std::int32_t left = random.one_in(2) ? 0 : random.between(1, 3); left > 0; --left) {
    const std::int64_t block = random.between(0, static_cast<int>(num_blocks - 1));
    const std::int32_t way = random.between(0, 2);
    const std::int64_t pad[] = {way == 0 ? block : none(), way == 1 ? block : none()};
    const auto at = 2 * random.between(0, static_cast<int>(pairs.size() / 2));
    pairs.insert(pairs.begin() + at, pad, pad + 2);
  }
}

/// The largest power of two up to 64 that the address is a multiple of.
std::int64_t alignment_of(const std::byte* address) {
  std::int64_t out = 64;
  while (reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(out) != 0) {
    out /= 2;
  }
  return out;
}

}  // namespace

Finding check_copy_blocks(std::uint64_t seed, int size,
                          const kernels::Implementation<CopyBlocksParams>& row,
                          MovementTally& tally) {
  Random random(seed);
  CopyBlocksParams p;
  p.block_bytes = draw_block_bytes(random);
  p.block_stride = p.block_bytes + random.of<std::int64_t>({0, 0, 16, 64, 3, p.block_bytes});
  const std::int64_t most = std::clamp<std::int64_t>(100'000 / (p.block_stride + 1), 2, 2 + size);
  const std::int64_t num_blocks = random.between(2, static_cast<int>(most));
  p.num_pairs = random.between(0, static_cast<int>(num_blocks / 2));
  p.num_caches = random.between(0, 3);
  std::vector<std::int64_t> blocks = draw_distinct(random, num_blocks, num_blocks);
  const std::vector<std::int64_t> sources(blocks.begin() + num_blocks / 2, blocks.end());
  std::vector<std::int64_t> list = draw_pairs(random, p.num_pairs, sources, blocks);
  add_pads(random, num_blocks, list);
  p.num_pairs = static_cast<std::int64_t>(list.size() / 2);
  const Arena pairs = arena_of(random, list);
  p.pairs = pairs.as<std::int64_t>();
  p.alignment = 64;
  std::vector<Arena> caches;
  std::vector<void*> addresses;
  for (std::int32_t i = 0; i < p.num_caches; ++i) {  // exactly up to the last block's last byte
    caches.emplace_back(random, (num_blocks - 1) * p.block_stride + p.block_bytes,
                        random.of<std::int64_t>({0, 0, 0, 16, 8, 2, 1}));
    addresses.push_back(caches.back().at(0));
    p.alignment = std::min(p.alignment, alignment_of(caches.back().at(0)));
  }
  const Memory bases = memory_of(addresses);
  p.caches = bases.as<void*>();
  std::vector<const Arena*> arenas;
  for (const Arena& cache : caches) arenas.push_back(&cache);
  return compare_memory(row, p, &kernels::copy_blocks_reference, arenas, seed,
                        say("copy_blocks ", row.name),
                        say(p.num_pairs, " pairs, ", p.num_caches, " caches, ", p.block_bytes,
                            " bytes every ", p.block_stride, ", alignment ", p.alignment),
                        tally);
}

Finding check_swap_blocks(std::uint64_t seed, int size,
                          const kernels::Implementation<SwapBlocksParams>& row,
                          MovementTally& tally) {
  Random random(seed);
  SwapBlocksParams p;
  p.block_bytes = draw_block_bytes(random);
  const auto most =
      static_cast<int>(std::clamp<std::int64_t>(100'000 / (p.block_bytes + 1), 2, 2 + size));
  p.from_blocks = random.between(1, most);
  p.to_blocks = random.between(1, most);
  p.num_pairs = random.between(0, static_cast<int>(p.to_blocks));
  std::vector<std::int64_t> from(static_cast<std::size_t>(p.from_blocks));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int64_t>(i);
  const std::vector<std::int64_t> list =
      draw_pairs(random, p.num_pairs, from, draw_distinct(random, p.to_blocks, p.to_blocks));
  const Arena source(random, p.from_blocks * p.block_bytes, random.between(0, 3));
  const Arena target(random, p.to_blocks * p.block_bytes, random.between(0, 3));
  p.from = source.at(0);
  p.to = target.at(0);
  p.pairs = list.data();
  return compare_memory(row, p, &kernels::swap_blocks_reference, {&source, &target}, seed,
                        say("swap_blocks ", row.name),
                        say(p.num_pairs, " pairs, ", p.block_bytes, " bytes each, from ",
                            p.from_blocks, " to ", p.to_blocks, " blocks"),
                        tally);
}

Finding check_slot_mapping(std::uint64_t seed, int size,
                           const kernels::Implementation<SlotMappingParams>& row,
                           MovementTally& tally) {
  Random random(seed);
  SlotMappingParams p;
  p.block_size = random.one_in(2) ? 16 : random.between(1, 256);
  p.num_seqs = random.between(0, 1 + size / 10);
  p.table_width = random.between(0, 6);
  p.table_stride = p.table_width + (random.one_in(2) ? 0 : random.between(1, 3));
  constexpr std::int32_t kNoBlock = std::numeric_limits<std::int32_t>::min();
  const std::int32_t highest =
      random.one_in(4) ? std::numeric_limits<std::int32_t>::max() : 1000;  // 64-bit slots
  std::vector<std::int32_t> tables, starts{0};
  for (std::int64_t i = 0; i < p.num_seqs * p.table_stride; ++i) {
    tables.push_back(random.one_in(10) ? random.of({-1, -1, kNoBlock})
                                       : random.between(0, highest));
  }
  std::vector<std::int64_t> positions;
  for (std::int32_t seq = 0; seq < p.num_seqs; ++seq) {
    const std::int32_t length = random.one_in(3) ? 0 : random.between(1, 1 + size / 2);
    const std::int32_t room = p.table_width * p.block_size;
    std::int32_t first = random.between(0, std::max(0, room - length));
    if (random.one_in(4)) first = std::max(0, room - random.between(0, length));  // past the end
    if (random.one_in(6)) first = -random.between(1, 4);                          // pads first
    for (std::int32_t i = 0; i < length; ++i) {
      positions.push_back(random.one_in(40) ? random.between(-room, room) : first + i);
    }
    starts.push_back(starts.back() + length);
  }
  p.num_tokens = starts.back();
  p.num_slots = p.num_tokens + (random.one_in(3) ? 0 : random.between(1, 300));
  const Arena table_arena = arena_of(random, tables), starts_arena = arena_of(random, starts);
  const Arena position_arena = arena_of(random, positions);
  const Arena slots(random, p.num_slots * 8);
  for (std::int64_t i = 0; i < p.num_slots; ++i) {  // slots that the last step left
    slots.as<SlotId>()[i] = random.between(0, 10'000);
  }
  p.block_tables = table_arena.as<std::int32_t>();
  p.query_starts = starts_arena.as<std::int32_t>();
  p.positions = position_arena.as<std::int64_t>();
  p.slots = slots.as<SlotId>();
  return compare_memory(
      row, p, &kernels::slot_mapping_reference, {&slots}, seed, say("slot_mapping ", row.name),
      say(p.num_tokens, " tokens of ", p.num_seqs, " sequences, ", p.num_slots, " slots, width ",
          p.table_width, ", stride ", p.table_stride, ", block size ", p.block_size),
      tally);
}

}  // namespace kvproof::properties
