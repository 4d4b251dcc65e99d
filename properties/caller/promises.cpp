// SPDX-License-Identifier: Apache-2.0
#include "properties/caller/promises.h"

#include <algorithm>
#include <iterator>

#include "reference/config.h"
#include "reference/contract.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"
#include "reference/trace_fields.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

using fields::json;

struct PartName {
  Part part;
  std::string_view field;  // of a state
  std::string_view name;
};

constexpr PartName kPartNames[] = {
    {kIds, "tables", "block ids"},       {kQueue, "queue", "the free queue"},
    {kLinks, "linked", "links"},         {kReferences, "ref", "reference counts"},
    {kCached, "cached", "cached"},       {kKeys, "key", "keys"},
    {kIndex, "index", "the index"},      {kHashes, "hashes", "hashes"},
    {kProgress, "progress", "progress"}, {kEvents, "events", "events"},
    {kUsage, "usage", "usage"},          {kHost, "host", "the host tier"},
    {kCounters, "counters", "counters"}, {kContents, "contents", "contents"},
};

void read_level(const std::string& text, Promises& out) {
  constexpr std::string_view kProfile = "profile:";
  if (text == "safety") {
    out.level = Level::safety;
  } else if (text == "hits") {
    out.level = Level::hits;
  } else if (text == "policy") {
    out.level = Level::policy;
  } else if (text.starts_with(kProfile) && find_profile(text.substr(kProfile.size())) != nullptr) {
    out.level = Level::profile;
    out.profile = text.substr(kProfile.size());
  } else {
    std::string known;
    for (const Profile& row : kProfiles) known.append(", profile:").append(row.name);
    throw TextError("promises",
                    say("one of safety, hits, policy", known, ", found ", in_quotes(text)));
  }
}

std::size_t known_operation(const json& name, const char* field) {
  const std::size_t index =
      name.is_string() ? operation_index(name.get<std::string>()) : kNumOperations;
  if (index == kNumOperations) {
    throw TextError(field, say("names of operations, found ", in_quotes(name.dump())));
  }
  return index;
}

Capacities read_capacity(const json& header) {
  Capacities out;
  if (!header.contains("capacity")) return out;
  const json& given = header["capacity"];
  if (!given.is_object()) throw TextError("capacity", "an object, found " + kind_of(given));
  for (const auto& [name, value] : given.items()) {
    const bool requests = name == "requests";
    if (!requests && name != "table_entries") {
      throw TextError("capacity", say("requests and table_entries, found ", in_quotes(name)));
    }
    (requests ? out.requests : out.table_entries) =
        fields::integer<std::uint64_t>(value, "capacity." + name);
  }
  return out;
}

void read_declines(const json& header, Promises& out) {
  if (!header.contains("declines")) return;
  for (const json& row : fields::array(header["declines"], "declines")) {
    if (!row.is_object()) {
      throw TextError("declines", "objects with operation and reason, found " + kind_of(row));
    }
    const std::size_t index = known_operation(fields::member(row, "operation"), "declines");
    out.declines[index] = fields::text(row, "reason");
    if (out.declines[index].empty()) throw TextError("declines", "a reason, found an empty one");
  }
}

void read_traits(const json& header, Promises& out) {
  if (!header.contains("traits")) return;
  const json& given = header["traits"];
  if (!given.is_object()) throw TextError("traits", "an object, found " + kind_of(given));
  for (const auto& [name, value] : given.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (const std::string expected = set_trait(out.traits, name, text); !expected.empty()) {
      throw TextError("traits", expected);
    }
  }
}

void read_abilities(const json& header, Promises& out) {
  if (header.contains("abilities")) {
    const json& given = header["abilities"];
    if (!given.is_object()) throw TextError("abilities", "an object, found " + kind_of(given));
    out.abilities = parse_abilities(given.dump());
  }
  if (out.traits.pages_are_tokens()) out.abilities.block_sizes = {1};
  out.abilities.partial_keys = out.traits.keys_are_partial();
  out.abilities.lookup_within = out.traits.looks_up_within();
  if (out.capacity.requests) out.abilities.most_requests = *out.capacity.requests;
}

}  // namespace

bool declines(const Promises& promises, const Operation& operation, const Result& answer) {
  if (!std::holds_alternative<Rejected>(answer)) return is_undone(answer);
  return !promises.declines[operation.index()].empty();
}

std::size_t operation_index(std::string_view name) {
  const auto* at = std::ranges::find(kOperationNames, name);
  return static_cast<std::size_t>(at - std::begin(kOperationNames));
}

OperationSet operation_set(std::initializer_list<std::string_view> names) {
  OperationSet out;
  for (const std::string_view name : names) out.set(operation_index(name));
  return out;
}

OperationSet all_operations() { return OperationSet().set(); }

Parts parts_of(const RecordedState& state) {
  Parts out = 0;
  for (const PartName& row : kPartNames) {
    if (std::ranges::find(state.fields, row.field) != state.fields.end()) out |= row.part;
  }
  return out;
}

std::string names_of(Parts parts) {
  std::string out;
  for (const PartName& row : kPartNames) {
    if ((parts & row.part) != 0) out.append(out.empty() ? "" : ", ").append(row.name);
  }
  return out;
}

Promises parse_promises(std::string_view line) {
  const json parsed = fields::parse_object(line);
  Promises out;
  if (parsed.contains("error")) {
    out.error = fields::text(parsed, "error");
    if (out.error.empty()) throw TextError("error", "a text that says why, found an empty one");
    return out;
  }
  out.capacity = read_capacity(parsed);
  read_traits(parsed, out);
  read_abilities(parsed, out);
  if (fields::flag(parsed, "unsupported")) {
    out.unsupported = fields::text_or_empty(parsed, "reason");
    if (out.unsupported.empty()) out.unsupported = kNoReason;
    return out;
  }
  read_level(fields::text(parsed, "promises"), out);
  out.operations.reset();
  for (const json& name : fields::array(fields::member(parsed, "operations"), "operations")) {
    out.operations.set(known_operation(name, "operations"));
  }
  for (const char* needed : {"arrive", "append", "advance", "allocate", "finish"}) {
    if (!out.operations.test(operation_index(needed))) {
      throw TextError("operations", say("at least arrive, append, advance, allocate and finish; ",
                                        needed, " is missing"));
    }
  }
  if (!fields::member(parsed, "block_ids").is_boolean()) {
    throw TextError("block_ids", "true or false");
  }
  out.block_ids = fields::flag(parsed, "block_ids");
  out.events = fields::flag(parsed, "events") || out.level == Level::profile;
  out.contents = fields::flag(parsed, "contents");
  out.sinks = fields::count_or_zero(parsed, "sinks");
  if (out.traits.looks_up_within()) out.operations.set(operation_index("lookup"));
  read_declines(parsed, out);
  if (!out.block_ids) {  // operations that name blocks cannot be used
    out.operations &= ~operation_set({"evict", "take", "touch", "release", "pin", "unpin"});
  }
  return out;
}

std::string promises_json(const Promises& promises) {
  json out;
  out["promises"] = promises.level == Level::safety   ? "safety"
                    : promises.level == Level::hits   ? "hits"
                    : promises.level == Level::policy ? "policy"
                                                      : "profile:" + promises.profile;
  for (std::size_t i = 0; i < kNumOperations; ++i) {
    if (promises.operations.test(i)) out["operations"].push_back(kOperationNames[i]);
  }
  out["block_ids"] = promises.block_ids;
  out["events"] = promises.events;
  return out.dump();
}

}  // namespace kvproof::properties
