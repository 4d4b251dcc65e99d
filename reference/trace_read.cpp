// SPDX-License-Identifier: Apache-2.0
// Reading the text form of the alphabet: every value is checked before it is used.
#include <utility>

#include "reference/operations.h"
#include "reference/trace_fields.h"
#include "reference/trace_names.h"
#include "reference/trace_state.h"

namespace kvproof {
namespace {

using namespace fields;  // NOLINT: the words of this file

GroupConfig group_config(const json& value, std::string& unsupported) {
  constexpr std::uint32_t kLongest = 1U << 22;
  constexpr std::uint32_t kMostDrafts = 1U << 10;
  GroupConfig out;
  const std::string kind = text(object(value, "groups"), "kind");
  const auto* at = std::find(std::begin(kKindNames), std::end(kKindNames), kind);
  if (at == std::end(kKindNames)) {
    unsupported = "layer kind " + kind;
  } else {
    out.kind = static_cast<LayerKind>(at - std::begin(kKindNames));
  }
  out.block_size = size(value, "block_size", kLongest);
  out.eagle = flag(value, "eagle");
  if (out.kind == LayerKind::sliding_window || out.kind == LayerKind::rswa) {
    out.window = size(value, "window", kLongest);
  }
  if (out.kind == LayerKind::chunked_local) out.chunk = size(value, "chunk", kLongest);
  if (out.kind == LayerKind::mamba) {
    out.mode = static_cast<MambaMode>(word(value, "mode", kModeNames));
    out.speculative_blocks = size(value, "speculative_blocks", kMostDrafts);
    if (count_or_zero(value, "checkpoints") > 1) throw TextError("checkpoints", "0 or 1");
    if (count_or_zero(value, "checkpoints") == 1) {
      out.checkpoint_alignment = size(value, "checkpoint_alignment", kLongest);
    }
  }
  return out;
}

void read_policies(const json& line, TraceHeader& out) {
  if (!line.contains("later_than_0.24")) return;
  for (const json& tag : array(line["later_than_0.24"], "later_than_0.24")) {
    if (!tag.is_string()) throw TextError("later_than_0.24", "strings");
    const auto name = tag.get<std::string>();
    out.newer_policies.push_back(name);
    const auto* row = std::ranges::find(kNewerPolicies, name, &NewerPolicy::name);
    if (row == std::end(kNewerPolicies)) {
      out.unsupported = "policy " + name;
    } else {
      row->apply(out.config.profile);
    }
  }
}

TraceHeader read_header(const json& line) {
  if (count(line, "kvproof_trace") != 1) throw TextError("kvproof_trace", "format version 1");
  TraceHeader out;
  out.recorded_from = text_or_empty(line, "recorded_from");
  out.family = text_or_empty(line, "family");
  out.name = text_or_empty(line, "name");
  out.subject = text_or_empty(line, "subject");
  out.detail = text_or_empty(line, "detail");
  if (line.contains("events")) out.has_events = flag(line, "events");
  if (line.contains("seed")) out.seed = integer<std::uint64_t>(line["seed"], "seed");
  const std::string profile = text(line, "profile");
  const Profile* row = find_profile(profile);
  if (row == nullptr)
    throw TextError("profile", "vllm-0.33, vllm-0.24 or vllm-0.22, found " + profile);
  out.config.profile = *row;

  const json& config = object(member(line, "config"), "config");
  constexpr std::uint32_t kMostBlocks = 1U << 24;
  out.config.num_blocks = size(config, "num_blocks", kMostBlocks);
  out.config.enable_caching = flag(config, "enable_caching");
  out.config.max_model_len = size(config, "max_model_len", 1U << 22);
  out.config.hash_block_size = size(config, "hash_block_size", 1U << 22);
  if (config.contains("watermark")) out.config.watermark = number(config, "watermark");
  if (!(out.config.watermark >= 0.0 && out.config.watermark <= 1.0)) {
    throw TextError("watermark", "a fraction from 0 to 1");
  }
  if (config.contains("max_in_flight_tokens") && !config["max_in_flight_tokens"].is_null()) {
    out.config.max_in_flight_tokens = count(config, "max_in_flight_tokens");
  }
  if (config.contains("num_host_blocks")) {
    out.config.num_host_blocks = size(config, "num_host_blocks", kMostBlocks);
  }
  const bool use_eagle = flag(config, "use_eagle");
  bool marked = false;
  const json& groups = array(member(config, "groups"), "groups");
  constexpr std::size_t kMostGroups = 64;
  if (groups.size() > kMostGroups) throw TextError("groups", "at most 64 layer groups");
  for (const json& group : groups) {
    out.config.groups.push_back(group_config(group, out.unsupported));
    marked = marked || out.config.groups.back().eagle;
  }
  // If no group is marked, the switch means all groups.
  for (GroupConfig& group : out.config.groups) group.eagle = group.eagle || (use_eagle && !marked);
  read_policies(line, out);
  if (flag(config, "prompt_tail_keys")) out.config.profile.prompt_tail = PromptTail::complete;
  if (config.contains("retention_interval") && !config["retention_interval"].is_null()) {
    out.config.retention = size(config, "retention_interval", 1U << 22);
  }
  if (config.contains("hash_lookahead")) {
    out.config.hash_lookahead = size(config, "hash_lookahead", 1U << 10);
  }
  // Our managers have one key for each block of a lone group; those of others may have more.
  CacheConfig whole = out.config;
  const std::uint32_t unit = std::max(whole.hash_block_size, 1U);
  const bool alone = whole.groups.size() == 1 && whole.groups[0].block_size % unit == 0;
  if (alone && whole.hash_block_size > 0) whole.hash_block_size = whole.groups[0].block_size;
  if (out.unsupported.empty()) out.unsupported = kvproof::unsupported(whole).value_or("");
  return out;
}

std::vector<MultimodalItem> items(const json& object_with, const char* field) {
  std::vector<MultimodalItem> out;
  if (!object_with.contains(field)) return out;
  for (const json& item : array(object_with[field], field)) {
    out.push_back({text(object(item, field), "id"), count(item, "offset"), count(item, "length")});
  }
  return out;
}

ExtraKeys extra_keys(const json& line) {
  ExtraKeys out;
  if (!line.contains("extra") || line["extra"].is_null()) return out;
  const json& extra = object(line["extra"], "extra");
  out.lora = text_or_empty(extra, "lora");
  out.lora_path = text_or_empty(extra, "lora_path");
  out.salt = text_or_empty(extra, "salt");
  out.layout = text_or_empty(extra, "layout");
  out.mm = items(extra, "mm");
  out.embeds = items(extra, "embeds");
  return out;
}

AllocateArgs allocate_args(const json& line) {
  AllocateArgs out;
  out.new_tokens = count(line, "new_tokens");
  out.use_lookup = flag(line, "use_lookup");
  out.lookahead = count_or_zero(line, "lookahead");
  out.external = count_or_zero(line, "external");
  out.delay_cache = flag(line, "delay_cache");
  out.full_sequence_must_fit = flag(line, "full_sequence_must_fit");
  out.has_scheduled = flag(line, "has_scheduled");
  out.reserved = count_or_zero(line, "reserved");
  out.in_flight = count_or_zero(line, "in_flight");
  out.status = static_cast<RequestStatus>(word(line, "status", kStatusNames));
  return out;
}

op::Decode read_decode(const json& line, std::vector<TokenId> tokens) {
  op::Decode out{{}, std::move(tokens)};
  for (const json& req : array(member(line, "reqs"), "reqs")) {
    if (!req.is_string()) throw TextError("reqs", "strings");
    out.reqs.push_back(req.get<std::string>());
  }
  return out;
}

Operation read_operation(const json& line) {
  const std::string name = text(line, "op");
  const auto req = [&line] { return text(line, "req"); };
  const auto blocks = [&line] { return integers<BlockId>(member(line, "blocks"), "blocks"); };
  const auto tokens = [&line] { return integers<TokenId>(member(line, "tokens"), "tokens"); };
  if (name == "arrive")
    return op::Arrive{req(), tokens(), extra_keys(line), flag(line, "skip_lookup"),
                      count_or_zero(line, "encoder_tokens")};
  if (name == "append") return op::Append{req(), tokens()};
  if (name == "advance") return op::Advance{req(), count(line, "computed")};
  if (name == "lookup") {
    op::Lookup out{req()};
    if (line.contains("max_tokens")) out.max_tokens = count(line, "max_tokens");
    return out;
  }
  if (name == "allocate") return op::Allocate{req(), allocate_args(line)};
  if (name == "free") return op::Free{req()};
  if (name == "finish") return op::Finish{req()};
  if (name == "recycle") return op::Recycle{req(), count(line, "processed")};
  if (name == "cache") return op::Cache{req(), count(line, "computed")};
  if (name == "evict") return op::Evict{blocks()};
  if (name == "reset") return op::Reset{};
  if (name == "common_prefix") return op::CommonPrefix{req()};
  if (name == "step") return op::Step{};
  if (name == "take") return op::Take{count(line, "n")};
  if (name == "touch") return op::Touch{blocks()};
  if (name == "release") return op::Release{blocks()};
  if (name == "fork") return op::Fork{req(), text(line, "child")};
  if (name == "truncate") return op::Truncate{req(), count(line, "tokens")};
  if (name == "pin") return op::Pin{blocks(), text(line, "lease")};
  if (name == "unpin") return op::Unpin{text(line, "lease")};
  if (name == "swap_out") return op::SwapOut{req(), text(line, "transfer")};
  if (name == "swap_in") return op::SwapIn{req(), text(line, "transfer")};
  if (name == "complete") return op::Complete{text(line, "transfer"), flag(line, "ok")};
  if (name == "decode") return read_decode(line, tokens());
  throw TextError("op", "a known operation, found " + name);
}

std::vector<Copy> copies_in(const json& out) {
  std::vector<Copy> copies;
  if (!out.contains("copies")) return copies;
  for (const auto& [from, to] : pairs(out["copies"], "copies")) {
    copies.push_back({BlockId(from), BlockId(to)});
  }
  return copies;
}

Decoded read_decoded(const json& out) {
  Decoded decoded;
  decoded.refused = integers<std::uint32_t>(member(object(out, "out"), "refused"), "refused");
  for (const json& request : array(member(out, "blocks"), "blocks")) {
    decoded.blocks.push_back(tables(request, "blocks"));
  }
  decoded.copies = copies_in(out);
  return decoded;
}

Result read_result(const Operation& operation, const json& out) {
  if (out.is_object() && out.contains("error")) return result_of_error(text(out, "error"));
  if (std::holds_alternative<op::Lookup>(operation)) {
    return Hit{count(object(out, "out"), "hit_tokens"), tables(member(out, "blocks"), "blocks")};
  }
  if (std::holds_alternative<op::Allocate>(operation) ||
      std::holds_alternative<op::Take>(operation) ||
      std::holds_alternative<op::SwapOut>(operation) ||
      std::holds_alternative<op::SwapIn>(operation)) {
    if (out.is_null()) return Refused{};
    Granted granted{tables(member(object(out, "out"), "blocks"), "blocks"), copies_in(out)};
    if (out.contains("hit_tokens")) {
      granted.hit = Hit{count(out, "hit_tokens"), tables(member(out, "hit"), "hit")};
    }
    return granted;
  }
  if (std::holds_alternative<op::Fork>(operation) && out.is_object()) {
    return Granted{{}, copies_in(out)};
  }
  if (std::holds_alternative<op::Decode>(operation)) return read_decoded(out);
  if (std::holds_alternative<op::Reset>(operation)) {
    if (!out.is_boolean()) throw TextError("out", "true or false");
    return out.get<bool>();
  }
  if (std::holds_alternative<op::CommonPrefix>(operation))
    return integers<std::uint32_t>(out, "out");
  return {};
}

Event read_event(const json& value) {
  const std::string type = text(object(value, "events"), "type");
  if (type == "cleared") return event::Cleared{};
  if (type == "removed") {
    return event::Removed{GroupId(count(value, "group")), BlockId(count(value, "block")),
                          count(value, "prefix")};
  }
  if (type != "stored") throw TextError("type", "stored, removed or cleared, found " + type);
  event::Stored out{GroupId(count(value, "group")), count(value, "from"), count(value, "to"), {}};
  for (const auto& [block, prefix] : pairs(member(value, "blocks"), "blocks")) {
    out.blocks.push_back({BlockId(block), prefix});
  }
  return out;
}

// A recording lists events only if there were some: a state without events means that there were
// none.
void read_answer(const json& parsed, TraceLine& out) {
  const auto answer = parsed.find("out");
  if (answer != parsed.end() && answer->is_object() && answer->contains("raised")) {
    out.raised = text(*answer, "raised");
  } else if (answer != parsed.end()) {
    out.result = read_result(out.operation, *answer);
  }
  if (parsed.contains("state")) out.state = read_state(object(parsed["state"], "state"));
  for (const char* name : kCheckNames) {
    if (parsed.contains(name)) out.checks[name] = text(parsed, name);
  }
  out.lists_events = parsed.contains("events");
  if (out.lists_events) {
    out.events.emplace();
    for (const json& item : array(parsed["events"], "events")) {
      out.events->push_back(read_event(item));
    }
  } else if (out.state || !out.checks.empty()) {
    out.events.emplace();
  }
}

}  // namespace

TraceLine parse_trace_line(std::string_view line) {
  const json parsed = parse_object(line);
  TraceLine out;
  if (parsed.contains("kvproof_trace")) {
    out.kind = TraceLine::Kind::header;
    out.header = read_header(parsed);
    return out;
  }
  if (text(parsed, "op") == "end") {
    out.kind = TraceLine::Kind::end;
    out.num_operations = integer<std::uint64_t>(member(parsed, "ops"), "ops");
    return out;
  }
  if (text(parsed, "op") == "lost") {
    out.kind = TraceLine::Kind::lost;
    out.lost = text(parsed, "what");
    return out;
  }
  out.operation = read_operation(parsed);
  read_answer(parsed, out);
  return out;
}

TraceLine parse_answer(const Operation& operation, std::string_view line) {
  return answer_of(operation, parse_object(line));
}

TraceLine answer_of(const Operation& operation, const json& parsed) {
  TraceLine out;
  out.operation = operation;
  if (flag(parsed, "unsupported")) {
    out.unsupported = text_or_empty(parsed, "reason");
    if (out.unsupported.empty()) out.unsupported = "no reason given";
    return out;
  }
  read_answer(parsed, out);
  return out;
}

}  // namespace kvproof
