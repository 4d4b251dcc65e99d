// SPDX-License-Identifier: Apache-2.0
#include "properties/story/story.h"

#include <algorithm>
#include <utility>

#include "properties/laws/laws.h"
#include "reference/support/say.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

using Json = nlohmann::ordered_json;

const Snapshot kNothing;

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Adds to a list whose members stand one behind another.
void item(std::string& list, const std::string& value) {
  if (!list.empty()) list += ',';
  list += value;
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

/// The members of an answer: "out", unless it is nothing, and "ev".
void add_answer(std::string& out, const Outcome& outcome) {
  const std::string answer = to_json(outcome);  // {"out":...,"events":[...]}
  const std::size_t events = std::min(answer.find(R"(,"events":[)"), answer.size() - 1);
  if (!std::holds_alternative<std::monostate>(outcome.result)) {
    member(out, "out", answer.substr(7, events - 7));
  }
  if (!outcome.events.empty()) {
    member(out, "ev", answer.substr(events + 10, answer.size() - events - 11));
  }
}

}  // namespace

Story::Story(const CacheConfig& config, Snapshot first, std::unique_ptr<LookupExplainer> lookups)
    : config_(config), now_(std::move(first)), lookups_(std::move(lookups)) {
  const Frame none{
      .request = [](const std::string&) { return std::nullopt; }, .state = now_, .transfers = {}};
  const StateDifference all = difference_of(kNothing, now_);
  see_keys(now_, all, none);
  see_keys(now_.host, all.host, none);
}

// ---- keys ----

void Story::see_keys(const PoolState& pool, const PoolDifference& changed, const Frame& frame) {
  for (const BlockId block : changed.blocks) {
    if (block >= pool.blocks.size()) continue;
    const BlockState& b = pool.blocks[block];
    for_each_key(pool, block, [&](std::uint64_t key) {
      see_key(key, b.group, b.hashed && key == b.key ? b.prefix_tokens : 0, frame);
    });
  }
}

void Story::see_key(std::uint64_t key, GroupId group, std::uint32_t tokens, const Frame& frame) {
  if (keys_(key) <= facts_.size()) return;
  KeyFacts& facts = facts_.emplace_back(KeyFacts{0, group, tokens, ""});
  const std::uint32_t unit = config_.hash_block_size;
  if (group >= config_.groups.size() || unit == 0) return;
  const std::uint32_t block_size = config_.groups[group].block_size;
  for (const RequestState& r : frame.state.requests) {
    std::size_t at = tokens / unit;  // hash units that the key covers
    if (at == 0)
      at = static_cast<std::size_t>(std::ranges::find(r.hashes, key) - r.hashes.begin()) + 1;
    if (at > r.hashes.size() || r.hashes[at - 1] != key) continue;
    facts.tokens = static_cast<std::uint32_t>(at * unit);
    const std::uint32_t start = (facts.tokens - 1) / block_size * block_size;
    if (start >= unit) facts.parent = r.hashes[start / unit - 1];
    const auto known = frame.request(r.name);
    if (!known) return;
    const auto all = known->tokens;
    for (std::size_t t = start; t < std::min<std::size_t>(facts.tokens, all.size()); ++t) {
      facts.label += (facts.label.empty() ? "" : " ") + std::to_string(all[t]);
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

std::string Story::frame() const {
  std::string out = changes(kNothing, now_, difference_of(kNothing, now_));
  for (const auto& [name, value] : set_) member(out, name, value);
  return R"({"F":{)" + out + "}}\n";
}

void Story::add_pool(std::string& out, const std::string& tier, const PoolState& was,
                     const PoolState& now, const PoolDifference& changed) const {
  if (changed.num_free) member(out, tier + "f", std::to_string(now.num_free));
  if (changed.queue) member(out, tier + "q", splices_of_queue(was.queue, now.queue));
  if (changed.queue || changed.backward) {
    const std::string backward = backward_json(now);
    if (backward != backward_json(was)) member(out, tier + "qb", backward);
  }
  std::string blocks;
  for (const BlockId block : changed.blocks) {
    if (block < now.blocks.size()) item(blocks, row(now, block));
  }
  if (!blocks.empty()) member(out, tier + "b", "[" + blocks + "]");
}

std::string Story::changes(const Snapshot& was, const Snapshot& now,
                           const StateDifference& changed) const {
  static const RequestState kNew;
  std::string out;
  add_pool(out, "", was, now, changed);
  add_pool(out, "h", was.host, now.host, changed.host);
  std::string requests;
  for (const auto& [old, r] : changed.requests) {
    const RequestState& from = old != nullptr ? *old : kNew;
    const std::string value = r == nullptr
                                  ? "null"
                                  : request_json(*r, table_changes(from.tables, r->tables),
                                                 table_changes(from.host_tables, r->host_tables));
    item(requests, dump((r != nullptr ? r : old)->name) + ":" + value);
  }
  if (!requests.empty()) member(out, "r", "{" + requests + "}");
  std::string leases;
  for (const auto& [old, lease] : changed.leases) {
    item(leases, dump((lease != nullptr ? lease : old)->name) + ":" +
                     (lease != nullptr ? ids_json(lease->blocks) : "null"));
  }
  if (!leases.empty()) member(out, "l", "{" + leases + "}");
  if (changed.raw) member(out, "raw", ids_json(now.raw));
  if (changed.copying) member(out, "cp", ids_json(now.copying));
  return out;
}

// ---- steps ----

std::string Story::flags_of(const Frame& frame, const StateDifference& changed) const {
  std::string out;
  const Operation& operation = *frame.operation;
  const Result& result = frame.outcome->result;
  const auto* granted = std::get_if<Granted>(&result);
  const auto* decoded = std::get_if<Decoded>(&result);
  const auto* allocate = std::get_if<op::Allocate>(&operation);
  const bool takes = granted != nullptr || decoded != nullptr;
  const bool evicted =
      evicts(changed, now_, frame.state) || evicts(changed.host, now_.host, frame.state.host);
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

std::string Story::members_of(const Frame& frame, const StateDifference& changed) {
  std::string out;
  member(out, "op",
         frame.operation != nullptr ? to_json(*frame.operation) : std::string(frame.event));
  if (!frame.raised.empty()) member(out, "raised", dump(frame.raised));
  if (frame.outcome == nullptr) return out;
  add_answer(out, *frame.outcome);
  if (const auto& [right, model, need, same] = frame.expected; right != nullptr) {
    std::string answer;
    if (!same) add_answer(answer, *right);
    member(out, "want", same ? "1" : "{" + answer + "}");
    if (need) member(out, "need", say("[", need->blocks, ",", need->free, "]"));
  }
  const std::string flags = flags_of(frame, changed);
  if (!flags.empty()) member(out, "x", "\"" + flags + "\"");
  if (std::holds_alternative<op::Finish>(*frame.operation))
    hits_.erase(request_of(*frame.operation));
  if (const auto* hit = std::get_if<Hit>(&frame.outcome->result)) {
    hits_[request_of(*frame.operation)] = hit->hit_tokens;
  }
  return out;
}

void Story::add(const Frame& frame) {
  if (lookups_) lookups_->take(frame);
  if (!frame.complete) return;
  if (!chunks_.empty()) chunks_.back() += line_ + "}\n";
  if (steps_ % kFrame == 0) {
    chunks_.push_back(this->frame());
    if (chunks_.size() > kMostSteps / kFrame) {
      chunks_.pop_front();
      dropped_ += kFrame;
    }
  }
  const StateDifference changed = difference_of(now_, frame.state);
  line_ = "{" + members_of(frame, changed);
  see_keys(frame.state, changed, frame);
  see_keys(frame.state.host, changed.host, frame);
  const std::string text = changes(now_, frame.state, changed);
  if (!text.empty()) line_ += "," + text;
  now_ = frame.state;
  if (frame.expected.model) model_ = frame.expected.model;
  ++steps_;
  std::string transfers;
  for (const auto& [name, pairs] : frame.transfers) item(transfers, dump(Json{name, pairs}));
  set("t", "[" + transfers + "]");
  if (!lookups_ || lookups_->explained.empty()) return;
  std::string why;
  for (const Explained& e : std::exchange(lookups_->explained, {})) {
    why += say(why.empty() ? "" : " ", e.request, ": ", e.hit, " of ", e.tokens, " tokens hit; ",
               kCauses[static_cast<std::size_t>(e.cause)].words, e.why.empty() ? "" : ": ", e.why,
               ".");
  }
  amend("why", dump(why));
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
  const std::uint64_t last = steps_ == 0 ? 0 : steps_ - 1;
  Snapshot right;
  if (model_ && !step) model_->observe(right);
  Json rows = Json::array();
  for (const BlockId block : verdict.about.blocks) {
    if (block == kNullBlock || block >= right.blocks.size()) continue;
    const BlockState& b = right.blocks[block];
    rows.push_back({std::uint32_t{block}, b.ref_cnt, b.hashed ? b.prefix_tokens : 0});
  }
  const Law* law = find_law(verdict.law, kLaws);
  verdicts_.push_back({{"step", step.value_or(last)},
                       {"law", verdict.law},
                       {"name", law != nullptr ? law->name : ""},
                       {"sentence", law != nullptr ? law->sentence : ""},
                       {"says", verdict.says},
                       {"blocks", Json::parse(ids_json(verdict.about.blocks))},
                       {"requests", verdict.about.requests},
                       {"right", rows},
                       {"expected", verdict.expected},
                       {"found", verdict.found}});
}

void Story::add_verdicts(const Broken& broken) {
  for (std::size_t i = 0; i < broken.breaches.size(); ++i) {
    LensVerdict verdict{.law = broken.breaches[i], .says = broken.text};
    if (i < broken.said.size()) {
      verdict.about = broken.said[i].about;
      if (find_law(verdict.law) != nullptr) verdict.says = broken.said[i];
    }
    add_verdict(verdict);
  }
}

void Story::describe(const TraceHeader& header, const std::string& source, Parts shown,
                     const std::string& command) {
  auto hidden = Json::array();
  for (const Part part : {kIds, kQueue, kReferences, kCached, kKeys, kProgress, kHost}) {
    const bool there = part != kHost || header.config.num_host_blocks > 0;
    if ((shown & part) == 0 && there) hidden.push_back(names_of(part));
  }
  const auto config = Json::parse(to_json(header));
  head.update({{"title", header.name.empty() ? source : header.name + ", " + source},
               {"source", source},
               {"subject", header.subject},
               {"profile", header.config.profile.name},
               {"config", config["config"]},
               {"command", command},
               {"hidden", hidden},
               {"difference", nullptr},
               {"scene", ""},
               {"live", false}});
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
  out["host"] = !now_.host.blocks.empty();
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
