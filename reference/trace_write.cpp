// SPDX-License-Identifier: Apache-2.0
// Writing the text form of the alphabet.
#include <nlohmann/json.hpp>
#include <variant>

#include "reference/trace_json.h"
#include "reference/trace_names.h"

namespace kvproof {
namespace {

using ordered = nlohmann::ordered_json;

ordered base(const char* name, const std::string& req) { return {{"op", name}, {"req", req}}; }

struct Writer {
  ordered operator()(const op::Arrive& o) const {
    ordered out = base("arrive", o.req);
    out["tokens"] = o.tokens;
    if (!o.extra.lora.empty()) out["extra"]["lora"] = o.extra.lora;
    if (!o.extra.salt.empty()) out["extra"]["salt"] = o.extra.salt;
    for (const MultimodalItem& item : o.extra.mm) {
      out["extra"]["mm"].push_back(
          {{"id", item.id}, {"offset", item.offset}, {"length", item.length}});
    }
    if (o.skip_lookup) out["skip_lookup"] = true;
    return out;
  }
  ordered operator()(const op::Append& o) const {
    return {{"op", "append"}, {"req", o.req}, {"tokens", o.tokens}};
  }
  ordered operator()(const op::Advance& o) const {
    return {{"op", "advance"}, {"req", o.req}, {"computed", o.computed}};
  }
  ordered operator()(const op::Lookup& o) const { return base("lookup", o.req); }
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
  ordered operator()(const Granted& r) const { return {{"blocks", r.blocks}}; }
  ordered operator()(const Refused&) const { return nullptr; }
  ordered operator()(const Rejected& r) const { return {{"error", r.error}}; }
  ordered operator()(bool r) const { return r; }
  ordered operator()(const SharedBlocks& r) const { return r; }
};

std::string dump(const ordered& value) {
  return value.dump(-1, ' ', false, ordered::error_handler_t::replace);
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
  ordered groups = ordered::array();
  for (const GroupConfig& group : config.groups) {
    groups.push_back({{"kind", kKindNames[static_cast<std::size_t>(group.kind)]},
                      {"block_size", group.block_size},
                      {"eagle", group.eagle}});
  }
  out["config"] = {{"num_blocks", config.num_blocks},
                   {"enable_caching", config.enable_caching},
                   {"max_model_len", config.max_model_len},
                   {"hash_block_size", config.hash_block_size},
                   {"scheduler_block_size", config.hash_block_size},
                   {"watermark", config.watermark},
                   {"use_eagle", false},
                   {"groups", groups}};
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

std::string end_line(std::uint64_t num_operations) {
  return dump({{"op", "end"}, {"ops", num_operations}});
}

}  // namespace kvproof
