// SPDX-License-Identifier: Apache-2.0
#include "properties/check/findings.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <sstream>
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

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) out.push_back(part);
  return out;
}

/// Laws of runs and of events are known to others.
bool is_law(const std::string& id, bool of_check) {
  constexpr std::string_view kOthers[] = {"model",    "content",   "crash",    "hang",
                                          "nonsense", "exception", "recorded", "differs"};
  if (find_law(id) != nullptr || std::ranges::find(kOthers, id) != std::end(kOthers)) return true;
  const bool word = !id.empty() && std::ranges::all_of(id, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
  return !of_check && word && id.front() != 'I' && id.front() != 'C';
}

/// The names in "I13+I18". @throws TextError
std::vector<std::string> laws_in(const std::string& text, const char* field) {
  std::vector<std::string> out = split(text, '+');
  for (const std::string& id : out) {
    if (is_law(id, false)) continue;
    throw TextError(field, say("ids of laws joined by +, found ", in_quotes(id)));
  }
  return out;
}

/// The words of a text, each with a space before it.
std::string words_in(std::string_view text) {
  std::string out = " ";
  for (const unsigned char c : text) {
    const bool letter = c < 0x80 && std::isalpha(c) != 0;
    if (letter || out.back() != ' ') out += letter ? static_cast<char>(c) : ' ';
  }
  return out.back() == ' ' ? out : out + ' ';
}

/// The parts of "0.33.0"; nothing of what has others than numbers.
std::vector<std::uint64_t> numbers_in(const std::string& release) {
  std::vector<std::uint64_t> out;
  for (const std::string& part : split(release, '.')) {
    const bool digits = !part.empty() && part.size() < 19 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) return {};
    out.push_back(std::stoull(part));
  }
  return out;
}

KnownFinding row_of(const nlohmann::json& row) {
  const bool earlier = row.contains("finding");  // as it was before there were ids
  constexpr std::string_view kFields[] = {"id",   "engine", "law",  "says",  "first",
                                          "last", "page",   "what", "where", "name"};
  constexpr std::string_view kEarlier[] = {"finding", "reason", "link"};
  const std::span<const std::string_view> allowed =
      earlier ? std::span<const std::string_view>(kEarlier) : kFields;
  for (const auto& [name, value] : row.items()) {
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    throw TextError(name, "one of " + joined({allowed.begin(), allowed.end()}, ", "));
  }
  const char* law = earlier ? "finding" : "law";
  KnownFinding out{fields::text(row, earlier ? "reason" : "id"),
                   laws_in(fields::text(row, law), law)};
  out.page = fields::text_or_empty(row, earlier ? "link" : "page");
  for (const auto& [name, member] : {std::pair{"engine", &KnownFinding::engine},
                                     {"says", &KnownFinding::says},
                                     {"first", &KnownFinding::first},
                                     {"last", &KnownFinding::last},
                                     {"what", &KnownFinding::what}}) {
    out.*member = fields::text_or_empty(row, name);
  }
  if (row.contains("where")) {
    for (const auto& each : fields::array(row["where"], "where")) {
      if (!each.is_string()) throw TextError("where", "an array of strings");
      out.where.push_back(each);
    }
  }
  return out;
}

}  // namespace

bool KnownFinding::applies_to(const std::string& of_engine, const std::string& release) const {
  if (!engine.empty() && engine != of_engine) return false;
  if ((first.empty() && last.empty()) || (!release.empty() && release == first) ||
      (!release.empty() && release == last)) {
    return true;
  }
  const auto at = numbers_in(release);
  const auto from = numbers_in(first);
  const auto to = numbers_in(last);
  return !at.empty() && (first.empty() || (!from.empty() && from <= at)) &&
         (last.empty() || (!to.empty() && at <= to));
}

bool KnownFinding::explains(const std::vector<std::string>& broken, std::string_view reason,
                            const std::string& at) const {
  const bool named = std::ranges::all_of(
      broken, [&](const std::string& each) { return std::ranges::find(laws, each) != laws.end(); });
  return named && words_in(reason).find(words_in(says)) != std::string::npos &&
         (where.empty() || std::ranges::find(where, at) != where.end());
}

std::string KnownFinding::law() const { return joined(laws, "+"); }

std::string KnownFinding::text() const {
  std::string out = id;
  for (const std::string* part : {&what, &page}) {
    if (!part->empty()) out += ' ' + *part;
  }
  return out;
}

std::vector<KnownFinding> read_known(const std::string& path) {
  LineReader lines(path);
  std::vector<KnownFinding> out;
  for (std::string_view line; lines.next(line);) {
    if (line.empty()) continue;
    try {
      const auto row = fields::parse_object(line);
      KnownFinding known = row_of(row);
      if (fields::text_or_empty(row, "name").empty()) out.push_back(std::move(known));
    } catch (const TextError& error) {
      lines.fail(error.field(), error.expected());
    }
  }
  return out;
}

std::vector<KnownFinding> known_of(std::vector<KnownFinding> rows, const std::string& subject) {
  std::erase_if(rows, [&](const KnownFinding& row) {
    return !row.applies_to(subject, "") ||
           std::ranges::none_of(row.laws, [](const auto& id) { return is_law(id, true); });
  });
  return rows;
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
  // A row with words hides no finding of other words behind the number of its own.
  for (FailureReport& report : all_) {
    if (!report.known || report.known->says.empty() || !report.known->where.empty()) continue;
    if (!report.known->explains(failure.breaches, failure.text, report.where)) continue;
    ++report.seen;
    return true;
  }
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
  const auto row = std::ranges::find_if(known_, [&](const KnownFinding& k) {
    return k.explains(report.failure.breaches, report.failure.text, report.where);
  });
  if (row != known_.end()) report.known = *row;
  if (!report.known || report.known->says.empty()) ++shrunk_[report.failure.breaches.front()];
  for (FailureReport& other : all_) {
    if (other.laws() != report.laws() || other.cause() != report.cause()) continue;
    if (other.known.has_value() != report.known.has_value()) continue;
    const std::uint64_t seen = other.seen + 1;
    const auto worth = [](const FailureReport& each) {
      return std::pair(each.behind != 0, each.failure.trace.size());
    };
    if (worth(report) < worth(other)) other = std::move(report);
    other.seen = seen;
    return;
  }
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
    const bool found = std::ranges::any_of(all_, [&](const FailureReport& report) {
      return row.explains(report.failure.breaches, report.failure.text, report.where);
    });
    if (!found) out.push_back(row);
  }
  return out;
}

}  // namespace kvproof::properties
