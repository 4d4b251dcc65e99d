// SPDX-License-Identifier: Apache-2.0
// The page of a lens: one file that needs nothing else.
#pragma once

#include <string>
#include <string_view>

namespace kvproof::properties {

/// @param payload the lines of a story, which the page unpacks itself
[[nodiscard]] std::string lens_page(std::string_view title, std::string_view payload);

/// As the page holds it: zlib, then base64.
[[nodiscard]] std::string packed_for_page(std::string_view payload);

}  // namespace kvproof::properties
