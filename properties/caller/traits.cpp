// SPDX-License-Identifier: Apache-2.0
#include "properties/caller/traits.h"

#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

template <class Rows>
std::string names_of(const Rows& rows) {
  std::string out;
  for (const auto& row : rows) {
    if (!row.name.empty()) out.append(out.empty() ? "one of " : ", ").append(row.name);
  }
  return out;
}

}  // namespace

std::string set_trait(Traits& traits, std::string_view name, std::string_view value) {
  for (std::size_t i = 0; i < kNumTraits; ++i) {
    const TraitRow& row = kTraits[i];
    if (row.name != name) continue;
    for (std::size_t v = 0; v < row.values.size(); ++v) {
      if (row.values[v].name.empty() || row.values[v].name != value) continue;
      traits.value[i] = static_cast<std::uint8_t>(v);
      return {};
    }
    return say(name, ": ", names_of(row.values), ", found ", in_quotes(std::string(value)));
  }
  return say(names_of(kTraits), ", found ", in_quotes(std::string(name)));
}

std::string traits_text(const Traits& traits) {
  std::string out;
  for (std::size_t i = 0; i < kNumTraits; ++i) {
    if (traits.value[i] == 0) continue;
    out += say(out.empty() ? "" : ",", '"', kTraits[i].name, "\":\"",
               kTraits[i].values[traits.value[i]].name, '"');
  }
  return out;
}

}  // namespace kvproof::properties
