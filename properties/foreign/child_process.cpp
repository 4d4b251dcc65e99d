// SPDX-License-Identifier: Apache-2.0
#include "properties/foreign/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "properties/say.h"
#include "properties/traces/input_error.h"

namespace kvproof::properties {
namespace {

constexpr std::size_t kKeptComplaintBytes = 4096;

struct Pipes {
  std::array<int, 2> to{-1, -1};
  std::array<int, 2> from{-1, -1};
  std::array<int, 2> complaints{-1, -1};
  std::array<int, 2> failure{-1, -1};  // carries errno when the program cannot be started
};

bool open_all(Pipes& pipes) {
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pipes.to.data()) == 0 &&
         pipe2(pipes.from.data(), O_CLOEXEC) == 0 &&
         pipe2(pipes.complaints.data(), O_CLOEXEC) == 0 &&
         pipe2(pipes.failure.data(), O_CLOEXEC) == 0;
}

// Runs between fork and exec, so it calls only functions that are safe there.
[[noreturn]] void become(const std::vector<char*>& argv, const Pipes& pipes) {
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  dup2(pipes.to[1], STDIN_FILENO);
  dup2(pipes.from[1], STDOUT_FILENO);
  dup2(pipes.complaints[1], STDERR_FILENO);
  execvp(argv[0], argv.data());
  const int reason = errno;
  const ssize_t ignored = write(pipes.failure[1], &reason, sizeof reason);
  _exit(ignored > 0 ? 127 : 126);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& argv) {
  Pipes pipes;
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const bool opened = open_all(pipes);
  pid_ = opened ? fork() : -1;
  if (pid_ == 0) become(words, pipes);
  const int reason = errno;
  for (const int end : {pipes.to[1], pipes.from[1], pipes.complaints[1], pipes.failure[1]}) {
    if (end >= 0) close(end);
  }
  to_ = pipes.to[0];
  from_ = pipes.from[0];
  complaints_ = pipes.complaints[0];
  int failure = 0;
  const bool failed =
      pid_ > 0 && read(pipes.failure[0], &failure, sizeof failure) == sizeof failure;
  if (pipes.failure[0] >= 0) close(pipes.failure[0]);
  if (pid_ > 0 && !failed) {
    setpgid(pid_, pid_);  // also here, so that it is done when it is needed
    for (const int end : {to_, from_, complaints_}) fcntl(end, F_SETFL, O_NONBLOCK);
    return;
  }
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  for (const int end : {to_, from_, complaints_}) {
    if (end >= 0) close(end);
  }
  pid_ = -1;
  throw ChildTrouble("crash", say("cannot be started: ", std::strerror(failed ? failure : reason)));
}

// The end of its input asks the program to end. After that it is killed, with all that it started.
ChildProcess::~ChildProcess() {
  close(to_);
  siginfo_t info{};
  for (int i = 0; i < 20 && pid_ > 0; ++i) {
    info.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(from_);
  close(complaints_);
}

std::string_view ChildProcess::ask(std::string_view line, double limit_seconds,
                                   std::size_t max_answer_bytes) {
  try {
    return exchange(line, limit_seconds, max_answer_bytes);
  } catch (const ChildTrouble&) {
    if (pid_ > 0) kill(-pid_, SIGKILL);  // without asking it first
    throw;
  }
}

std::string_view ChildProcess::exchange(std::string_view line, double limit_seconds,
                                        std::size_t max_answer_bytes) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(limit_seconds));
  if (!received_.empty()) throw ChildTrouble("nonsense", "it had answered with more than one line");
  std::string message(line);
  message += '\n';
  std::string_view rest = message;
  while (true) {
    if (!rest.empty() && !send_some(rest)) throw ChildTrouble("crash", how_it_ended());
    if (!receive_some(max_answer_bytes)) throw ChildTrouble("crash", how_it_ended());
    hear_complaints();
    const std::size_t end = received_.find('\n');
    if (end != std::string::npos) {
      if (!rest.empty()) throw ChildTrouble("nonsense", "it answered before it had read the line");
      answer_.assign(received_, 0, end);
      received_.erase(0, end + 1);
      if (!answer_.empty() && answer_.back() == '\r') answer_.pop_back();
      return answer_;
    }
    if (received_.size() > max_answer_bytes) {
      throw ChildTrouble("nonsense", say("its answer has more than ", max_answer_bytes, " bytes"));
    }
    wait_for_events(!rest.empty(), deadline, limit_seconds);
  }
}

void ChildProcess::wait_for_events(bool sending, Clock::time_point deadline, double limit_seconds) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  std::array<pollfd, 3> ends{{{from_, POLLIN, 0},
                              {complaints_, POLLIN, 0},
                              {to_, static_cast<short>(sending ? POLLOUT : 0), 0}}};
  const auto count = static_cast<nfds_t>(sending ? ends.size() : ends.size() - 1);
  if (left > 0) {
    const int ready =
        poll(ends.data(), count, static_cast<int>(std::min<std::int64_t>(left, 60000)));
    if (ready > 0 || (ready < 0 && errno == EINTR) || Clock::now() < deadline) {
      if ((ends[1].revents & POLLHUP) != 0 && (ends[1].revents & POLLIN) == 0) {
        close(complaints_);  // it has closed its stderr: poll ignores what is not open
        complaints_ = -1;
      }
      return;
    }
  }
  throw ChildTrouble("hang", say("no answer within ", limit_seconds, " s", last_words()));
}

bool ChildProcess::send_some(std::string_view& rest) {
  const ssize_t sent = send(to_, rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
  return sent >= 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool ChildProcess::receive_some(std::size_t max_answer_bytes) {
  std::array<char, 65536> bytes;
  while (received_.size() <= max_answer_bytes) {
    const ssize_t got = read(from_, bytes.data(), bytes.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    received_.append(bytes.data(), static_cast<std::size_t>(got));
    if (std::memchr(bytes.data(), '\n', static_cast<std::size_t>(got)) != nullptr) return true;
  }
  return true;
}

void ChildProcess::hear_complaints() {
  std::array<char, 4096> bytes;
  if (complaints_ < 0) return;
  for (int i = 0; i < 16; ++i) {  // a flood must not keep us from the answer
    const ssize_t got = read(complaints_, bytes.data(), bytes.size());
    if (got <= 0) return;
    said_.append(bytes.data(), static_cast<std::size_t>(got));
    if (said_.size() > kKeptComplaintBytes) said_.erase(0, said_.size() - kKeptComplaintBytes);
  }
}

std::string ChildProcess::how_it_ended() {
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 50 && ended == 0; ++i) {
    ended = waitpid(pid_, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  hear_complaints();
  if (ended == 0) return "it closed its output without an answer" + last_words();
  kill(-pid_, SIGKILL);  // also kills the processes that it has started
  pid_ = -1;
  if (WIFSIGNALED(status)) {
    return say("it was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")",
               last_words());
  }
  return say("it ended with exit code ", WEXITSTATUS(status), last_words());
}

/// The last line that the program wrote to stderr.
std::string ChildProcess::last_words() const {
  std::size_t end = said_.find_last_not_of("\r\n ");
  if (end == std::string::npos) return {};
  const std::size_t start = said_.rfind('\n', end);
  const std::size_t first = start == std::string::npos ? 0 : start + 1;
  return "; its last words: " +
         printable(std::string_view(said_).substr(first, end + 1 - first), 200);
}

}  // namespace kvproof::properties
