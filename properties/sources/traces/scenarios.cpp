// SPDX-License-Identifier: Apache-2.0
#include "properties/sources/traces/scenarios.h"

#include <numeric>
#include <utility>

#include "reference/cache_manager.h"
#include "reference/operations.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

CacheConfig pool(std::uint32_t num_blocks, std::uint32_t block_size, bool caching = true) {
  CacheConfig out;
  out.num_blocks = num_blocks;
  out.enable_caching = caching;
  out.max_model_len = 8192;
  out.hash_block_size = block_size;
  out.groups = {{.kind = LayerKind::full, .block_size = block_size}};
  return out;
}

std::vector<TokenId> range(TokenId from, std::uint32_t count) {
  std::vector<TokenId> out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}

/// `shared` tokens that all callers have in common, then `own` tokens of a family of its own.
std::vector<TokenId> prompt(std::uint32_t shared, TokenId family, std::uint32_t own) {
  std::vector<TokenId> out = range(0, shared);
  const std::vector<TokenId> tail = range(10'000 * family, own);
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

using Operations = std::vector<Operation>;

/// Admits a request like a scheduler: arrival, lookup, allocation of the rest, computation.
void admit(Operations& out, const std::string& name, std::vector<TokenId> tokens, std::uint32_t hit,
           ExtraKeys extra = {}) {
  const auto total = static_cast<std::uint32_t>(tokens.size());
  out.push_back(op::Arrive{name, std::move(tokens), std::move(extra)});
  out.push_back(op::Lookup{name});
  out.push_back(op::Allocate{name, {.new_tokens = total - hit, .use_lookup = true}});
  out.push_back(op::Advance{name, total});
}

Scenario prefix_reuse() {
  Scenario out{
      "prefix_reuse",
      "Two requests share three blocks; they leave, a third one revives the prefix, and a fourth "
      "takes every block.",
      pool(11, 16),
      {}};
  admit(out.operations, "r0", prompt(48, 1, 7), 0);
  admit(out.operations, "r1", prompt(48, 2, 5), 48);
  out.operations.push_back(op::CommonPrefix{"r1"});
  out.operations.push_back(op::Finish{"r0"});
  out.operations.push_back(op::Finish{"r1"});
  admit(out.operations, "r2", prompt(48, 3, 5), 48);
  out.operations.push_back(op::Finish{"r2"});
  admit(out.operations, "r3", range(500'000, 160), 0);
  out.operations.push_back(op::Finish{"r3"});
  out.operations.push_back(op::Reset{});
  return out;
}

Scenario eviction_order() {
  Scenario out{
      "eviction_order", "A hit moves a prefix to the young end of the queue.", pool(13, 4), {}};
  for (const TokenId family : {1, 2, 3}) {
    admit(out.operations, std::string("r").append(std::to_string(family)), prompt(0, family, 8), 0);
  }
  for (const char* name : {"r1", "r2", "r3"}) out.operations.push_back(op::Finish{name});
  admit(out.operations, "again", prompt(0, 1, 9), 8);
  out.operations.push_back(op::Finish{"again"});
  return out;
}

Scenario hits_in_the_queue() {
  Scenario out{
      "hits_in_the_queue",
      "Hit blocks that nobody holds are free and needed at once, so the request does not fit.",
      pool(11, 16),
      {}};
  admit(out.operations, "r0", prompt(48, 0, 0), 0);
  admit(out.operations, "r1", prompt(96, 0, 0), 48);
  out.operations.push_back(op::Finish{"r1"});
  admit(out.operations, "r2", range(500'000, 32), 0);
  out.operations.push_back(op::Arrive{"r3", prompt(96, 3, 48)});
  out.operations.push_back(op::Lookup{"r3"});
  out.operations.push_back(op::Allocate{"r3", {.new_tokens = 48, .use_lookup = true}});
  return out;
}

Scenario duplicates() {
  Scenario out{"duplicates",
               "Two copies of one content; the older one is served until it is evicted.",
               pool(9, 4),
               {}};
  for (const char* name : {"r0", "r1"}) {
    out.operations.push_back(op::Arrive{.req = name, .tokens = range(0, 8), .skip_lookup = true});
    out.operations.push_back(op::Lookup{name});
    out.operations.push_back(op::Allocate{name, {.new_tokens = 8}});
  }
  out.operations.push_back(op::Arrive{"r2", range(0, 9)});
  out.operations.push_back(op::Lookup{"r2"});
  out.operations.push_back(op::Finish{"r0"});
  out.operations.push_back(op::Finish{"r1"});
  out.operations.push_back(op::Evict{{1}});
  out.operations.push_back(op::Lookup{"r2"});
  out.operations.push_back(op::Reset{});
  return out;
}

Scenario gates() {
  Scenario out{
      "gates",
      "Watermark, reserved blocks and the whole-sequence gate, each just kept and just broken.",
      pool(21, 1, true),
      {}};
  out.config.watermark = 0.1;
  const auto ask = [&out](const char* name, std::uint32_t tokens, AllocateArgs args) {
    out.operations.push_back(
        op::Arrive{.req = name, .tokens = range(0, tokens), .skip_lookup = true});
    args.new_tokens = tokens;
    out.operations.push_back(op::Allocate{name, args});
    out.operations.push_back(op::Finish{name});
  };
  ask("too_many", 19, {.has_scheduled = true});
  ask("just_fits", 18, {.has_scheduled = true});
  ask("nobody_runs", 20, {.has_scheduled = false});
  ask("reserved_breaks", 17, {.reserved = 4});
  ask("reserved_fits", 16, {.reserved = 4});
  out.operations.push_back(op::Arrive{.req = "long", .tokens = range(0, 21), .skip_lookup = true});
  out.operations.push_back(op::Allocate{"long", {.new_tokens = 1, .full_sequence_must_fit = true}});
  out.operations.push_back(op::Allocate{"long", {.new_tokens = 1}});
  return out;
}

Scenario gates_of_a_step() {
  Scenario out{
      "gates_of_a_step",
      "A running request meets the gates too, if the call asks for them; one that asks for "
      "nothing is rejected.",
      pool(6, 4),
      {}};
  admit(out.operations, "r0", range(0, 4), 0);
  admit(out.operations, "r1", range(100, 8), 0);
  const auto ask = [&out](AllocateArgs args) {
    args.status = RequestStatus::running;
    out.operations.push_back(op::Allocate{"r0", args});
  };
  ask({});
  ask({.new_tokens = 4, .reserved = 2});
  ask({.new_tokens = 4, .reserved = 1});
  ask({.new_tokens = 1, .external = 4});
  out.operations.push_back(op::Append{"r0", range(50, 16)});
  ask({.new_tokens = 1, .full_sequence_must_fit = true});
  ask({.new_tokens = 1, .use_lookup = true});
  out.operations.push_back(op::Finish{"r1"});
  ask({.new_tokens = 9, .reserved = 1});
  ask({.new_tokens = 9, .full_sequence_must_fit = true});
  return out;
}

Scenario what_is_gone() {
  Scenario out{"what_is_gone",
               "The names of a request and of a lease that are gone, until they are given again.",
               pool(9, 4),
               {}};
  admit(out.operations, "r0", range(0, 8), 0);
  admit(out.operations, "r1", range(100, 8), 0);
  out.operations.push_back(op::Pin{{1}, "l0"});
  out.operations.push_back(op::Pin{{2}, "l1"});
  out.operations.push_back(op::Finish{"r0"});
  out.operations.push_back(op::Unpin{"l0"});
  for (const int round : {0, 1}) {
    out.operations.insert(
        out.operations.end(),
        {op::Append{"r0", {1}}, op::Advance{"r0", 1}, op::Lookup{"r0"}, op::Free{"r0"},
         op::Allocate{"r0", {.new_tokens = 1}}, op::Cache{"r0", 4}, op::Recycle{"r0", 4},
         op::Allocate{"r0", {.new_tokens = 1, .status = RequestStatus::running}}, op::Finish{"r0"},
         op::Truncate{"r0", 8}, op::CommonPrefix{"r0"}, op::Unpin{"l0"}, op::Release{{8}}});
    if (round > 0) continue;
    admit(out.operations, "r2", range(200, 4), 0);
    out.operations.push_back(op::Pin{{1}, "l2"});
  }
  out.operations.push_back(op::Unpin{"l2"});
  out.operations.push_back(op::Unpin{"l1"});
  return out;
}

Scenario lookahead_and_external() {
  Scenario out{
      "lookahead_and_external",
      "Drafts get slots but no keys; loaded tokens get blocks but no keys until they arrived.",
      pool(12, 4),
      {}};
  admit(out.operations, "r0", prompt(8, 0, 0), 0);
  out.operations.push_back(op::Arrive{"r1", prompt(8, 1, 17)});
  out.operations.push_back(op::Lookup{"r1"});
  out.operations.push_back(op::Allocate{
      "r1", {.new_tokens = 9, .use_lookup = true, .external = 8, .delay_cache = true}});
  out.operations.push_back(op::Cache{"r1", 16});
  out.operations.push_back(op::Advance{"r1", 25});
  out.operations.push_back(op::Append{"r1", {7}});
  out.operations.push_back(
      op::Allocate{"r1", {.new_tokens = 4, .lookahead = 3, .status = RequestStatus::running}});
  out.operations.push_back(op::Advance{"r1", 26});
  out.operations.push_back(op::Free{"r1"});
  out.operations.push_back(op::Lookup{"r1"});
  return out;
}

Scenario extra_keys() {
  Scenario out{"extra_keys",
               "Equal tokens share only under equal adapter, salt and images.",
               pool(20, 4),
               {}};
  admit(out.operations, "base", range(0, 9), 0);
  ExtraKeys adapter;
  adapter.lora = "x";
  ExtraKeys salt;
  salt.salt = "x";
  ExtraKeys image;
  image.mm = {{"img", 5, 2}};
  admit(out.operations, "lora", range(0, 9), 0, adapter);
  admit(out.operations, "salt", range(0, 9), 0, salt);
  admit(out.operations, "lora2", range(0, 9), 8, adapter);
  out.operations.push_back(op::Arrive{"image", range(0, 9), image});
  out.operations.push_back(op::Lookup{"image"});
  return out;
}

Scenario without_caching() {
  Scenario out{"without_caching",
               "No prefix cache: nothing is hashed, nothing is hit.",
               pool(9, 4, false),
               {}};
  admit(out.operations, "r0", range(0, 12), 0);
  admit(out.operations, "r1", range(0, 8), 0);
  out.operations.push_back(op::Finish{"r0"});
  out.operations.push_back(op::Finish{"r1"});
  out.operations.push_back(op::Reset{});
  return out;
}

}  // namespace

std::vector<Scenario> scenarios() {
  std::vector<Scenario> out;
  for (const Profile& profile : kProfiles) {
    for (Scenario scenario : {prefix_reuse(), eviction_order(), hits_in_the_queue(), duplicates(),
                              gates(), gates_of_a_step(), what_is_gone(), lookahead_and_external(),
                              extra_keys(), without_caching()}) {
      scenario.config.profile = profile;
      out.push_back(std::move(scenario));
    }
  }
  return out;
}

std::string record(const Scenario& scenario) {
  TraceHeader header;
  header.recorded_from = "kvproof reference model";
  header.family = "scenario";
  header.name = scenario.name;
  header.config = scenario.config;
  std::string out = to_json(header) + "\n";
  reference::CacheManager model(scenario.config);
  Snapshot state;
  for (const Operation& operation : scenario.operations) {
    const Outcome outcome = model.apply(operation);
    model.observe(state);
    out += to_json(operation, outcome, state) + "\n";
  }
  return out + end_line(scenario.operations.size()) + "\n";
}

}  // namespace kvproof::properties
