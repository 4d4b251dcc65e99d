// SPDX-License-Identifier: Apache-2.0
// LineReader gives the lines of a file in any compression, and one InputError when it cannot.
#include "reference/support/line_reader.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "properties/sources/traces/test_files.h"

namespace kvproof::properties {
namespace {

using namespace std::string_literals;

std::vector<std::string> all_lines(const std::string& path, LineReaderLimits limits = {}) {
  LineReader reader(path, limits);
  std::vector<std::string> lines;
  std::string_view line;
  while (reader.next(line)) {
    lines.emplace_back(line);
    EXPECT_EQ(reader.line_number(), lines.size());
  }
  EXPECT_FALSE(reader.next(line)) << "the end is final";
  return lines;
}

/// The InputError of reading the whole file, or nothing if it can be read.
std::optional<InputError> error_of(const std::string& path, LineReaderLimits limits = {}) {
  try {
    LineReader reader(path, limits);
    std::string_view line;
    while (reader.next(line)) {
    }
  } catch (const InputError& error) {
    return error;
  }
  return std::nullopt;
}

/// Every way in which the same bytes may be stored, of which the last two are in two parts.
std::vector<std::pair<std::string, std::string>> stored_forms(const std::string& bytes) {
  const std::string head = bytes.substr(0, bytes.size() / 3);
  const std::string tail = bytes.substr(bytes.size() / 3);
  const std::string skippable = "\x50\x2a\x4d\x18\x03\0\0\0abc"s;
  return {{"plain", bytes},
          {"gzip", gzip(bytes)},
          {"zstd", zstd(bytes)},
          {"zstd_after_skippable", skippable + zstd(bytes)},
          {"gzip_members", gzip(head) + gzip("") + gzip(tail)},
          {"zstd_frames", zstd(head) + zstd("") + zstd(tail)}};
}

TEST(LineReader, SplitsLinesTheSameInEveryCompression) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"", {}},
      {"\n", {""}},
      {"a", {"a"}},
      {"a\n", {"a"}},
      {"a\nb", {"a", "b"}},
      {"a\r\nb\r\n", {"a", "b"}},
      {"a\r\nb\r", {"a", "b"}},
      {"\r\n\n\r\n", {"", "", ""}},
      {"a\rb\n", {"a\rb"}},
      {"a\0b\n\0"s, {"a\0b"s, "\0"s}},
  };
  const TemporaryFolder folder;
  for (const auto& [bytes, lines] : cases) {
    for (const auto& [form, stored] : stored_forms(bytes)) {
      EXPECT_EQ(all_lines(folder.write("file", stored)), lines)
          << form << " of " << testing::PrintToString(bytes);
    }
  }
}

TEST(LineReader, SplitsLinesAcrossTheBordersOfItsBuffers) {
  std::mt19937_64 random(7);
  std::vector<std::string> lines;
  std::string bytes;
  for (int i = 0; i < 60; ++i) {
    // Lengths around powers of two up to 1 MiB, so that some end exactly at a border.
    std::string line((std::size_t{1} << (random() % 21)) - random() % 2, '\0');
    for (char& c : line) c = static_cast<char>('a' + random() % 16);
    bytes += line + "\n";
    lines.push_back(std::move(line));
  }
  const TemporaryFolder folder;
  for (const auto& [form, stored] : stored_forms(bytes)) {
    EXPECT_TRUE(all_lines(folder.write("file", stored)) == lines) << form;
  }
}

TEST(LineReader, ReadsPipes) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string stored = zstd("first\nsecond\n");
  std::thread writer([&] {
    std::ofstream pipe(path, std::ios::binary);
    for (const char c : stored) pipe.put(c).flush();  // short reads
  });
  const std::vector<std::string> lines = all_lines(path);
  writer.join();
  EXPECT_EQ(lines, (std::vector<std::string>{"first", "second"}));
}

TEST(LineReader, FollowsAFileThatGrows) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "first\nsec");
  LineReader patient(path, {.idle_seconds = 600});
  std::string_view line;
  ASSERT_TRUE(patient.next(line));
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    std::ofstream(path, std::ios::app) << "ond\n";
  });
  ASSERT_TRUE(patient.next(line));
  EXPECT_EQ(line, "second");
  writer.join();
  LineReader reader(path, {.idle_seconds = 0.2});
  ASSERT_TRUE(reader.next(line) && reader.next(line));
  EXPECT_FALSE(reader.next(line));
}

TEST(LineReader, NamesTheFileWhenItCannotBeOpened) {
  const TemporaryFolder folder;
  const std::string missing = (folder.path() / "missing").string();
  for (const std::string& path : {missing, folder.path().string()}) {
    const auto error = error_of(path);
    ASSERT_TRUE(error.has_value()) << path;
    EXPECT_EQ(error->line(), 0U);
    EXPECT_TRUE(std::string(error->what()).starts_with(path + ": expected a readable file, found"))
        << error->what();
  }
}

TEST(LineReader, NoticesEveryTruncation) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += std::to_string(i * i) + ",";
  bytes += "\nlast line\n";
  const TemporaryFolder folder;
  for (const std::string& stored : {gzip(bytes), zstd(bytes)}) {
    for (std::size_t size = 4; size < stored.size(); ++size) {  // with its magic number
      const auto error = error_of(folder.write("file", stored.substr(0, size)));
      ASSERT_TRUE(error.has_value()) << size << " of " << stored.size() << " bytes";
      EXPECT_GE(error->line(), 1U);
      EXPECT_LE(error->line(), 3U);
      EXPECT_NE(std::string(error->what()).find("found the file's end"), std::string::npos)
          << error->what();
    }
  }
}

TEST(LineReader, NamesTheLineWhereDataEnds) {
  const TemporaryFolder folder;
  std::string stored = zstd("one\ntwo\n") + zstd("three\nfour\n");
  stored.resize(stored.size() - 1);
  const auto error = error_of(folder.write("file", stored));
  ASSERT_TRUE(error.has_value());
  // "four" is complete, its checksum is not: what cannot be had is line 5.
  EXPECT_EQ(error->line(), 5U) << error->what();
}

TEST(LineReader, NoticesDamage) {
  const std::string bytes =
      "a line that compresses: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n";
  const TemporaryFolder folder;
  std::string bad_crc = gzip(bytes);
  bad_crc[bad_crc.size() - 8] ^= 1;  // CRC-32, then the size
  std::string bad_checksum = zstd(bytes);
  bad_checksum.back() ^= 1;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {bad_crc, "expected intact gzip data, found: incorrect data check"},
      {bad_checksum, "expected intact zstd data, found: Restored data doesn't match checksum"},
      {gzip(bytes) + "garbage", "expected intact gzip data, found: incorrect header check"},
      {zstd(bytes) + "garbage", "expected intact zstd data, found: Unknown frame descriptor"},
  };
  for (const auto& [stored, message] : cases) {
    const auto error = error_of(folder.write("file", stored));
    ASSERT_TRUE(error.has_value()) << message;
    EXPECT_NE(std::string(error->what()).find(message), std::string::npos) << error->what();
  }
}

TEST(LineReader, BoundsTheZstdWindow) {
  // A frame header with a window descriptor of 2^(10 + exponent) bytes, then one raw last block.
  const auto frame = [](unsigned exponent) {
    return "\x28\xb5\x2f\xfd\0"s + static_cast<char>(exponent << 3) + "\x19\0\0ab\n"s;
  };
  const TemporaryFolder folder;
  EXPECT_EQ(all_lines(folder.write("file", frame(17))), std::vector<std::string>{"ab"});
  const auto error = error_of(folder.write("file", frame(18)));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->expected(), "a zstd window of at most 134217728 bytes, found a larger one");
  const LineReaderLimits small{.max_window_log = 20};
  EXPECT_FALSE(error_of(folder.write("file", frame(10)), small).has_value());
  EXPECT_TRUE(error_of(folder.write("file", frame(11)), small).has_value());
}

TEST(LineReader, BoundsTheLengthOfALine) {
  const TemporaryFolder folder;
  const LineReaderLimits limits{.max_line_bytes = 1000};
  for (const std::string ending : {"", "\n", "\r\n", "\n\n"}) {
    const auto path = [&](std::size_t bytes) {
      return folder.write("file", "x\n" + std::string(bytes, 'a') + ending);
    };
    EXPECT_EQ(all_lines(path(1000), limits).at(1).size(), 1000U);
    for (const std::size_t bytes : {1001U, 1002U, 1003U, 500'000U}) {
      const auto error = error_of(path(bytes), limits);
      ASSERT_TRUE(error.has_value()) << bytes;
      EXPECT_EQ(error->line(), 2U);
      EXPECT_EQ(error->expected(), "a line of at most 1000 bytes, found a longer one");
    }
  }
}

TEST(LineReader, BoundsALineThatIsSmallOnDisk) {
  const TemporaryFolder folder;
  const std::string stored = zstd(std::string((std::size_t{64} << 20) + 1, 'a'));
  EXPECT_LT(stored.size(), std::size_t{1} << 20);
  const auto error = error_of(folder.write("file", stored));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->line(), 1U);
}

TEST(LineReader, TellsHowFarItIs) {
  const TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += std::to_string(random()) + "\n";
  for (const auto& [form, stored] : stored_forms(bytes)) {
    LineReader reader(folder.write("file", stored));
    double before = 0;
    bool between = false;
    for (std::string_view line; reader.next(line); before = reader.fraction_read()) {
      ASSERT_GE(reader.fraction_read(), before) << form;
      between = between || (before > 0.2 && before < 0.8);
    }
    EXPECT_TRUE(between) << form;
    EXPECT_EQ(reader.fraction_read(), 1.0) << form;
  }
}

TEST(LineReader, GoesOnAfterAMove) {
  const TemporaryFolder folder;
  LineReader first(folder.write("file", gzip("one\ntwo\n")));
  std::string_view line;
  ASSERT_TRUE(first.next(line));
  LineReader second(std::move(first));
  EXPECT_EQ(line, "one");
  ASSERT_TRUE(second.next(line));
  EXPECT_EQ(line, "two");
  EXPECT_EQ(second.line_number(), 2U);
}

/// Runs `work` in a child process and returns by how much its peak resident memory grew [bytes].
std::int64_t growth_in_child(const std::function<bool()>& work) {
  const auto peak_kib = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::int64_t>(usage.ru_maxrss);
  };
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  const ::pid_t child = ::fork();
  if (child == 0) {
    const std::int64_t before = peak_kib();
    const bool good = work();
    const std::int64_t growth = good ? peak_kib() - before : -1;
    const bool sent = ::write(ends[1], &growth, sizeof growth) == sizeof growth;
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  std::int64_t growth = -1;
  if (::read(ends[0], &growth, sizeof growth) != sizeof growth) growth = -1;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return growth < 0 ? -1 : growth * 1024;
}

TEST(LineReader, StreamsInBoundedMemory) {
  constexpr std::uint64_t kLines = 1'000'000;
  constexpr std::int64_t kMaxGrowthBytes = 16 << 20;  // of which a zstd window is 2 to 8 MiB
  std::vector<std::string> paths;
  const TemporaryFolder folder;
  {
    std::string bytes;
    for (std::uint64_t i = 0; i < kLines; ++i) {
      std::string line = std::to_string(i * i);
      line.resize(40, 'x');
      bytes += line + "\n";
    }
    paths = {folder.write("plain", bytes), folder.write("gzip", gzip(bytes)),
             folder.write("zstd", zstd(bytes))};
  }
  for (const std::string& path : paths) {
    const std::int64_t growth = growth_in_child([&path] {
      LineReader reader(path);
      std::uint64_t lines = 0;
      for (std::string_view line; reader.next(line); ++lines) {
        if (line.size() != 40) return false;
      }
      return lines == kLines;
    });
    EXPECT_GE(growth, 0) << path << ": the child did not read all lines";
    EXPECT_LE(growth, kMaxGrowthBytes) << path;
  }
}

TEST(InputError, IsOnePrintableLine) {
  const InputError error("a\nb", 7, "na\tme",
                         "this, found " + in_quotes(std::string("\0\n\x80", 3)));
  EXPECT_STREQ(error.what(), "a?b: line 7: field na?me: expected this, found '\?\?\?'");
  EXPECT_STREQ(InputError("f", 0, "", "x").what(), "f: expected x");
  EXPECT_LT(
      std::string(InputError("f", 1, std::string(9999, 'x'), std::string(9999, 'y')).what()).size(),
      600U);
}

}  // namespace
}  // namespace kvproof::properties
