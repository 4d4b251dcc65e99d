// SPDX-License-Identifier: Apache-2.0
// How a terminal shows the rows of each experiment, and what names a row in a CI system.
//
// A text: {column} stands for what a row has there, {column word} for a number and its word with an
// s, and {column*} for the different values of all rows whose texts are equal but for that column.
// A part in [ ] is left out if one of its columns is empty: a text that is absent or has no
// characters, or a metric that is absent or 0. Further lines of a value begin below its first.
#pragma once

#include <string_view>

namespace kvproof::bench {

/// Of an experiment that has none, all columns are shown; if nothing but its name is here, nothing.
struct Shown {
  std::string_view experiment;
  std::string_view names = {};     // columns whose values name a row in a file for CI
  std::string_view verdicts = {};  // only rows with one of these; empty = all
  std::string_view columns = {};   // of a table; a column that is empty in all rows is left out
  std::string_view heading = {};   // of a table, a text
  std::string_view text = {};      // instead of a table, one for each row
};

inline constexpr Shown kShown[] = {
    {.experiment = "known",
     .names = "known law",
     .text = "known, and did not occur: {law}: {known}[ {what}][ {page}]"},
    // kvproof live
    {.experiment = "live_law",
     .names = "file law name",
     .columns = "law name evaluated verdict findings",
     .heading = "[{file}]"},
    {.experiment = "live_finding",
     .names = "file law name event",
     .text = "{law} {name}[, line {event}][, step {step}][, request {req}][, position {position}]"
             "[, block {block} of tier {tier}]: {reason}[ ({wrote})]\n  law: {sentence}"
             "[\n  the block before: {before}]"},
    {.experiment = "live_run",
     .names = "file",
     .text = "[{file}: ]{verdict}[, {reason}] ({steps step}, {requests request}, {events line})"},
};

}  // namespace kvproof::bench
