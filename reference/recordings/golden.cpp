// SPDX-License-Identifier: Apache-2.0
#include "reference/recordings/golden.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <iomanip>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

namespace kvproof::properties {
namespace {

using Pairs = RecordedState::Pairs;
using DifferenceText = std::optional<std::string>;

// ---- as text ----

template <std::convertible_to<double> Number>
std::string show(Number value) {
  std::ostringstream out;
  out.precision(17);
  out << value;
  return out.str();
}
template <class Item>
std::string show(const std::optional<Item>& value) {
  return value ? show(*value) : "none";
}
template <class Items>
requires requires(const Items& items) { items.begin(); }
std::string show(const Items& items) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? ", " : "") + show(item);
  return out + "]";
}

template <class Value>
DifferenceText unequal(const std::string& what, const Value& recorded, const Value& actual) {
  if (recorded == actual) return std::nullopt;
  return what + ": recorded " + show(recorded) + ", the subject has " + show(actual);
}

// ---- a snapshot in the terms of a recording ----

Pairs ref_pairs(const Snapshot& state) {
  Pairs out;
  for (BlockId block = 1; block < state.blocks.size(); ++block) {
    const std::int64_t count = state.blocks[block].ref_cnt;
    if (count > 0) out.push_back({block, static_cast<std::uint32_t>(count)});
  }
  return out;
}

Pairs cached_pairs(const Snapshot& state) {
  Pairs out;
  for (BlockId block = 0; block < state.blocks.size(); ++block) {
    if (state.blocks[block].hashed) out.push_back({block, state.blocks[block].group});
  }
  return out;
}

template <class Word>
std::uint32_t crc_of(const std::vector<Word>& words) {
  std::vector<unsigned char> bytes;
  for (const std::uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<unsigned char>(word >> shift));
  }
  return static_cast<std::uint32_t>(crc32(0, bytes.data(), static_cast<uInt>(bytes.size())));
}

std::uint32_t crc_of(const Pairs& pairs) {
  std::vector<std::uint32_t> words;
  for (const auto& pair : pairs) words.insert(words.end(), pair.begin(), pair.end());
  return crc_of(words);
}

// ---- comparison ----

DifferenceText compare_result(const Result& recorded, const Result& actual) {
  // Implementations may word a rejection differently, but they must reject.
  const bool same = is_undone(recorded) ? is_undone(actual) : recorded == actual;
  if (same) return std::nullopt;
  return "out: recorded " + to_json(Outcome{recorded, {}}) + ", the subject answered " +
         to_json(Outcome{actual, {}});
}

/// That an operation was rejected which was recorded without an answer.
DifferenceText rejected(const Outcome& outcome) {
  if (!is_undone(outcome.result)) return std::nullopt;
  return "out: recorded as performed, the subject rejected it: " + error_text(outcome.result);
}

DifferenceText compare_requests(const RecordedState& recorded, const Snapshot& actual) {
  static const RequestState kAbsent;
  const auto state_of = [&actual](const std::string& name) -> const RequestState& {
    const RequestState* found = actual.find(name);
    return found == nullptr ? kAbsent : *found;
  };
  for (const auto& [name, tables] : recorded.tables) {
    if (auto d = unequal("table of " + name, tables, state_of(name).tables)) return d;
  }
  for (const auto& [name, progress] : recorded.progress) {
    if (auto d = unequal("progress of " + name, progress, state_of(name).progress)) return d;
  }
  for (const auto& [name, lengths] : recorded.lengths) {
    std::vector<std::uint32_t> actual_lengths;
    for (const auto& table : state_of(name).tables) {
      actual_lengths.push_back(static_cast<std::uint32_t>(table.size()));
    }
    if (auto d = unequal("table lengths of " + name, lengths, actual_lengths)) return d;
  }
  return std::nullopt;
}

DifferenceText compare_state(const RecordedState& recorded, const Snapshot& actual) {
  const auto keys = static_cast<std::uint32_t>(actual.index.size());
  if (recorded.num_free) {
    if (auto d = unequal("free blocks", *recorded.num_free, actual.num_free)) return d;
  }
  if (recorded.queue) {
    if (auto d = unequal("free queue", *recorded.queue, actual.queue)) return d;
  }
  if (recorded.ref) {
    if (auto d = unequal("reference counts [id, count]", *recorded.ref, ref_pairs(actual)))
      return d;
  }
  if (recorded.num_keys) {
    if (auto d = unequal("distinct keys", *recorded.num_keys, keys)) return d;
  }
  if (recorded.cached) {
    if (auto d = unequal("cached blocks [id, group]", *recorded.cached, cached_pairs(actual)))
      return d;
  }
  if (recorded.crc) {
    const std::array<std::uint32_t, 3> crc = {crc_of(actual.queue), crc_of(ref_pairs(actual)),
                                              crc_of(cached_pairs(actual))};
    if (auto d = unequal("CRC-32 of queue, reference counts, cached blocks", *recorded.crc, crc))
      return d;
  }
  if (recorded.usage && std::abs(*recorded.usage - actual.usage) > 1e-12) {
    return unequal("usage", *recorded.usage, actual.usage);
  }
  return compare_requests(recorded, actual);
}

// ---- checksums of states ----

void add_request(std::vector<std::uint32_t>& words, const RequestState& request) {
  for (const auto& table : request.tables) {
    words.push_back(static_cast<std::uint32_t>(table.size()));
    words.insert(words.end(), table.begin(), table.end());
  }
  for (const auto& position : request.progress) words.push_back(position.value_or(~0U));
}

/// What a checksum covers; format.md says it in words.
std::vector<std::uint32_t> words_of(const std::string& check, const Operation& operation,
                                    const Snapshot& state) {
  constexpr double kUsageUnit = 1U << 30;
  if (check == "pool_check") {
    return {state.num_free,
            static_cast<std::uint32_t>(state.index.size()),
            static_cast<std::uint32_t>(std::lround(state.usage * kUsageUnit)),
            crc_of(state.queue),
            crc_of(ref_pairs(state)),
            crc_of(cached_pairs(state))};
  }
  std::vector<std::uint32_t> words;
  if (check == "tables_check") {
    std::map<std::string, const RequestState*> holders;
    for (const RequestState& request : state.requests) {
      const bool holds = !std::ranges::all_of(request.tables, &std::vector<BlockId>::empty);
      if (holds) holders[request.name] = &request;
    }
    for (const auto& [name, request] : holders) {
      words.insert(words.end(), name.begin(), name.end());
      add_request(words, *request);
    }
  } else if (const RequestState* request = state.find(request_of(operation))) {
    if (check == "table_check") {
      add_request(words, *request);
      return words;
    }
    for (const auto& table : request->tables) {
      words.push_back(static_cast<std::uint32_t>(table.size()));
    }
  }
  return words;
}

DifferenceText compare_checks(const TraceLine& recorded, const Snapshot& state) {
  for (const auto& [name, digits] : recorded.checks) {
    std::ostringstream actual;
    actual << std::hex << std::setw(3) << std::setfill('0')
           << (crc_of(words_of(name, recorded.operation, state)) & 0xfffU);
    if (actual.str() == digits) continue;
    return name + ": recorded " + digits + ", the state of the subject has " + actual.str();
  }
  return std::nullopt;
}

// An event of the original names no block: the recorder takes the one in whose position the prefix
// ends. A checkpoint of a Mamba state lies in another one, which carries the key afterwards.
bool names_the_same(const StoredBlock& recorded, const StoredBlock& actual, const Snapshot& state) {
  if (recorded == actual) return true;
  const std::size_t n = state.blocks.size();
  if (recorded.prefix_tokens != actual.prefix_tokens || recorded.block >= n || actual.block >= n) {
    return false;
  }
  return state.blocks[recorded.block].prefix_tokens != recorded.prefix_tokens &&
         state.blocks[actual.block].prefix_tokens == actual.prefix_tokens;
}

bool same_event(const Event& recorded, const Event& actual, const Snapshot& state) {
  const auto* a = std::get_if<event::Stored>(&recorded);
  const auto* b = std::get_if<event::Stored>(&actual);
  if (a == nullptr || b == nullptr) return recorded == actual;
  return a->group == b->group && a->from == b->from && a->to == b->to &&
         std::ranges::equal(a->blocks, b->blocks, [&](const StoredBlock& x, const StoredBlock& y) {
           return names_the_same(x, y, state);
         });
}

// ---- the two states of a failure, one quantity a line ----

std::string draw(const RecordedState& state) {
  std::ostringstream out;
  if (state.num_free) out << "  free blocks    " << *state.num_free << '\n';
  if (state.queue) out << "  free queue     " << show(*state.queue) << '\n';
  if (state.ref) out << "  references     " << show(*state.ref) << '\n';
  if (state.num_keys) out << "  distinct keys  " << *state.num_keys << '\n';
  if (state.cached) out << "  cached         " << show(*state.cached) << '\n';
  for (const auto& [name, tables] : state.tables)
    out << "  table " << name << "  " << show(tables) << '\n';
  return out.str();
}

std::string draw(const Snapshot& state) {
  RecordedState as_recorded;
  as_recorded.num_free = state.num_free;
  as_recorded.queue = state.queue;
  as_recorded.ref = ref_pairs(state);
  as_recorded.num_keys = static_cast<std::uint32_t>(state.index.size());
  as_recorded.cached = cached_pairs(state);
  for (const RequestState& request : state.requests)
    as_recorded.tables[request.name] = request.tables;
  return draw(as_recorded);
}

}  // namespace

std::optional<std::string> compare(const TraceLine& recorded, const Outcome& outcome,
                                   const Snapshot& state) {
  if (recorded.result) {
    if (auto d = compare_result(*recorded.result, outcome.result)) return d;
  }
  const auto same = [&](const Event& a, const Event& b) { return same_event(a, b, state); };
  if (recorded.events && !std::ranges::equal(*recorded.events, outcome.events, same)) {
    return "events: recorded " + to_json(Outcome{{}, *recorded.events}) +
           ", the subject announced " + to_json(Outcome{{}, outcome.events});
  }
  if ((recorded.state || !recorded.checks.empty()) && !recorded.result) {
    if (auto d = rejected(outcome)) return d;
  }
  if (recorded.state) {
    if (auto d = compare_state(*recorded.state, state)) return d;
  }
  return compare_checks(recorded, state);
}

namespace {

/// The difference of a line, whatever the recording says of the state.
DifferenceText difference_of(const TraceHeader& header, const TraceLine& line,
                             const Outcome& outcome, const Snapshot& state) {
  if (!line.raised.empty()) return "out: the call raised in the engine: " + line.raised;
  if (auto what = compare(line, outcome, state)) return what;
  const bool performed = header.recorded_from != "kvproof" && !header.recorded_from.empty();
  return performed && !line.result ? rejected(outcome) : std::nullopt;
}

}  // namespace

TraceLine GoldenReader::parse(std::string_view text) {
  try {
    return parse_trace_line(text);
  } catch (const TextError& error) {
    lines_.fail(error.field(), error.expected());
  }
}

std::optional<TraceVerdict> GoldenReader::next(const MakeSubject& make, const Watch& watch) {
  std::string_view text;
  if (!lines_.next(text)) return std::nullopt;
  TraceLine line = parse(text);
  if (line.kind != TraceLine::Kind::header) lines_.fail("kvproof_trace", "the header of a trace");
  TraceVerdict verdict;
  verdict.header = std::move(line.header);
  verdict.skipped = verdict.header.unsupported;
  const std::unique_ptr<Subject> subject = verdict.skipped.empty() ? make(verdict.header) : nullptr;
  if (verdict.skipped.empty() && subject == nullptr) verdict.skipped = "no subject for this trace";

  for (std::uint64_t lines = 0; !verdict.ended && lines_.next(text); ++lines) {
    line = parse(text);
    if (line.kind == TraceLine::Kind::header) lines_.fail("op", "the end line of the trace before");
    if (line.kind == TraceLine::Kind::end && verdict.lost.empty() && line.num_operations != lines) {
      lines_.fail("ops", std::to_string(lines) + ", the operations of this trace");
    }
    verdict.ended = line.kind == TraceLine::Kind::end;
    if (line.kind == TraceLine::Kind::lost && verdict.lost.empty()) verdict.lost = line.lost;
    if (line.kind != TraceLine::Kind::operation || !verdict.lost.empty()) continue;
    follow(line, subject.get(), verdict, watch);
  }
  return verdict;
}

void GoldenReader::follow(TraceLine& line, Subject* subject, TraceVerdict& verdict,
                          const Watch& watch) {
  if (!verdict.header.has_events && !line.lists_events) line.events.reset();
  if (subject != nullptr && !verdict.difference) perform(line, *subject, verdict);
  if (!watch) return;
  try {
    watch(line, verdict);
  } catch (const TextError& error) {
    lines_.fail(error.field(), error.expected());
  }
}

void GoldenReader::perform(const TraceLine& line, Subject& subject, TraceVerdict& verdict) {
  const Outcome outcome = subject.apply(line.operation);
  subject.observe(state_);
  if (line.result || line.state || !line.checks.empty()) ++verdict.recorded;
  if (is_undone(outcome.result)) ++verdict.rejected;
  if (auto what = difference_of(verdict.header, line, outcome, state_)) {
    verdict.difference = Difference{verdict.operations,
                                    lines_.line_number(),
                                    std::move(*what),
                                    to_json(line.operation),
                                    line.state ? draw(*line.state) : "  not recorded\n",
                                    draw(state_)};
  }
  ++verdict.operations;
}

}  // namespace kvproof::properties
