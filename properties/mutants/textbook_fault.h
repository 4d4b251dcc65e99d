// SPDX-License-Identifier: Apache-2.0
// The lines of the textbook allocator that can be broken, named by what the broken line does.
//
// Each is one row of mutants.h, which has the report behind it. An allocator has at most one.
#pragma once

namespace kvproof::properties {

enum class Fault {
  none,
  // references and the free queue
  fork_counts_entries,          // B001
  release_queues_duplicates,    // B002
  pin_holds_oldest_copy,        // B003
  touch_leaves_queued,          // B004
  swap_releases_to_other_tier,  // B005
  release_queues_null,          // B006
  free_after_finish,            // B007
  swap_out_queues_null,         // B009
  recycle_keeps_entry,          // B010
  pin_takes_no_reference,       // B011
  unpin_drops_twice_clamped,    // B012
  take_without_reference,       // B014
  // keys
  hash_truncated,                // B015
  lookup_compares_bucket_only,   // B016
  hash_shortens_image_ids,       // B018
  hash_without_images,           // B019
  hash_without_image_offset,     // B020
  hash_without_adapter_version,  // B021
  tier_key_without_adapter,      // B023
  tier_key_of_tokens_only,       // B024
  first_block_found_by_tokens,   // B025
  hash_without_adapter,          // B026
  hash_untagged,                 // B027
  hash_embeds_as_images,         // B028
  hash_without_salt,             // B029
  tier_key_without_layout,       // B030
  hash_seeded_per_request,       // B031
  // the life of an index entry
  take_keeps_key,                // B032
  take_keeps_index_entry,        // B033
  evict_keeps_block_hash,        // B034
  index_holds_one_block,         // B035
  removal_names_first_copy,      // B036
  publish_again_after_relative,  // B037
  removal_asks_parent,           // B038
  take_counts_as_published,      // B040
  finish_keeps_unpublished,      // B041
  publish_evicts_own_chain,      // B042
  recycled_block_keeps_key,      // B043
  // lookup and the ends of blocks
  lookup_continues_after_miss,  // B044
  hit_touches_all_but_last,     // B045
  preempt_releases_recycled,    // B240
  truncate_rounds_down,         // B049
  publish_frees_duplicate,      // B050
  lookup_reports_last_but_one,  // B051
  lookup_takes_last_token,      // B052
  slots_without_hit,            // B054
  stale_hit_accepted,           // B055
  truncate_shrinks_capacity,    // B056
  // admission
  touch_before_check,            // B057
  check_ignores_queued_hits,     // B058
  gate_ignores_queued_hits,      // B059
  swap_in_ignores_queued_twins,  // B060
  check_counts_tokens,           // B061
  check_ignores_partial_block,   // B062
  take_before_check,             // B063
  gate_reserves_chunk_only,      // B065
  take_without_evicting,         // B067
  gate_charges_whole_window,     // B068
  // eviction order
  free_parents_first,          // B070
  take_before_touch,           // B071
  hit_prefix_freed_to_front,   // B073
  rollback_to_tail,            // B074
  evict_counts_skipped,        // B075
  evict_never_stops,           // B076
  window_hit_freed_to_front,   // B078
  lifo_becomes_fifo,           // B079
  refused_load_touches_twins,  // B080
  // windows
  recycle_from_scheduled,     // B081
  recycle_counts_drafts,      // B082
  recycle_rounds_up,          // B084
  publish_recycled,           // B085
  release_recomputes_window,  // B086
  publish_replaces_holders,   // B087
  // groups
  trim_first_group_only,        // B089
  eagle_drops_every_round,      // B090
  mask_by_own_blocks,           // B092
  hit_of_last_group,            // B093
  hit_of_longest_group,         // B094
  state_margin_not_dropped,     // B095
  failed_load_frees_one_group,  // B097
  // publication, drafts, chunks
  state_hit_in_same_step,      // B098
  delayed_blocks_published,    // B099
  take_numbers_consecutively,  // B101
  slots_from_computed,         // B102
  preempt_frees_published,     // B103
  // forks
  write_without_copy,     // B105
  fork_of_first_request,  // B106
  // transfers
  finish_in_transfer,          // B116
  abort_frees_load_target,     // B117
  failed_store_frees_source,   // B120
  store_source_not_held,       // B121
  load_source_not_held,        // B122
  store_frees_duplicate,       // B124
  refused_store_frees_source,  // B125
  lease_lapses,                // B126
  load_does_not_wait,          // B127
  evict_marks_first_only,      // B129
  failed_load_counts,          // B130
  hit_checked_by_presence,     // B133
  // leaks
  lookup_pins,                // B139
  cache_adds_reference,       // B140
  refusal_keeps_first_group,  // B142
  free_by_computed_tokens,    // B144
  rollback_forgets_keys,      // B145
  // counters
  counts_at_lookup,           // B149
  counts_resumed,             // B150
  index_lists_block_twice,    // B152
  counts_found_not_used,      // B153
  check_counts_prompt_twice,  // B154
  // reset and common prefix
  reset_waits_for_empty_index,  // B155
  reset_forgets_blocks,         // B156
  common_prefix_by_count,       // B158
  common_prefix_by_holders,     // B159
};

}  // namespace kvproof::properties
