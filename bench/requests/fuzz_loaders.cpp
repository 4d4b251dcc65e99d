// SPDX-License-Identifier: Apache-2.0
// Fuzz target: request logs through the loaders. Any bytes must give requests that keep the
// promises of open_log.h, or an InputError of one line.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "bench/requests/open_log.h"
#include "properties/sources/fuzz/fuzz_target.h"
#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof::bench {
namespace {

using properties::fuzz_failed;

/// A file in memory: the loaders read files.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0 || write(fd_, data, size) != static_cast<ssize_t>(size)) {
      fuzz_failed("no file in memory");
    }
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::string path() const { return say("/proc/self/fd/", fd_); }

 private:
  int fd_;
};

void check(const Request& now, const Request& before, const SourceInfo& info,
           const LogOptions& options) {
  const auto require = [&](bool holds, const char* what) {
    if (!holds) fuzz_failed(say("request ", now.index, ": ", what));
  };
  const auto in_range = [&](std::int64_t n) { return n >= 0 && n <= options.max_tokens; };
  require(in_range(now.input_tokens) && in_range(now.output_tokens), "a length out of its range");
  require(now.arrival_seconds >= before.arrival_seconds, "it arrived before the one before it");
  require(now.index == 0 || now.index == before.index + 1, "an index is left out");
  require(info.timed || now.arrival_seconds == 0, "a time where the source has none");
  require(info.sessions || (now.session == 0 && now.agent == 0 && now.after.empty()),
          "a session where the source has none");
  for (const std::uint64_t earlier : now.after) require(earlier < now.index, "it waits for itself");
  if (info.ids_block_size == 0) {
    require(now.block_ids.empty(), "ids where the source has none");
    return;
  }
  const std::int64_t tail = info.partial_tail ? info.ids_block_size - 1 : 0;
  const std::int64_t ids = (now.input_tokens + tail) / info.ids_block_size;
  require(static_cast<std::int64_t>(now.block_ids.size()) == ids, "ids for another length");
}

}  // namespace
}  // namespace kvproof::bench

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvproof::bench;
  const MemoryFile file(data, size);
  LogOptions options;
  options.sessions_at_once = 2;
  std::uint64_t requests = 0;
  try {
    const auto source = open_log(file.path(), options);
    Request before;
    Request now;
    for (; source->next(now); ++requests, before = now) {
      check(now, before, source->info(), options);
    }
    if (requests == 0) fuzz_failed("a log without a request was accepted");
  } catch (const kvproof::InputError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) {
      fuzz_failed(kvproof::say("a complaint of several lines: ", error.what()));
    }
    ++requests;  // the line that was refused
  }
  kvproof::properties::fuzz_meter.add_input(requests);
  return 0;
}
