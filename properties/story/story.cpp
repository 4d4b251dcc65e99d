// SPDX-License-Identifier: Apache-2.0
#include "properties/story/story.h"

#include <algorithm>
#include <set>

#include "properties/story/splices.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Adds to a list whose members stand one behind another.
void item(std::string& list, const std::string& value) {
  if (!list.empty()) list += ',';
  list += value;
}

std::string lists_json(const std::vector<std::vector<BlockId>>& lists) {
  std::string out;
  for (const auto& list : lists) item(out, ids_json(list));
  return "[" + out + "]";
}

/// The splices that make tables out of those before, as many as there are now.
std::string table_changes(const std::vector<std::vector<BlockId>>& before,
                          const std::vector<std::vector<BlockId>>& after) {
  std::string out;
  for (std::size_t g = 0; g < after.size(); ++g) {
    item(out, splices_of_table(g < before.size() ? before[g] : std::vector<BlockId>(), after[g]));
  }
  return "[" + out + "]";
}

void member(std::string& out, std::string_view name, const std::string& value) {
  item(out, "\"" + std::string(name) + "\":" + value);
}

std::string request_json(const RequestState& r, const std::string& tables,
                         const std::string& host) {
  std::string progress;
  for (const auto& position : r.progress) {
    item(progress, position ? std::to_string(*position) : "null");
  }
  return say("[", r.num_tokens, ",", r.computed, ",", tables, ",[", progress, "],", host, "]");
}

/// The queue from its tail; null where it is the queue reversed.
std::string backward_json(const PoolState& pool) {
  const bool same = std::equal(pool.queue.begin(), pool.queue.end(), pool.queue_backward.rbegin(),
                               pool.queue_backward.rend());
  return same ? "null" : ids_json(pool.queue_backward);
}

/// Whether a block that nobody held lost its content to somebody who holds it now.
bool evicts(const PoolDifference& changed, const PoolState& before, const PoolState& after) {
  return std::ranges::any_of(changed.blocks, [&](BlockId b) {
    if (b >= before.blocks.size() || b >= after.blocks.size()) return false;
    const BlockState& was = before.blocks[b];
    const BlockState& now = after.blocks[b];
    const bool taken = was.hashed && was.ref_cnt == 0 && now.ref_cnt > 0;
    return taken && (!now.hashed || now.key != was.key);
  });
}

}  // namespace

Story::Story(const CacheConfig& config, Snapshot first) : config_(config), now_(std::move(first)) {
  for (const PoolState* pool : std::initializer_list<const PoolState*>{&now_, &now_.host}) {
    for (std::size_t b = 1; b < pool->blocks.size(); ++b) see_keys_of(*pool, BlockId(b), now_);
  }
}

// ---- keys ----

void Story::see_keys_of(const PoolState& pool, BlockId block, const Snapshot& state) {
  const BlockState& b = pool.blocks[block];
  for_each_key(pool, block, [&](std::uint64_t key) {
    see_key(key, b.group, b.hashed && key == b.key ? b.prefix_tokens : 0, state);
  });
}

void Story::see_key(std::uint64_t key, GroupId group, std::uint32_t tokens, const Snapshot& state) {
  if (keys_(key) <= facts_.size()) return;
  KeyFacts& facts = facts_.emplace_back(KeyFacts{0, group, tokens, ""});
  const std::uint32_t unit = config_.hash_block_size;
  if (group >= config_.groups.size() || unit == 0) return;
  const std::uint32_t block_size = config_.groups[group].block_size;
  for (const RequestState& r : state.requests) {
    std::size_t at = tokens / unit;  // hash units that the key covers
    if (at == 0)
      at = static_cast<std::size_t>(std::ranges::find(r.hashes, key) - r.hashes.begin()) + 1;
    if (at > r.hashes.size() || r.hashes[at - 1] != key) continue;
    facts.tokens = static_cast<std::uint32_t>(at * unit);
    const std::uint32_t start = (facts.tokens - 1) / block_size * block_size;
    if (start >= unit) facts.parent = r.hashes[start / unit - 1];
    const auto known = tokens_.find(r.name);
    if (known == tokens_.end()) return;
    for (std::size_t t = start; t < std::min<std::size_t>(facts.tokens, known->second.size());
         ++t) {
      facts.label += (facts.label.empty() ? "" : " ") + std::to_string(known->second[t]);
      if (facts.label.size() > 40) break;
    }
    if (facts.label.size() > 40) facts.label.replace(37, std::string::npos, "...");
    return;
  }
}

// ---- states ----

std::string Story::row(const PoolState& pool, BlockId block) const {
  const BlockState& b = pool.blocks[block];
  std::string further;
  for (const FurtherKey& key : pool.further_keys) {
    if (key.block == block) item(further, std::to_string(keys_.find(key.key)));
  }
  std::string out = std::to_string(block);
  for (const std::int64_t value : std::initializer_list<std::int64_t>{
           b.ref_cnt, b.hashed ? keys_.find(b.key) : 0, b.hashed ? std::uint32_t{b.group} : 0,
           b.hashed ? b.prefix_tokens : 0, b.tail_key ? keys_.find(*b.tail_key) : 0}) {
    item(out, std::to_string(value));
  }
  return "[" + out + ",[" + further + "]]";
}

std::string Story::rows(const PoolState& pool) const {
  std::string out;
  for (std::size_t b = 1; b < pool.blocks.size(); ++b) {
    const std::string text = row(pool, BlockId(b));
    if (!text.ends_with(",0,0,0,0,0,[]]")) item(out, text);
  }
  return "[" + out + "]";
}

std::string Story::frame() const {
  std::string out;
  for (const bool host : {false, true}) {
    const PoolState& pool = host ? now_.host : now_;
    if (host && pool.blocks.empty()) continue;
    const std::string tier = host ? "h" : "";
    member(out, tier + "f", std::to_string(pool.num_free));
    member(out, tier + "q", ids_json(pool.queue));
    member(out, tier + "qb", backward_json(pool));
    member(out, tier + "b", rows(pool));
  }
  std::string requests;
  for (const RequestState& r : now_.requests) {
    item(requests,
         dump(r.name) + ":" + request_json(r, lists_json(r.tables), lists_json(r.host_tables)));
  }
  member(out, "r", "{" + requests + "}");
  std::string leases;
  for (const LeaseState& lease : now_.leases) {
    item(leases, dump(lease.name) + ":" + ids_json(lease.blocks));
  }
  member(out, "l", "{" + leases + "}");
  member(out, "raw", ids_json(now_.raw));
  member(out, "cp", ids_json(now_.copying));
  for (const auto& [name, value] : set_) member(out, name, value);
  return R"({"F":{)" + out + "}}\n";
}

std::string Story::pool_changes(const Snapshot& after, const PoolDifference& changed, bool host) {
  const PoolState& was = host ? now_.host : now_;
  const PoolState& now = host ? after.host : after;
  const std::string tier = host ? "h" : "";
  std::string out;
  if (changed.num_free) member(out, tier + "f", std::to_string(now.num_free));
  if (changed.queue) member(out, tier + "q", splices_of_queue(was.queue, now.queue));
  if (changed.queue || changed.backward) {
    const std::string backward = backward_json(now);
    if (backward != backward_json(was)) member(out, tier + "qb", backward);
  }
  std::string blocks;
  for (const BlockId block : changed.blocks) {
    if (block >= now.blocks.size()) continue;
    see_keys_of(now, block, after);
    item(blocks, row(now, block));
  }
  if (!blocks.empty()) member(out, tier + "b", "[" + blocks + "]");
  return out;
}

std::string Story::changes(const StateDifference& changed, const Snapshot& after) {
  static const RequestState kNew;
  std::string out = pool_changes(after, changed, false);
  const std::string host = pool_changes(after, changed.host, true);
  if (!host.empty()) item(out, host);
  std::string requests;
  for (const auto& [was, now] : changed.requests) {
    const RequestState& old = was != nullptr ? *was : kNew;
    std::string value = "null";
    if (now != nullptr) {
      value = request_json(*now, table_changes(old.tables, now->tables),
                           table_changes(old.host_tables, now->host_tables));
    }
    item(requests, dump((now != nullptr ? now : was)->name) + ":" + value);
  }
  if (!requests.empty()) member(out, "r", "{" + requests + "}");
  std::string leases;
  for (const auto& [was, now] : changed.leases) {
    item(leases, dump((now != nullptr ? now : was)->name) + ":" +
                     (now != nullptr ? ids_json(now->blocks) : "null"));
  }
  if (!leases.empty()) member(out, "l", "{" + leases + "}");
  if (changed.raw) member(out, "raw", ids_json(after.raw));
  if (changed.copying) member(out, "cp", ids_json(after.copying));
  return out;
}

// ---- steps ----

std::string Story::flags_of(const Operation& operation, const Result& result,
                            const StateDifference& changed, const Snapshot& after) const {
  std::string out;
  const auto* granted = std::get_if<Granted>(&result);
  const auto* decoded = std::get_if<Decoded>(&result);
  const auto* allocate = std::get_if<op::Allocate>(&operation);
  const bool takes = granted != nullptr || decoded != nullptr;
  const bool evicted = evicts(changed, now_, after) || evicts(changed.host, now_.host, after.host);
  if (takes && evicted) out += 'e';
  if (granted != nullptr && allocate != nullptr) {
    const auto found = hits_.find(allocate->req);
    const bool looked = allocate->args.use_lookup && found != hits_.end() && found->second > 0;
    if (looked || (granted->hit && granted->hit->hit_tokens > 0)) out += 'h';
  }
  const bool refused = decoded != nullptr && !decoded->refused.empty();
  if (refused || std::holds_alternative<Refused>(result)) out += 'r';
  const RequestState* r = now_.find(request_of(operation));
  if (std::holds_alternative<op::Free>(operation) && r != nullptr &&
      std::ranges::any_of(r->tables, [](const auto& table) { return !table.empty(); })) {
    out += 'p';
  }
  return out;
}

void Story::learn(const Operation& operation, const Result& result) {
  if (is_undone(result)) return;
  if (const auto* arrive = std::get_if<op::Arrive>(&operation))
    tokens_[arrive->req] = arrive->tokens;
  if (const auto* append = std::get_if<op::Append>(&operation))
    add_tokens(append->req, append->tokens);
  if (const auto* fork = std::get_if<op::Fork>(&operation))
    tokens_[fork->child] = tokens_[fork->req];
  if (const auto* finish = std::get_if<op::Finish>(&operation)) {
    tokens_[finish->req] = {};  // its name stays known
    hits_.erase(finish->req);
  }
  if (const auto* decode = std::get_if<op::Decode>(&operation)) {
    for (std::size_t i = 0; i < decode->reqs.size(); ++i) {
      add_tokens(decode->reqs[i], {decode->tokens[i]});
    }
  }
  if (const auto* hit = std::get_if<Hit>(&result)) hits_[request_of(operation)] = hit->hit_tokens;
}

void Story::add_tokens(const std::string& req, const std::vector<TokenId>& tokens) {
  auto& all = tokens_[req];
  all.insert(all.end(), tokens.begin(), tokens.end());
}

void Story::learn_transfer(const Operation& operation, const Result& result) {
  const auto* granted = std::get_if<Granted>(&result);
  const auto* out = std::get_if<op::SwapOut>(&operation);
  const auto* in = std::get_if<op::SwapIn>(&operation);
  if (granted != nullptr && (out != nullptr || in != nullptr)) {
    std::string pairs;
    for (const auto& [from, to] : granted->copies) {
      item(pairs, out != nullptr ? ids_json({from, to}) : ids_json({to, from}));
    }
    const std::string& name = out != nullptr ? out->transfer : in->transfer;
    transfers_[name] = "[" + dump(name) + ",[" + pairs + "]]";
  }
  const auto* complete = std::get_if<op::Complete>(&operation);
  if (complete != nullptr && !is_undone(result)) transfers_.erase(complete->transfer);
  std::string all;
  for (const auto& [name, json] : transfers_) item(all, json);
  set("t", "[" + all + "]");
}

void Story::add(const Operation& operation, const Outcome& outcome, Snapshot& after) {
  std::string members;
  member(members, "op", to_json(operation));
  const std::string answer = to_json(outcome);  // {"out":...,"events":[...]}
  const std::size_t events = std::min(answer.find(R"(,"events":[)"), answer.size() - 1);
  if (!std::holds_alternative<std::monostate>(outcome.result)) {
    member(members, "out", answer.substr(7, events - 7));
  }
  if (!outcome.events.empty()) {
    member(members, "ev", answer.substr(events + 10, answer.size() - events - 11));
  }
  learn(operation, outcome.result);
  const StateDifference changed = difference_of(now_, after);
  const std::string flags = flags_of(operation, outcome.result, changed, after);
  if (!flags.empty()) member(members, "x", "\"" + flags + "\"");
  append(std::move(members), changed, after);
  learn_transfer(operation, outcome.result);
}

void Story::add_unanswered(const Operation& operation, std::string_view why) {
  std::string members;
  member(members, "op", to_json(operation));
  member(members, "raised", dump(why));
  Snapshot same = now_;
  add_line(std::move(members), same);
}

void Story::add_line(std::string members, Snapshot& after) {
  append(std::move(members), difference_of(now_, after), after);
}

void Story::append(std::string members, const StateDifference& changed, Snapshot& after) {
  if (!chunks_.empty()) chunks_.back() += line_ + "}\n";
  if (steps_ % kFrame == 0) {
    chunks_.push_back(frame());
    if (chunks_.size() > kMostSteps / kFrame) {
      chunks_.pop_front();
      dropped_ += kFrame;
    }
  }
  line_ = "{" + std::move(members);
  const std::string text = changes(changed, after);
  if (!text.empty()) line_ += "," + text;
  std::swap(now_, after);
  ++steps_;
}

void Story::amend(const std::string& name, const std::string& value) {
  line_ += ",\"" + name + "\":" + value;
}

void Story::set(const std::string& name, const std::string& value) {
  auto [at, fresh] = set_.try_emplace(name, "[]");
  if (at->second == value) return;
  at->second = value;
  amend(name, value);
}

void Story::add_verdict(const LensVerdict& verdict, std::optional<std::uint64_t> step) {
  std::set<std::uint32_t> blocks(verdict.about.blocks.begin(), verdict.about.blocks.end());
  const std::uint64_t last = steps_ == 0 ? 0 : steps_ - 1;
  verdicts_.push_back({{"step", step.value_or(last)},
                       {"law", verdict.law},
                       {"name", verdict.name},
                       {"sentence", verdict.sentence},
                       {"says", verdict.says},
                       {"blocks", blocks},
                       {"requests", verdict.about.requests}});
}

// ---- the page ----

Json Story::whole_head() const {
  const auto place = [this](std::int64_t step) {
    return std::max<std::int64_t>(step - static_cast<std::int64_t>(dropped_), -1);
  };
  Json out = {{"kvproof_lens", 1}};
  out.update(head);
  if (dropped_ > 0) {
    const std::string title = out.value("title", "");
    out["title"] = say(title, ", the last ", shown(), " of ", steps_, " operations");
  }
  out["steps"] = shown();
  out["frame"] = kFrame;
  out["keys"] = Json::array();
  for (const KeyFacts& key : facts_) {
    std::uint32_t parent = key.parent != 0 ? keys_.find(key.parent) : 0;
    if (parent > 0 && facts_[parent - 1].tokens >= key.tokens) parent = 0;  // a subject may lie
    out["keys"].push_back({parent, std::uint32_t{key.group}, key.tokens, key.label});
  }
  out["verdicts"] = verdicts_;
  std::int64_t first = -1;
  for (Json& verdict : out["verdicts"]) {
    verdict["step"] = place(verdict["step"]);
    if (first < 0) first = verdict["step"];
  }
  if (out.contains("difference") && !out["difference"].is_null()) {
    first = out["difference"]["step"] = place(out["difference"]["step"]);
  }
  out["open"] = first;
  return out;
}

std::string Story::payload() const {
  std::string out = dump(whole_head()) + "\n";
  for (const std::string& chunk : chunks_) out += chunk;
  if (!line_.empty()) out += line_ + "}";
  return out;
}

}  // namespace kvproof::properties
