// SPDX-License-Identifier: Apache-2.0
#include "reference/recordings/packed.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "reference/support/input_error.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

// The columns: the lines, and the fields whose values have a column of their own.
constexpr std::array<std::string_view, 9> kColumns = {"operation",  "tokens",      "out",
                                                      "events",     "state",       "pool_check",
                                                      "lens_check", "table_check", "tables_check"};
constexpr std::string_view kSame = "=";

/// One line of a trace: the text of each column; empty where the line lacks the field.
using Fields = std::array<std::string, kColumns.size()>;

/// Splits a line that is a JSON object; zeros stand in the place of the columns' values.
Fields split(std::string_view line) {
  Fields out;
  std::size_t column = 0;  // whose text is read
  int depth = 0;
  for (std::size_t i = 0, end = 0; i < line.size(); i = end) {
    end = i + 1;  // of a string, or of a character
    if (line[i] == '"') {
      while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, line.size());
    }
    const char c = line[i];
    if (depth == 1 && (c == ',' || c == '}')) column = 0;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    out[column] += line.substr(i, end - i);
    if (depth != 1 || column != 0 || c != '"' || !line.substr(end).starts_with(':')) continue;
    const auto* const name = std::ranges::find(kColumns, line.substr(i + 1, end - i - 2));
    if (name == kColumns.begin() || name == kColumns.end()) continue;
    column = static_cast<std::size_t>(name - kColumns.begin());
    out[0] += ":0";
    ++end;
  }
  return out;
}

/// A line with values in place of the zeros.
std::string joined(std::string line, const std::function<std::string(std::size_t)>& value) {
  std::map<std::size_t, std::size_t> places;  // of zeros, and their columns
  for (std::size_t c = 1; c < kColumns.size(); ++c) {
    const std::string name = '"' + std::string(kColumns[c]) + "\":";
    const std::size_t at = line.find(name + "0");
    if (at != std::string::npos) places[at + name.size()] = c;
  }
  for (const auto& [at, column] : std::views::reverse(places)) {
    line.replace(at, 1, value(column));
  }
  return line;
}

std::string file_of(const std::string& folder, std::size_t column) {
  return (fs::path(folder) / (std::string(kColumns[column]) + ".zst")).string();
}

std::string compressed(const std::string& text) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        &ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, 22);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size =
      ZSTD_compress2(context.get(), out.data(), out.size(), text.data(), text.size());
  if (ZSTD_isError(size) != 0) throw std::runtime_error(ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw InputError(path.string(), 0, "", "a file that can be written");
}

/// A folder that gets its name when it is complete, and is gone if it never was.
class NewFolder {
 public:
  explicit NewFolder(const std::string& name) : name_(name), part_(name + ".part") {
    if (fs::exists(name_)) throw InputError(name, 0, "", "a folder that does not exist yet");
    std::error_code error;
    fs::remove_all(part_, error);
    if (!fs::create_directories(part_, error)) {
      throw InputError(name, 0, "", "a folder that can be made: " + error.message());
    }
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(part_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return part_; }
  void complete() { fs::rename(part_, name_); }

 private:
  fs::path name_;
  fs::path part_;  // where it is made
};

}  // namespace

struct PackedReader::Columns {
  std::vector<LineReader> readers;
  Fields last;  // the last value of each column
};

PackedReader::PackedReader(const std::string& folder) : columns_(std::make_unique<Columns>()) {
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    columns_->readers.emplace_back(file_of(folder, c));
  }
}

PackedReader::~PackedReader() = default;

bool PackedReader::next(std::string& line) {
  auto& [readers, last] = *columns_;
  std::string_view text;
  if (!readers[0].next(text)) {
    for (LineReader& reader : readers) {
      if (reader.next(text)) reader.fail("", "as many values as the lines have zeros for them");
    }
    return false;
  }
  line = joined(std::string(text), [&](std::size_t column) {
    if (!readers[column].next(text))
      readers[column].fail("", "a value for each line with its zero");
    if (text != kSame) last[column] = text;
    return last[column];
  });
  return true;
}

std::uint64_t PackedReader::line_number() const { return columns_->readers[0].line_number(); }
double PackedReader::fraction_read() const { return columns_->readers[0].fraction_read(); }
void PackedReader::fail(std::string field, std::string expected) const {
  columns_->readers[0].fail(std::move(field), std::move(expected));
}

TraceLines::TraceLines(const std::string& path, const LineReaderLimits& limits) {
  std::error_code error;  // the reader says what it was
  if (!fs::is_directory(path, error)) {
    plain_.emplace(path, limits);
  } else if (fs::exists(file_of(path, 0), error)) {
    packed_ = std::make_unique<PackedReader>(path);
  } else {
    throw InputError(path, 0, "",
                     "a trace, or a folder that kvproof replay --pack has made; found a folder "
                     "that is not a packed recording");
  }
}

bool TraceLines::next(std::string_view& line) {
  if (plain_) return plain_->next(line);
  if (!packed_->next(line_)) return false;
  line = line_;
  return true;
}

std::uint64_t TraceLines::line_number() const {
  return plain_ ? plain_->line_number() : packed_->line_number();
}
double TraceLines::fraction_read() const {
  return plain_ ? plain_->fraction_read() : packed_->fraction_read();
}
void TraceLines::fail(std::string field, std::string expected) const {
  plain_ ? plain_->fail(std::move(field), std::move(expected))
         : packed_->fail(std::move(field), std::move(expected));
}

void pack_traces(const std::vector<std::string>& files, const std::string& folder) {
  NewFolder out(folder);
  Fields columns;
  Fields last;
  for (const std::string& file : files) {
    LineReader lines(file);
    for (std::string_view text; lines.next(text);) {
      try {
        (void)parse_trace_line(text);
      } catch (const TextError& error) {
        lines.fail(error.field(), error.expected());
      }
      const Fields fields = split(text);
      columns[0] += fields[0] + "\n";
      const std::string again = joined(fields[0], [&](std::size_t c) {
        columns[c] += (fields[c] == last[c] ? std::string(kSame) : fields[c]) + "\n";
        return last[c] = fields[c];
      });
      if (again != text) lines.fail("", "a line that packs, found one that comes back as " + again);
    }
  }
  for (std::size_t c = 0; c < kColumns.size(); ++c) {
    write_file(file_of(out.path().string(), c), compressed(columns[c]));
  }
  out.complete();
}

namespace {

std::uint64_t unpack_file(const std::string& path, const fs::path& out) {
  TraceLines lines(path);
  std::uint64_t traces = 0;
  fs::path file;
  std::string text;
  for (std::string_view line; lines.next(line);) {
    TraceLine parsed;
    try {
      parsed = parse_trace_line(line);
    } catch (const TextError& error) {
      lines.fail(error.field(), error.expected());
    }
    if (parsed.kind == TraceLine::Kind::header) {
      const TraceHeader& header = parsed.header;
      const bool drawn = header.name.empty() || header.seed != 0;
      const std::string name =
          drawn ? header.family + "-" + std::to_string(header.seed) : header.name;
      const fs::path profile = out / std::string(header.config.profile.name);
      fs::create_directories(profile);
      const std::string stem = fs::path(name).filename().string();
      file = profile / (stem + ".jsonl");
      for (int again = 2; fs::exists(file); ++again) {
        file = profile / (stem + "-" + std::to_string(again) + ".jsonl");
      }
    }
    text += std::string(line) + "\n";
    if (parsed.kind != TraceLine::Kind::end) continue;
    write_file(file, text);
    text.clear();
    ++traces;
  }
  return traces;
}

}  // namespace

std::uint64_t unpack_traces(const std::vector<std::string>& files, const std::string& folder) {
  NewFolder out(folder);
  std::uint64_t traces = 0;
  for (const std::string& file : files) traces += unpack_file(file, out.path());
  out.complete();
  return traces;
}

}  // namespace kvproof::properties
