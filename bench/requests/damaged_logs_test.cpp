// SPDX-License-Identifier: Apache-2.0
// Logs that are cut short, damaged or large: every one ends in requests or in one InputError, in
// bounded memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "bench/requests/log_test_support.h"
#include "bench/requests/open_log.h"
#include "reference/support/sanitizer.h"

namespace kvproof::bench {
namespace {

using namespace std::string_literals;
using properties::gzip;
using properties::TemporaryFolder;
using properties::zstd;

TEST(LogDamage, NoticeTruncatedFiles) {
  const TemporaryFolder folder;
  for (const std::string& bytes : {kMooncake, kAzure, kSession}) {
    for (const std::string& stored : {gzip(bytes), zstd(bytes)}) {
      for (std::size_t size = 0; size < stored.size(); ++size) {
        const std::string path = folder.write("log", stored.substr(0, size));
        EXPECT_TRUE(error_of(path).has_value()) << size << " of " << stored.size() << " bytes";
      }
    }
  }
}

/// A few bytes replaced, removed, inserted or repeated.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  static const std::string kTelling = "\0\n\r,:-.0918{}[]\"\\eE +Tn\xff"s;
  for (std::size_t edits = 1 + below(3); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = below(bytes.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(bytes.size() - at, 20));
    switch (below(8)) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 5:
      case 6:  // another digit, which may well leave a sound log
        if (const auto digit = bytes.find_first_of("0123456789", at); digit != std::string::npos) {
          bytes[digit] = static_cast<char>('0' + below(10));
        }
        break;
      case 1: bytes[at] = kTelling[below(kTelling.size())]; break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, 1, kTelling[below(kTelling.size())]); break;
      case 4: bytes.insert(at, bytes.substr(at, length)); break;
      default: bytes.resize(at); break;
    }
  }
  return bytes;
}

TEST(LogDamage, SurviveMutations) {
  constexpr int kMutations = 150;  // of each format, inside and outside of the compression
  const TemporaryFolder folder;
  std::mt19937_64 random(20230);
  int errors = 0;
  int sound = 0;
  for (const std::string& bytes : sample_logs()) {
    for (int i = 0; i < kMutations; ++i) {
      // Damage inside of the compression, and damage to it.
      const std::string content = mutated(bytes, random);
      const std::string packed = i % 2 == 0 ? gzip(bytes) : zstd(bytes);
      for (const std::string& stored : {content, mutated(packed, random)}) {
        const auto error = error_of(folder.write("log", stored));
        ++(error ? errors : sound);
        if (!error) continue;
        EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos) << error->what();
      }
    }
  }
  EXPECT_EQ(errors + sound, 2 * kMutations * static_cast<int>(sample_logs().size()));
  EXPECT_GT(errors, kMutations);
  EXPECT_GT(sound, 50) << "mutations that leave a log are part of the test";
}

/// [bytes] of memory that this process had at its peak, since it was last forgotten.
std::int64_t peak_rss_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    std::int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

bool forget_peak_rss() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5;
  file.close();
  return !file.fail();
}

// 500 MB behave like these 48: what is held is a line, and the window of the decompression.
TEST(LogDamage, MemoryIsBounded) {
  if (KVPROOF_UNDER_ASAN != 0 || KVPROOF_UNDER_TSAN != 0) {
    GTEST_SKIP() << "a sanitizer keeps what was freed";
  }
  constexpr std::size_t kFileBytes = std::size_t{48} << 20;
  constexpr std::int64_t kMaxGrowth = std::int64_t{12} << 20;
  const TemporaryFolder folder;
  for (const std::string& sample : {kMooncake, kBurst, kSession}) {
    // The last line again and again: its time is no earlier than the line before.
    const std::size_t last = sample.rfind('\n', sample.size() - 2) + 1;
    const std::string line = sample.substr(last);
    std::string chunk;
    while (chunk.size() < (std::size_t{1} << 20)) chunk += line;
    const std::string path = folder.write("log", sample);
    std::ofstream file(path, std::ios::app);
    for (std::size_t size = 0; size < kFileBytes; size += chunk.size()) file << chunk;
    file.close();
    if (!forget_peak_rss()) GTEST_SKIP() << "the peak of memory cannot be forgotten here";
    const std::int64_t before = peak_rss_bytes();
    const auto source = open_log(path);
    std::uint64_t requests = 0;
    for (Request request; source->next(request);) ++requests;
    EXPECT_GT(requests, 30'000U);
    EXPECT_LT(peak_rss_bytes() - before, kMaxGrowth) << sample;
  }
}

}  // namespace
}  // namespace kvproof::bench
