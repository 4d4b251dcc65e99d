// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/operators/trials.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "properties/selftest/forked.h"

namespace kvproof::properties {
namespace {

/// The process ends by SIGPROF unless it asks again before it has used so much of the processor.
void allow(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  itimerval timer{};
  timer.it_value = {whole, static_cast<suseconds_t>((seconds - static_cast<double>(whole)) * 1e6)};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

/// Within the process of a trial: its limits, and nothing on the terminal.
void confine(const TrialLimits& limits) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (limits.memory_bytes > 0) {
    const rlimit memory{limits.memory_bytes, limits.memory_bytes};
    setrlimit(RLIMIT_AS, &memory);
  }
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2}) dup2(nowhere, stream);
  std::signal(SIGPROF, SIG_DFL);
  allow(limits.silent_seconds);
}

Trial trial_of(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGPROF ? Trial::hung : Trial::crashed;
  const int code = WEXITSTATUS(status);
  return code <= static_cast<int>(Trial::cannot_tell) ? Trial(code) : Trial::crashed;
}

}  // namespace

std::vector<Trial> run_trials(std::size_t count, const TrialLimits& limits, const Judge& judge,
                              const std::function<void(std::size_t)>& done) {
  std::vector<Trial> out(count);
  run_forked(
      count, limits.processes,
      [&](std::size_t index, int) noexcept {  // an exception is a crash
        confine(limits);
        _exit(static_cast<int>(judge(index, [&] { allow(limits.silent_seconds); })));
      },
      [&](std::size_t index, const Ended& ended) {
        out[index] = trial_of(ended.status);
        done(index);
      });
  return out;
}

}  // namespace kvproof::properties
