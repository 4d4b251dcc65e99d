// SPDX-License-Identifier: Apache-2.0
// Asks the compiler, the build and Linux for the circumstances.
#include "bench/results/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <string_view>
#include <thread>

namespace kvproof::bench {
namespace {

const char* const kUnknown = "unknown";
constexpr std::uint64_t kExactInDouble = std::uint64_t{1} << 53;  // any JSON reader can hold this

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return kUnknown;
#endif
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The value of the first line "key ... : value" of a file of such lines.
std::string value_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

/// "32K", "1024 kB", "8M" as bytes; nullopt for anything else.
std::optional<std::int64_t> bytes_of(const std::string& text) {
  std::size_t digits = 0;
  std::int64_t number = 0;
  while (digits < text.size() && digits < 15 && text[digits] >= '0' && text[digits] <= '9') {
    number = number * 10 + (text[digits++] - '0');
  }
  if (digits == 0) return std::nullopt;
  const std::size_t unit = text.find_first_not_of(' ', digits);
  if (unit == std::string::npos) return number;
  switch (text[unit]) {
    case 'K':
    case 'k': return number << 10;
    case 'M': return number << 20;
    case 'G': return number << 30;
    default: return std::nullopt;
  }
}

Value or_unknown(const std::optional<std::int64_t>& number) {
  return number ? Value(*number) : Value(kUnknown);
}
Value or_unknown(const std::string& text) { return text.empty() ? Value(kUnknown) : Value(text); }

Value cache_bytes(const std::string& level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (first_line(folder + "level") != level) continue;
    if (first_line(folder + "type") == "Instruction") continue;
    return or_unknown(bytes_of(first_line(folder + "size")));
  }
  return kUnknown;
}

std::string kernel() {
  utsname name{};
  if (uname(&name) != 0) return "";
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

/// "always [madvise] never" -> "madvise"
std::string huge_page_mode() {
  const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = modes.find('[');
  const std::size_t close = modes.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return modes.substr(open + 1, close - open - 1);
}

std::string date() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  char text[32] = "";
  if (gmtime_r(&now, &utc) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

/// The words of the command, as a shell would take them.
std::string command(int argc, const char* const* argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool plain = !word.empty() &&
                       word.find_first_of(" \t\n\"'\\$&|;<>()*?[]{}~#`!") == std::string_view::npos;
    if (i > 0) line += ' ';
    if (!plain) line += '\'';
    for (const char c : word) {
      if (c == '\'') {
        line += R"('\'')";
      } else {
        line += c;
      }
    }
    if (!plain) line += '\'';
  }
  return line;
}

}  // namespace

Parameters describe_environment(int argc, const char* const* argv, std::uint64_t seed,
                                std::string_view profile) {
  const std::string cpu_info = "/proc/cpuinfo";
  std::string cpu = value_of(cpu_info, "model name");
  if (cpu.empty()) cpu = value_of(cpu_info, "Processor");
  return {
      {"version", KVPROOF_VERSION},
      {"commit", kCommit},
      {"compiler", compiler()},
      {"build_type", KVPROOF_BUILD_TYPE},
      {"flags", KVPROOF_FLAGS},
      {"profile", std::string(profile)},
      {"cpu", or_unknown(cpu)},
      {"cores", static_cast<std::int64_t>(std::thread::hardware_concurrency())},
      {"cache_l1d_bytes", cache_bytes("1")},
      {"cache_l2_bytes", cache_bytes("2")},
      {"cache_l3_bytes", cache_bytes("3")},
      {"memory_bytes", or_unknown(bytes_of(value_of("/proc/meminfo", "MemTotal")))},
      {"kernel", or_unknown(kernel())},
      {"page_bytes", static_cast<std::int64_t>(sysconf(_SC_PAGESIZE))},
      {"transparent_huge_pages", or_unknown(huge_page_mode())},
      {"date", or_unknown(date())},
      {"command", command(argc, argv)},
      {"seed", seed < kExactInDouble ? Value(static_cast<std::int64_t>(seed))
                                     : Value(std::to_string(seed))},
  };
}

std::optional<std::uint64_t> huge_page_bytes() {
  const auto bytes = bytes_of(value_of("/proc/self/smaps_rollup", "AnonHugePages"));
  if (!bytes) return std::nullopt;
  return static_cast<std::uint64_t>(*bytes);
}

}  // namespace kvproof::bench
