// SPDX-License-Identifier: Apache-2.0
#include "bench/instruments/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#if defined(__linux__)
#include <sys/personality.h>
#include <sys/prctl.h>
#endif

namespace kvproof::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void note_interrupt(int /*signal*/) { interrupted = 1; }

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Runs in the child before it becomes the program. Never returns.
[[noreturn]] void become(const ChildCommand& command, char** argv, char** environment, int out,
                         int error) {
  setpgid(0, 0);
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (command.fixed_layout) {
    const int now = personality(0xffffffffUL);
    if (now >= 0) personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE);
  }
#endif
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
      dup2(error, STDERR_FILENO) < 0) {
    _exit(127);
  }
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(127);
  if (environment != nullptr) {
    execvpe(argv[0], argv, environment);
  } else {
    execvp(argv[0], argv);
  }
  const char* why = std::strerror(errno);
  if (write(STDERR_FILENO, why, std::strlen(why)) < 0) _exit(126);
  _exit(127);
}

/// One stream of the child; closed when it has ended.
struct Stream {
  int from = -1;
  std::string* text = nullptr;

  void receive() {
    char buffer[65536];
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got > 0) text->append(buffer, static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
      close(from);
      from = -1;
    }
  }
};

/// Ends the group of a process when it goes out of scope, and waits for it.
class Group {
 public:
  explicit Group(pid_t leader) : leader_(leader) {}
  ~Group() {
    kill(-leader_, SIGKILL);
    if (!waited_) waitpid(leader_, nullptr, 0);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] int wait() {
    int status = 0;
    while (waitpid(leader_, &status, 0) < 0 && errno == EINTR) throw_if_interrupted();
    waited_ = true;
    return status;
  }

 private:
  pid_t leader_;
  bool waited_ = false;
};

/// Reads both streams until they end. @return false when the time is over
bool listen_to(Stream (&streams)[2], double limit_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(limit_seconds);
  while (streams[0].from >= 0 || streams[1].from >= 0) {
    throw_if_interrupted();
    if (Clock::now() > deadline) return false;
    pollfd waiting[2] = {{streams[0].from, POLLIN, 0}, {streams[1].from, POLLIN, 0}};
    if (poll(waiting, 2, 100) <= 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (waiting[i].revents != 0) streams[i].receive();
    }
  }
  return true;
}

}  // namespace

std::string ChildEnd::text() const {
  std::string how = timed_out     ? "it did not end in time"
                    : signal != 0 ? "it was ended by signal " + std::to_string(signal) + " (" +
                                        strsignal(signal) + ")"
                                  : "it ended with exit code " + std::to_string(exit_code);
  const std::size_t end = error.find_last_not_of(" \n");
  if (end == std::string::npos) return how;
  const std::size_t before = error.rfind('\n', end);
  const std::size_t from = before == std::string::npos ? 0 : before + 1;
  return how + ": " + error.substr(from, end + 1 - from);
}

ChildEnd run_program(const ChildCommand& command) {
  std::vector<char*> argv = pointers(command.argv);
  std::vector<char*> environment;
  if (command.environment) environment = pointers(*command.environment);
  int out[2], error[2];
  if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
  if (pipe2(error, O_CLOEXEC) != 0) {
    close(out[0]), close(out[1]);
    throw std::runtime_error("no pipe can be made");
  }
  const pid_t child = fork();
  if (child == 0) {
    become(command, argv.data(), command.environment ? environment.data() : nullptr, out[1],
           error[1]);
  }
  close(out[1]), close(error[1]);
  ChildEnd end;
  Stream streams[2] = {{out[0], &end.out}, {error[0], &end.error}};
  if (child < 0) {
    close(out[0]), close(error[0]);
    throw std::runtime_error("no process can be started");
  }
  setpgid(child, child);  // the child does it, too: the first of the two decides
  Group group(child);
  end.timed_out = !listen_to(streams, command.limit_seconds);
  if (end.timed_out) kill(-child, SIGKILL);
  const int status = group.wait();
  for (const Stream& stream : streams) {
    if (stream.from >= 0) close(stream.from);
  }
  if (WIFEXITED(status) && !end.timed_out) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

void throw_if_interrupted() {
  if (interrupted != 0) throw Interrupted();
}

}  // namespace kvproof::bench
