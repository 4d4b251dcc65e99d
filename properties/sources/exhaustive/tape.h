// SPDX-License-Identifier: Apache-2.0
// A long sequence: its end is in memory, and what does not fit there is in a file without a name.
//
// Model:   what is pushed stays as it is. The system removes the file with this process, however it
//          ends, because no folder names it. Parts of the sequence may be sorted runs, which are
//          merged as they are read.
// Leaves out: removal of single items, and two threads at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <queue>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvproof::properties::exhaustive {

/// In the temporary folder (TMPDIR), made by the first call that writes. Throws InputError, which
/// names that folder, for what the disk cannot do.
class NamelessFile {
 public:
  void write(std::uint64_t at, const void* from, std::size_t bytes);
  void read(std::uint64_t at, void* to, std::size_t bytes) const;

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
};

template <class T>
class Tape {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// @param most_in_memory [items] at least 1
  explicit Tape(std::uint64_t most_in_memory) : most_in_memory_(most_in_memory) {}

  void push(const T& item) {
    if (end_.size() >= most_in_memory_) {
      file_.write(in_file_ * sizeof(T), end_.data(), end_.size() * sizeof(T));
      in_file_ += end_.size();
      end_.clear();
    }
    end_.push_back(item);
  }

  /// Copies what begins at `first`: as much as fits into `out`, which is cut if there is less.
  void read(std::uint64_t first, std::vector<T>& out) const {
    out.resize(std::min<std::uint64_t>(size() - first, out.size()));
    const auto from_file =
        std::min<std::uint64_t>(in_file_ - std::min(in_file_, first), out.size());
    if (from_file > 0) file_.read(first * sizeof(T), out.data(), from_file * sizeof(T));
    const T* const from_memory = end_.data() + (first + from_file - in_file_);
    std::copy_n(from_memory, out.size() - from_file, out.data() + from_file);
  }

  [[nodiscard]] std::uint64_t size() const { return in_file_ + end_.size(); }
  [[nodiscard]] std::uint64_t disk_bytes() const { return in_file_ * sizeof(T); }
  [[nodiscard]] std::uint64_t memory_bytes() const { return end_.capacity() * sizeof(T); }

 private:
  std::uint64_t most_in_memory_;
  std::uint64_t in_file_ = 0;  // [items]
  std::vector<T> end_;
  NamelessFile file_;
};

/// Reads a tape that may still grow, cheaply where the next item is near the one before.
template <class T>
class Cursor {
 public:
  static constexpr std::size_t kBytes = 16384;

  explicit Cursor(const Tape<T>& tape) : tape_(&tape) {}

  [[nodiscard]] const T& at(std::uint64_t index) {
    if (index < first_ || index - first_ >= items_.size()) {
      items_.resize(kBytes / sizeof(T));
      tape_->read(index, items_);
      first_ = index;
    }
    return items_[index - first_];
  }

 private:
  const Tape<T>* tape_;
  std::vector<T> items_;
  std::uint64_t first_ = 0;
};

/// A sorted part of a tape.
struct Run {
  std::uint64_t begin;
  std::uint64_t end;
};

/// The items of runs in order, equal ones one after the other.
template <class T>
class Merge {
 public:
  Merge(const Tape<T>& tape, std::vector<Run> runs)
      : rest_(std::move(runs)), cursors_(rest_.size(), Cursor<T>(tape)) {
    for (std::size_t run = 0; run < rest_.size(); ++run) refill(run);
  }

  [[nodiscard]] bool done() const { return heads_.empty(); }
  [[nodiscard]] const T& front() const { return heads_.top().first; }
  [[nodiscard]] std::uint64_t popped() const { return popped_; }
  [[nodiscard]] std::uint64_t memory_bytes() const { return cursors_.size() * Cursor<T>::kBytes; }

  void pop() {
    const std::size_t run = heads_.top().second;
    heads_.pop();
    ++popped_;
    refill(run);
  }

 private:
  void refill(std::size_t run) {
    if (rest_[run].begin == rest_[run].end) return;
    heads_.emplace(cursors_[run].at(rest_[run].begin++), run);
  }

  using Head = std::pair<T, std::size_t>;  // the next item of a run
  std::vector<Run> rest_;
  std::vector<Cursor<T>> cursors_;
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
  std::uint64_t popped_ = 0;
};

}  // namespace kvproof::properties::exhaustive
