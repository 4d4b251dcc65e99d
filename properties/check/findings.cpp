// SPDX-License-Identifier: Apache-2.0
#include "properties/check/findings.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <sstream>
#include <utility>

#include "properties/laws/laws.h"
#include "reference/support/input_error.h"
#include "reference/support/line_reader.h"
#include "reference/support/say.h"
#include "reference/trace_fields.h"
#include "reference/trace_names.h"

namespace kvproof::properties {
namespace {

/// The names in "I13+I18". @throws TextError for a law of allocators that is none
std::vector<std::string> laws_in(const std::string& text, const std::string& field) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string id; std::getline(in, id, '+'); out.push_back(id)) {
    const bool word = !id.empty() && id.find_first_of(" ,;") == id.npos;
    const bool of_others = word && id.front() != 'I' && id.front() != 'C';
    if (of_others || is_of_check(id)) continue;
    throw TextError(field, say("ids of laws joined by +, found ", in_quotes(id)));
  }
  return out;
}

/// The words of a text, each with a space before it and behind the last.
std::string words_in(std::string_view text) {
  std::string out = " ";
  for (const unsigned char c : text) {
    const bool letter = c < 0x80 && std::isalpha(c) != 0;
    if (letter || out.back() != ' ') out += letter ? static_cast<char>(c) : ' ';
  }
  return out.back() == ' ' ? out : out + ' ';
}

KnownFinding row_of(const nlohmann::json& row) {
  const std::map<std::string, std::string KnownFinding::*> texts = {
      {"id", &KnownFinding::id},     {"engine", &KnownFinding::engine},
      {"says", &KnownFinding::says}, {"first", &KnownFinding::first},
      {"last", &KnownFinding::last}, {"page", &KnownFinding::page},
      {"what", &KnownFinding::what}, {"name", &KnownFinding::name},
      {"reason", &KnownFinding::id}, {"link", &KnownFinding::page}};
  const char* law = row.contains("finding") ? "finding" : "law";
  KnownFinding out{"", laws_in(fields::text(row, law), law)};
  for (const auto& [field, value] : row.items()) {
    if (const auto text = texts.find(field); text != texts.end()) {
      out.*(text->second) = fields::text(row, field.c_str());
    } else if (field == "where") {
      for (const auto& each : fields::array(value, field)) {
        if (!each.is_string()) throw TextError(field, "an array of strings");
        out.where.push_back(each);
      }
    } else if (field != law) {
      throw TextError(field, "one of id, engine, law, says, first, last, page, what, where, name");
    }
  }
  if (out.id.empty()) throw TextError("id", "a value, found none");
  return out;
}

}  // namespace

bool is_of_check(const std::string& law) {
  constexpr std::string_view kOthers[] = {"model",    "content",   "crash",    "hang",   "keys",
                                          "nonsense", "exception", "recorded", "differs"};
  return find_law(law) != nullptr || std::ranges::find(kOthers, law) != std::end(kOthers);
}

bool KnownFinding::applies_to(const std::string& to, const std::string& release) const {
  if ((!engine.empty() && engine != to) || !name.empty()) return false;
  if (first.empty() && last.empty()) return true;
  if (!release.empty() && (release == first || release == last)) return true;
  const bool numbered =
      !release.empty() &&
      (release + first + last).find_first_not_of("0123456789.") == std::string::npos;
  return numbered && (first.empty() || ::strverscmp(first.c_str(), release.c_str()) <= 0) &&
         (last.empty() || ::strverscmp(release.c_str(), last.c_str()) <= 0);
}

bool KnownFinding::explains(const std::vector<std::string>& broken, std::string_view reason,
                            const std::string& at) const {
  const bool named = std::ranges::all_of(
      broken, [&](const auto& each) { return std::ranges::find(laws, each) != laws.end(); });
  return named && words_in(reason).find(words_in(says)) != std::string::npos &&
         (where.empty() || std::ranges::find(where, at) != where.end());
}

std::string KnownFinding::law() const { return joined(laws, "+"); }

std::string KnownFinding::text() const {
  return id + (what.empty() ? "" : ' ' + what) + (page.empty() ? "" : ' ' + page);
}

std::vector<KnownFinding> read_known(const std::string& path,
                                     const std::function<bool(const std::string&)>& is_mine) {
  LineReader lines(path);
  std::vector<KnownFinding> out;
  for (std::string_view line; lines.next(line);) {
    if (line.empty()) continue;
    try {
      KnownFinding row = row_of(fields::parse_object(line));
      if (std::ranges::any_of(row.laws, is_mine)) out.push_back(std::move(row));
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
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    if ((behind >> i & 1U) != 0) out += say(" --without-law=", kStateLaws[i].id);
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
  for (std::size_t i = 0; i < kStateLaws.size(); ++i) {
    std::uint64_t seen = 0;
    for (const FailureReport& report : all_) {
      if (report.failure.names(std::string(kStateLaws[i].id))) seen += report.seen;
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
