// SPDX-License-Identifier: Apache-2.0
#include "reference/support/child_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <initializer_list>

#if defined(__linux__)
#include <sys/personality.h>
#include <sys/prctl.h>
#endif

namespace kvproof {
namespace {

// What is reserved and never written to costs nothing, and some programs reserve terabytes.
#if defined(__linux__)
constexpr auto kMemory = RLIMIT_DATA;
#else
constexpr auto kMemory = RLIMIT_AS;
#endif

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Pipes {
  std::array<int, 2> to{-1, -1};
  std::array<int, 2> from{-1, -1};
  std::array<int, 2> complaints{-1, -1};
  std::array<int, 2> failure{-1, -1};  // carries errno when the program cannot be started

  [[nodiscard]] bool open() {
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to.data()) == 0 &&
           pipe2(from.data(), O_CLOEXEC) == 0 && pipe2(complaints.data(), O_CLOEXEC) == 0 &&
           pipe2(failure.data(), O_CLOEXEC) == 0;
  }
};

void close_all(std::initializer_list<int> ends) {
  for (const int end : ends) {
    if (end >= 0) close(end);
  }
}

/// What the child does between fork and exec: only what is safe there. Never returns.
[[noreturn]] void become(const ChildCommand& command, char** argv, char** environment,
                         const Pipes& pipes) {
  setpgid(0, 0);
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (command.fixed_layout) {
    const int now = personality(0xffffffffUL);
    if (now >= 0) personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE);
  }
#endif
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (command.memory_bytes > 0) {
    const rlimit memory{command.memory_bytes, command.memory_bytes};
    setrlimit(kMemory, &memory);
  }
  forget_interrupts();
  std::signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(pipes.to[1], STDIN_FILENO) >= 0 && dup2(pipes.from[1], STDOUT_FILENO) >= 0 &&
      dup2(pipes.complaints[1], STDERR_FILENO) >= 0 &&
      (command.folder.empty() || chdir(command.folder.c_str()) == 0)) {
    if (environment != nullptr) {
      execvpe(argv[0], argv, environment);
    } else {
      execvp(argv[0], argv);
    }
  }
  const int reason = errno;
  const ssize_t written = write(pipes.failure[1], &reason, sizeof reason);
  _exit(written > 0 ? 127 : 126);
}

/// One stream of the child; closed when it has ended.
struct Stream {
  int from = -1;
  std::string* text = nullptr;
  const std::function<void(std::string_view)>& on_output;

  void receive() {
    char buffer[65536];
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got > 0) text->append(buffer, static_cast<std::size_t>(got));
    if (got > 0 && on_output) on_output({buffer, static_cast<std::size_t>(got)});
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
    if (waited_) {
      kill(-leader_, SIGKILL);  // what it has left behind
    } else {
      end_group(leader_);
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] int wait() {
    int status = 0;
    while (waitpid(leader_, &status, 0) < 0 && errno == EINTR) continue;
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

StartedChild start_child(const ChildCommand& command) {
  std::vector<char*> argv = pointers(command.argv);
  std::vector<char*> environment;
  if (command.environment) environment = pointers(*command.environment);
  Pipes pipes;
  const WithoutInterrupts until_it_is_held;
  const pid_t child = pipes.open() ? fork() : -1;
  if (child == 0) {
    become(command, argv.data(), command.environment ? environment.data() : nullptr, pipes);
  }
  int reason = errno;
  close_all({pipes.to[1], pipes.from[1], pipes.complaints[1], pipes.failure[1]});
  const bool failed = child < 0 || read(pipes.failure[0], &reason, sizeof reason) == sizeof reason;
  close_all({pipes.failure[0]});
  if (!failed) {
    setpgid(child, child);  // here too, so that it is done when it is needed
    return {child, pipes.to[0], pipes.from[0], pipes.complaints[0],
            std::make_unique<HeldGroup>(child)};
  }
  if (child > 0) waitpid(child, nullptr, 0);
  close_all({pipes.to[0], pipes.from[0], pipes.complaints[0]});
  throw std::runtime_error(std::string("cannot be started: ") + std::strerror(reason));
}

ChildEnd run_child(const ChildCommand& command) {
  ChildEnd end;
  StartedChild child;
  try {
    child = start_child(command);
  } catch (const std::runtime_error& error) {
    end.exit_code = 127;
    end.error = error.what();
    return end;
  }
  close(child.to);
  Stream streams[2] = {{child.from, &end.out, command.on_output},
                       {child.complaints, &end.error, command.on_output}};
  Group group(child.pid);
  end.timed_out = !listen_to(streams, command.limit_seconds);
  const int status = end.timed_out ? 0 : group.wait();
  close_all({streams[0].from, streams[1].from});
  if (end.timed_out) return end;
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  return end;
}

}  // namespace kvproof
