// SPDX-License-Identifier: Apache-2.0
// Scenes that break the laws of several groups, of sharing and of tiers, on purpose.
#include "properties/laws/law_scenes.h"

#include <algorithm>
#include <optional>

namespace kvproof::properties {
namespace {

// Full attention and a window of three tokens, in blocks of two.
CacheConfig hybrid() {
  CacheConfig config = small_config();
  config.num_blocks = 12;
  config.groups.push_back({.kind = LayerKind::sliding_window, .block_size = 2, .window = 3});
  return config;
}

CacheConfig window() {
  CacheConfig config = small_config();
  config.num_blocks = 8;
  config.groups = {{.kind = LayerKind::sliding_window, .block_size = 2, .window = 3}};
  return config;
}

CacheConfig states() {
  CacheConfig config = small_config();
  config.num_blocks = 16;
  config.groups.push_back({.kind = LayerKind::mamba,
                           .block_size = 2,
                           .mode = MambaMode::align,
                           .speculative_blocks = 1});
  return config;
}

CacheConfig two_tiers() {
  CacheConfig config = small_config();
  config.num_blocks = 8;
  config.num_host_blocks = 6;
  return config;
}

CacheConfig prompt_tails() {
  CacheConfig config = hybrid();
  config.groups[0].block_size = 4;
  config.profile.prompt_tail_keys = true;
  return config;
}

void admit(Scene& s, std::uint32_t tokens) {
  s.play(op::Arrive{"a", std::vector<TokenId>(tokens, 1)}).play(allocate("a", tokens));
}
void admit_six(Scene& s) { admit(s, 6); }
void compute_six(Scene& s) {
  admit(s, 6);
  s.play(op::Advance{"a", 6});
}
/// The next token of the request, at which blocks leave the window.
void decode(Scene& s) {
  compute_six(s);
  s.play(op::Append{"a", {1}}).play(allocate("a", 1));
}
/// The window has moved on, and no block is left for the next token.
void refuse(Scene& s) {
  compute_six(s);
  s.play(op::Append{"a", std::vector<TokenId>(20, 1)});
  s.play(op::Take{3}).play(allocate("a", 20));
}
void recycle(Scene& s) {
  compute_six(s);
  s.play(op::Recycle{"a", 6});
}
void hit(Scene& s) {
  compute_six(s);
  s.play(op::Arrive{"b", std::vector<TokenId>(5, 1)}).play(op::Lookup{"b"});
}
void admit_hit(Scene& s) {
  hit(s);
  s.play(allocate("b", 1, true));
}
void fork(Scene& s) {
  admit(s, 5);
  s.play(op::Advance{"a", 5}).play(op::Fork{"a", "b"});
}
/// The child writes into the partial tail that it shares.
void copy(Scene& s) {
  fork(s);
  s.play(op::Append{"b", {2}}).play(allocate("b", 1));
}
void preempt(Scene& s) {
  admit(s, 5);
  s.play(op::Advance{"a", 5}).play(op::Free{"a"});
}
void pin(Scene& s) {
  admit(s, 4);
  s.play(op::Pin{{1, 2}, "lease"});
}
void evict(Scene& s) {
  admit(s, 4);
  s.play(op::Evict{{1}});
}
void delay(Scene& s) {
  op::Allocate call = allocate("a", 4);
  call.args.delay_cache = true;
  s.play(op::Arrive{"a", std::vector<TokenId>(4, 1)}).play(call);
}
void publish(Scene& s) {
  delay(s);
  s.play(op::Cache{"a", 4});
}
void take_all(Scene& s) { s.play(op::Take{64}); }
/// The counters of a manager that counts, before and after.
void counted(Scene& s, std::uint64_t lookups, std::uint64_t lookup_tokens, std::uint64_t hits) {
  s.before.counters.emplace();
  s.after.counters = {lookups, lookup_tokens, hits};
}
void take_while_pinned(Scene& s) {
  pin(s);
  s.play(op::Finish{"a"}).play(op::Take{2});
}
void swap_out(Scene& s) {
  admit(s, 5);
  s.play(op::Advance{"a", 5}).play(op::SwapOut{"a", "t"});
}
void swap_out_twice(Scene& s) {
  swap_out(s);
  s.play(op::SwapOut{"a", "u"});
}
void swapped_out(Scene& s) {
  swap_out(s);
  s.play(op::Complete{"t", true});
}
void swap_failed(Scene& s) {
  swap_out(s);
  s.play(op::Complete{"t", false});
}
void swap_in(Scene& s) {
  swapped_out(s);
  s.play(op::SwapIn{"a", "u"});
}
void reset(Scene& s) {
  swapped_out(s);
  s.play(op::Finish{"a"}).play(op::Reset{});
}
void end_prompt(Scene& s) {
  admit(s, 8);
  s.play(op::Finish{"a"});
  s.play(op::Arrive{"b", std::vector<TokenId>(6, 2)}).play(allocate("b", 6));
  s.play(op::Advance{"b", 6}).play(op::Append{"b", {2, 2}}).play(allocate("b", 2));
}

std::vector<BlockId>& table(Scene& s, std::size_t request, GroupId group) {
  return s.after.requests[request].tables[group];
}
std::vector<BlockId>& host_table(Scene& s) { return s.after.requests[0].host_tables[0]; }
Granted& granted(Scene& s) { return std::get<Granted>(s.outcome.result); }

constexpr Breakage kWider[] = {
    {"I6", "lease not counted", pin, [](Scene& s) { s.after.leases.clear(); }},
    {"I7", "block in tables of two groups", admit_six,
     [](Scene& s) { table(s, 0, 1)[0] = table(s, 0, 0)[0]; }, hybrid},
    {"I8", "shared without key or fork", admit_hit, [](Scene& s) { s.block(1).hashed = false; }},
    {"I9", "second key not listed", end_prompt, [](Scene& s) { s.block(2).tail_key = 77; },
     prompt_tails},
    {"I11", "block in tables of two groups", admit_six,
     [](Scene& s) { table(s, 0, 1)[0] = table(s, 0, 0)[0]; }, hybrid},
    {"I11", "key of another group", admit_six,
     [](Scene& s) { s.after.index[0].group = GroupId(1 - s.after.index[0].group); }, hybrid},
    {"I13", "key of another position in a window", admit_six,
     [](Scene& s) { std::swap(table(s, 0, 0)[0], table(s, 0, 0)[1]); }, window},
    {"I14", "hole in a window", decode,
     [](Scene& s) {
       table(s, 0, 0)[1] = 7;
       table(s, 0, 0)[2] = 0;
     },
     window},
    {"I15", "a state too many", decode,
     [](Scene& s) { std::ranges::fill(table(s, 0, 1), BlockId{9}); }, states},
    {"I16", "read position recycled", decode, [](Scene& s) { table(s, 0, 0)[2] = 0; }, window},
    {"I16", "too short in one group", decode, [](Scene& s) { table(s, 0, 1).pop_back(); }, hybrid},
    {"I16", "copy that the answer conceals", copy, [](Scene& s) { granted(s).copies.clear(); }},
    {"I16", "host table too short", swapped_out, [](Scene& s) { host_table(s).pop_back(); },
     two_tiers},
    {"I18", "null where it is read", hit, [](Scene& s) { s.hit().blocks[1].back() = 0; }, hybrid},
    {"I18", "groups of unequal length", hit, [](Scene& s) { s.hit().blocks[1].pop_back(); },
     hybrid},
    {"I18", "block of another group", hit, [](Scene& s) { s.hit().blocks[1] = s.hit().blocks[0]; },
     hybrid},
    {"I18", "admitted with a hole", admit_hit, [](Scene& s) { table(s, 1, 1)[1] = 0; }, hybrid},
    {"I19", "copy not counted", copy, [](Scene& s) { ++s.after.num_free; }},
    {"I19", "refused what recycling made room for", decode,
     [](Scene& s) { s.outcome.result = Refused{}; }, window},
    {"I20", "refusal recycled what is read", refuse, [](Scene& s) { table(s, 0, 0)[2] = 0; },
     window},
    {"I22", "recycling announced", recycle,
     [](Scene& s) { s.outcome.events.emplace_back(event::Cleared{}); }, window},
    {"I23", "leaked host block", reset, [](Scene& s) { --s.after.host.num_free; }, two_tiers},
    {"I24", "host key survived", reset, [](Scene& s) { s.after.host.blocks[1].hashed = true; },
     two_tiers},
    {"I25", "second key not announced", end_prompt, [](Scene& s) { s.block(2).tail_key = 77; },
     prompt_tails},
    {"I25", "stored in the wrong group", admit_six,
     [](Scene& s) { std::get<event::Stored>(s.outcome.events[0]).group = 1; }, hybrid},
    {"I26", "recycled to the wrong end", recycle,
     [](Scene& s) { std::ranges::reverse(s.after.queue); }, window},
    {"C1", "a window has no common prefix",
     [](Scene& s) {
       compute_six(s);
       s.play(op::CommonPrefix{"a"});
     },
     [](Scene& s) {
       s.outcome.result = SharedBlocks{3, 3};
     },
     hybrid},
    {"C2", "child without a block", fork, [](Scene& s) { s.table(1).pop_back(); }},
    {"C2", "child without references", fork, [](Scene& s) { --s.block(1).ref_cnt; }},
    {"C2", "parent changed", fork, [](Scene& s) { ++s.after.requests[0].computed; }},
    {"C2", "child has published nothing", fork,
     [](Scene& s) { s.after.requests[1].progress[0] = std::nullopt; }},
    {"C2", "child is missing", fork, [](Scene& s) { s.after.requests.pop_back(); }},
    {"C3", "written while shared", copy, [](Scene& s) { s.block(s.table(1)[2]).ref_cnt = 2; }},
    {"C3", "not copied", copy,
     [](Scene& s) {
       s.table(1)[2] = s.table(0)[2];
       granted(s) = Granted{{{}}};
     }},
    {"C3", "written under a foreign key", copy,
     [](Scene& s) {
       s.block(s.table(1)[2]).hashed = true;
       s.block(s.table(1)[2]).key = 77;
     }},
    {"C4", "lease lost", pin, [](Scene& s) { s.after.leases.clear(); }},
    {"C4", "leased block handed out", take_while_pinned,
     [](Scene& s) { granted(s).blocks[0][0] = 1; }},
    {"C4", "leased block lost its key", take_while_pinned,
     [](Scene& s) { s.block(1).hashed = false; }},
    {"C5", "no block on the other side", swap_out, [](Scene& s) { host_table(s)[1] = 0; },
     two_tiers},
    {"C5", "position neither copied nor known", swap_out,
     [](Scene& s) { granted(s).copies.pop_back(); }, two_tiers},
    {"C5", "copied twice", swap_out,
     [](Scene& s) { granted(s).copies.push_back(granted(s).copies.back()); }, two_tiers},
    {"C5", "device let go too early", swap_out, [](Scene& s) { s.table(0).clear(); }, two_tiers},
    {"C5", "still on the device", swapped_out,
     [](Scene& s) {
       s.table(0) = {1, 2, 3};
     },
     two_tiers},
    {"C5", "failure kept the host's blocks", swap_failed,
     [](Scene& s) {
       s.after.requests[0].host_tables = {{1, 2, 3}};
     },
     two_tiers},
    {"C5", "way back without a block", swap_in, [](Scene& s) { s.table(0)[2] = 0; }, two_tiers},
    {"C5", "refused although it fits", swap_out, [](Scene& s) { s.outcome.result = Refused{}; },
     two_tiers},
    {"C5", "landed without its key", swapped_out,
     [](Scene& s) { s.after.host.blocks[1].hashed = false; }, two_tiers},
    {"C5", "two transfers of one request", swap_out_twice,
     [](Scene& s) { s.outcome.result = Granted{}; }, two_tiers},
    {"C6", "held host block queued", swap_out, [](Scene& s) { s.after.host.queue.push_back(1); },
     two_tiers},
    {"C6", "host counter off", swap_out, [](Scene& s) { ++s.after.host.num_free; }, two_tiers},
    {"C6", "host reference lost", swap_out, [](Scene& s) { s.after.host.blocks[1].ref_cnt = 2; },
     two_tiers},
    {"C6", "host key without entry", swapped_out, [](Scene& s) { s.after.host.index.clear(); },
     two_tiers},
    {"C6", "another number of host blocks", swap_out,
     [](Scene& s) { s.after.host.blocks.pop_back(); }, two_tiers},
    {"C7", "key lost by a lookup", hit, [](Scene& s) { s.block(1).hashed = false; }},
    {"C7", "key changed by a grant", admit_hit, [](Scene& s) { ++s.block(1).key; }},
    {"C7", "evicted in vain", evict, [](Scene& s) { s.block(1).hashed = true; }},
    {"C7", "evicted beyond what was named", evict, [](Scene& s) { s.block(2).hashed = false; }},
    {"C8", "published too far", admit_hit, [](Scene& s) { s.after.requests[1].progress = {3}; }},
    {"C8", "not published", admit_six, [](Scene& s) { s.after.requests[0].progress = {2}; }},
    {"C8", "published though delayed", delay, [](Scene& s) { s.after.requests[0].progress = {1}; }},
    {"C8", "cache did nothing", publish, [](Scene& s) { s.after.requests[0].progress = {0}; }},
    {"C9", "lookup counted", hit, [](Scene& s) { counted(s, 1, 4, 4); }},
    {"C9", "admission not counted", admit_hit, [](Scene& s) { counted(s, 0, 0, 0); }},
    {"C9", "found instead of used", admit_hit, [](Scene& s) { counted(s, 1, 4, 2); }},
    {"C10", "hit of a hybrid too short", hit,
     [](Scene& s) {
       s.hit() = Hit{2, {{1}, {4}}};
     },
     hybrid},
    {"I19", "taken though there are none", take_all,
     [](Scene& s) { s.outcome.result = Granted{}; }},
    {"I19", "raw owner refused", take_while_pinned, [](Scene& s) { s.outcome.result = Refused{}; }},
    {"C8", "published late", admit_six, [](Scene& s) { s.after.requests[0].progress[0] = 1; }},
    {"C8", "published ahead", decode, [](Scene& s) { ++*s.after.requests[0].progress[0]; }},
    {"C11", "preempted and computed", preempt, [](Scene& s) { s.after.requests[0].computed = 4; }},
    {"C11", "preempted and published", preempt,
     [](Scene& s) { s.after.requests[0].progress[0] = 0; }},
};

}  // namespace

std::span<const Breakage> wider_breakages() { return kWider; }

}  // namespace kvproof::properties
