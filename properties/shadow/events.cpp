// SPDX-License-Identifier: Apache-2.0
// Reads the lines of a recorded run.
#include "properties/shadow/events.h"

#include <initializer_list>

#include "reference/support/say.h"
#include "reference/trace_fields.h"

namespace kvproof::live {
namespace {

using namespace fields;  // NOLINT: the words of this file

constexpr std::uint32_t kMostBlocks = 1U << 22;  // of a tier
constexpr std::uint32_t kMostSlots = 1U << 26;   // of a tier: 1 GiB of shadow
constexpr std::uint32_t kMostTokens = 1U << 24;  // of a request
constexpr std::size_t kMostPairs = std::size_t{1}
                                   << 32U;  // of a transfer; the judge knows how many
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

/// The items of a list that may be left out.
const json& items(const json& object, const char* field) {
  static const json kNone = json::array();
  return object.contains(field) ? array(object[field], field) : kNone;
}

std::uint64_t lost_by(const json& line) {
  if (!line.contains("events")) return 0;
  if (!line["events"].is_number_integer()) throw TextError("events", "an integer");
  return line["events"].is_number_unsigned() ? line["events"].get<std::uint64_t>() : 0;
}

/// What is of the wrong kind is refused; what cannot be is noted and left out.
class Reader {
 public:
  Reader(const json& line, const Header& header, Names& names)
      : line_(line), header_(header), names_(names) {}

  [[nodiscard]] ReadEvent read() {
    ReadEvent out{event(), {}, {}};
    if (nothing_is_left_) out.event.reset();
    out.step = step_;
    out.strays = std::move(strays_);
    return out;
  }

 private:
  using Number = std::optional<std::uint32_t>;

  Event event() {
    const std::string op = text(line_, "op");
    if (op == "request") return request();
    if (op == "tokens") return tokens();
    if (op == "dispatch") return dispatch();
    if (op == "run") return run();
    if (op == "retire") return retire();
    if (op == "start") return start();
    if (op == "move") {
      has({"transfer", "pairs"});
      return event::Move{text(line_, "transfer"), numbers(of("pairs"), "pairs", kMostPairs)};
    }
    if (op == "settle") return settle();
    if (op == "preempt") return leave(event::Way::preempt);
    if (op == "finish") return leave(event::Way::finish);
    if (op == "abort") return leave(event::Way::abort);
    if (op == "hit") return hit();
    if (op == "publish" || op == "unpublish") return publish(op == "publish");
    if (op == "freed" || op == "taken") return queue(op == "freed");
    if (op == "reset") {
      has({"tiers"});
      return event::Reset{numbers(of("tiers"), "tiers", tiers())};
    }
    if (op == "raised") return has({"what"}), event::Raised{text(line_, "what")};
    if (op == "lost")
      return has({"events", "what"}), event::Lost{lost_by(line_), text(line_, "what")};
    if (op == "quiet") return has({}), event::Quiet{};
    if (op == "end") return end();
    throw TextError("op", "a known event, found " + op);
  }

  void has(std::initializer_list<std::string_view> members) const { only(line_, "op", members); }
  [[nodiscard]] const json& of(const char* field) const { return member(line_, field); }
  [[nodiscard]] std::size_t tiers() const { return header_.tiers.size(); }
  [[nodiscard]] std::size_t groups() const { return header_.groups.size(); }

  void stray(const char* field, const std::string& found, const std::string& expected) {
    constexpr std::size_t kMostStrays = 16;
    if (strays_.size() == kMostStrays) return;
    strays_.push_back({say('"', field, "\" is ", found, ", and must be ", expected), about_});
  }
  std::optional<std::uint64_t> natural(const json& value, const char* field) {
    if (!value.is_number_integer()) {
      throw TextError(field, "an integer of 64 bits, found " + kind_of(value));
    }
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    stray(field, value.dump(), "at least 0");
    return {};
  }
  Number below(const json& value, const char* field, std::size_t limit) {
    const auto out = natural(value, field);
    if (out && *out < limit) return static_cast<std::uint32_t>(*out);
    if (out) stray(field, value.dump(), "below " + std::to_string(limit));
    return {};
  }
  Number tokens_up_to(const json& object, const char* field) {
    return below(member(object, field), field, kMostTokens + std::size_t{1});
  }
  /// @return the number of a request that has arrived
  Number request_named(const json& name, const char* field) {
    if (!name.is_string()) throw TextError(field, "a string");
    about_ = name.get<std::string>();
    const Number out = names_.find(about_);
    if (!out) stray(field, about_, "a request that has arrived");
    return out;
  }
  Number req(const json& object) { return request_named(member(object, "req"), "req"); }
  /// Without it nothing is left of the event.
  template <class Value>
  Value needed(const std::optional<Value>& value) {
    nothing_is_left_ = nothing_is_left_ || !value;
    return value.value_or(Value{});
  }
  std::uint64_t step() { return needed(step_ = natural(of("step"), "step")); }
  std::uint32_t block(const json& value, const char* field, std::uint32_t tier) {
    const std::uint32_t blocks = header_.tiers[tier].blocks;
    return below(value, field, blocks).value_or(blocks);
  }
  [[nodiscard]] bool exists(Place at) const { return at.block < header_.tiers[at.tier].blocks; }
  Place place(const json& tier, const json& id, const char* field) {
    const Number of = below(tier, field, tiers());
    if (of) return {*of, block(id, field, *of)};
    static_cast<void>(natural(id, field));
    return {0, header_.tiers[0].blocks};
  }
  std::vector<std::uint32_t> numbers(const json& value, const char* field, std::size_t limit) {
    std::vector<std::uint32_t> out;
    for (const json& item : array(value, field)) {
      if (const Number number = below(item, field, limit)) out.push_back(*number);
    }
    return out;
  }
  std::vector<TokenId> token_ids(const json& value, const char* field) {
    std::vector<TokenId> out;
    for (const json& item : array(value, field)) {
      if (!item.is_number_integer()) throw TextError(field, "integers of 64 bits");
      out.push_back(static_cast<TokenId>(item.get<std::int64_t>()));
      using Limits = std::numeric_limits<TokenId>;
      const bool fits = item.is_number_unsigned()
                            ? item.get<std::uint64_t>() <= std::uint64_t{Limits::max()}
                            : item.get<std::int64_t>() >= Limits::min();
      if (!fits) stray(field, item.dump(), "an integer of 32 bits");
    }
    return out;
  }
  std::vector<std::uint32_t> requests(const char* field) {
    std::vector<std::uint32_t> out;
    for (const json& item : items(line_, field)) {
      if (const Number request = request_named(item, field)) out.push_back(*request);
    }
    return out;
  }
  template <class Read>
  auto per_request(const char* field, const Read& read) {
    PerRequest<typename decltype(read(line_))::value_type> out;
    if (!line_.contains(field)) return out;
    for (const auto& item : object(line_[field], field).items()) {
      const Number request = request_named(item.key(), field);
      auto value = read(item.value());
      if (request && value) out.emplace_back(*request, std::move(*value));
    }
    return out;
  }
  TokensOf tokens_of(const char* field) {
    return per_request(
        field, [this, field](const json& value) { return std::optional(token_ids(value, field)); });
  }
  std::optional<BlockLists> tables(const json& value, const char* field) {
    BlockLists out;
    for (const json& list : array(value, field)) {
      auto& ids = out.emplace_back();
      for (const json& id : array(list, field)) ids.push_back(block(id, field, 0));
    }
    if (out.size() == groups()) return out;
    stray(field, say("of ", out.size(), " groups"), say("one list for each of ", groups()));
    return {};
  }
  std::vector<event::Sent> sent(const json& value);

  Event request() {
    has({"req", "tokens", "keys"});
    about_ = text(line_, "req");
    event::Request out{0, token_ids(of("tokens"), "tokens"), text_or_empty(line_, "keys")};
    if (names_.find(about_)) stray("req", about_, "a name that no request had before");
    out.req = names_.add(about_);
    return out;
  }
  Event tokens() {
    has({"req", "length", "append"});
    event::Tokens out{needed(req(line_)), {}, token_ids(of("append"), "append")};
    if (line_.contains("length")) out.length = needed(tokens_up_to(line_, "length"));
    return out;
  }
  Event leave(event::Way way) {
    has({"req"});
    return event::Leave{way, needed(req(line_))};
  }
  Event hit() {
    has({"req", "tokens", "transfer"});
    const std::uint32_t request = needed(req(line_));
    return event::Hit{request, needed(tokens_up_to(line_, "tokens")),
                      text_or_empty(line_, "transfer")};
  }
  Event publish(bool published) {
    has({"tier", "block", "group", "req", "to"});
    const std::uint32_t request = needed(req(line_));
    event::Publish out{published, place(of("tier"), of("block"), "block"),
                       needed(below(of("group"), "group", groups())), request,
                       needed(tokens_up_to(line_, "to"))};
    if (of("to") == 0) stray("to", "0", "at least 1");
    nothing_is_left_ = nothing_is_left_ || !exists(out.place) || out.to == 0;
    return out;
  }
  Event queue(bool freed) {
    has({"tier", "blocks"});
    const std::uint32_t tier = needed(below(of("tier"), "tier", tiers()));
    return event::Queue{freed, tier, numbers(of("blocks"), "blocks", header_.tiers[tier].blocks)};
  }
  Event retire() {
    has({"step", "sampled", "discarded"});
    return event::Retire{step(), tokens_of("sampled"), requests("discarded")};
  }
  Event dispatch() {
    has({"step", "rows", "copies"});
    event::Dispatch out{step(), {}, copies(), {}};
    for (const json& item : array(of("rows"), "rows")) row(item, out);
    return out;
  }
  std::vector<event::BlockCopy> copies() {
    std::vector<event::BlockCopy> out;
    about_.clear();
    for (const json& item : items(line_, "copies")) {
      if (!item.is_array() || item.size() != 3) throw TextError("copies", "[group, from, to]");
      const Number group = below(item[0], "copies", groups());
      const Place from{0, block(item[1], "copies", 0)};
      const Place to{0, block(item[2], "copies", 0)};
      if (group && exists(from) && exists(to)) out.push_back({*group, from.block, to.block});
    }
    return out;
  }
  void row(const json& value, event::Dispatch& to);
  Event run() {
    has({"step", "inputs", "copies", "tables", "slots"});
    return event::Run{
        step(), tokens_of("inputs"), copies(),
        per_request("tables", [this](const json& value) { return tables(value, "tables"); }),
        per_request("slots", [this](const json& value) { return std::optional(sent(value)); })};
  }
  Event start();
  void sides(event::Start& out);
  Event settle() {
    has({"transfer", "outcome", "failed"});
    const auto outcome = static_cast<event::Ended>(word(line_, "outcome", kOutcomes));
    return event::Settle{text(line_, "transfer"), outcome,
                         numbers(items(line_, "failed"), "failed", kMostPairs)};
  }
  Event end() {
    has({"free", "unfinished"});
    event::End out{{}, requests("unfinished")};
    if (array(of("free"), "free").size() != tiers()) {
      throw TextError("free", "one number for each tier");
    }
    for (std::size_t tier = 0; tier < tiers(); ++tier) {
      const std::size_t blocks = header_.tiers[tier].blocks;
      out.free.push_back(below(of("free")[tier], "free", blocks + 1));
    }
    return out;
  }

  const json& line_;
  const Header& header_;
  Names& names_;
  std::string about_;  // the request that is read
  bool nothing_is_left_ = false;
  std::optional<std::uint64_t> step_;
  std::vector<Stray> strays_;
};

std::vector<event::Sent> Reader::sent(const json& value) {
  std::vector<event::Sent> out;
  for (const json& item : array(value, "slots")) {
    if (!item.is_array() || item.size() != 4) {
      throw TextError("slots", "[group, position, block, offset]");
    }
    const Number group = below(item[0], "slots", groups());
    const Number position = below(item[1], "slots", kMostTokens);
    const Place at{0, block(item[2], "slots", 0)};
    const Group& of = header_.groups[group.value_or(0)];
    const Number offset = below(item[3], "slots", of.state ? 1 : of.block_size);
    if (group && position && exists(at) && offset) {
      out.push_back({*group, *position, at.block, *offset});
    }
  }
  return out;
}

void Reader::row(const json& value, event::Dispatch& to) {
  only(object(value, "rows"), "req", {"start", "n", "tables", "more", "drafts"});
  event::Row out;
  const Number request = req(value);
  const Number first = tokens_up_to(value, "start");
  const Number n = tokens_up_to(value, "n");
  if (const auto drafts = value.find("drafts"); drafts != value.end()) {
    const Number many = drafts->is_array() ? static_cast<std::uint32_t>(drafts->size())
                                           : below(*drafts, "drafts", kMostTokens);
    out.drafts = std::min(many.value_or(0), n.value_or(0));
    if (n && many > n) stray("drafts", std::to_string(*many), say("at most ", *n));
  }
  if (value.contains("tables") && value.contains("more")) {
    throw TextError("more", "nothing beside tables");
  }
  bool whole = first && n;
  for (const char* field : {"tables", "more"}) {
    if (!value.contains(field)) continue;
    out.told = *field == 't' ? event::Row::Tables::replaced : event::Row::Tables::appended;
    auto lists = tables(value[field], field);
    whole = whole && lists;
    if (lists) out.tables = std::move(*lists);
  }
  if (!request) return;
  if (!whole) return to.left_out.push_back(*request);
  out.req = *request;
  out.start = *first;
  out.n = *n;
  to.rows.push_back(std::move(out));
}

void Reader::sides(event::Start& out) {
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

Event Reader::start() {
  event::Start out;
  out.transfer = text(line_, "transfer");
  out.kind = static_cast<event::Kind>(word(line_, "kind", kKinds));
  out.group = needed(below(of("group"), "group", groups()));
  if (!text_or_empty(line_, "req").empty()) out.req = req(line_);
  if (line_.contains("after")) out.after = natural(of("after"), "after");
  if (out.kind == event::Kind::receive) {
    has({"transfer", "kind", "blocks", "group", "req", "after", "carries"});
    const json& carries = array(of("carries"), "carries");
    if (carries.size() != 2 || !carries[0].is_string()) {
      throw TextError("carries", "[request, first position]");
    }
    out.carries = request_named(carries[0], "carries");
    out.first = below(carries[1], "carries", kMostTokens).value_or(kMostTokens);
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
  numbers_[name] = number;
  names_.push_back(name);
  return number;
}

std::optional<std::uint32_t> Names::find(const std::string& name) const {
  const auto at = numbers_.find(name);
  return at == numbers_.end() ? std::nullopt : std::optional(at->second);
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

ReadEvent parse_event(std::string_view text_of_line, const Header& header, Names& names) {
  const json line = parse_object(text_of_line);
  return Reader(line, header, names).read();
}

std::uint64_t parse_behind_loss(std::string_view text_of_line) {
  const json line = parse_object(text_of_line);
  return line.value("op", json()) == "lost" ? lost_by(line) : 0;
}

}  // namespace kvproof::live
