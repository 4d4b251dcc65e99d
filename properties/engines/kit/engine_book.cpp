// SPDX-License-Identifier: Apache-2.0
#include "properties/engines/kit/engine_book.h"

#include <algorithm>
#include <utility>

#include "reference/support/say.h"
#include "reference/trace_fields.h"
#include "reference/trace_names.h"
#include "reference/trace_state.h"

namespace kvproof::properties {
namespace {

/// @return what an engine lacks that an allocation asks for; empty if it lacks nothing
std::string lacking(const Calls& calls, const AllocateArgs& args) {
  if (args.external > 0 && !calls.external) return "no connector";
  if (args.delay_cache && !calls.delay_cache) return "no delayed publication";
  if (args.reserved > 0 && !calls.reserved) return "no reserve";
  const bool gated = args.full_sequence_must_fit && !calls.full_sequence_must_fit;
  if (gated) return "no gate of the whole sequence";
  return args.in_flight > 0 && !calls.in_flight ? "no steps in flight" : "";
}

/// @return the part of a table from a position on
std::vector<BlockId> behind(const std::vector<BlockId>& table, std::size_t at) {
  return {table.begin() + static_cast<std::ptrdiff_t>(std::min(at, table.size())), table.end()};
}

}  // namespace

bool is_of_level_engine(std::string_view said) {
  const std::string level = fields::text_or_empty(fields::parse_object(said), "level");
  if (!level.empty() && level != "engine") throw TextError("level", "engine, found " + level);
  return !level.empty();
}

std::string EngineBook::why_not(const CacheConfig& config, const Promises& promises) {
  if (std::string reason = why_beyond(promises.abilities, config); !reason.empty()) return reason;
  if (config.groups.size() != 1) return "one group only";
  const bool partial = promises.abilities.partial_keys && config.enable_caching;
  const bool whole = config.hash_block_size == config.groups[0].block_size;
  if (!partial && !whole) return "keys of whole blocks only";
  return config.num_host_blocks > 0 ? "no host tier" : "";
}

std::optional<RecordedState> EngineBook::build() {
  Said said = call({.hooks = {"build"}});
  if (said.good()) return std::move(said.line.state);
  const std::string& reason = said.line.unsupported;
  throw TextError("build", "an engine, found " + (reason.empty() ? said.out.dump() : reason));
}

TraceLine EngineBook::perform(const Operation& operation) {
  const auto performed = [&](const auto& o) {
    if constexpr (requires { (*this)(o); }) return (*this)(o);
    return Said(say("no ", kOperationNames[operation.index()]));
  };
  events_.clear();
  TraceLine out = std::visit(performed, static_cast<const OperationVariant&>(operation)).line;
  if (out.lists_events) out.events = events_;
  return out;
}

// ---- a line and its answer ----------------------------------------------------------------------

EngineBook::Said EngineBook::call(Call call) {
  for (const std::string& name : std::exchange(restated_, {})) {
    if (call.is.contains(name)) continue;
    const RequestRecord* r = book_.find(name);
    call.is[name] = r == nullptr ? json() : about(*r).is[name];
    if (r != nullptr) call.is[name]["tokens"] = r->sequence->tokens;
  }
  json line = {{"hooks", call.hooks}, {"req", call.reqs}, {"is", call.is}};
  if (!call.with.empty()) line["with"] = call.with;
  if (!call.then.empty()) line["then"] = call.then;
  json read = fields::parse_object(ask_(line.dump()));
  Said out;
  out.out = read.value("out", json());
  if (!out.out.is_object() || !out.out.contains("error")) read.erase("out");
  out.line = answer_of(Operation(op::Step{}), read);
  if (!out.line.unsupported.empty()) {
    for (const auto& [name, told] : call.is.items()) restated_.push_back(name);
    return out;
  }
  for (const auto& [name, told] : call.is.items()) {
    if (told.contains("tokens")) standings_[name].told = told["tokens"].size();
    if (told.contains("more")) standings_[name].told += told["more"].size();
  }
  for (const auto& [name, later] : call.then.items()) {
    if (later.is_null()) standings_.erase(name);
  }
  if (out.line.state) note(*out.line.state);
  if (out.line.events)
    events_.insert(events_.end(), out.line.events->begin(), out.line.events->end());
  const json tables = read.value("tables", json::object());
  for (const auto& [name, table] : tables.items()) {
    standings_[name].table = fields::integers<BlockId>(table, "tables");
  }
  for (const auto& [from, to] : fields::pairs(read.value("copies", json::array()), "copies")) {
    out.copies.push_back({BlockId(from), BlockId(to)});
  }
  return out;
}

/// Notes the tables, and adds to keys the tokens that they cover, as far as a request has had them.
void EngineBook::note(RecordedState& state) {
  for (auto& [name, s] : standings_) {
    const auto listed = state.tables.find(name);
    s.table =
        listed == state.tables.end() || listed->second.empty() ? Blocks() : listed->second.front();
  }
  for (const auto& [name, keys] : state.hashes) {
    std::uint32_t length = 0;
    for (const std::uint64_t key : keys) lengths_[key] = length += config_.hash_block_size;
  }
  if (!state.key) return;
  state.cached.emplace();
  state.fields.emplace_back("cached");
  for (KeyOfBlock& key : *state.key) {
    const auto length = lengths_.find(key.key);
    if (length != lengths_.end()) key.prefix_tokens = length->second;
    state.cached->push_back({std::uint32_t{key.block}, 0});
  }
}

std::uint64_t EngineBook::granted(const RequestRecord& r) const {
  return std::min<std::uint64_t>(r.covered, config_.max_model_len);
}

/// A line about a request, without hooks: its facts as its last operation has left them.
EngineBook::Call EngineBook::about(const RequestRecord& r) const {
  const Standing& s = standings_.at(r.name);
  Call out{.reqs = {r.name}};
  json& is = out.is[r.name] = {{"computed", r.computed},
                               {"granted", granted(r)},
                               {"room", s.room},
                               {"ahead", s.ahead},
                               {"holds", s.holds}};
  if (s.told != r.num_tokens) is["tokens"] = r.sequence->tokens;
  return out;
}

// ---- the operations -----------------------------------------------------------------------------

EngineBook::Said EngineBook::operator()(const op::Arrive& o) {
  const Calls& can = promises_.abilities;
  if (o.encoder_tokens > 0) return Said("no encoder");
  if (!o.extra.empty() && !can.extra) return Said("no extra keys");
  if (o.skip_lookup && !can.skip_lookup) return Said("no skipped lookups");
  json is = {{"tokens", o.tokens}, {"skip_lookup", o.skip_lookup}};
  is["extra"] = json::parse(to_json(Operation(o))).value("extra", json::object());
  standings_[o.req] = {};
  return call({.reqs = {o.req}, .is = {{o.req, std::move(is)}}});
}

EngineBook::Said EngineBook::operator()(const op::Append& o) {
  const RequestRecord& r = *book_.find(o.req);
  const bool holds = !standings_[o.req].table.empty();
  const bool next = o.tokens.size() == 1 && r.computed == r.num_tokens;
  if (holds && !next && !promises_.abilities.long_appends) {
    return Said("one token, when all before it are computed");
  }
  Call line = about(r);
  line.is[o.req]["more"] = o.tokens;
  if (holds) line.hooks = {"append"};
  if (holds) line.with = {o.tokens};
  return call(std::move(line));
}

EngineBook::Said EngineBook::operator()(const op::Advance& o) {
  const RequestRecord& r = *book_.find(o.req);
  const bool whole = o.computed == granted(r) || o.computed == r.computed;
  if (!whole && !promises_.abilities.part_advances) {
    return Said("what was granted is computed at once");
  }
  Call line = about(r);
  line.is[o.req]["computed"] = o.computed;
  if (o.computed != r.computed) line.hooks = {"advance"};
  return call(std::move(line));
}

EngineBook::Said EngineBook::look_up(const RequestRecord& r) {
  Call line = about(r);
  if (r.num_tokens > 0 && !r.skip_lookup) line.hooks = {"lookup"};
  const bool asks = !line.hooks.empty();
  Said said = call(std::move(line));
  if (!said.good()) return said;
  const json found = asks ? said.out : json::array();
  const bool says_tokens = found.is_object();
  Hit hit{
      0, {fields::integers<BlockId>(says_tokens ? fields::member(found, "blocks") : found, "out")}};
  const std::size_t all = hit.blocks[0].size() * config_.groups[0].block_size;
  hit.hit_tokens = says_tokens ? fields::count(found, "tokens") : static_cast<std::uint32_t>(all);
  said.line.result = std::move(hit);
  return said;
}

std::string EngineBook::why_not_granted(const AllocateArgs& args, const RequestRecord& r,
                                        bool admits, std::uint64_t end) {
  const Abilities& can = promises_.abilities;
  if (std::string lacks = lacking(can, args); !lacks.empty()) return lacks;
  if ((args.lookahead > 0 || end > r.num_tokens) && !can.drafts) return "no drafts";
  const bool early = r.computed < granted(r) && granted(r) < end;
  if (!admits) return early && !can.part_advances ? "what was granted is computed first" : "";
  if (end < r.num_tokens && !can.chunks) return "a prompt is admitted whole";
  if (can.lookup_within) return args.use_lookup ? "" : "a prefix is always looked up";
  if (can.without_lookup) return "";
  const Said now = look_up(r);
  const auto* found = now.line.result ? std::get_if<Hit>(&*now.line.result) : nullptr;
  const Blocks used = args.use_lookup && !r.hit.blocks.empty() ? r.hit.blocks[0] : Blocks();
  return found != nullptr && found->blocks[0] != used ? "whatever is found is used" : "";
}

// Token axis: computed | hit | new | drafts.
EngineBook::Said EngineBook::operator()(const op::Allocate& o) {
  const RequestRecord& r = *book_.find(o.req);
  Standing& s = standings_[o.req];
  const bool inside = promises_.abilities.lookup_within, admits = s.table.empty();
  const FoundPrefix hit = o.args.use_lookup && !inside ? r.hit : FoundPrefix{};
  const Blocks used = hit.blocks.empty() ? Blocks() : hit.blocks[0];
  const std::uint64_t limit = config_.max_model_len, size = config_.groups[0].block_size;
  const std::uint64_t end =
      std::min(hit.tokens + r.computed + std::uint64_t{o.args.new_tokens}, limit);
  const std::uint64_t room = std::min(end + o.args.lookahead, limit);
  if (std::string reason = why_not_granted(o.args, r, admits, end); !reason.empty()) {
    return Said(std::move(reason));
  }
  if (admits) s.ahead = o.args.lookahead;
  Call line = about(r);
  const bool asks = admits || room > s.room || s.shares;
  if (asks) {
    line.hooks = {admits ? "admit" : "grow"};
    line.with = {room};
  }
  if (admits) line.with.push_back(inside ? json() : json(used));
  line.then[o.req] = {
      {"holds", true}, {"granted", std::max(granted(r), end)}, {"room", std::max(s.room, room)}};
  const std::size_t before = s.table.size();
  Said said = call(std::move(line));
  if (!said.good()) return said;
  if (asks && (said.out.is_null() || said.out == false)) {
    said.line.result = Refused{};
    return said;
  }
  s.holds = true;
  s.shares = s.shares && !asks;
  s.room = std::max(s.room, room);
  Granted out{{{}}, said.copies, std::nullopt};
  std::size_t known = before + used.size();
  if (inside && admits) {
    const auto found = fields::integer<std::uint32_t>(said.out, "out");
    s.room = std::max(s.room, found + 1 + s.ahead);
    known = std::min<std::size_t>(ceil_div<std::uint64_t>(found, size), s.table.size());
    out.hit = Hit{found, {{s.table.begin(), s.table.begin() + static_cast<std::ptrdiff_t>(known)}}};
  }
  for (const Copy& copy : said.copies) out.blocks[0].push_back(copy.to);
  for (const BlockId block : behind(s.table, known)) out.blocks[0].push_back(block);
  said.line.result = std::move(out);
  return said;
}

// What was granted is computed first where steps are whole.
EngineBook::Said EngineBook::give_back(const std::string& name, bool finishes) {
  const RequestRecord& r = *book_.find(name);
  Standing& s = standings_[name];
  Call line = about(r);
  if (!s.table.empty()) {
    if (!promises_.abilities.part_advances && granted(r) != r.computed) {
      line.is[name]["computed"] = granted(r);
      Said said = call({.hooks = {"advance"}, .reqs = {name}, .is = line.is});
      if (!said.good()) return said;
    }
    line.hooks = {"release"};
  }
  s.holds = s.shares = false;
  s.room = 0;
  line.then[name] = {{"holds", false}, {"computed", 0}, {"granted", 0}, {"room", 0}};
  line.then[name]["hit"] = json::array();
  if (finishes) {
    line.hooks.emplace_back("finish");
    line.is[name]["finished"] = true;
    line.then[name] = nullptr;
  }
  return call(std::move(line));
}

EngineBook::Said EngineBook::operator()(const op::Fork& o) {
  const RequestRecord& r = *book_.find(o.req);
  Call line = about(r);
  line.hooks = {"fork"};
  line.reqs.push_back(o.child);
  json child = line.is[o.req];
  child["tokens"] = r.sequence->tokens;
  child["skip_lookup"] = r.skip_lookup;
  child["extra"] = json::parse(to_json(Operation(op::Arrive{o.child, {}, r.sequence->extra})))
                       .value("extra", json::object());
  line.is[o.child] = std::move(child);
  standings_[o.child] = standings_[o.req];
  Said said = call(std::move(line));
  if (!said.line.unsupported.empty()) standings_.erase(o.child);
  if (!said.good()) return said;
  standings_[o.req].shares = standings_[o.child].shares = true;
  if (!said.copies.empty()) said.line.result = Granted{{}, said.copies};
  return said;
}

EngineBook::Said EngineBook::operator()(const op::Truncate& o) {
  const RequestRecord& r = *book_.find(o.req);
  Standing& s = standings_[o.req];
  Call line = about(r);
  s.room = std::min<std::uint64_t>(s.room, o.tokens);
  s.holds = s.holds && s.room > 0;
  line.hooks = {"truncate"};
  line.with = {o.tokens};
  line.then[o.req] = {{"room", s.room},
                      {"holds", s.holds},
                      {"granted", std::min<std::uint64_t>(granted(r), o.tokens)}};
  return call(std::move(line));
}

// The hook takes the new tokens, and says who is refused.
EngineBook::Said EngineBook::operator()(const op::Decode& o) {
  Call line{.hooks = {"decode"}, .reqs = o.reqs, .with = {o.tokens}};
  std::vector<std::size_t> before;
  for (const std::string& name : o.reqs) {
    line.is.update(about(*book_.find(name)).is);
    before.push_back(standings_[name].table.size());
  }
  Said said = call(std::move(line));
  if (!said.good()) return said;
  Decoded out{fields::integers<std::uint32_t>(said.out, "refused"), {}};
  for (std::size_t at = 0; at < o.reqs.size(); ++at) {
    Standing& s = standings_[o.reqs[at]];
    ++s.told;
    out.blocks.emplace_back();
    if (std::ranges::find(out.refused, at) != out.refused.end()) continue;
    s.holds = true;
    s.room = std::max<std::uint64_t>(s.room, book_.find(o.reqs[at])->computed + 1);
    out.blocks.back().push_back(behind(s.table, before[at]));
  }
  said.line.result = std::move(out);
  return said;
}

EngineBook::Said EngineBook::operator()(const op::Reset&) {
  Said said = call({.hooks = {"reset"}});
  if (said.good() && !said.out.is_boolean()) throw TextError("out", "true or false");
  if (said.good()) said.line.result = said.out.get<bool>();
  return said;
}

}  // namespace kvproof::properties
