// SPDX-License-Identifier: Apache-2.0
// What a program that is interrupted does not leave behind: the programs that it has started, and
// its temporary files.
//
// Model:   whoever starts a process group or makes a temporary file holds an object that says so.
//          On SIGINT, SIGTERM and SIGHUP a signal handler ends these groups, removes these files,
//          and lets the signal end the process, at any moment and in any thread.
// Leaves out: SIGKILL. Linux ends the programs then; the files stay.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <filesystem>

namespace kvproof {

/// From now on those signals clean up before they end this process.
void clean_up_on_interrupts();

/// For a child before its exec: these signals only end it, since what it knows of is its parent's.
void forget_interrupts();

/// Holds off those signals; they arrive when this goes out of scope.
class WithoutInterrupts {
 public:
  WithoutInterrupts();
  ~WithoutInterrupts();
  WithoutInterrupts(const WithoutInterrupts&) = delete;
  WithoutInterrupts& operator=(const WithoutInterrupts&) = delete;

 private:
  sigset_t before_;
};

/// Asks a process group to end, so that it can end what it has started in groups of their own (as
/// ninja does with compilers), and kills what is there after two seconds. Waits for its leader.
void end_group(pid_t leader);

/// A process group that an interrupt ends. It must have been started while interrupts were held
/// off, or there is a moment in which nobody knows of it.
class HeldGroup {
 public:
  explicit HeldGroup(pid_t leader);
  ~HeldGroup();
  HeldGroup(const HeldGroup&) = delete;
  HeldGroup& operator=(const HeldGroup&) = delete;

 private:
  std::size_t slot_;
};

/// Where temporary files go. @throws std::runtime_error that names a folder that is not there
[[nodiscard]] std::filesystem::path temporary_folder();

/// A temporary file, or a folder with what is in it: removed with this object, and by an interrupt.
class Temporary {
 public:
  /// @param path absolute, and below 4096 bytes; it need not exist yet
  explicit Temporary(std::filesystem::path path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::size_t slot_;
};

}  // namespace kvproof
