// SPDX-License-Identifier: Apache-2.0
// The three decoders (plain, gzip, zstd) and the line splitting on top of them.
#include "reference/support/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

namespace kvproof {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;  // one read, one step of decoding

/// The length of the byte order mark that some editors put before a text.
std::size_t byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? kMark.size() : 0;
}

/// The complaint of a decoder, to which the reader adds the file and the line.
struct DecodeError {
  std::string expected;
};

}  // namespace

/// The stored bytes, a chunk at a time. Owns the file descriptor.
class StoredBytes {
 public:
  StoredBytes(const std::string& path, double idle_seconds)
      : idle_seconds_(idle_seconds), chunk_(kChunkBytes) {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) fail_with_errno();
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail_with_errno();
    if (S_ISDIR(status.st_mode)) throw DecodeError{"a readable file, found a directory"};
    regular_ = S_ISREG(status.st_mode);
    if (regular_) size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  StoredBytes(const StoredBytes&) = delete;
  StoredBytes& operator=(const StoredBytes&) = delete;
  ~StoredBytes() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// The bytes that are not consumed yet, at least `wanted` of them unless the file ends before.
  /// @pre wanted <= kChunkBytes
  std::span<const char> peek(std::size_t wanted) {
    if (end_ - begin_ < wanted && !ended_) {
      std::memmove(chunk_.data(), chunk_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
      while (end_ < wanted && !ended_) read_more();
    }
    return {chunk_.data() + begin_, end_ - begin_};
  }

  void consume(std::size_t bytes) {
    begin_ += bytes;
    consumed_bytes_ += bytes;
  }

  [[nodiscard]] double fraction() const {
    if (size_bytes_ == 0) return 0;
    return std::min(1.0, static_cast<double>(consumed_bytes_) / static_cast<double>(size_bytes_));
  }

 private:
  [[noreturn]] static void fail_with_errno() {
    throw DecodeError{std::string("a readable file, found: ") + std::strerror(errno)};
  }

  void read_more() {
    const ::ssize_t got = ::read(fd_, chunk_.data() + end_, chunk_.size() - end_);
    if (got < 0 && errno == EINTR) return;
    if (got < 0) fail_with_errno();
    if (got == 0) wait();
    if (got > 0) waited_seconds_ = 0;
    end_ += static_cast<std::size_t>(got);
  }

  /// At the end of what is there. A pipe has an end of its own.
  void wait() {
    constexpr std::chrono::duration<double> kNap(0.02);
    ended_ = !regular_ || waited_seconds_ >= idle_seconds_;
    if (ended_) return;
    std::this_thread::sleep_for(kNap);
    waited_seconds_ += kNap.count();
  }

  int fd_ = -1;
  double idle_seconds_;
  double waited_seconds_ = 0;
  bool regular_ = false;
  std::uint64_t size_bytes_ = 0;  // 0 = not known
  std::uint64_t consumed_bytes_ = 0;
  std::vector<char> chunk_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool ended_ = false;
};

class ByteDecoder {
 public:
  explicit ByteDecoder(std::unique_ptr<StoredBytes> stored) : stored_(std::move(stored)) {}
  virtual ~ByteDecoder() = default;
  ByteDecoder(const ByteDecoder&) = delete;
  ByteDecoder& operator=(const ByteDecoder&) = delete;

  /// Writes between 1 and out.size() bytes and returns how many; 0 at the end. Throws DecodeError.
  virtual std::size_t decode(std::span<char> out) = 0;

  [[nodiscard]] double fraction() const { return stored_->fraction(); }

 protected:
  StoredBytes& stored() { return *stored_; }

 private:
  std::unique_ptr<StoredBytes> stored_;
};

namespace {

class PlainDecoder final : public ByteDecoder {
 public:
  using ByteDecoder::ByteDecoder;

  std::size_t decode(std::span<char> out) override {
    const std::span<const char> in = stored().peek(1);
    const std::size_t bytes = std::min(in.size(), out.size());
    std::copy_n(in.begin(), bytes, out.begin());
    stored().consume(bytes);
    return bytes;
  }
};

class GzipDecoder final : public ByteDecoder {
 public:
  explicit GzipDecoder(std::unique_ptr<StoredBytes> file) : ByteDecoder(std::move(file)) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }

  std::size_t decode(std::span<char> out) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    while (stream_.avail_out == out.size()) {  // nothing written yet
      const std::span<const char> in = stored().peek(1);
      if (in.empty() && between_members_) return 0;
      if (between_members_ && inflateReset(&stream_) != Z_OK) throw std::bad_alloc();
      step(in);
      // With nothing left to read, a call that writes nothing either will never write again.
      if (in.empty() && stream_.avail_out == out.size() && !between_members_) {
        throw DecodeError{"the rest of a gzip member, found the file's end"};
      }
    }
    return out.size() - stream_.avail_out;
  }

 private:
  void step(std::span<const char> in) {
    // zlib's interface lacks const here; it does not write to its input.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    stored().consume(in.size() - stream_.avail_in);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      const char* reason = stream_.msg != nullptr ? stream_.msg : "not gzip data";
      throw DecodeError{std::string("intact gzip data, found: ") + reason};
    }
    between_members_ = code == Z_STREAM_END;
  }

  z_stream stream_{};
  bool between_members_ = true;
};

class ZstdDecoder final : public ByteDecoder {
 public:
  ZstdDecoder(std::unique_ptr<StoredBytes> file, int max_window_log)
      : ByteDecoder(std::move(file)), context_(ZSTD_createDCtx()), max_window_log_(max_window_log) {
    if (context_ == nullptr) throw std::bad_alloc();
    const std::size_t code =
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, max_window_log);
    if (ZSTD_isError(code) != 0) throw DecodeError{"a window limit that zstd accepts"};
  }

  std::size_t decode(std::span<char> out) override {
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (output.pos == 0) {
      const std::span<const char> in = stored().peek(1);
      if (in.empty() && between_frames_) return 0;
      ZSTD_inBuffer input{in.data(), in.size(), 0};
      const std::size_t code = ZSTD_decompressStream(context_.get(), &output, &input);
      stored().consume(input.pos);
      if (ZSTD_isError(code) != 0) fail(code);
      between_frames_ = code == 0;
      // With nothing left to read, a call that writes nothing either will never write again.
      if (in.empty() && output.pos == 0 && !between_frames_) {
        throw DecodeError{"the rest of a zstd frame, found the file's end"};
      }
    }
    return output.pos;
  }

 private:
  struct FreeContext {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  [[noreturn]] void fail(std::size_t code) const {
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
      throw DecodeError{"a zstd window of at most " +
                        std::to_string(std::uint64_t{1} << max_window_log_) +
                        " bytes, found a larger one"};
    }
    throw DecodeError{std::string("intact zstd data, found: ") + ZSTD_getErrorName(code)};
  }

  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  int max_window_log_;
  bool between_frames_ = true;
};

std::unique_ptr<ByteDecoder> open_decoder(const std::string& path, const LineReaderLimits& limits) {
  auto file = std::make_unique<StoredBytes>(path, limits.idle_seconds);
  const std::span<const char> head = file->peek(4);
  std::array<unsigned char, 4> magic{};  // what a shorter file lacks stays 0, as in no magic
  for (std::size_t i = 0; i < magic.size() && i < head.size(); ++i) {
    magic[i] = static_cast<unsigned char>(head[i]);
  }
  if (magic[0] == 0x1f && magic[1] == 0x8b) {
    return std::make_unique<GzipDecoder>(std::move(file));
  }
  const bool zstd_frame =
      magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd;
  // pzstd writes a skippable frame first.
  const bool zstd_skippable =
      (magic[0] & 0xf0) == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18;
  if (zstd_frame || zstd_skippable) {
    return std::make_unique<ZstdDecoder>(std::move(file), limits.max_window_log);
  }
  return std::make_unique<PlainDecoder>(std::move(file));
}

}  // namespace

LineReader::LineReader(std::string path, LineReaderLimits limits)
    : path_(std::move(path)), limits_(limits) {
  try {
    decoder_ = open_decoder(path_, limits_);
  } catch (const DecodeError& error) {
    throw InputError(path_, 0, "", error.expected);
  }
}

LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

double LineReader::fraction_read() const { return decoder_->fraction(); }

void LineReader::fail(std::string field, std::string expected) const {
  throw InputError(path_, line_number_, std::move(field), std::move(expected));
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = begin_;  // no line ending in [begin_, searched)
  std::size_t stop = 0;           // where the line and its ending part
  bool complete = false;          // a line ending was found at `stop`
  while (true) {
    const void* found =
        searched == end_ ? nullptr : std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    complete = found != nullptr;
    if (complete) stop = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
    const std::size_t pending_bytes = end_ - begin_;
    if (complete || pending_bytes > limits_.max_line_bytes + 1) break;  // + 1 for a '\r'
    if (!fill()) break;
    searched = begin_ + pending_bytes;  // fill() moves what is pending
  }
  if (!complete) stop = end_;
  if (!complete && stop == begin_) return false;
  ++line_number_;
  if (line_number_ == 1) begin_ += byte_order_mark({buffer_.data() + begin_, stop - begin_});
  const bool carriage_return = stop > begin_ && buffer_[stop - 1] == '\r';
  line = {buffer_.data() + begin_, stop - begin_ - (carriage_return ? 1 : 0)};
  if (line.size() > limits_.max_line_bytes) {
    fail("", "a line of at most " + std::to_string(limits_.max_line_bytes) +
                 " bytes, found a longer one");
  }
  line_ended_ = complete;
  begin_ = complete ? stop + 1 : stop;
  return true;
}

bool LineReader::fill() {
  if (ended_) return false;
  if (begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  // Doubling keeps a long line linear; the limit on lines bounds it.
  if (buffer_.size() < end_ + kChunkBytes) {
    buffer_.resize(std::max(buffer_.size() * 2, 2 * kChunkBytes));
  }
  try {
    const std::size_t bytes = decoder_->decode(std::span(buffer_).subspan(end_, kChunkBytes));
    ended_ = bytes == 0;
    end_ += bytes;
  } catch (const DecodeError& error) {
    throw InputError(path_, line_number_ + 1, "", error.expected);
  }
  return !ended_;
}

}  // namespace kvproof
