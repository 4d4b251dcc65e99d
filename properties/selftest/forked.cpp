// SPDX-License-Identifier: Apache-2.0
#include "properties/selftest/forked.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "reference/support/interrupt.h"

namespace kvproof::properties {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  pid_t process = 0;
  int pipe = -1;
  std::size_t index = 0;
  Clock::time_point started = Clock::now();
};

Child start(std::size_t index, const std::function<void(std::size_t, int)>& work) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe for a mutant's process");
  const WithoutInterrupts in_the_child_too;  // it ends with its parent, which cleans up
  const pid_t process = fork();
  if (process < 0) throw std::runtime_error("no process for a mutant");
  if (process > 0) {
    close(ends[1]);
    return {process, ends[0], index};
  }
  close(ends[0]);
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  work(index, ends[1]);
  _exit(0);
}

Ended finish(const Child& child) {
  Ended out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(child.pipe, buffer, sizeof buffer)) > 0;) {
    out.bytes.append(buffer, static_cast<std::size_t>(n));
  }
  close(child.pipe);
  waitpid(child.process, &out.status, 0);
  out.seconds = std::chrono::duration<double>(Clock::now() - child.started).count();
  return out;
}

}  // namespace

void run_forked(std::size_t count, std::uint32_t processes,
                const std::function<void(std::size_t, int)>& work,
                const std::function<void(std::size_t, const Ended&)>& done) {
  const std::size_t most =
      processes > 0 ? processes : std::max(1U, std::thread::hardware_concurrency());
  std::vector<Child> running;
  std::size_t next = 0;
  while (next < count || !running.empty()) {
    while (next < count && running.size() < most) {
      running.push_back(start(next, work));
      ++next;
    }
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0) {
      throw std::runtime_error("no process of a mutant to wait for");
    }
    const auto ended = std::find_if(running.begin(), running.end(),
                                    [&](const Child& c) { return c.process == info.si_pid; });
    if (ended == running.end()) {  // a child that was not started here
      waitpid(info.si_pid, nullptr, 0);
      continue;
    }
    const Child child = *ended;
    running.erase(ended);
    done(child.index, finish(child));
  }
}

}  // namespace kvproof::properties
