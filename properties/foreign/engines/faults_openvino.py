# SPDX-License-Identifier: Apache-2.0
"""Faults that are seeded into copies of OpenVINO GenAI; see faults.py."""

from faults import Fault

CONTINUOUS = "src/cpp/src/continuous_batching/"
MANAGER, SCHEDULER = CONTINUOUS + "cache/block_manager.hpp", CONTINUOUS + "scheduler.hpp"
SEQUENCE = "src/cpp/src/sequence_group.cpp"
OPENVINO = [
    Fault("whoever gives a block back takes it from all", MANAGER,
          "        --m_ref_count;", "        m_ref_count = 0;"),
    Fault("a hit on a kept block is not counted", MANAGER,
          "steady_clock::now());\n            block_ptr->increment();\n        }\n"
          "        m_blocks.erase(it);",
          "steady_clock::now());\n        }\n        m_blocks.erase(it);"),
    Fault("a hit on a live block is not counted", MANAGER,
          "cached_blocks[hash]) {\n                block_ptr->increment();",
          "cached_blocks[hash]) {"),
    Fault("a kept block that is hit stays in the store", MANAGER,
          "        m_blocks.erase(it);\n        return blocks_for_all_layers;",
          "        return blocks_for_all_layers;"),
    Fault("an overwritten block stays in the index", MANAGER,
          "cached_blocks.erase(previous_hash) > 0", "false"),
    Fault("an overwritten block keeps its key", MANAGER,
          "            for (auto& block : result.blocks) {\n                block->set_hash(hash);",
          "            for (auto& block : result.blocks) {"),
    Fault("kept blocks do not count as free", MANAGER,
          "return m_free_blocks_num[layer_idx] + num_overwriteable_blocks();",
          "return m_free_blocks_num[layer_idx];"),
    Fault("of two kept blocks of equal content one is lost", MANAGER,
          "m_free_blocks[layer_idx].push_back(colliding_blocks_per_layer[layer_idx]);", ";"),
    Fault("no copy before a write", MANAGER,
          "        return m_ref_count > 1;", "        return false;"),
    Fault("a copied block is still held", MANAGER,
          "                    free_cached_blocks(last_blocks);\n", ""),
    Fault("a copy is made of the next block", MANAGER,
          "copy_blocks_map[last_block->get_index()]",
          "copy_blocks_map[last_block->get_index() + 1]"),
    Fault("the copies of a step are not made", SCHEDULER,
          "        m_cache_orchestrator->copy_blocks(typed_block_copy_map);\n", ""),
    Fault("a sequence keeps its first block", MANAGER,
          "for (size_t i = 0; i < num_allocated_blocks; i++) {",
          "for (size_t i = 1; i < num_allocated_blocks; i++) {"),
    Fault("a prompt takes a block too few", MANAGER,
          "num_blocks = (tokens_needing_new_blocks + m_block_size - 1) / m_block_size;",
          "num_blocks = tokens_needing_new_blocks / m_block_size;"),
    Fault("slots are granted that are not there", MANAGER,
          "return required_blocks_count(std::move(seq_group)) <=",
          "return true || required_blocks_count(std::move(seq_group)) <="),
    Fault("the last token is hit", MANAGER,
          "return content_len == prompt_len ? content_len - 1 : content_len;",
          "return content_len;"),
    Fault("a key does not depend on the blocks before", SEQUENCE,
          "        if (filled_blocks_count > 0) {", "        if (false) {"),
    Fault("a block that is filled keeps the key of a part", MANAGER,
          "                        lst_blk->set_hash(hash);\n", ""),
]

# What the findings of this engine ask for, as short as it goes.
LIVE = "m_prefix_hash_to_cached_blocks"
MENDED = (
    Fault("a prompt's block is cached with the tokens that this step computes", MANAGER,
          "allocate(sequence, num_blocks, prompt_size);",
          "allocate(sequence, num_blocks,\n"
          "seq_group->get_context_len() + num_tokens - sequence->get_generated_len());"),
    Fault("so is a block that is computed again", MANAGER,
          "num_physical_blocks, seq_group->get_prompt_len());",
          "num_physical_blocks,\n"
          "seq_group->get_context_len() - sequence->get_generated_len());"),
    Fault("a block that is overwritten takes its own entry out of the index", MANAGER,
          "if (cached_blocks.erase(previous_hash) > 0) {",
          "if (auto it = cached_blocks.find(previous_hash); it != cached_blocks.end() &&\n"
          "it->second == result.blocks && cached_blocks.erase(previous_hash) > 0) {"),
    Fault("so does a last block that grows", MANAGER,
          f"{LIVE}.erase(prev_hash);\n                        {LIVE}[hash] = last_blocks;",
          f"if ({LIVE}[prev_hash] == last_blocks || {LIVE}[prev_hash].empty())\n"
          f"{LIVE}.erase(prev_hash);\n{LIVE}[hash] = last_blocks;"),
    Fault("and one behind which more are taken", MANAGER,
          f"{LIVE}.erase(prev_hash);\n                        last_blocks_vec",
          f"if ({LIVE}[prev_hash].empty() || {LIVE}[prev_hash][layer_idx] == lst_blk)\n"
          f"{LIVE}.erase(prev_hash);\nlast_blocks_vec"),
    Fault("a kept block that is hit is found on", MANAGER,
          "            // use cached block from internal store\n",
          "            cached_blocks.emplace(hash, blocks_for_all_layers);\n"),
    Fault("a half-filled block that somebody holds is not hit", MANAGER,
          f"if (m_allocator.has_cached_block(hash, {LIVE})) {{\n"
          "                        plan.block_content_lengths.push_back(partial_content_len);",
          "if (m_allocator.has_cached_block(hash, {})) {\n"
          "plan.block_content_lengths.push_back(partial_content_len);"),
    Fault("nor one at the end of a prompt", MANAGER,
          f"if (m_allocator.has_cached_block(full_block_hash, {LIVE})) {{",
          f"if (m_allocator.has_cached_block(full_block_hash,\n"
          f"content_len % m_block_size ? decltype({LIVE}){{}} : {LIVE})) {{"),
)
