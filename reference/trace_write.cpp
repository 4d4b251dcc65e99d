// SPDX-License-Identifier: Apache-2.0
// Writing the text form of the alphabet.
#include <nlohmann/json.hpp>
#include <variant>

#include "reference/operations.h"
#include "reference/trace_json.h"
#include "reference/trace_names.h"
#include "reference/trace_state.h"

namespace kvproof {
namespace {

using ordered = nlohmann::ordered_json;

ordered base(const char* name, const std::string& req) { return {{"op", name}, {"req", req}}; }

ordered items(const std::vector<MultimodalItem>& list) {
  ordered out = ordered::array();
  for (const MultimodalItem& item : list) {
    out.push_back({{"id", item.id}, {"offset", item.offset}, {"length", item.length}});
  }
  return out;
}

struct Writer {
  ordered operator()(const op::Arrive& o) const {
    ordered out = base("arrive", o.req);
    out["tokens"] = o.tokens;
    if (!o.extra.lora.empty()) out["extra"]["lora"] = o.extra.lora;
    if (!o.extra.lora_path.empty()) out["extra"]["lora_path"] = o.extra.lora_path;
    if (!o.extra.salt.empty()) out["extra"]["salt"] = o.extra.salt;
    if (!o.extra.layout.empty()) out["extra"]["layout"] = o.extra.layout;
    if (!o.extra.mm.empty()) out["extra"]["mm"] = items(o.extra.mm);
    if (!o.extra.embeds.empty()) out["extra"]["embeds"] = items(o.extra.embeds);
    if (o.skip_lookup) out["skip_lookup"] = true;
    if (o.encoder_tokens > 0) out["encoder_tokens"] = o.encoder_tokens;
    return out;
  }
  ordered operator()(const op::Append& o) const {
    return {{"op", "append"}, {"req", o.req}, {"tokens", o.tokens}};
  }
  ordered operator()(const op::Advance& o) const {
    return {{"op", "advance"}, {"req", o.req}, {"computed", o.computed}};
  }
  ordered operator()(const op::Lookup& o) const {
    ordered out = base("lookup", o.req);
    if (o.max_tokens) out["max_tokens"] = *o.max_tokens;
    return out;
  }
  ordered operator()(const op::Allocate& o) const {
    ordered out = base("allocate", o.req);
    out["new_tokens"] = o.args.new_tokens;
    out["use_lookup"] = o.args.use_lookup;
    out["lookahead"] = o.args.lookahead;
    out["external"] = o.args.external;
    out["delay_cache"] = o.args.delay_cache;
    out["full_sequence_must_fit"] = o.args.full_sequence_must_fit;
    out["has_scheduled"] = o.args.has_scheduled;
    out["reserved"] = o.args.reserved;
    if (o.args.in_flight > 0) out["in_flight"] = o.args.in_flight;
    out["status"] = kStatusNames[static_cast<std::size_t>(o.args.status)];
    return out;
  }
  ordered operator()(const op::Free& o) const { return base("free", o.req); }
  ordered operator()(const op::Finish& o) const { return base("finish", o.req); }
  ordered operator()(const op::Recycle& o) const {
    return {{"op", "recycle"}, {"req", o.req}, {"processed", o.processed}};
  }
  ordered operator()(const op::Cache& o) const {
    return {{"op", "cache"}, {"req", o.req}, {"computed", o.computed}};
  }
  ordered operator()(const op::Evict& o) const { return {{"op", "evict"}, {"blocks", o.blocks}}; }
  ordered operator()(const op::Reset&) const { return {{"op", "reset"}}; }
  ordered operator()(const op::CommonPrefix& o) const { return base("common_prefix", o.req); }
  ordered operator()(const op::Step&) const { return {{"op", "step"}}; }
  ordered operator()(const op::Take& o) const { return {{"op", "take"}, {"n", o.n}}; }
  ordered operator()(const op::Touch& o) const { return {{"op", "touch"}, {"blocks", o.blocks}}; }
  ordered operator()(const op::Release& o) const {
    return {{"op", "release"}, {"blocks", o.blocks}};
  }
  ordered operator()(const op::Fork& o) const {
    return {{"op", "fork"}, {"req", o.req}, {"child", o.child}};
  }
  ordered operator()(const op::Truncate& o) const {
    return {{"op", "truncate"}, {"req", o.req}, {"tokens", o.tokens}};
  }
  ordered operator()(const op::Pin& o) const {
    return {{"op", "pin"}, {"blocks", o.blocks}, {"lease", o.lease}};
  }
  ordered operator()(const op::Unpin& o) const { return {{"op", "unpin"}, {"lease", o.lease}}; }
  ordered operator()(const op::SwapOut& o) const {
    return {{"op", "swap_out"}, {"req", o.req}, {"transfer", o.transfer}};
  }
  ordered operator()(const op::SwapIn& o) const {
    return {{"op", "swap_in"}, {"req", o.req}, {"transfer", o.transfer}};
  }
  ordered operator()(const op::Complete& o) const {
    return {{"op", "complete"}, {"transfer", o.transfer}, {"ok", o.ok}};
  }

  ordered operator()(const op::Decode& o) const {
    return {{"op", "decode"}, {"reqs", o.reqs}, {"tokens", o.tokens}};
  }

  ordered operator()(const event::Stored& e) const {
    ordered out = {{"type", "stored"}, {"group", e.group}, {"from", e.from}, {"to", e.to}};
    out["blocks"] = ordered::array();
    for (const StoredBlock& b : e.blocks) out["blocks"].push_back({b.block, b.prefix_tokens});
    return out;
  }
  ordered operator()(const event::Removed& e) const {
    return {
        {"type", "removed"}, {"group", e.group}, {"block", e.block}, {"prefix", e.prefix_tokens}};
  }
  ordered operator()(const event::Cleared&) const { return {{"type", "cleared"}}; }

  ordered operator()(std::monostate) const { return nullptr; }
  ordered operator()(const Hit& r) const {
    return {{"hit_tokens", r.hit_tokens}, {"blocks", r.blocks}};
  }
  ordered operator()(const Granted& r) const {
    ordered out = {{"blocks", r.blocks}};
    for (const Copy& copy : r.copies) out["copies"].push_back({copy.from, copy.to});
    if (r.hit) {
      out["hit_tokens"] = r.hit->hit_tokens;
      out["hit"] = r.hit->blocks;
    }
    return out;
  }
  ordered operator()(const Decoded& r) const {
    ordered out = {{"refused", r.refused}, {"blocks", r.blocks}};
    for (const Copy& copy : r.copies) out["copies"].push_back({copy.from, copy.to});
    return out;
  }
  ordered operator()(const Refused&) const { return nullptr; }
  template <class Undone>
  requires std::constructible_from<Result, Undone> ordered operator()(const Undone& r) const {
    return {{"error", error_text(r)}};
  }
  ordered operator()(bool r) const { return r; }
  ordered operator()(const SharedBlocks& r) const { return r; }
};

std::string dump(const ordered& value) {
  return value.dump(-1, ' ', false, ordered::error_handler_t::replace);
}

}  // namespace

namespace {

ordered group_json(const GroupConfig& group) {
  ordered out = {{"kind", kKindNames[static_cast<std::size_t>(group.kind)]},
                 {"block_size", group.block_size},
                 {"eagle", group.eagle}};
  if (group.kind == LayerKind::sliding_window || group.kind == LayerKind::rswa) {
    out["window"] = group.window;
  }
  if (group.kind == LayerKind::chunked_local) out["chunk"] = group.chunk;
  if (group.kind == LayerKind::mamba) {
    out["mode"] = kModeNames[static_cast<std::size_t>(group.mode)];
    out["speculative_blocks"] = group.speculative_blocks;
    if (group.checkpoint_alignment > 0) {
      out["checkpoints"] = 1;
      out["checkpoint_alignment"] = group.checkpoint_alignment;
    }
  }
  return out;
}

}  // namespace

std::string to_json(const TraceHeader& header) {
  const CacheConfig& config = header.config;
  ordered out = {{"kvproof_trace", 1},
                 {"recorded_from", header.recorded_from},
                 {"profile", config.profile.name},
                 {"family", header.family},
                 {"seed", header.seed}};
  if (!header.name.empty()) out["name"] = header.name;
  if (!header.subject.empty()) out["subject"] = header.subject;
  out["later_than_0.24"] = header.newer_policies;
  out["config"] = {{"num_blocks", config.num_blocks},
                   {"enable_caching", config.enable_caching},
                   {"max_model_len", config.max_model_len},
                   {"hash_block_size", config.hash_block_size},
                   {"scheduler_block_size", alignment(config)},
                   {"watermark", config.watermark},
                   {"max_in_flight_tokens", nullptr},
                   {"use_eagle", false},
                   {"prompt_tail_keys", config.profile.prompt_tail == PromptTail::complete},
                   {"groups", ordered::array()}};
  if (config.max_in_flight_tokens) {
    out["config"]["max_in_flight_tokens"] = *config.max_in_flight_tokens;
  }
  if (config.num_host_blocks > 0) out["config"]["num_host_blocks"] = config.num_host_blocks;
  if (config.retention) out["config"]["retention_interval"] = *config.retention;
  if (config.hash_lookahead > 0) out["config"]["hash_lookahead"] = config.hash_lookahead;
  for (const GroupConfig& group : config.groups) {
    out["config"]["groups"].push_back(group_json(group));
  }
  return dump(out);
}

std::string to_json(const Operation& operation) { return dump(std::visit(Writer{}, operation)); }

std::string to_json(const Outcome& outcome) {
  ordered out = {{"out", std::visit(Writer{}, outcome.result)}};
  if (!outcome.events.empty()) {
    for (const Event& event : outcome.events) out["events"].push_back(std::visit(Writer{}, event));
  }
  return dump(out);
}

std::string to_json(const Operation& operation, const Outcome& outcome, const Snapshot& state) {
  ordered out = std::visit(Writer{}, operation);
  if (!std::holds_alternative<std::monostate>(outcome.result)) {
    out["out"] = std::visit(Writer{}, outcome.result);
  }
  ordered& s = out["state"];
  s = {{"free", state.num_free},
       {"keys", state.index.size()},
       {"usage", state.usage},
       {"queue", state.queue}};
  s["ref"] = s["cached"] = ordered::array();
  s["tables"] = s["progress"] = ordered::object();
  for (BlockId block = 1; block < state.blocks.size(); ++block) {
    const BlockState& b = state.blocks[block];
    if (b.ref_cnt > 0) s["ref"].push_back({block, b.ref_cnt});
    if (b.hashed) s["cached"].push_back({block, b.group});
  }
  for (const RequestState& request : state.requests) {
    s["tables"][request.name] = request.tables;
    for (const auto& position : request.progress) {
      s["progress"][request.name].push_back(position ? ordered(*position) : ordered(nullptr));
    }
  }
  for (const Event& event : outcome.events) out["events"].push_back(std::visit(Writer{}, event));
  return dump(out);
}

std::string to_json(const Outcome& outcome, const Snapshot& state) {
  ordered out = {{"out", std::visit(Writer{}, outcome.result)}, {"events", ordered::array()}};
  for (const Event& event : outcome.events) out["events"].push_back(std::visit(Writer{}, event));
  out["state"] = state_json(state);
  return dump(out);
}

std::string end_line(std::uint64_t num_operations) {
  return dump({{"op", "end"}, {"ops", num_operations}});
}

}  // namespace kvproof
