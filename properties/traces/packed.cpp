// SPDX-License-Identifier: Apache-2.0
#include "properties/traces/packed.h"

#include <zstd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <utility>

#include "properties/traces/state_change.h"
#include "reference/support/input_error.h"
#include "reference/trace_json.h"

namespace kvproof::properties {
namespace {

namespace fs = std::filesystem;

std::string file_of(const std::string& folder, std::size_t column) {
  return (fs::path(folder) / (std::string(kColumnNames[column]) + ".zst")).string();
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
  StateChanges changes;
};

PackedReader::PackedReader(const std::string& folder) : columns_(std::make_unique<Columns>()) {
  for (std::size_t c = 0; c < kNumColumns; ++c) columns_->readers.emplace_back(file_of(folder, c));
}

PackedReader::~PackedReader() = default;

bool PackedReader::next(std::string& line) {
  PackedLine packed;
  std::size_t ended = 0;
  for (std::size_t c = 0; c < kNumColumns; ++c) {
    std::string_view text;
    if (!columns_->readers[c].next(text)) ++ended;
    packed.text[c] = text;
    if (ended != 0 && ended != c + 1) {
      columns_->readers[c].fail("", "as many lines as the other columns have");
    }
  }
  if (ended != 0) return false;
  try {
    line = columns_->changes.unpack(packed);
  } catch (const TextError& error) {
    fail(error.field(), error.expected());
  } catch (const nlohmann::json::exception&) {
    fail("operation", "the members of a trace's line, each of its own kind");
  }
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
  std::array<std::string, kNumColumns> columns;
  StateChanges packing;
  StateChanges unpacking;
  for (const std::string& file : files) {
    LineReader lines(file);
    for (std::string_view text; lines.next(text);) {
      PackedLine packed;
      std::string again;
      try {
        packed = packing.pack(text);
        again = unpacking.unpack(packed);
      } catch (const TextError& error) {
        lines.fail(error.field(), error.expected());
      } catch (const nlohmann::json::exception& error) {
        lines.fail("", "a line of a trace");
      }
      if (again != text) lines.fail("", "a line that packs, found one that comes back as " + again);
      for (std::size_t c = 0; c < kNumColumns; ++c) columns[c] += packed.text[c] + "\n";
    }
  }
  for (std::size_t c = 0; c < kNumColumns; ++c) {
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
