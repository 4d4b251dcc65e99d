# SPDX-License-Identifier: Apache-2.0
"""Faults of TVM's paged KV cache: in its kernels, which are Python, and in its source, which the
wheel has, too, and which the adapter compiles where it was changed."""

from faults import Fault

CACHE, KERNELS = "src/runtime/vm/paged_kv_cache.cc", "relax/frontend/nn/llm/"
COMMON = KERNELS + "_kernel_common.py"
OF_BLOCK = "global_block_pool_[block_idx]"

TVM = [
    Fault("all heads get the V of the last one", KERNELS + "_page_kernels.py",
          "= v_data[vgpos, vh, vf]", "= v_data[vgpos, num_key_value_heads - 1, vf]"),
    Fault("attention reads the last page whole", COMMON,
          "return (num_pages - 1) * page_size + length_info[seq_id]",
          "return num_pages * page_size"),
    Fault("attention reads what slid away", COMMON,
          "pos - length_info[2, seq_id] + length_info[1, seq_id],", "pos,"),
    Fault("a token sees the one behind it", COMMON,
          "col < kv_len - qo_len + row + 1,", "col < kv_len - qo_len + row + 2,"),
    Fault("what attention reads of the cache counts twice", KERNELS + "_decode_kernels.py",
          "V_other[n, h, d] * other_scale[0]", "V_other[n, h, d] * other_scale[0] * 2"),
    Fault("a fork does not hold what it shares", CACHE,
          "++global_block_pool_[parent_block_idx].external_ref_cnt;", ""),
    Fault("a block that a fork splits off has one holder", CACHE,
          "external_ref_cnt = 2;", "external_ref_cnt = 1;"),
    Fault("who leaves keeps its share", CACHE, f"--{OF_BLOCK}.external_ref_cnt;", ""),
    Fault("who leaves gives back its last block alone", CACHE,
          "// - Free pages in the last block.", "if (block_idx == it->second.last_block_idx)"),
    Fault("of the last page a fork copies one token less", CACHE,
          "tgt_page_id, in_page_offset);", "tgt_page_id, in_page_offset - 1);"),
    Fault("a pop gives back the page of tokens that stay", CACHE,
          "while (cur_npage > tgt_npage) {", "while (cur_npage > tgt_npage - (tgt_npage > 0)) {"),
    Fault("a pop gives back no page", CACHE,
          f"free_page_ids_.push_back({OF_BLOCK}.page_ids.back());", ""),
    Fault("a page that is handed out stays free", CACHE, "free_page_ids_.pop_back();", ""),
    Fault("an accepted path is not moved together", CACHE, "if (!is_chain) {", "if (false) {"),
    Fault("every second token is written over the one before", CACHE,
          "block.seq_length - append_length + pos;",
          "block.seq_length - append_length + pos / 2 * 2;"),
    Fault("a page that slid away is not given back", CACHE,
          "free_page_ids_.push_back(block.page_ids[num_sink_pages]);", ";"),
]

# What ../findings/tvm-rows-lost.md says, mended.
MEND = (
    Fault("rows are moved if any sequence of the batch has branches", CACHE,
          "is_chain = it->second.is_chain;", "is_chain = is_chain && it->second.is_chain;"),
    Fault("behind a window, tokens begin where it has slid to", CACHE,
          f"({OF_BLOCK}.seq_length - n +",
          f"({OF_BLOCK}.seq_length - n + {OF_BLOCK}.sliding_window_offset -\n"
          f"             {OF_BLOCK}.sink_length +"))
