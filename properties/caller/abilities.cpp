// SPDX-License-Identifier: Apache-2.0
#include "properties/caller/abilities.h"

#include <algorithm>
#include <iterator>

#include "reference/config.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"
#include "reference/trace_fields.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

using fields::json;

static_assert(std::size(kKindNames) == kNumLayerKinds);

bool flag_of(const json& value, const std::string& field) {
  if (!value.is_boolean()) throw TextError(field, "true or false, found " + kind_of(value));
  return value.get<bool>();
}

void read_kinds(const json& list, Abilities& out) {
  out.kinds.reset();
  for (const json& name : fields::array(list, "abilities.kinds")) {
    const std::string text = name.is_string() ? name.get<std::string>() : name.dump();
    const auto* at = std::ranges::find(kKindNames, text);
    if (at == std::end(kKindNames)) {
      throw TextError("abilities.kinds", say("kinds of layers, found ", in_quotes(text)));
    }
    out.kinds.set(static_cast<std::size_t>(at - std::begin(kKindNames)));
  }
  if (out.kinds.none()) throw TextError("abilities.kinds", "at least one kind, found none");
}

void read_caching(const json& list, Abilities& out) {
  out.cached = out.uncached = false;
  for (const json& value : fields::array(list, "abilities.caching")) {
    (flag_of(value, "abilities.caching") ? out.cached : out.uncached) = true;
  }
  if (!out.cached && !out.uncached) {
    throw TextError("abilities.caching", "[true], [false] or [true,false], found []");
  }
}

void read_sizes(const json& list, Abilities& out) {
  for (const json& value : fields::array(list, "abilities.block_sizes")) {
    const auto size = fields::integer<std::uint32_t>(value, "abilities.block_sizes");
    if (size == 0 || size > 1024) {
      throw TextError("abilities.block_sizes", say("sizes from 1 to 1024 tokens, found ", size));
    }
    out.block_sizes.push_back(size);
  }
  if (out.block_sizes.empty()) {
    throw TextError("abilities.block_sizes", "at least one size, found none");
  }
}

void read_blocks(const json& pair, Abilities& out) {
  const json& list = fields::array(pair, "abilities.blocks");
  if (list.size() != 2) throw TextError("abilities.blocks", "[least, most]");
  out.least_blocks = fields::integer<std::uint32_t>(list[0], "abilities.blocks");
  out.most_blocks = fields::integer<std::uint32_t>(list[1], "abilities.blocks");
  if (out.most_blocks < 4 || out.least_blocks > out.most_blocks || out.least_blocks > 4096) {
    throw TextError("abilities.blocks",
                    say("[least, most], least at most 4096 and most at least 4, found [",
                        out.least_blocks, ", ", out.most_blocks, "]"));
  }
}

bool is_second(const json& value, const std::string& field, std::string_view first,
               std::string_view second) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text != first && text != second) {
    throw TextError(field, say(first, " or ", second, ", found ", in_quotes(text)));
  }
  return text == second;
}

/// @return whether there is such an ability
bool read_one(const std::string& name, const json& value, Abilities& out) {
  const std::string field = "abilities." + name;
  for (const CallRow& row : kCalls) {
    if (name != row.name) continue;
    out.*row.value = flag_of(value, field);
    return true;
  }
  if (name == "block_sizes") return read_sizes(value, out), true;
  if (name == "kinds") return read_kinds(value, out), true;
  if (name == "caching") return read_caching(value, out), true;
  if (name == "blocks") return read_blocks(value, out), true;
  if (name == "eagle") return out.eagle = flag_of(value, field), true;
  if (name == "watermark") return out.watermark = flag_of(value, field), true;
  if (name == "groups") {
    out.groups = fields::integer<std::uint32_t>(value, field);
    if (out.groups == 0) throw TextError(field, "at least one group, found 0");
    return true;
  }
  if (name == "forks") return out.early_forks = !is_second(value, field, "any", "computed"), true;
  if (name == "appends") return out.long_appends = !is_second(value, field, "any", "one"), true;
  if (name == "advance") return out.part_advances = !is_second(value, field, "any", "whole"), true;
  return false;
}

}  // namespace

bool Abilities::has_size(std::uint32_t tokens) const {
  return block_sizes.empty() || std::ranges::find(block_sizes, tokens) != block_sizes.end();
}

Abilities parse_abilities(std::string_view json_object) {
  Abilities out;
  const json given = fields::parse_object(json_object);
  for (const auto& [name, value] : given.items()) {
    if (read_one(name, value, out)) continue;
    std::string known =
        "block_sizes, groups, kinds, caching, blocks, eagle, watermark, forks, appends, advance";
    for (const CallRow& row : kCalls) known.append(", ").append(row.name);
    throw TextError("abilities", say("one of ", known, ", found ", in_quotes(name)));
  }
  return out;
}

std::string why_beyond(const Abilities& abilities, const CacheConfig& config) {
  if (config.enable_caching && !abilities.cached) return "it has no managers with a prefix cache";
  if (!config.enable_caching && !abilities.uncached) return "it has none without a prefix cache";
  if (config.groups.size() > abilities.groups) {
    return say("it has ", abilities.groups, " groups at most");
  }
  if (config.watermark > 0 && !abilities.watermark) return "it has no watermark";
  if (config.num_blocks < abilities.least_blocks || config.num_blocks > abilities.most_blocks) {
    return "it has no pools of such sizes";
  }
  if (abilities.partial_keys && config.enable_caching && config.hash_block_size != 1) {
    return "its keys may end at every token";
  }
  for (const GroupConfig& group : config.groups) {
    const auto kind = static_cast<std::size_t>(group.kind);
    if (!abilities.kinds.test(kind)) return say("it has no layers of the kind ", kKindNames[kind]);
    if (group.eagle && !abilities.eagle) return "it has no draft heads";
    if (!abilities.has_size(group.block_size)) return "it has no blocks of such sizes";
  }
  return {};
}

bool has_common(const Abilities& one, const Abilities& other) {
  const auto has_size = [&](std::uint32_t size) { return other.has_size(size); };
  const bool sizes = one.block_sizes.empty() || std::ranges::any_of(one.block_sizes, has_size);
  return sizes && one.lookup_within == other.lookup_within;
}

Abilities common(Abilities one, const Abilities& other) {
  const auto both = [&](auto... flags) { ((one.*flags = one.*flags && other.*flags), ...); };
  for (const CallRow& row : kCalls) both(row.value);
  both(&Calls::long_appends, &Calls::part_advances, &Calls::batches, &Calls::early_forks,
       &Abilities::cached, &Abilities::uncached, &Abilities::eagle, &Abilities::watermark);
  one.most_requests = std::min(one.most_requests, other.most_requests);
  if (one.block_sizes.empty()) one.block_sizes = other.block_sizes;
  std::erase_if(one.block_sizes, [&](std::uint32_t size) { return !other.has_size(size); });
  one.partial_keys = one.partial_keys || other.partial_keys;
  one.groups = std::min(one.groups, other.groups);
  one.kinds &= other.kinds;
  one.least_blocks = std::max(one.least_blocks, other.least_blocks);
  one.most_blocks = std::min(one.most_blocks, other.most_blocks);
  return one;
}

bool knows_all_calls(const Calls& calls) {
  return std::ranges::all_of(kCalls, [&](const CallRow& row) { return calls.*row.value; }) &&
         calls.long_appends && calls.part_advances && calls.early_forks && !calls.lookup_within;
}

std::vector<std::string> left_out_by(const Abilities& abilities) {
  std::vector<std::string> out;
  for (const CallRow& row : kCalls) {
    if (!(abilities.*row.value)) out.emplace_back(row.sentence);
  }
  if (!abilities.long_appends)
    out.emplace_back("appends of several tokens, or before all is computed");
  if (!abilities.part_advances) out.emplace_back("steps that compute a part of what was granted");
  if (!abilities.early_forks) out.emplace_back("forks of tokens that are not computed yet");
  if (!abilities.block_sizes.empty()) {
    std::string sizes;
    for (const std::uint32_t size : abilities.block_sizes) {
      sizes.append(sizes.empty() ? "" : ", ").append(std::to_string(size));
    }
    out.push_back(say("blocks of other sizes than ", sizes));
  }
  if (!abilities.eagle) out.emplace_back("draft heads");
  if (!abilities.watermark) out.emplace_back("watermarks");
  return out;
}

}  // namespace kvproof::properties
