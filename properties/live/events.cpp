// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a recorded run.
#include "properties/live/events.h"

#include <initializer_list>

#include "reference/trace_fields.h"

namespace kvproof::live {
namespace {

using namespace fields;  // NOLINT: the words of this file

constexpr std::uint32_t kMostBlocks = 1U << 22;  // of a tier
constexpr std::uint32_t kMostSlots = 1U << 26;   // of a tier: 1 GiB of shadow
constexpr std::uint32_t kMostTokens = 1U << 24;  // of a request
constexpr std::string_view kKinds[] = {"load", "store", "send", "receive"};
constexpr std::string_view kOutcomes[] = {"done", "failed", "abandoned"};

/// A member that the operation does not have is an error.
void only(const json& object, std::string_view first,
          std::initializer_list<std::string_view> others) {
  for (const auto& item : object.items()) {
    if (item.key() == first || std::ranges::find(others, item.key()) != others.end()) continue;
    std::string known(first);
    for (const std::string_view name : others) known.append(", ").append(name);
    throw TextError(item.key(), "only " + known);
  }
}

std::uint32_t below(const json& value, const char* field, std::size_t limit) {
  const auto out = integer<std::uint32_t>(value, field);
  if (out >= limit) throw TextError(field, "a number below " + std::to_string(limit));
  return out;
}

/// The items of a list that may be left out.
const json& items(const json& object, const char* field) {
  static const json kNone = json::array();
  return object.contains(field) ? array(object[field], field) : kNone;
}

std::uint64_t lost_by(const json& line) {
  return line.contains("events") ? integer<std::uint64_t>(line["events"], "events") : 0;
}

class Reader {
 public:
  Reader(const json& line, const Header& header, Names& names)
      : line_(line), header_(header), names_(names) {}

  [[nodiscard]] Event event() const {
    const std::string op = text(line_, "op");
    if (op == "request") return request();
    if (op == "tokens") return tokens();
    if (op == "dispatch") return dispatch();
    if (op == "run") return run();
    if (op == "retire") {
      has({"step", "sampled", "discarded"});
      return event::Retire{step(), tokens_of("sampled"), requests("discarded")};
    }
    if (op == "start") return start();
    if (op == "move") {
      has({"transfer", "pairs"});
      return event::Move{text(line_, "transfer"), numbers("pairs")};
    }
    if (op == "settle") return settle();
    if (op == "preempt") return has({"req"}), event::Leave{event::Way::preempt, req()};
    if (op == "finish") return has({"req"}), event::Leave{event::Way::finish, req()};
    if (op == "abort") return has({"req"}), event::Leave{event::Way::abort, req()};
    if (op == "hit") {
      has({"req", "tokens", "transfer"});
      return event::Hit{req(), size(line_, "tokens", kMostTokens),
                        text_or_empty(line_, "transfer")};
    }
    if (op == "publish" || op == "unpublish") {
      has({"tier", "block", "group", "req", "to"});
      return event::Publish{op == "publish", place(of("tier"), of("block"), "block"), group(),
                            req(), size(line_, "to", kMostTokens)};
    }
    if (op == "freed" || op == "taken") {
      has({"tier", "blocks"});
      const std::uint32_t tier = below(of("tier"), "tier", header_.tiers.size());
      return event::Queue{op == "freed", tier, blocks(of("blocks"), "blocks", tier)};
    }
    if (op == "reset") return reset();
    if (op == "raised") return has({"what"}), event::Raised{text(line_, "what")};
    if (op == "lost")
      return has({"events", "what"}), event::Lost{lost_by(line_), text(line_, "what")};
    if (op == "quiet") return has({}), event::Quiet{};
    if (op == "end") return end();
    throw TextError("op", "a known event, found " + op);
  }

 private:
  void has(std::initializer_list<std::string_view> members) const { only(line_, "op", members); }
  [[nodiscard]] const json& of(const char* field) const { return member(line_, field); }
  [[nodiscard]] std::uint32_t request_of(const json& object) const {
    return names_.find(text(object, "req"));
  }
  [[nodiscard]] std::uint32_t req() const { return request_of(line_); }
  [[nodiscard]] Place place(const json& tier, const json& block, const char* field) const {
    const std::uint32_t of = below(tier, field, header_.tiers.size());
    return {of, below(block, field, header_.tiers[of].blocks)};
  }
  [[nodiscard]] std::uint32_t group() const {
    return below(of("group"), "group", header_.groups.size());
  }
  [[nodiscard]] std::uint64_t step() const { return integer<std::uint64_t>(of("step"), "step"); }
  [[nodiscard]] std::vector<std::uint32_t> numbers(const char* field) const {
    return integers<std::uint32_t>(of(field), field);
  }
  [[nodiscard]] std::vector<std::uint32_t> blocks(const json& value, const char* field,
                                                  std::uint32_t tier) const {
    auto out = integers<std::uint32_t>(value, field);
    const std::uint32_t limit = header_.tiers[tier].blocks;
    if (std::ranges::all_of(out, [limit](std::uint32_t block) { return block < limit; }))
      return out;
    throw TextError(field, "blocks below " + std::to_string(limit));
  }
  [[nodiscard]] std::vector<std::uint32_t> requests(const char* field) const {
    std::vector<std::uint32_t> out;
    for (const json& item : items(line_, field)) {
      if (!item.is_string()) throw TextError(field, "strings");
      out.push_back(names_.find(item.get<std::string>()));
    }
    return out;
  }
  template <class Read>
  [[nodiscard]] auto per_request(const char* field, const Read& read) const {
    PerRequest<decltype(read(line_))> out;
    if (!line_.contains(field)) return out;
    for (const auto& item : object(line_[field], field).items()) {
      out.emplace_back(names_.find(item.key()), read(item.value()));
    }
    return out;
  }
  [[nodiscard]] TokensOf tokens_of(const char* field) const {
    return per_request(field,
                       [field](const json& value) { return integers<TokenId>(value, field); });
  }
  [[nodiscard]] BlockLists tables(const json& value, const char* field) const {
    BlockLists out;
    for (const json& list : array(value, field)) out.push_back(blocks(list, field, 0));
    if (out.size() == header_.groups.size()) return out;
    throw TextError(field, "one list for each group");
  }
  [[nodiscard]] std::vector<event::Sent> sent(const json& value) const {
    std::vector<event::Sent> out;
    for (const json& item : array(value, "slots")) {
      if (!item.is_array() || item.size() != 4) {
        throw TextError("slots", "[group, position, block, offset]");
      }
      const std::uint32_t group = below(item[0], "slots", header_.groups.size());
      const Group& of = header_.groups[group];
      out.push_back({group, below(item[1], "slots", kMostTokens), place(0, item[2], "slots").block,
                     below(item[3], "slots", of.state ? 1 : of.block_size)});
    }
    return out;
  }

  [[nodiscard]] Event request() const {
    has({"req", "tokens", "keys"});
    event::Request out{0, integers<TokenId>(of("tokens"), "tokens"), text_or_empty(line_, "keys")};
    out.req = names_.add(text(line_, "req"));
    return out;
  }
  [[nodiscard]] Event tokens() const {
    has({"req", "length", "append"});
    event::Tokens out{req(), {}, integers<TokenId>(of("append"), "append")};
    if (line_.contains("length")) out.length = size(line_, "length", kMostTokens);
    return out;
  }
  [[nodiscard]] Event dispatch() const {
    has({"step", "rows", "copies"});
    event::Dispatch out{step(), {}, copies()};
    for (const json& item : array(of("rows"), "rows")) out.rows.push_back(row(item));
    return out;
  }
  [[nodiscard]] std::vector<event::BlockCopy> copies() const {
    std::vector<event::BlockCopy> out;
    for (const json& item : items(line_, "copies")) {
      if (!item.is_array() || item.size() != 3) throw TextError("copies", "[group, from, to]");
      out.push_back({below(item[0], "group", header_.groups.size()),
                     place(0, item[1], "copies").block, place(0, item[2], "copies").block});
    }
    return out;
  }
  [[nodiscard]] event::Row row(const json& value) const;
  [[nodiscard]] Event run() const {
    has({"step", "inputs", "copies", "tables", "slots"});
    return event::Run{
        step(), tokens_of("inputs"), copies(),
        per_request("tables", [this](const json& value) { return tables(value, "tables"); }),
        per_request("slots", [this](const json& value) { return sent(value); })};
  }
  [[nodiscard]] Event start() const;
  void sides(event::Start& out) const;
  [[nodiscard]] Event settle() const {
    has({"transfer", "outcome", "failed"});
    const auto outcome = static_cast<event::Ended>(word(line_, "outcome", kOutcomes));
    return event::Settle{text(line_, "transfer"), outcome,
                         integers<std::uint32_t>(items(line_, "failed"), "failed")};
  }
  [[nodiscard]] Event reset() const {
    has({"tiers"});
    event::Reset out{numbers("tiers")};
    for (const json& tier : of("tiers")) below(tier, "tiers", header_.tiers.size());
    return out;
  }
  [[nodiscard]] Event end() const {
    has({"free", "unfinished"});
    event::End out{numbers("free"), requests("unfinished")};
    if (out.free.size() == header_.tiers.size()) return out;
    throw TextError("free", "one number for each tier");
  }

  const json& line_;
  const Header& header_;
  Names& names_;
};

event::Row Reader::row(const json& value) const {
  only(object(value, "rows"), "req", {"start", "n", "tables", "more", "drafts"});
  event::Row out;
  out.req = request_of(value);
  out.start = size(value, "start", kMostTokens);
  out.n = size(value, "n", kMostTokens);
  if (const auto drafts = value.find("drafts"); drafts != value.end()) {
    out.drafts = drafts->is_array() ? static_cast<std::uint32_t>(drafts->size())
                                    : integer<std::uint32_t>(*drafts, "drafts");
    if (out.drafts > out.n) throw TextError("drafts", "at most as many as the row has tokens");
  }
  if (value.contains("tables") && value.contains("more")) {
    throw TextError("more", "nothing beside tables");
  }
  for (const char* field : {"tables", "more"}) {
    if (!value.contains(field)) continue;
    out.told = *field == 't' ? event::Row::Tables::replaced : event::Row::Tables::appended;
    out.tables = tables(value[field], field);
  }
  return out;
}

void Reader::sides(event::Start& out) const {
  const bool one = out.kind == event::Kind::send || out.kind == event::Kind::receive;
  const char* field = one ? "blocks" : "pairs";
  for (const json& item : array(of(field), field)) {
    if (!item.is_array() || item.size() != (one ? 2 : 4)) {
      throw TextError(field, one ? "[tier, block]" : "[tier, block, tier, block]");
    }
    const Place first = place(item[0], item[1], field);
    (out.kind == event::Kind::receive ? out.to : out.from).push_back(first);
    if (!one) out.to.push_back(place(item[2], item[3], field));
  }
}

Event Reader::start() const {
  event::Start out;
  out.transfer = text(line_, "transfer");
  out.kind = static_cast<event::Kind>(word(line_, "kind", kKinds));
  out.group = group();
  if (!text_or_empty(line_, "req").empty()) out.req = req();
  if (line_.contains("after")) out.after = integer<std::uint64_t>(of("after"), "after");
  if (out.kind == event::Kind::receive) {
    has({"transfer", "kind", "blocks", "group", "req", "after", "carries"});
    const json& carries = array(of("carries"), "carries");
    if (carries.size() != 2 || !carries[0].is_string()) {
      throw TextError("carries", "[request, first position]");
    }
    out.carries = names_.find(carries[0].get<std::string>());
    out.first = below(carries[1], "carries", kMostTokens);
  } else {
    const bool one = out.kind == event::Kind::send;
    has({"transfer", "kind", one ? "blocks" : "pairs", "group", "req", "after"});
  }
  sides(out);
  return out;
}

}  // namespace

std::uint32_t Names::add(const std::string& name) {
  const auto number = static_cast<std::uint32_t>(names_.size());
  if (!numbers_.emplace(name, number).second) {
    throw TextError("req", "a new name, found " + name + " again");
  }
  names_.push_back(name);
  return number;
}

std::uint32_t Names::find(const std::string& name) const {
  const auto at = numbers_.find(name);
  if (at == numbers_.end()) throw TextError("req", "a request that has arrived, found " + name);
  return at->second;
}

Header parse_run_header(std::string_view text_of_line) {
  const json line = parse_object(text_of_line);
  if (count(line, "kvproof_run") != 1) throw TextError("kvproof_run", "format version 1");
  only(line, "kvproof_run",
       {"engine", "tiers", "groups", "null_block", "depth", "patience", "seed"});
  Header out;
  out.engine = text_or_empty(line, "engine");
  if (line.contains("seed"))
    out.seed = line["seed"].is_string() ? text(line, "seed") : std::to_string(count(line, "seed"));
  std::uint32_t slots = 1;
  constexpr std::size_t kMostOfThem = 64;
  for (const json& item : array(member(line, "groups"), "groups")) {
    only(object(item, "groups"), "block_size", {"window", "state", "in_place"});
    Group group{size(item, "block_size", kMostTokens), count_or_zero(item, "window"),
                flag(item, "state"), flag(item, "in_place")};
    if (group.block_size == 0) throw TextError("block_size", "at least 1");
    if (group.in_place && !group.state) throw TextError("in_place", "a group of states");
    if (!group.state) slots = std::max(slots, group.block_size);
    out.groups.push_back(group);
  }
  for (const json& item : array(member(line, "tiers"), "tiers")) {
    only(object(item, "tiers"), "name", {"blocks"});
    out.tiers.push_back({text(item, "name"), size(item, "blocks", kMostBlocks)});
    if (std::uint64_t{out.tiers.back().blocks} * slots > kMostSlots) {
      throw TextError("blocks", "at most " + std::to_string(kMostSlots) + " slots in a tier");
    }
  }
  if (out.groups.empty() || out.groups.size() > kMostOfThem) throw TextError("groups", "1 to 64");
  constexpr std::size_t kMostTiers = 8;
  if (out.tiers.empty() || out.tiers.size() > kMostTiers) throw TextError("tiers", "1 to 8");
  out.null_block = flag(line, "null_block");
  if (line.contains("depth")) out.depth = count(line, "depth");
  out.patience = count(line, "patience");
  return out;
}

Event parse_event(std::string_view text_of_line, const Header& header, Names& names) {
  const json line = parse_object(text_of_line);
  return Reader(line, header, names).event();
}

std::uint64_t parse_behind_loss(std::string_view text_of_line) {
  const json line = parse_object(text_of_line);
  return line.value("op", json()) == "lost" ? lost_by(line) : 0;
}

}  // namespace kvproof::live
