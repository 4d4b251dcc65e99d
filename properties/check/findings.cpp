// SPDX-License-Identifier: Apache-2.0
#include "properties/check/findings.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "properties/laws.h"
#include "reference/support/input_error.h"
#include "reference/support/line_reader.h"
#include "reference/trace_fields.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : between).append(word);
  return out;
}

/// The names in "I13+I18". @throws TextError for one that no oracle has
std::vector<std::string> laws_in(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == '+') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  constexpr std::string_view kOthers[] = {"model",    "content",   "crash",    "hang",
                                          "nonsense", "exception", "recorded", "differs"};
  for (const std::string& id : out) {
    const bool is_other = std::ranges::find(kOthers, id) != std::end(kOthers);
    if (find_law(id) != nullptr || is_other) continue;
    throw TextError("finding",
                    say("ids of laws, or ", joined({std::begin(kOthers), std::end(kOthers)}, ", "),
                        ", joined by +, found ", in_quotes(id)));
  }
  return out;
}

bool covers(const KnownFinding& row, const Failure& failure) {
  return std::ranges::all_of(failure.breaches, [&](const std::string& id) {
    return std::ranges::find(row.laws, id) != row.laws.end();
  });
}

}  // namespace

std::vector<KnownFinding> read_known(const std::string& path) {
  LineReader lines(path);
  std::vector<KnownFinding> out;
  for (std::string_view line; lines.next(line);) {
    if (line.empty()) continue;
    try {
      const auto row = fields::parse_object(line);
      for (const auto& [name, value] : row.items()) {
        if (name != "finding" && name != "reason" && name != "link") {
          throw TextError("", say("finding, reason and link, found ", in_quotes(name)));
        }
      }
      out.push_back({laws_in(fields::text(row, "finding")), fields::text(row, "reason"),
                     fields::text_or_empty(row, "link")});
    } catch (const TextError& error) {
      lines.fail(error.field(), error.expected());
    }
  }
  return out;
}

std::string FailureReport::laws() const { return joined(failure.breaches, "+"); }

std::string FailureReport::shape() const {
  std::vector<std::string> kinds;
  for (const Operation& operation : failure.trace) {
    kinds.emplace_back(kOperationNames[operation.index()]);
  }
  return joined(kinds, ", ");
}

std::string FailureReport::without() const {
  std::string out;
  for (std::size_t i = 0; i < std::size(kLaws); ++i) {
    if ((behind >> i & 1U) != 0) out += say(" --without-law=", kLaws[i].id);
  }
  return out;
}

std::string FailureReport::cause() const {
  std::string out;
  for (const unsigned char c : failure.text) {
    if (c == '\n') break;
    const bool letter = std::isalpha(c) != 0;
    if (letter || (!out.empty() && out.back() != ' ')) out += letter ? static_cast<char>(c) : ' ';
  }
  return out;
}

bool Findings::enough() const {
  return static_cast<std::size_t>(std::ranges::count(all_, 0U, &FailureReport::behind)) >= most_;
}

bool Findings::counts_only(const Failure& failure) {
  // A program that fails costs a start, and tells little more the second time.
  const bool fails = find_law(failure.breaches.front()) == nullptr && !failure.names("differs");
  FailureReport* last = nullptr;
  for (FailureReport& report : all_) {
    if (report.failure.breaches.front() == failure.breaches.front()) last = &report;
  }
  if (last == nullptr || shrunk_[failure.breaches.front()] < (fails ? 1 : kMostOfOneLaw)) {
    return false;
  }
  ++last->seen;
  return true;
}

void Findings::add(FailureReport report) {
  ++shrunk_[report.failure.breaches.front()];
  for (FailureReport& other : all_) {
    if (other.laws() != report.laws() || other.cause() != report.cause()) continue;
    const std::uint64_t seen = other.seen + 1;
    const auto worth = [](const FailureReport& each) {
      return std::pair(each.behind != 0, each.failure.trace.size());
    };
    if (worth(report) < worth(other)) {
      report.known = std::move(other.known);
      other = std::move(report);
    }
    other.seen = seen;
    return;
  }
  const auto row = std::ranges::find_if(
      known_, [&](const KnownFinding& k) { return covers(k, report.failure); });
  if (row != known_.end()) report.known = *row;
  all_.push_back(std::move(report));
}

std::uint64_t Findings::laws_seen_enough() const {
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < std::size(kLaws); ++i) {
    std::uint64_t seen = 0;
    for (const FailureReport& report : all_) {
      if (report.failure.names(std::string(kLaws[i].id))) seen += report.seen;
    }
    if (seen >= kMostOfOneLaw) out |= std::uint64_t{1} << i;
  }
  return out;
}

std::vector<KnownFinding> Findings::gone() const {
  std::vector<KnownFinding> out;
  for (const KnownFinding& row : known_) {
    const bool found = std::ranges::any_of(
        all_, [&](const FailureReport& report) { return covers(row, report.failure); });
    if (!found) out.push_back(row);
  }
  return out;
}

}  // namespace kvproof::properties
