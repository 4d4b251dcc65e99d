// SPDX-License-Identifier: Apache-2.0
#include "properties/traces/state_change.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

using Json = nlohmann::ordered_json;

// The fields of a line that have a column of their own. In the column of operations a zero stands
// in their place.
constexpr std::array kOwnColumns = {Column::tokens, Column::out, Column::events};
constexpr std::array kWords = {Column::free, Column::keys};

std::string name_of(Column column) { return kColumnNames[static_cast<std::size_t>(column)]; }

Json parsed(std::string_view text, Column column) {
  Json out = Json::parse(text, nullptr, false);
  if (out.is_discarded()) throw TextError(name_of(column), "JSON");
  return out;
}

/// Takes a value out of JSON; a value of another kind is a fault of the named column.
template <class Value>
Value value_of(const Json& from, Column column) {
  try {
    return from.get<Value>();
  } catch (const Json::exception&) {
    throw TextError(name_of(column), "other values than " + from.dump().substr(0, 40));
  }
}

// ---- splices: [at, removed, [inserted...]] turns what was expected into what is ----

/// The least number of entries of both sides after which they agree again.
template <class Entry>
std::pair<std::size_t, std::size_t> next_match(const std::vector<Entry>& a, std::size_t i,
                                               const std::vector<Entry>& b, std::size_t j) {
  constexpr std::size_t kFarthest = 256;
  const std::size_t rest_a = a.size() - i;
  const std::size_t rest_b = b.size() - j;
  for (std::size_t sum = 1; sum < std::min(rest_a + rest_b, kFarthest); ++sum) {
    const std::size_t first = sum > rest_b ? sum - rest_b : 0;
    for (std::size_t skip = first; skip <= std::min(sum, rest_a); ++skip) {
      const std::size_t add = sum - skip;
      if (skip < rest_a && add < rest_b && a[i + skip] == b[j + add]) return {skip, add};
    }
  }
  return {rest_a, rest_b};
}

/// 0 if nothing differs.
template <class Entry>
Json splices(const std::vector<Entry>& expected, const std::vector<Entry>& actual) {
  Json out = Json::array();
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < expected.size() || j < actual.size()) {
    if (i < expected.size() && j < actual.size() && expected[i] == actual[j]) {
      ++i;
      ++j;
      continue;
    }
    const auto [skip, add] = next_match(expected, i, actual, j);
    const auto from = actual.begin() + static_cast<std::ptrdiff_t>(j);
    const std::vector<Entry> added(from, from + static_cast<std::ptrdiff_t>(add));
    out.push_back({j, skip, added});
    i += skip;
    j += add;
  }
  return out.empty() ? Json(0) : out;
}

template <class Entry>
std::vector<Entry> spliced(const std::vector<Entry>& expected, const Json& edits, Column column) {
  if (edits == 0) return expected;
  std::vector<Entry> out;
  std::size_t i = 0;
  for (const Json& edit : edits) {
    if (!edit.is_array() || edit.size() != 3) throw TextError(name_of(column), "[at, removed, []]");
    const auto at = value_of<std::size_t>(edit[0], column);
    const auto removed = value_of<std::size_t>(edit[1], column);
    if (at < out.size() || at - out.size() > expected.size() - i ||
        removed > expected.size() - i - (at - out.size())) {
      throw TextError(name_of(column), "an edit inside of the list, found " + edit.dump());
    }
    for (; out.size() < at; ++i) out.push_back(expected[i]);
    i += removed;
    const auto added = value_of<std::vector<Entry>>(edit[2], column);
    out.insert(out.end(), added.begin(), added.end());
  }
  out.insert(out.end(), expected.begin() + static_cast<std::ptrdiff_t>(i), expected.end());
  return out;
}

/// The shortest text of a fraction, as the recorder writes it.
std::string text_of(double value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string out(buffer.data(), end);
  if (out.find_first_of(".en") == std::string::npos) out += ".0";
  return out;
}

/// kSame for what is as it was; else the text itself, which is remembered.
constexpr const char* kSame = "=";
std::string against(std::string& last, const std::string& now) {
  return last == now ? kSame : last = now;
}

/// Three words in hexadecimal, each as kSame where it is as it was: other digits pack worse.
std::string checksums_against(std::array<std::uint32_t, 3>& last, const Json& now) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto words = value_of<std::array<std::uint32_t, 3>>(now, Column::crc);
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == last[i]) {
      out += kSame;
    } else {
      for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(words[i] >> shift) & 15U];
    }
  }
  last = words;
  return out;
}

std::string checksums_of(std::array<std::uint32_t, 3>& last, std::string_view text) {
  for (std::uint32_t& word : last) {
    if (text.starts_with(kSame)) {
      text.remove_prefix(1);
      continue;
    }
    const std::size_t digits = std::min<std::size_t>(text.size(), 8);
    const auto end = std::from_chars(text.data(), text.data() + digits, word, 16).ptr;
    if (end != text.data() + 8) throw TextError("crc", "three words of eight digits, or =");
    text.remove_prefix(8);
  }
  if (!text.empty()) throw TextError("crc", "three words");
  return Json(last).dump();
}

/// An object whose only member is that of the operation's request is written as the value alone,
/// in brackets.
std::string write_by_request(const std::string& req, const Json& values) {
  if (values.size() == 1 && values.begin().key() == req) {
    return Json::array({values.front()}).dump();
  }
  return values.dump();
}

Json read_by_request(const std::string& req, const std::string& text, Column column) {
  const Json values = parsed(text, column);
  if (values.is_object()) return values;
  if (!values.is_array() || values.size() != 1) throw TextError(name_of(column), "one value");
  return Json{{req, values.front()}};
}

}  // namespace

// ---- what the lines before suggest ----

void StateChanges::begin(const Json& header) {
  *this = StateChanges();
  const Json& config = header.at("config");
  num_blocks_ = value_of<std::uint32_t>(config.at("num_blocks"), Column::operation);
  num_groups_ = config.at("groups").size();
}

StateChanges::Step StateChanges::step_of(const Json& line) {
  return {line.value("op", ""), line.value("req", ""), line.value("use_lookup", false), {}, {}};
}

StateChanges::Tables StateChanges::expected_tables(const Step& step, const std::string& req) const {
  const auto at = tables_.find(req);
  Tables out = at == tables_.end() ? Tables(num_groups_) : at->second;
  if (step.op != "allocate" || req != step.req || !step.out.is_object()) return out;
  const auto hit = hits_.find(req);
  const bool empty = std::ranges::all_of(out, &Ids::empty);
  if (step.use_lookup && empty && hit != hits_.end()) out = hit->second;
  const auto grown = value_of<Tables>(step.out.value("blocks", Json::array()), Column::out);
  for (std::size_t g = 0; g < std::min(out.size(), grown.size()); ++g) {
    out[g].insert(out[g].end(), grown[g].begin(), grown[g].end());
  }
  return out;
}

void StateChanges::set_tables(const std::string& req, Tables tables) {
  Tables& at = tables_[req];
  for (const Ids& table : at) {
    for (const std::uint32_t block : table) --moved_[block];
  }
  for (const Ids& table : tables) {
    for (const std::uint32_t block : table) ++moved_[block];
  }
  at = std::move(tables);
}

/// A request that the state does not list has grown by the answer, or has lost its blocks.
void StateChanges::drop_tables(const Step& step) {
  if (step.req.empty()) return;
  if (step.op == "allocate") set_tables(step.req, expected_tables(step, step.req));
  if (step.op == "finish" || step.op == "free") {
    set_tables(step.req, {});
    tables_.erase(step.req);
  }
}

StateChanges::Pairs StateChanges::expected_ref() const {
  std::map<std::uint32_t, std::int64_t> counts;
  for (const Pair& pair : ref_) counts[pair[0]] = pair[1];
  for (const auto& [block, change] : moved_) {
    if (block != 0) counts[block] += change;
  }
  Pairs out;
  for (const auto& [block, count] : counts) {
    if (count > 0) out.push_back({block, static_cast<std::uint32_t>(count)});
  }
  return out;
}

StateChanges::Ids StateChanges::expected_queue() const {
  std::set<std::uint32_t> held;
  for (const Pair& pair : ref_) held.insert(pair[0]);
  Ids out;
  std::ranges::copy_if(queue_, std::back_inserter(out),
                       [&](auto id) { return !held.contains(id); });
  return out;
}

StateChanges::Pairs StateChanges::expected_cached(const Step& step) const {
  std::set<Pair> out(cached_.begin(), cached_.end());
  const auto follow = [&out](const Json& events) {
    for (const Json& event : events) {
      const std::string type = event.value("type", "");
      const auto group = event.value("group", std::uint32_t{0});
      if (type == "cleared") out.clear();
      if (type == "removed") out.erase({event.value("block", std::uint32_t{0}), group});
      if (type != "stored") continue;
      for (const Pair& stored :
           value_of<Pairs>(event.value("blocks", Json::array()), Column::events)) {
        out.insert({stored[0], group});
      }
    }
  };
  for (const Json& events : cached_events_) follow(events);
  follow(step.events);
  return {out.begin(), out.end()};
}

std::string StateChanges::expected_usage() const {
  const std::string& text = words_.at(Column::free);
  double num_free = 0;
  std::from_chars(text.data(), text.data() + text.size(), num_free);
  return num_blocks_ < 2 ? "0.0" : text_of(1.0 - num_free / (num_blocks_ - 1.0));
}

/// Calls `each` with the column, the last list and what is expected, for each list of the line.
void StateChanges::for_each_list(const Step& step, const auto& each, const auto& has) {
  if (has(Column::ref)) {
    each(Column::ref, ref_, [this] { return expected_ref(); });
    moved_.clear();
  }
  if (has(Column::queue)) {
    each(Column::queue, queue_, [this] { return expected_queue(); });
    words_[Column::free] = std::to_string(queue_.size());
  }
  if (has(Column::cached)) {
    each(Column::cached, cached_, [&] { return expected_cached(step); });
    cached_events_.clear();
  } else if (!step.events.is_null()) {
    cached_events_.push_back(step.events);
  }
}

void StateChanges::learn(const Step& step) {
  if (step.op == "lookup" && step.out.is_object() && step.out.contains("blocks")) {
    hits_[step.req] = value_of<Tables>(step.out["blocks"], Column::out);
  }
}

// ---- a line ----

PackedLine StateChanges::pack(std::string_view text) {
  Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) throw TextError("", "a JSON object");
  PackedLine packed;
  if (line.contains("kvproof_trace")) begin(line);
  Step step = step_of(line);
  for (const Column column : kOwnColumns) {
    const auto at = line.find(name_of(column));
    if (at == line.end()) continue;
    packed[column] = at->dump();
    if (column == Column::out) step.out = *at;
    if (column == Column::events) step.events = *at;
    *at = 0;
  }
  learn(step);
  if (const auto state = line.find("state"); state != line.end()) {
    pack_state(step, *state, packed);
    *state = 0;
  }
  packed[Column::operation] = line.dump();
  return packed;
}

void StateChanges::pack_requests(const Step& step, const Json& state, Column column,
                                 PackedLine& packed) {
  const auto at = state.find(name_of(column));
  if (at == state.end()) return;
  Json values = Json::object();
  for (const auto& [req, value] : at->items()) {
    if (column == Column::tables) {
      const Tables expected = expected_tables(step, req);
      const auto actual = value_of<Tables>(value, column);
      values[req] = 0;
      if (actual != expected) {
        values[req] = Json::array();
        for (std::size_t g = 0; g < actual.size(); ++g) {
          values[req].push_back(splices(g < expected.size() ? expected[g] : Ids(), actual[g]));
        }
      }
      set_tables(req, actual);
    } else {
      std::string& last = (column == Column::progress ? progress_ : lens_)[req];
      values[req] = against(last, value.dump()) == kSame ? Json(0) : value;
    }
  }
  packed[column] = write_by_request(step.req, values);
}

void StateChanges::pack_state(const Step& step, const Json& state, PackedLine& packed) {
  const auto has = [&state](Column column) { return state.contains(name_of(column)); };
  pack_requests(step, state, Column::tables, packed);
  if (!has(Column::tables) || !state["tables"].contains(step.req)) drop_tables(step);
  const auto list = [&](Column column, auto& last, const auto& expected) {
    const auto actual = value_of<std::decay_t<decltype(last)>>(state[name_of(column)], column);
    packed[column] = splices(expected(), actual).dump();
    last = actual;
  };
  for_each_list(step, list, has);
  for (const Column column : kWords) {
    if (has(column)) packed[column] = against(words_[column], state[name_of(column)].dump());
  }
  if (has(Column::crc)) packed[Column::crc] = checksums_against(crc_, state["crc"]);
  if (has(Column::usage)) {
    const std::string usage = text_of(value_of<double>(state["usage"], Column::usage));
    packed[Column::usage] = usage == expected_usage() ? kSame : usage;
  }
  pack_requests(step, state, Column::progress, packed);
  pack_requests(step, state, Column::lens, packed);
}

std::string StateChanges::unpack(const PackedLine& packed) {
  Json line = parsed(packed[Column::operation], Column::operation);
  if (!line.is_object()) throw TextError("operation", "a JSON object");
  if (line.contains("kvproof_trace")) {
    if (!line.contains("config") || !line["config"].contains("groups") ||
        !line["config"].contains("num_blocks")) {
      throw TextError("config", "num_blocks and groups");
    }
    begin(line);
  }
  Step step = step_of(line);
  if (!packed[Column::out].empty()) step.out = parsed(packed[Column::out], Column::out);
  if (!packed[Column::events].empty()) step.events = parsed(packed[Column::events], Column::events);
  learn(step);
  std::string out = packed[Column::operation];
  const auto put = [&out](const std::string& name, const std::string& text) {
    const std::size_t at = out.find("\"" + name + "\":0");
    if (at == std::string::npos) throw TextError(name, "a place in the operation");
    out.replace(at + name.size() + 3, 1, text);
  };
  for (const Column column : kOwnColumns) {
    if (!packed[column].empty()) put(name_of(column), packed[column]);
  }
  if (line.contains("state")) put("state", unpack_state(step, packed));
  return out;
}

std::string StateChanges::unpack_requests(const Step& step, const PackedLine& packed,
                                          Column column) {
  if (packed[column].empty()) return {};
  std::string out;
  const Json values = read_by_request(step.req, packed[column], column);
  for (const auto& [req, value] : values.items()) {
    out += (out.empty() ? "{" : ",") + Json(req).dump() + ":";
    if (column != Column::tables) {
      std::string& last = (column == Column::progress ? progress_ : lens_)[req];
      out += value == 0 ? last : last = value.dump();
      continue;
    }
    Tables tables = expected_tables(step, req);
    if (value != 0) tables.resize(value.size());
    for (std::size_t g = 0; value != 0 && g < tables.size(); ++g) {
      tables[g] = spliced(tables[g], value[g], column);
    }
    out += Json(tables).dump();
    set_tables(req, std::move(tables));
  }
  return out.empty() ? "{}" : out + "}";
}

std::string StateChanges::unpack_state(const Step& step, const PackedLine& packed) {
  PackedLine text;
  const auto has = [&packed](Column column) { return !packed[column].empty(); };
  text[Column::tables] = unpack_requests(step, packed, Column::tables);
  if (!has(Column::tables) ||
      !read_by_request(step.req, packed[Column::tables], Column::tables).contains(step.req)) {
    drop_tables(step);
  }
  const auto list = [&](Column column, auto& last, const auto& expected) {
    last = spliced(expected(), parsed(packed[column], column), column);
    text[column] = Json(last).dump();
  };
  for_each_list(step, list, has);
  for (const Column column : kWords) {
    if (!has(column)) continue;
    text[column] = packed[column] == kSame ? words_[column] : packed[column];
    words_[column] = text[column];
  }
  if (has(Column::crc)) text[Column::crc] = checksums_of(crc_, packed[Column::crc]);
  if (has(Column::usage)) {
    text[Column::usage] = packed[Column::usage] == kSame ? expected_usage() : packed[Column::usage];
  }
  for (const Column column : {Column::progress, Column::lens}) {
    text[column] = unpack_requests(step, packed, column);
  }
  std::string out;
  for (auto column = static_cast<std::size_t>(Column::free); column < kNumColumns; ++column) {
    if (text.text[column].empty()) continue;
    out += (out.empty() ? "{\"" : ",\"") + std::string(kColumnNames[column]) +
           "\":" + text.text[column];
  }
  return out + "}";
}

}  // namespace kvproof::properties
