// SPDX-License-Identifier: Apache-2.0
#include "reference/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <thread>

#include "reference/support/input_error.h"
#include "reference/support/say.h"

namespace kvproof {
namespace {

constexpr std::size_t kKeptComplaintBytes = 16384;
constexpr int kLastLines = 10;

/// Whether a complaint may come from the limit of memory: bad_alloc, MemoryError, "out of memory".
bool speaks_of_memory(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find("memory") != std::string::npos || text.find("bad_alloc") != std::string::npos;
}

}  // namespace

ChildProcess::ChildProcess(const ChildCommand& command) : memory_bytes_(command.memory_bytes) {
  try {
    child_ = start_child(command);
  } catch (const std::runtime_error& error) {
    throw ChildTrouble("crash", error.what());
  }
  for (const int end : {child_.to, child_.from, child_.complaints}) fcntl(end, F_SETFL, O_NONBLOCK);
}

// The end of its input asks the program to end. After that it is killed, with all that it started.
ChildProcess::~ChildProcess() {
  close(child_.to);
  siginfo_t info{};
  for (int i = 0; i < 20 && child_.pid > 0; ++i) {
    info.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(child_.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
      break;
    if (info.si_pid != 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (child_.pid > 0) {
    kill(-child_.pid, SIGKILL);
    waitpid(child_.pid, nullptr, 0);
  }
  close(child_.from);
  close(child_.complaints);
}

std::string_view ChildProcess::ask(std::string_view line, double limit_seconds,
                                   std::size_t max_answer_bytes) {
  try {
    return exchange(line, limit_seconds, max_answer_bytes);
  } catch (const ChildTrouble&) {
    if (child_.pid > 0) kill(-child_.pid, SIGKILL);  // it is not asked to go
    throw;
  }
}

std::string_view ChildProcess::exchange(std::string_view line, double limit_seconds,
                                        std::size_t max_answer_bytes) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(limit_seconds));
  if (!received_.empty()) throw ChildTrouble("nonsense", "it had answered with more than one line");
  lately_.clear();
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
  std::array<pollfd, 3> ends{{{child_.from, POLLIN, 0},
                              {child_.complaints, POLLIN, 0},
                              {child_.to, static_cast<short>(sending ? POLLOUT : 0), 0}}};
  const auto count = static_cast<nfds_t>(sending ? ends.size() : ends.size() - 1);
  if (left > 0) {
    const int ready =
        poll(ends.data(), count, static_cast<int>(std::min<std::int64_t>(left, 60000)));
    if (ready > 0 || (ready < 0 && errno == EINTR) || Clock::now() < deadline) {
      if ((ends[1].revents & POLLHUP) != 0 && (ends[1].revents & POLLIN) == 0) {
        close(child_.complaints);  // it has closed its stderr: poll ignores what is not open
        child_.complaints = -1;
      }
      return;
    }
  }
  throw ChildTrouble("hang", say("no answer within ", limit_seconds, " s", last_words()));
}

bool ChildProcess::send_some(std::string_view& rest) {
  const ssize_t sent = send(child_.to, rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
  return sent >= 0 || errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

bool ChildProcess::receive_some(std::size_t max_answer_bytes) {
  std::array<char, 65536> bytes;
  while (received_.size() <= max_answer_bytes) {
    const ssize_t got = read(child_.from, bytes.data(), bytes.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    received_.append(bytes.data(), static_cast<std::size_t>(got));
    if (std::memchr(bytes.data(), '\n', static_cast<std::size_t>(got)) != nullptr) return true;
  }
  return true;
}

void ChildProcess::hear_complaints() {
  std::array<char, 4096> bytes;
  if (child_.complaints < 0) return;
  for (int i = 0; i < 16; ++i) {  // a flood must not keep us from the answer
    const ssize_t got = read(child_.complaints, bytes.data(), bytes.size());
    if (got <= 0) return;
    said_.append(bytes.data(), static_cast<std::size_t>(got));
    if (said_.size() > kKeptComplaintBytes) said_.erase(0, said_.size() - kKeptComplaintBytes);
    if (lately_.size() < kKeptComplaintBytes) lately_.append(bytes.data(), std::size_t(got));
  }
}

std::string ChildProcess::how_it_ended() {
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 50 && ended == 0; ++i) {
    ended = waitpid(child_.pid, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  hear_complaints();
  if (ended == 0) return "it closed its output without an answer" + last_words();
  kill(-child_.pid, SIGKILL);  // what it has started goes with it
  child_.pid = -1;
  child_.held.reset();
  if (WIFSIGNALED(status)) {
    return say("it was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")",
               last_words());
  }
  return say("it ended with exit code ", WEXITSTATUS(status), last_words());
}

/// The last lines that the program wrote to stderr; several are put below each other.
std::string ChildProcess::last_words() const {
  std::string lines;
  std::string_view rest = said_;
  const auto is_end = [](char c) { return c == '\r' || c == '\n' || c == ' '; };
  for (int i = 0; i < kLastLines; ++i) {
    while (!rest.empty() && is_end(rest.back())) rest.remove_suffix(1);
    if (rest.empty()) break;
    const std::size_t start = rest.rfind('\n') + 1;  // npos + 1 is 0
    lines.insert(0, "\n    " + printable(rest.substr(start), 200));
    rest.remove_suffix(rest.size() - start);
  }
  if (lines.empty()) return {};
  const bool one = lines.rfind('\n') == 0;
  std::string out = "; its last words:" + (one ? lines.substr(4) : lines);
  if (memory_bytes_ > 0 && speaks_of_memory(said_)) {
    out += say("; it may take ", static_cast<double>(memory_bytes_) / 0x1p30,
               " GiB of memory (--memory-limit-gib)");
  }
  return out;
}

}  // namespace kvproof
