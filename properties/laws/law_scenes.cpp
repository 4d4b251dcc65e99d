// SPDX-License-Identifier: Apache-2.0
#include "properties/laws/law_scenes.h"

#include "reference/decode_calls.h"
#include "reference/operations.h"

namespace kvproof::properties {

ThreeCalls Scene::calls_of(const op::Decode& batch) {
  reference::CacheManager other = model_;
  ThreeCalls out;
  out.outcome.result = by_three_calls(
      batch,
      [&](const std::string& req) {
        other.observe(after_calls_);
        return after_calls_.find(req)->computed;
      },
      [&](const Operation& call) {
        Outcome one = other.apply(call);
        out.outcome.events.insert(out.outcome.events.end(), one.events.begin(), one.events.end());
        return one.result;
      });
  other.observe(after_calls_);
  out.state = &after_calls_;
  return out;
}

namespace with {

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
CacheConfig states_inside() {
  CacheConfig config = small_config();
  config.profile = *find_profile("vllm-0.33");
  config.num_blocks = 16;
  config.groups.push_back({.kind = LayerKind::mamba, .block_size = 4, .mode = MambaMode::align});
  return config;
}

CacheConfig both_inside() {
  CacheConfig config = states_inside();
  config.groups[0].block_size = 4;
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
  config.profile.prompt_tail = PromptTail::complete;
  return config;
}

}  // namespace with

namespace play {
namespace {
void admit(Scene& s, std::uint32_t tokens) {
  s.play(op::Arrive{"a", std::vector<TokenId>(tokens, 1)}).play(allocate("a", tokens));
}
}  // namespace

void share(Scene& s) { s.share(); }
void share_and_finish(Scene& s) { s.share().play(op::Finish{"a"}); }
void look_up(Scene& s) { s.share().play(op::Arrive{"c", {0, 1, 2, 0, 1}}).play(op::Lookup{"c"}); }
void refuse_third(Scene& s) {
  s.share().play(op::Arrive{"c", std::vector<TokenId>(12, 1)}).play(allocate("c", 12));
}
void drained(Scene& s) { s.share().play(op::Finish{"a"}).play(op::Free{"b"}); }
void reset_device(Scene& s) {
  s.share().play(op::Finish{"a"}).play(op::Finish{"b"}).play(op::Reset{});
}
void common_prefix(Scene& s) { s.share().play(op::CommonPrefix{"a"}); }
void append(Scene& s) { s.share().play(op::Append{"a", {2}}); }
void arrive_other(Scene& s) { s.share().play(op::Arrive{"c", {1, 1}}); }
void arrive_same(Scene& s) { s.share().play(op::Arrive{"c", {0, 1}}); }
void gate(Scene& s) {
  op::Allocate call = allocate("c", 2);
  call.args.full_sequence_must_fit = true;
  s.share().play(op::Arrive{"c", std::vector<TokenId>(12, 1)}).play(call);
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
/// The first request gets the last block, the second is refused, the third needs none.
void decode_batch(Scene& s) {
  const std::pair<const char*, std::vector<TokenId>> prompts[] = {
      {"a", {1, 1}}, {"b", {2, 2}}, {"c", {3}}};
  for (const auto& [name, tokens] : prompts) {
    const auto all = static_cast<std::uint32_t>(tokens.size());
    s.play(op::Arrive{name, tokens}).play(allocate(name, all)).play(op::Advance{name, all});
  }
  s.play(op::Take{1}).play(op::Decode{{"a", "b", "c"}, {1, 2, 3}});
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
// The state at the end of the prompt goes on, and a copy keeps it for others.
void move_state(Scene& s) {
  s.play(op::Arrive{"a", std::vector<TokenId>(7, 1)}).play(allocate("a", 6)).play(op::Step{});
  s.play(op::Advance{"a", 6}).play(allocate("a", 1));
}
/// Two requests have hit the ends of two prompts, inside blocks of both groups.
void end_copies(Scene& s) {
  for (const TokenId token : {1, 2}) {
    const std::string owner = token == 1 ? "a" : "b";
    s.play(op::Arrive{owner, std::vector<TokenId>(7, token)}).play(allocate(owner, 6));
    s.play(op::Step{}).play(op::Finish{owner});
  }
  for (const TokenId token : {1, 2}) {
    const std::string hit = token == 1 ? "c" : "d";
    s.play(op::Arrive{hit, std::vector<TokenId>(8, token)}).play(op::Lookup{hit});
    s.play(allocate(hit, 2, true));
  }
  s.play(op::Step{});
}
void end_prompt(Scene& s) {
  admit(s, 8);
  s.play(op::Finish{"a"});
  s.play(op::Arrive{"b", std::vector<TokenId>(6, 2)}).play(allocate("b", 6));
  s.play(op::Advance{"b", 6}).play(op::Append{"b", {2, 2}}).play(allocate("b", 2));
}

}  // namespace play
}  // namespace kvproof::properties
