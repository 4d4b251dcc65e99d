// SPDX-License-Identifier: Apache-2.0
// Lays results out in columns, and fills texts from them.
#include "bench/results/table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/results/schema.h"
#include "bench/results/shown.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using Row = std::vector<std::string>;

/// Whole numbers in full, others to four digits.
std::string text_of(double value) {
  char text[40];
  const bool in_full = std::abs(value) >= 1000 || value == std::trunc(value);
  std::snprintf(text, sizeof text, in_full && std::abs(value) < 1e15 ? "%.0f" : "%.4g", value);
  return text;
}

std::string text_of(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return text_of(std::get<double>(value));
}

std::string text_of(const Metric& metric) {
  std::string text = text_of(metric.value);
  if (metric.min && metric.max) {
    text += " [" + text_of(*metric.min) + ", " + text_of(*metric.max) + "]";
  }
  return text;
}

Row heading(const Result& result) {
  Row row;
  for (const auto& [name, value] : result.parameters) row.push_back(name);
  for (const auto& [name, metric] : result.metrics) {
    const bool said = name.starts_with(metric.unit + "_") || name.ends_with("_" + metric.unit) ||
                      metric.unit == "count" || metric.unit == "ratio";
    row.push_back(said ? name : name + " " + metric.unit);
  }
  return row;
}

Row cells(const Result& result) {
  Row row;
  for (const auto& [name, value] : result.parameters) row.push_back(text_of(value));
  for (const auto& [name, metric] : result.metrics) row.push_back(text_of(metric));
  return row;
}

/// @param left the columns that begin at the left, as texts do
void print(std::ostringstream& out, const std::string& title, const std::vector<Row>& rows,
           const std::vector<bool>& left = {}) {
  if (!out.view().empty() && !out.view().ends_with("\n\n")) out << '\n';  // behind a text
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  if (!title.empty()) out << title << '\n';
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - row[i].size(), ' ');
      line += "  " + (i < left.size() && left[i] ? row[i] + room : room + row[i]);
    }
    if (!left.empty()) line.resize(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
  out << '\n';
}

std::string with_commas(std::string digits) {
  for (std::size_t at = digits.size(); at > 3 && digits.size() < 20;)
    digits.insert(at -= 3, 1, ',');
  return digits;
}

/// As text_in, but a verdict for people: "cannot tell", or "CANNOT TELL" in a column in capitals.
std::string words_in(const Result& row, std::string_view column) {
  const bool shouts = column == "VERDICT";
  std::string text = text_in(row, shouts ? "verdict" : column);
  if (shouts || column == "verdict") std::ranges::replace(text, '_', ' ');
  if (shouts) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  }
  return text;
}

constexpr char kJoined = '\x01';  // where the values of {column*} will stand

/// Fills a text of shown.h from a row.
class Filling {
 public:
  Filling(const Result& row, std::string_view text) : row_(row), rest_(text) {}

  /// @param lacks set if a column outside of parts in [ ] is empty
  [[nodiscard]] std::string fill(bool& lacks) {
    std::string out;
    bool asks = false, refused = false;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == ']') break;
      if (c == '[') {
        bool inner = false;
        const std::string part = fill(inner);
        if (!inner) out += part;
      } else if (c == '{' && !rest_.starts_with('{')) {
        const std::size_t end = rest_.find('}');
        const std::string_view column = rest_.substr(0, end);
        rest_.remove_prefix(end + 1);
        if (column.front() == '?' || column.front() == '!') {
          asks = true;
          refused = refused || is_empty(column.substr(1)) == (column.front() == '?');
        } else {
          add(out, column, lacks);
        }
      } else {
        out += c;
        if (c == '{') rest_.remove_prefix(1);
      }
    }
    if (asks) lacks = refused;
    return out;
  }
  [[nodiscard]] const std::string& joined() const { return joined_; }

 private:
  void add(std::string& out, std::string_view column, bool& lacks) {
    const std::size_t space = column.find(' ');
    const bool joins = column.ends_with('*');
    const std::string_view name = column.substr(0, joins ? column.size() - 1 : space);
    const Metric* metric = row_.metric(name);
    std::string value = words_in(row_, name);
    lacks = lacks || is_empty(name);
    if (joins) {
      joined_ = std::exchange(value, std::string(1, kJoined));
    } else if (space != column.npos) {
      value = count_of(static_cast<std::uint64_t>(metric != nullptr ? metric->value : 0),
                       column.substr(space + 1));
    } else if (metric != nullptr && value.find_first_not_of("0123456789") == value.npos) {
      value = with_commas(value);
    }
    const std::size_t start = out.size() - (out.rfind('\n') + 1);
    for (std::size_t at = value.find('\n'); at != value.npos; at = value.find('\n', at + 1)) {
      value.insert(at + 1, start, ' ');
    }
    out += value;
  }

  [[nodiscard]] bool is_empty(std::string_view column) const {
    const Metric* metric = row_.metric(column);
    return words_in(row_, column).empty() || (metric != nullptr && metric->value == 0);
  }

  const Result& row_;
  std::string_view rest_;
  std::string joined_;
};

/// Prints a text for each row; those that differ in {column*} alone become one.
void print_texts(std::ostream& out, std::string_view text, const std::vector<const Result*>& rows) {
  std::vector<std::pair<std::string, std::vector<std::string>>> texts;
  for (const Result* row : rows) {
    Filling filling(*row, text);
    bool lacks = false;
    const std::string filled = filling.fill(lacks);
    const bool joins = filled.find(kJoined) != filled.npos;
    auto at = joins ? std::ranges::find(texts, filled, [](const auto& t) { return t.first; })
                    : texts.end();
    if (at == texts.end()) at = texts.insert(at, {filled, {}});
    if (std::ranges::find(at->second, filling.joined()) == at->second.end()) {
      at->second.push_back(filling.joined());
    }
  }
  for (auto& [filled, values] : texts) {
    std::string list;
    for (const std::string& value : values) list += (list.empty() ? "" : ", ") + value;
    if (const auto at = filled.find(kJoined); at != filled.npos) filled.replace(at, 1, list);
    if (!filled.empty()) out << filled << '\n';
  }
}

void print_columns(std::ostringstream& out, const Shown& shown,
                   const std::vector<const Result*>& rows) {
  std::vector<Row> cells(rows.size() + 1);
  std::vector<bool> left;
  for_each_word(shown.columns, [&](std::string_view name) {
    std::vector<std::string> column;
    bool empty = true, words = true;
    std::string unit;
    for (const Result* row : rows) {
      column.push_back(words_in(*row, name));
      const Metric* metric = row->metric(name);
      empty = empty && (column.back().empty() || (metric != nullptr && metric->value == 0));
      words = words && metric == nullptr;
      if (metric != nullptr) unit = metric->unit;
    }
    if (empty) return;
    left.push_back(words);
    cells[0].push_back(unit == "s" || unit == "ns" ? say(name, ' ', unit) : std::string(name));
    for (std::size_t i = 0; i < rows.size(); ++i) cells[i + 1].push_back(column[i]);
  });
  if (cells[0].empty()) return;
  const std::string_view heading = shown.heading.empty() ? shown.experiment : shown.heading;
  print(out, filled(heading, *rows.front()), cells, left);
}

bool is_word_of(std::string_view word, std::string_view list) {
  bool found = false;
  for_each_word(list, [&](std::string_view other) { found = found || other == word; });
  return found;
}

/// Whether kShown shows it, and it has what is shown: rows of earlier versions have other columns.
bool is_shown(const Result& row) {
  bool any = false;
  for (const Shown& shown : kShown) {
    if (shown.experiment != row.experiment) continue;
    any = any || !shown.text.empty() || !shown.columns.empty();
    const bool judges = shown.text.find("{verdict}") != shown.text.find("{VERDICT}");
    if (judges && row.parameter("verdict") == nullptr) return false;
  }
  return any && refused_column(row).empty();
}

/// Prints rows of one experiment in the ways of kShown.
void print_shown(std::ostringstream& out, std::span<const Result> rows) {
  for (const Shown& shown : kShown) {
    if (shown.experiment != rows.front().experiment) continue;
    std::vector<const Result*> chosen;
    for (const Result& row : rows) {
      if (shown.verdicts.empty() || is_word_of(text_in(row, "verdict"), shown.verdicts)) {
        chosen.push_back(&row);
      }
    }
    if (chosen.empty()) continue;
    if (!shown.text.empty()) print_texts(out, shown.text, chosen);
    if (!shown.columns.empty()) print_columns(out, shown, chosen);
  }
}

/// What a subject or a file says is not to move a terminal's cursor, or worse.
std::string without_controls(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_long = byte == 0xC2 && i + 1 < text.size() &&
                         static_cast<unsigned char>(text[i + 1]) < 0xA0;  // U+0080 to U+009F
    if (is_long) text.replace(i, 2, "?");
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) text[i] = '?';
  }
  return text;
}

void print_rows(std::ostream& out, std::span<const Result> results) {
  constexpr std::size_t kMostColumns = 30;
  std::ostringstream text;
  for (std::size_t first = 0, next = 0; first < results.size(); first = next) {
    const bool shown = is_shown(results[first]);
    std::vector<Row> rows = {heading(results[first])};
    for (; next < results.size() && results[next].experiment == results[first].experiment; ++next) {
      if (shown ? !is_shown(results[next]) : heading(results[next]) != rows.front()) break;
      rows.push_back(cells(results[next]));
    }
    if (shown) {
      print_shown(text, results.subspan(first, next - first));
    } else if (rows.size() > 2 || rows.front().size() <= kMostColumns) {
      print(text, results[first].experiment, rows);
    } else {
      std::vector<Row> lines;  // one for each column
      for (std::size_t i = 0; i < rows[0].size(); ++i) lines.push_back({rows[0][i], rows[1][i]});
      print(text, results[first].experiment, lines, {true, true});
    }
  }
  out << text.view();
}
}  // namespace

std::string text_in(const Result& row, std::string_view column) {
  if (const Value* value = row.parameter(column)) return text_of(*value);
  const Metric* metric = row.metric(column);
  return metric == nullptr ? "" : text_of(*metric);
}

std::string filled(std::string_view text, const Result& row) {
  bool lacks = false;
  return Filling(row, text).fill(lacks);
}

std::string count_of(std::uint64_t n, std::string_view thing) {
  return say(with_commas(std::to_string(n)), ' ', thing, n == 1 ? "" : "s");
}

void print_results(std::ostream& out, std::span<const Result> results) {
  std::ostringstream text;
  print_rows(text, results);
  out << without_controls(text.str());
}

}  // namespace kvproof::bench
