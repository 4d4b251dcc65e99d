// SPDX-License-Identifier: Apache-2.0
#include "reference/outcomes.h"

#include <algorithm>

namespace kvproof {
namespace {

constexpr std::string_view kDeclined = "not_supported: ";
constexpr std::string_view kNotAsked = "not_supported: not asked, ";

}  // namespace

std::string error_text(const Result& result) {
  if (const auto* declined = std::get_if<Declined>(&result)) {
    return std::string(kDeclined) + declined->reason;
  }
  if (const auto* unasked = std::get_if<NotAsked>(&result)) {
    return std::string(kNotAsked) + unasked->reason;
  }
  const auto* rejected = std::get_if<Rejected>(&result);
  if (rejected == nullptr) return {};
  if (!rejected->breach) return rejected->detail;
  return std::string(to_string(*rejected->breach)) + ": " + rejected->detail;
}

Result result_of_error(std::string_view text) {
  if (text.starts_with(kNotAsked)) return NotAsked{std::string(text.substr(kNotAsked.size()))};
  const std::optional<Breach> breach = breach_of(text);
  if (!breach) return Rejected{{}, std::string(text)};
  std::string_view detail = text.substr(to_string(*breach).size());
  detail.remove_prefix(std::min(detail.size(), std::string_view(": ").size()));
  if (*breach == Breach::not_supported) return Declined{std::string(detail)};
  return Rejected{breach, std::string(detail)};
}

}  // namespace kvproof
