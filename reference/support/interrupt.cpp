// SPDX-License-Identifier: Apache-2.0
#include "reference/support/interrupt.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "reference/support/input_error.h"

namespace kvproof {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr std::size_t kMostGroups = 64;
constexpr std::size_t kMostPaths = 16;
constexpr std::size_t kPathBytes = 4096;

// The handler reads these, so they are plain memory that is never moved.
std::array<std::atomic<pid_t>, kMostGroups> groups;  // 0 = a free slot
struct PathSlot {
  std::atomic<bool> taken = false;
  std::atomic<bool> ready = false;  // the text is whole
  char text[kPathBytes] = {};
};
std::array<PathSlot, kMostPaths> paths;

sigset_t signal_set() {
  sigset_t out;
  sigemptyset(&out);
  for (const int number : kSignals) sigaddset(&out, number);
  return out;
}

void sleep_briefly() {
  const timespec pause{0, 10'000'000};
  nanosleep(&pause, nullptr);
}

/// Removes a file or a tree, by calls that a signal handler may make.
void remove_path(char* path) {
  if (unlink(path) == 0 || errno == ENOENT) return;
  char program[] = "/bin/rm", option[] = "-rf", end_of_options[] = "--";
  char* argv[] = {program, option, end_of_options, path, nullptr};
  char* environment[] = {nullptr};
  const pid_t child = vfork();
  if (child == 0) {
    execve(program, argv, environment);
    _exit(127);
  }
  if (child > 0) waitpid(child, nullptr, 0);
}

void clean_up(int number) {
  for (std::atomic<pid_t>& slot : groups) {
    if (const pid_t leader = slot.load(); leader > 0) end_group(leader);
  }
  for (PathSlot& slot : paths) {
    if (slot.ready) remove_path(slot.text);
  }
  signal(number, SIG_DFL);
  sigset_t arrives;
  sigemptyset(&arrives);
  sigaddset(&arrives, number);
  raise(number);
  sigprocmask(SIG_UNBLOCK, &arrives, nullptr);
}

}  // namespace

void clean_up_on_interrupts() {
  struct sigaction action = {};
  action.sa_handler = clean_up;
  action.sa_mask = signal_set();
  for (const int number : kSignals) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);  // as nohup wants it
  }
}

void forget_interrupts() {
  for (const int number : kSignals) signal(number, SIG_DFL);
}

WithoutInterrupts::WithoutInterrupts() {
  const sigset_t held = signal_set();
  pthread_sigmask(SIG_BLOCK, &held, &before_);
}

WithoutInterrupts::~WithoutInterrupts() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void end_group(pid_t leader) {
  kill(-leader, SIGTERM);
  bool waited = false;  // or the leader would count as there
  for (int i = 0; i < 200 && kill(-leader, 0) == 0; ++i) {
    waited = waited || waitpid(leader, nullptr, WNOHANG) != 0;
    sleep_briefly();
  }
  kill(-leader, SIGKILL);
  if (!waited) waitpid(leader, nullptr, 0);
}

HeldGroup::HeldGroup(pid_t leader) : slot_(0) {
  for (; slot_ < groups.size(); ++slot_) {
    pid_t free = 0;
    if (groups[slot_].compare_exchange_strong(free, leader)) return;
  }
  throw std::runtime_error("more than 64 programs at once");
}

HeldGroup::~HeldGroup() { groups[slot_] = 0; }

std::filesystem::path temporary_folder() {
  std::error_code error;
  const std::filesystem::path out = std::filesystem::temp_directory_path(error);
  if (!error) return out;
  const char* named = std::getenv("TMPDIR");
  throw InputError(std::string("TMPDIR=") + (named != nullptr ? named : "/tmp"), 0, "",
                   "a folder: " + error.message());
}

Temporary::Temporary(std::filesystem::path path) : path_(std::move(path)), slot_(0) {
  const std::string& text = path_.native();
  if (text.size() >= kPathBytes) throw std::runtime_error(text + ": a path that is too long");
  for (; slot_ < paths.size(); ++slot_) {
    PathSlot& slot = paths[slot_];
    if (slot.taken.exchange(true)) continue;
    std::memcpy(slot.text, text.c_str(), text.size() + 1);
    slot.ready = true;
    return;
  }
  throw std::runtime_error("more than 16 temporary files at once");
}

Temporary::~Temporary() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  paths[slot_].ready = false;
  paths[slot_].taken = false;
}

}  // namespace kvproof
