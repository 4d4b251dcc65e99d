// SPDX-License-Identifier: Apache-2.0
#include "bench/instruments/memory_here.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

namespace kvproof::bench {
namespace {

/// The number behind a name in a file of "name: number" lines; nullopt where it is not.
std::optional<std::uint64_t> number_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
  }
  return std::nullopt;
}

/// The only number of a file; nullopt for "max" and where there is no such file.
std::optional<std::uint64_t> number_of(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::string gib(std::uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / 0x1p30);
  return text;
}

}  // namespace

std::optional<std::uint64_t> available_bytes() {
  std::optional<std::uint64_t> out;
  const auto at_most = [&out](std::uint64_t bytes) { out = std::min(out.value_or(bytes), bytes); };
  if (const auto kib = number_in("/proc/meminfo", "MemAvailable:")) at_most(*kib * 1024);
  const auto most = number_of("/sys/fs/cgroup/memory.max");
  const auto used = number_of("/sys/fs/cgroup/memory.current");
  if (most && used) at_most(*most - std::min(*most, *used));
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      at_most(limit.rlim_cur);
    }
  }
  return out;
}

void require_memory(std::uint64_t blocks, std::uint64_t bytes_per_block) {
  const auto available = available_bytes();
  const std::uint64_t wanted = blocks * bytes_per_block;
  if (!available || wanted <= *available) return;
  throw std::invalid_argument("a pool of " + std::to_string(blocks) + " blocks takes about " +
                              gib(wanted) + " of memory; " + gib(*available) + " are available");
}

}  // namespace kvproof::bench
