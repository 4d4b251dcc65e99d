// SPDX-License-Identifier: Apache-2.0
// The list of source patches to kernels/: an id is a number in properties/kernels/kernel_mutants.h,
// which says what is wrong; 1 to 6 are for the sanitizers (sanitized_kernels_test.cpp).
#include "properties/mutants/kernel_faults.h"
#include "properties/mutants/patch.h"

namespace kvproof::properties {
namespace {

constexpr const char* kCopy = "copy_blocks/copy_blocks.cu";
constexpr const char* kGather = "gather_cache/gather_cache.cu";
constexpr const char* kReshape = "reshape_and_cache/reshape_and_cache.cu";
constexpr const char* kSlots = "slot_mapping/slot_mapping.cu";
constexpr const char* kSwap = "swap_blocks/swap_blocks.cu";
constexpr const char* kAttention = "attention/attention.h";
constexpr const char* kGeneral = "attention/attention_general.cuh";
constexpr const char* kMerge = "attention/merge_splits.cuh";
constexpr const char* kTuned = "attention/attention_mma.cuh";
constexpr const char* kRows = "attention/mma_rows.cuh";
constexpr const char* kFew = "attention/mma_few_rows.cuh";
constexpr const char* kLast = "attention/mma_merge.cuh";
constexpr const char* kTile = "attention/mma_tile.cuh";
constexpr const char* kHopperLoad = "attention/wgmma_load.cuh";
constexpr const char* kHopperPrefill = "attention/wgmma_prefill.cuh";
constexpr const char* kLatent = "attention/wgmma_latent.cuh";
constexpr const char* kLatentMemory = "attention/wgmma_latent_memory.cuh";
constexpr const char* kLatentRows = "attention/wgmma_latent_rows.cuh";

// Where, then by what it is replaced.
// clang-format off
constexpr Patch kKernelPatches[] = {
    // Movement and tables.
    {"167", kCopy, "return {`cache + (pair[0] * p.block_stride + begin)`,",
     "patched::without_carry(cache, pair[0] * p.block_stride + begin)"},
    {"167", kCopy, "`cache + (pair[1] * p.block_stride + begin)`,",
     "patched::without_carry(cache, pair[1] * p.block_stride + begin)"},
    {"188", kCopy, "const std::int64_t left = `p.block_bytes` - begin;", "p.block_stride"},
    {"188", kCopy, "return (`p.block_bytes` + kPartBytes - 1) / kPartBytes;", "p.block_stride"},
    {"26", kCopy, "`` return is_pad(pair);", "patched::read_once(pair[2]);"},
    {"32", kCopy, "return `is_pad(pair)`;", "false"},
    {"33", kCopy, "return `is_pad(pair)`;", "pair[1] < 0"},

    {"187", kGather, "const std::int32_t size = `p.layout.block_size`;",
     "p.layout.token_stride < p.layout.head_stride ? p.num_heads : p.layout.block_size"},
    {"256", kGather, "`` return {*entry,", "patched::read_once(entry[1]);"},
    {"31", kGather, "return {`*entry`,", "*entry < 0 ? 0 : *entry"},
    {"165", kGather, "return `p.layout.row(place.block, place.token, head)`;",
     "static_cast<std::uint32_t>(place.block) * static_cast<std::uint32_t>(p.layout.block_stride)"
     " + p.layout.row(0, place.token, head)"},
    {"169", kGather, "return `p.layout.row(place.block, place.token, head)`;",
     "static_cast<std::int32_t>(place.block * p.layout.block_stride) + p.layout.row(0,"
     " place.token, head)"},
    {"189", kGather, "`` return p.layout.row(place.block, place.token, head);",
     "if (p.num_heads == 2) { const CacheLayout& layout = p.layout;"
     " const bool nhd = layout.token_stride > layout.head_stride;"
     " const std::int64_t row = nhd ? layout.head_stride : layout.token_stride;"
     " return place.block * layout.block_stride + (nhd ? head * layout.block_size + place.token"
     " : place.token * p.num_heads + head) * row; }"},
    {"221", kGather, "load_element(p.cache, from, p.cache_type) * `p.scale`);", "0.0F"},
    {"30", kGather, "if (`place.block >= 0`) return false;", "true"},
    {"224", kGather, "How::convert(in, `p.scale`, out);", "1.0F"},
    {"166", kGather, "const Bytes16 in = `load16(static_cast<const char*>(p.cache) + from)`;",
     "from < 0xFFFFFFFF ? load16(static_cast<const char*>(p.cache) + from) : Bytes16{}"},

    {"162", kReshape, "return `side.layout.row_of_slot(slot, head)`;",
     "static_cast<std::int32_t>(side.layout.row_of_slot(slot, head))"},
    {"168", kReshape, "return `side.layout.row_of_slot(slot, head)`;",
     "side.layout.row((slot / side.layout.block_size) & 0xFFFF,"
     " static_cast<std::int32_t>(slot % side.layout.block_size), head)"},
    {"185", kReshape, "`row_in(side, slot, head)` +",
     "patched::dense_row(side, slot, head, p.num_heads)"},
    {"185", kReshape, "k.store(key, `row_in(key, slot, i / of_key)`,",
     "patched::dense_row(key, slot, i / of_key, p.num_heads)"},
    {"185", kReshape, "v.store(value, `row_in(value, slot, i / of_value)`,",
     "patched::dense_row(value, slot, i / of_value, p.num_heads)"},
    {"258", kReshape, "`` return p.slot_mapping[token];",
     "if (p.slot_mapping[token] < 0) return 0;"},
    {"29", kReshape, "`` return p.slot_mapping[token];",
     "for (std::int64_t i = 0; i < token; ++i) { if (p.slot_mapping[i] < 0) return kPadSlotId; }"},
    {"28", kReshape, "return `slot >= 0`;", "slot != kPadSlotId"},
    {"172", kReshape, "return `slot >= 0`;", "true"},
    {"24", kReshape, "const std::int32_t bytes = bytes_of(p.type); ``",
     "patched::read_once(static_cast<const char*>(side.rows)[(from + 1) * bytes]);"},
    {"219", kReshape, "load_element(side.rows, from, p.type) / `side.scale`);", "1.0F"},
    {"229", kReshape, "static_cast<const std::uint16_t*>(side.rows)[from]; } ``", "return;"},
    {"222", kReshape, "const CacheSide value = `value_side(p)`;",
     "patched::with_scale(value_side(p), 1.0F)"},
    {"223", kReshape, "const CacheSide value = `value_side(p)`;",
     "patched::with_scale(value_side(p), 0.0F)"},
    {"226", kReshape, "if (`!aligned(side.head_size, p.cache_type)`) {", "false"},
    {"233", kReshape, "if (`!aligned(side.cache)`) {", "false"},
    {"234", kReshape, "return {\"strides: no multiples of 16 bytes\"};", ""},
    {"173", kReshape, "static_cast<unsigned>(`p.num_tokens`), 1, 1};", "p.num_rows"},

    {"27", kSlots, "if (`position < 0`) return kPadSlotId;", "false"},
    {"183", kSlots, "const std::int32_t size = `p.block_size`;", "2 * p.block_size"},
    {"179", kSlots, "if (`column >= p.table_width`) return kPadSlotId;", "false"},
    {"257", kSlots, "const SlotId block = `p.block_tables[low * p.table_stride + column]`;",
     "SlotId{static_cast<std::uint32_t>(p.block_tables[low * p.table_stride + column])}"},
    {"180", kSlots, "return `block * size + position % size`;", "block"},
    {"184", kSlots, "return `block * size + position % size`;",
     "block * (2 * size) + position % size"},
    {"177", kSlots, "} else if (`i < p.num_slots`) {", "false"},
    {"25", kSlots, "`` p.slots[i] = kPadSlotId;", "patched::read_once(p.positions[i]);"},
    {"176", kSlots, "p.slots[i] = `kPadSlotId`;", "i - p.num_tokens"},

    {"190", kSwap, "const std::int64_t bytes = `p.block_bytes`;", "p.block_bytes / 2"},

    // Which tokens attention sees, and where they lie.
    {"226", "attention/attention.cpp", "if (`s.num_heads % s.num_kv_heads != 0`) {", "false"},
    {"183", kAttention, "table_stride + `position / key_layout.block_size`];",
     "position / key_layout.block_size / 2"},
    {"168", kAttention,
     "`` return block_tables[seq * table_stride + position / key_layout.block_size];",
     "return block_tables[seq * table_stride + position / key_layout.block_size] & 0xFFFF;"},
    {"163", kAttention,
     "return `key_layout.row(block_of(seq, position), position % key_layout.block_size, head)`;",
     "static_cast<std::int32_t>(key_layout.row(block_of(seq, position),"
     " position % key_layout.block_size, head))"},
    {"165", kAttention,
     "return `key_layout.row(block_of(seq, position), position % key_layout.block_size, head)`;",
     "static_cast<std::uint32_t>(key_layout.row(block_of(seq, position),"
     " position % key_layout.block_size, head))"},
    {"185", kAttention,
     "return `key_layout.row(block_of(seq, position), position % key_layout.block_size, head)`;",
     "key_layout.row(block_of(seq, position), position % key_layout.block_size,"
     " head) + block_of(seq, position) * (key_layout.token_stride * key_layout.block_size -"
     " key_layout.block_stride)"},
    {"178", kAttention, "`` if (seq_len <= 0 || end <= 0) return {0, 0};",
     "if (seq_len == 0) return {0, 1};"},
    {"204", kAttention, "`end < seq_len ? end : seq_len`};",
     "window > 0 && end + window - 1 < seq_len ? end + window - 1 : window > 0 || end >= seq_len"
     " ? seq_len : end"},
    {"205", kAttention, "`` return {window > 0 && end > window", "if (window > 0) ++window;"},
    {"182", kAttention, "const std::int32_t len = p.seq_lens[`seq`];", "(seq + 1) % p.num_seqs"},
    {"23", kAttention, "const std::int32_t len = p.seq_lens[seq]; ``",
     "patched::read_once(p.seq_lens[seq + 1]);"},
    {"255", kAttention, "`` return visible_to(token - first, next - first, len, p.shape.window);",
     "if (p.query_starts != nullptr) patched::read_once(p.query_starts[seq + 2]);"},
    {"192", kAttention, "return visible_to(token - first, next - first, len, p.shape.window);",
     "TokenRange out = visible_to(token - first, next - first, len, p.shape.window);"
     " if (out.end > 0 && out.end % p.kv.key_layout.block_size == 0) ++out.end; return out;"},
    {"194", kAttention, "std::int64_t{(`tiles` + num_splits - 1) / num_splits} * tile;", "1"},

    // The general kernel, and the merge of splits.
    {"216", "attention/attention_general.cu", "if (`splits == 1`) return {};", "false"},
    {"202", kGeneral, "state.weight[lane][t] = `-INFINITY`;",
     "patched::unmasked_key(p, seq, kv_head, begin + t, end) - INFINITY"},
    {"219", kGeneral, "float score = dot[h] * `s.key_scale` * s.scale;", "1.0F"},
    {"230", kGeneral, "const std::int64_t row = `p.kv.value_row(seq, begin + t, kv_head)`;",
     "p.kv.value_row(seq, s.head_size == 256 ? begin : begin + t, kv_head)"},
    {"170", kGeneral, "const std::int64_t row = `p.kv.value_row(seq, begin + t, kv_head)`;",
     "p.num_splits > 1 ? static_cast<std::int32_t>(p.kv.value_row(seq, begin + t,"
     " kv_head)) : p.kv.value_row(seq, begin + t, kv_head)"},
    {"229", kGeneral, "if (`i >= s.value_head_size`) break; const float value =",
     "i >= s.value_head_size || e > 0"},
    {"196", kGeneral, "out[h][e] += state.weight[h][t] * value; } } } `` }",
     "out[0][0] += patched::unmasked_values(p, seq, kv_head, end, patched::block_start(p,"
     " end) < end ? end + 1 : end);"},
    {"197", kGeneral, "out[h][e] += state.weight[h][t] * value; } } } `` }",
     "out[0][0] += patched::unmasked_values(p, seq, kv_head, end, patched::block_start(p,"
     " end + p.kv.key_layout.block_size - 1));"},
    {"199", kGeneral, "out[h][e] += state.weight[h][t] * value; } } } `` }",
     "out[0][0] += patched::unmasked_values(p, seq, kv_head, patched::block_start(p, begin),"
     " begin);"},
    {"201", kGeneral, "out[h][e] += state.weight[h][t] * value; } } } `` }",
     "const std::int32_t other = (seq + 1) % p.num_seqs;"
     " out[0][0] += patched::unmasked_values(p, other, kv_head, 0,"
     " p.seq_lens[other] > 0 ? 1 : 0);"},
    {"259", kGeneral, "out[h][e] += state.weight[h][t] * value; } } } `` }",
     "const std::int32_t before = patched::block_start(p, begin) - 1;"
     " if (s.window != 0) out[0][0] += patched::unmasked_key(p, seq, kv_head, before,"
     " before + 1);"},
    {"218", kGeneral, "sum > 0 ? `s.value_scale` / sum : 0;",
     "p.num_splits > 1 ? 1.0F : s.value_scale"},
    {"221", kGeneral, "sum > 0 ? `s.value_scale` / sum : 0;",
     "p.query_starts != nullptr ? 1.0F : s.value_scale"},
    {"210", kGeneral, "`` const float lse = sum > 0 ? state.highest[h]",
     "if (sum == 0 && s.window > 0) continue;"},
    {"207", kGeneral, "state.highest[h] + logf(sum) : `-INFINITY`;", "INFINITY"},
    {"34", kGeneral, "`` const TokenRange range = split_of(visible_of(p, seq, token),",
     "if (p.seq_lens[seq] == 0) return;"},
    {"6", kGeneral, "query[`i`] = load_element(",
     "i + (kGeneralHeads - num_heads) * s.head_size + 1"},
    {"1", kGeneral, "`KVPROOF_BARRIER();` // the query is there", ""},
    {"2", kGeneral, "`KVPROOF_BARRIER();` // scores -> probabilities", ""},
    {"3", kGeneral, "`KVPROOF_BARRIER();` // probabilities -> sums", ""},
    {"4", kGeneral, "`KVPROOF_BARRIER();` // the next tile overwrites them", ""},
    {"5", kGeneral, "`KVPROOF_BARRIER();` // the next heads overwrite query and sums", ""},
    {"251", kGeneral,
     "`` for (std::int32_t begin = range.begin; begin < range.end; begin += kGeneralTile) {",
     "const std::int64_t last = token * p.query_token_stride + (first_head"
     " + num_heads - 1) * p.query_head_stride; patched::read_once(static_cast<const"
     " char*>(p.query)[(last + s.head_size + threadIdx.x % 8) * bytes_of(s.type)]);"},
    {"254", kGeneral, "`` score_tile(p, state, query, num_heads,",
     "if constexpr (std::is_same_v<Kv, PagedKv>) { patched::read_once(p.kv.block_tables[seq *"
     " p.kv.table_stride + (begin + kGeneralTile) / p.kv.key_layout.block_size]); }"},

    {"214", kMerge, "return `token * p.lse_token_stride + head * p.lse_head_stride`;",
     "std::int64_t{token} * p.shape.num_heads + head"},
    {"211", kMerge, "first = (`std::int64_t{token} * s.num_heads` + head)", "0"},
    {"215", kMerge, "if (`lse != -INFINITY`) sum +=", "true"},
    {"215", kMerge, "const bool is_some = `sum > 0`;", "true"},
    {"206", kMerge, "const bool is_some = `sum > 0`;", "true"},
    {"213", kMerge, "p.split_output[(first + split) * `s.value_head_size` + i];", "s.head_size"},
    {"171", kMerge,
     "const std::int64_t at = `token * p.output_token_stride + head * p.output_head_stride`;",
     "static_cast<std::int32_t>(token * p.output_token_stride + head * p.output_head_stride)"},
    {"212", kMerge,
     "const std::int64_t at = `token * p.output_token_stride + head * p.output_head_stride`;",
     "(std::int64_t{token} * s.num_heads + head) * s.value_head_size"},

    // The tuned kernel.
    {"233", "attention/as_paged.h", "return `address % 16 == 0` &&", "true"},
    {"234", "attention/as_paged.h", "&& `strides % 16 == 0`;", "true"},
    {"16", kTuned, "const bool seen = `position >= rows.begin[i / 2]` &&", "true"},
    {"343", kTuned, "&& `token + kCount <= rows.all_end`;", "token < rows.all_end"},
    {"346", kTuned, "const bool all_seen = `token >= rows.all_begin` &&", "true"},
    {"15", kFew, "part[i] *= `rescale[i % 2]`;", "1.0F"},
    {"342", kFew, "weights[g][0] = `transpose_tile(pack_two<Element>(of[0], of[1]))`;",
     "pack_two<Element>(of[0], of[1])"},
    {"347", kFew, "token + 16 * kParts <= `rows.all_end`) return;", "0x7FFFFFFF"},
    {"12", kTuned, "copy_async_wait<kMmaStages - 2>();", ""},
    {"14", kTuned, "if constexpr (kManyRows) { `KVPROOF_BARRIER();` } else {", ""},
    {"35", kRows, "`` if (out.count == 0) return out;",
     "if (num_rows == 0) out.count = 1;"},
    {"252", kRows, "`` const bool valid = row < rows.count;",
     "if (row == rows.count && row > 0) {"
     " patched::read_once(query_from(p, rows, row - 1, chunk)[p.shape.head_size]); }"},
    {"344", kRows,
     "`` const std::uint16_t* const from = query_from(p, rows, row, chunk); if constexpr",
     "if (valid) patched::read_once(query_from(p, rows, row, chunk + 1)[7]);"},
    {"345", kRows, "return (address | `(token_stride | head_stride) * 2`)", "0"},
    {"340", kLast, "atomic_add(arrivals, `0u - all`);", "0u"},
    {"341", kLast, "const bool is_last = `others[0] == all - 1`;", "others[0] > all - 1"},
    {"36", kTile, "block = `mine < range.end` ?", "true"},
    {"36", kTile, "if (`mine < range.end`) {", "true"},
    {"36", kTile, "const bool valid = `position(step, row) < range.end`;", "true"},
    {"11", kTile, "const bool valid = `position(step, row) < range.end`;", "true"},
    {"253", kTile, "kv.block_of(seq, mine) : 0; ``",
     "patched::read_once(kv.block_tables[seq * kv.table_stride"
     " + mine / kv.key_layout.block_size]);"},
    {"13", kFew, "const int token = `first + lane / 16 * 8 + lane % 8`;",
     "first + lane / 16 * 8 + (lane % 8 ^ 1)"},

    // The prefill kernel for Hopper.
    {"301", kHopperLoad, "`fence_async();` KVPROOF_WARP_BARRIER(); // every lane's zeros", ""},
    {"302", kHopperLoad, "`fence_async();` barrier_arrive(memory.full(side, stage));", ""},
    {"303", kHopperPrefill, "`fence_async();` named_sync(1 + group, 128); // every warp's query",
     ""},
    {"304", kHopperPrefill, "`` soften(step); matrix_wait<0>();", "read.values.release();"},
    {"304", kHopperPrefill, "`read.values.release();` rescale_rows(out, rescale);", ""},
    {"305", "attention/wgmma_tile.cuh", "static_cast<int>(`count / kWgmmaStages & 1`);", "0"},
    {"306", kHopperPrefill, "= matrix_at(`Tile::kValueLayout`, values);",
     "matrix_layout(Tile::kGroupBytes, kPieceBytes, Swizzle::bytes128)"},
    {"307", "attention/attention_wgmma.cu", "by_piece = `num_heads == 1 || layout.head_stride"
     " == head_size`;", "true"},
    {"308", kHopperLoad, "kv.block_of(tile.seq, `position`));",
     "position < Tile::kTokens ? position : position - Tile::kTokens"},
    {"309", kHopperLoad, "`` if (position >= tile.visible.end || position + tokens",
     "if (position / call.params.kv.key_layout.block_size <= (tile.visible.end - 1)"
     " / call.params.kv.key_layout.block_size + 1) return static_cast<std::int32_t>("
     "call.params.kv.block_of(tile.seq, position));"},
    {"310", kHopperLoad, "const bool stale = `kSide == Side::values` &&", "false"},
    {"311", "attention/wgmma_softmax.cuh", "column >= begin && `column < end` ?", "column <= end"},
    {"312", kHopperPrefill, "masked = `token < tile.common.begin` ||", "false"},
    {"313", kHopperLoad, "barrier_expect(landed, `Tile::kStageBytes`);",
     "Tile::kStageBytes - 2048"},
    {"314", kHopperPrefill, "`rescale_rows(out, rescale);`", ""},
    {"315", kHopperPrefill, "matrix_hold(out); `matrix_fence();` issue_scores", ""},
    {"316", "attention/attention_wgmma.cu", "`rows / kWgmmaRows + params.num_seqs`) *",
     "(rows + kWgmmaRows - 1) / kWgmmaRows"},
    {"317", kHopperLoad, "`copy_async_wait<1>();`", ""},
    {"318", kHopperLoad, "`barrier_wait(memory.empty(kSide, stage), turn.parity() ^ 1);` if", ""},
    {"319", kHopperLoad, "`newest ? block : block_before`, token,", "block"},
    // The latent kernel for Hopper.
    {"320", kLatent, "`fence_async();` named_arrive(kWeightsWritten, 256);", ""},
    {"321", kLatent, "`` matrix_wait<0>(); matrix_hold(out); named_arrive(kWeightsRead, 256);",
     "free_part(memory.empty(stage, 1));"},
    {"321", kLatent, "named_arrive(kWeightsRead, 256); `free_part(memory.empty(stage, 1));`", ""},
    {"322", kLatent, "parity = `count / kLatentStages % 2`;", "0"},
    {"323", kLatent, "matrix_layout(1024, `latent_part_chunks(kPart)` * 1024,", "4"},
    {"325", kLatent, "named_sync(kWeightsRead, `256`); KVPROOF_UNROLL for (int k = 0;", "384"},
    {"326", kLatent, "`clear_tail(memory, stage, seen);` }", ""},
    {"328", kLatent, "matrix_hold(left.out); `matrix_fence();`", ""},
    {"329", kLatent,
     "if (`KVPROOF_BALLOT(factor[0] != 1.0F || factor[1] != 1.0F) != 0`) rescale_rows(left.out,",
     "false"},
    {"333", kLatent, "if (`seen < kLatentTokens`) hide_tail(scores, seen);", "false"},
    {"335", kLatent, "`barrier_wait(memory.full(stage, 1), parity);` multiply_query<T, 1>", ""},
    {"336", kLatent, "`matrix_wait<0>();` matrix_hold(scores);", "matrix_wait<1>();"},
    {"324", kLatentMemory, "barrier_expect(memory.full(stage, part), `latent_part_bytes(part)`);",
     "latent_part_bytes(0)"},
    {"330", kLatentMemory, "return has_box && `position < share.length` ?", "true"},
    {"332", kLatentMemory, "`barrier_wait(memory.query_empty(), (segments + 1) % 2);`", ""},
    {"337", kLatentMemory,
     "`barrier_wait(memory.empty(stage, part), (count / kLatentStages + 1) % 2);`", ""},
    {"327", kLatentRows, "p.split_lse[first + share.slot] = `lse[h]`;",
     "share.slot > 0 && share.slot == share.pieces - 1 ? -INFINITY : lse[h]"},
    {"334", kLatentRows, "`` for (int slot = share.pieces; slot < p.num_splits; ++slot)",
     "continue;"},
    {"331", "attention/wgmma_latent_share.cuh", "begin = `at - before`;", "0"},
};
// clang-format on

}  // namespace

PatchedFolder patched_folder_of_kernels() {
  return {"kernels", "", kKernelPatches, "properties/mutants/kernel_faults.h"};
}

}  // namespace kvproof::properties
