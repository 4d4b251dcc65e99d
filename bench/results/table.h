// SPDX-License-Identifier: Apache-2.0
// Results for people: as shown.h says of their experiments, else as aligned tables of all columns
// with the units in the headings.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "bench/results/result_file.h"

namespace kvproof::bench {

/// Prints each run of results with the same experiment in the one or more ways of kShown; rows that
/// lack a column of today, which earlier versions wrote, as a table of the columns that they have.
void print_results(std::ostream& out, std::span<const Result> results);

/// What a row has in a column, as a text: of a parameter or of a metric; empty if it has none.
[[nodiscard]] std::string text_in(const Result& row, std::string_view column);

/// A text of shown.h, filled from a row.
[[nodiscard]] std::string filled(std::string_view text, const Result& row);

/// "1,234 steps", "1 step"
[[nodiscard]] std::string count_of(std::uint64_t n, std::string_view thing);

/// Calls a function with each word of a list whose words are separated by single spaces.
template <class Take>
void for_each_word(std::string_view list, const Take& take) {
  while (!list.empty()) {
    const std::size_t end = list.find(' ');
    take(list.substr(0, end));
    list.remove_prefix(end == list.npos ? list.size() : end + 1);
  }
}

}  // namespace kvproof::bench
