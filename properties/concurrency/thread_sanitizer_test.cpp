// SPDX-License-Identifier: Apache-2.0
// `thread_sanitizer_test PROGRAM`: runs sanitized_stress, which must be silent with all locks and
// must be caught with any one of them removed.
//
// ThreadSanitizer needs to know where memory lies: the program is started without randomised
// addresses. Where that is refused and it cannot start, this exits with 77 and says so.
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Ended {
  int status = 0;  // as from waitpid
  std::string output;
};

Ended run(const char* program, const char* removed, const char* seed) {
  std::array<int, 2> ends{};
  Ended ended;
  if (pipe(ends.data()) != 0) return ended;
  const pid_t child = fork();
  if (child == 0) {
    personality(ADDR_NO_RANDOMIZE);  // where refused, it may still work
    setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66", 1);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    execl(program, program, removed, seed, nullptr);
    std::_Exit(127);
  }
  close(ends[1]);
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    ended.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, &ended.status, 0);
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: thread_sanitizer_test PROGRAM\n");
    return 2;
  }
  const char* seed = std::getenv("KVPROOF_SEED") != nullptr ? std::getenv("KVPROOF_SEED") : "1";
  int result = 0;
  for (const char* removed : {"none", "queue", "index", "readers"}) {
    const auto start = std::chrono::steady_clock::now();
    const Ended ended = run(argv[1], removed, seed);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (ended.output.find("unexpected memory mapping") != std::string::npos) {
      std::printf(
          "skipped: ThreadSanitizer cannot run where address-space randomisation cannot be "
          "switched off\n");
      return 77;
    }
    const bool raced =
        ended.output.find("WARNING: ThreadSanitizer: data race") != std::string::npos;
    const bool expected = std::string(removed) == "none" ? !raced && ended.status == 0 : raced;
    std::printf("seed %s, removed lock: %s: %s, as %s (%.1f s)\n", seed, removed,
                raced ? "a data race" : "no data race", expected ? "expected" : "NOT expected",
                seconds);
    if (expected) continue;
    std::printf("%s\nagain: %s %s %s\n", ended.output.c_str(), argv[1], removed, seed);
    result = 1;
  }
  return result;
}
