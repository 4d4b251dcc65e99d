// SPDX-License-Identifier: Apache-2.0
#include "optimized/pool/vllm_hashing.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace kvproof::optimized {
namespace {

/// What the extra keys are called.
enum Word : std::size_t { kLora, kMm, kSalt, kEmbeds, kLayout, kNumWords };
constexpr std::array<std::string_view, kNumWords> kWords = {"lora", "mm", "cache_salt",
                                                            "prompt_embeds", "layout"};

/// Appends the lowest `bytes` bytes of a value, lowest first.
void append_little(std::uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

/// What Python's pickle writes for a value of tuples, integers, texts and bytes. A text or tuple is
/// noted under the next number, and an object that comes again is a reference to that number.
class PickleWriter {
 public:
  explicit PickleWriter(std::string& out) : out_(out) {
    words_.fill(kNotNoted);
    single_.fill(kNotNoted);
    out_.assign("\x80\x05", 2);
  }

  void finish() {
    write_code('.');
    close_frame();
  }
  void open_tuple(std::size_t size) {
    begin_object();
    if (size > kMostCounted) write_code('(');
  }
  void close_tuple(std::size_t size) {
    static constexpr char kCodes[] = {')', '\x85', '\x86', '\x87', 't'};
    write_code(kCodes[std::min(size, kMostCounted + 1)]);
    if (size > 0) note();
  }
  void none() {
    begin_object();
    write_code('N');
  }
  void integer(std::int64_t value);
  void bytes(const void* data, std::size_t size) {
    begin_object();
    sized('C', 'B', std::string_view(static_cast<const char*>(data), size));
    note();
  }
  /// A text of the caller. Two that are equal are two objects, but Python has each text of one
  /// Latin-1 character, and the empty one, only once.
  void text(std::string_view text) {
    if (std::uint32_t* const number = only_one(text)) return known_text(text, *number);
    plain_text(text);
  }
  /// A text of vLLM's source, which is one object.
  void word(Word word) { known_text(kWords[word], words_[word]); }

 private:
  static constexpr std::uint32_t kNotNoted = ~0U;
  static constexpr std::size_t kMostCounted = 3;      // longer tuples start with a mark
  static constexpr std::size_t kFrame = 64 * 1024;    // [bytes] a frame ends when it has so many
  static constexpr std::size_t kShortestFrame = 4;    // [bytes] what is shorter is not framed
  static constexpr std::size_t kFrameHeader = 1 + 8;  // [bytes]
  static constexpr std::size_t kNoFrame = ~std::size_t{0};

  void begin_object() {
    if (frame_ != kNoFrame && out_.size() - frame_ - kFrameHeader >= kFrame) close_frame();
  }
  void write(const char* data, std::size_t size) {
    if (frame_ == kNoFrame && framing_) {
      frame_ = out_.size();
      out_.append(kFrameHeader, '\0');
    }
    out_.append(data, size);
  }
  /// A code, and `bytes` bytes of a value behind it.
  void write_code(char code, std::uint64_t value = 0, int bytes = 0) {
    write(&code, 1);
    append_little(value, bytes, out_);
  }
  void close_frame() {
    if (frame_ == kNoFrame) return;
    const std::uint64_t size = out_.size() - frame_ - kFrameHeader;
    if (size < kShortestFrame) {
      out_.erase(frame_, kFrameHeader);
    } else {
      out_[frame_] = '\x95';
      for (std::size_t i = 0; i < 8; ++i) out_[frame_ + 1 + i] = static_cast<char>(size >> (8 * i));
    }
    frame_ = kNoFrame;
  }
  void note() {
    write_code('\x94');
    ++num_noted_;
  }
  void plain_text(std::string_view text) {
    begin_object();
    sized('\x8c', 'X', text);
    note();
  }
  void known_text(std::string_view text, std::uint32_t& number);
  void sized(char code8, char code32, std::string_view content);
  std::uint32_t* only_one(std::string_view text);

  std::string& out_;
  std::size_t frame_ = kNoFrame;  // where the open frame starts
  bool framing_ = true;
  std::uint32_t num_noted_ = 0;
  std::array<std::uint32_t, kNumWords> words_;
  std::array<std::uint32_t, 257> single_;  // of each Latin-1 character, and of the empty text
};

void PickleWriter::integer(std::int64_t value) {
  begin_object();
  const auto bits = static_cast<std::uint64_t>(value);
  if (bits <= 0xff) return write_code('K', bits, 1);
  if (bits <= 0xffff) return write_code('M', bits, 2);
  if (value == static_cast<std::int32_t>(value)) return write_code('J', bits, 4);
  constexpr int kBytes = 5;  // which hold a difference of two positions with its sign
  write_code('\x8a', kBytes, 1);
  append_little(bits, kBytes, out_);
}

void PickleWriter::known_text(std::string_view text, std::uint32_t& number) {
  if (number == kNotNoted) {
    number = num_noted_;
    plain_text(text);
    return;
  }
  begin_object();
  if (number <= 0xff) return write_code('h', number, 1);
  write_code('j', number, 4);
}

// What is as long as a frame stands outside of any. Nobody sends a text of 4 GiB.
void PickleWriter::sized(char code8, char code32, std::string_view content) {
  const std::size_t size = content.size();
  if (size >= kFrame) {
    close_frame();
    framing_ = false;
  }
  if (size <= 0xff) {
    write_code(code8, size, 1);
  } else {
    write_code(code32, size, 4);
  }
  write(content.data(), size);
  framing_ = true;
}

std::uint32_t* PickleWriter::only_one(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return &single_[256];
  if (text.size() == 1 && byte(0) < 0x80) return &single_[byte(0)];
  const bool latin = text.size() == 2 && (byte(0) == 0xc2 || byte(0) == 0xc3);
  return latin ? &single_[(byte(0) & 3U) << 6 | (byte(1) & 0x3fU)] : nullptr;
}

/// Canonical CBOR: every length and integer in the fewest bytes, and no references.
class CborWriter {
 public:
  explicit CborWriter(std::string& out) : out_(out) { out_.clear(); }

  void finish() {}
  void open_tuple(std::size_t size) { head(4, size); }
  void close_tuple(std::size_t) {}
  void none() { out_.push_back('\xf6'); }
  void integer(std::int64_t value) {
    const bool negative = value < 0;
    head(negative ? 1 : 0, static_cast<std::uint64_t>(negative ? ~value : value));
  }
  void bytes(const void* data, std::size_t size) {
    head(2, size);
    out_.append(static_cast<const char*>(data), size);
  }
  void text(std::string_view text) {
    head(3, text.size());
    out_ += text;
  }
  void word(Word word) { text(kWords[word]); }

 private:
  void head(unsigned type, std::uint64_t value) {
    if (value < 24) return out_.push_back(static_cast<char>(type << 5 | value));
    int log = 0;  // of the number of bytes
    while (log < 3 && value >> (8 << log) != 0) ++log;
    out_.push_back(static_cast<char>(type << 5 | (24U + static_cast<unsigned>(log))));
    for (int i = (1 << log) - 1; i >= 0; --i) out_.push_back(static_cast<char>(value >> (8 * i)));
  }

  std::string& out_;
};

bool overlaps(const MultimodalItem& item, std::uint64_t start, std::uint64_t end) {
  return item.offset < end && std::uint64_t{item.offset} + item.length > start;
}

bool has_adapter(const ExtraKeys& extra) { return !extra.lora.empty() || !extra.lora_path.empty(); }

std::size_t num_entries(const ExtraKeys& extra, std::uint64_t start, std::uint64_t end) {
  const auto inside = [&](const MultimodalItem& item) { return overlaps(item, start, end); };
  std::size_t out = has_adapter(extra) ? 1 : 0;
  out += static_cast<std::size_t>(std::ranges::count_if(extra.mm, inside));
  out += static_cast<std::size_t>(std::ranges::count_if(extra.embeds, inside));
  if (start == 0) out += (extra.salt.empty() ? 0 : 1) + (extra.layout.empty() ? 0 : 1);
  return out;
}

template <class Writer>
void write_text(Writer& out, Word word, std::string_view text) {
  out.open_tuple(2);
  out.word(word);
  out.text(text);
  out.close_tuple(2);
}

template <class Writer>
void write_rows(Writer& out, const MultimodalItem& rows, std::uint64_t start) {
  const std::size_t size = rows.offset == start ? 2 : 3;
  out.open_tuple(size);
  out.word(kEmbeds);
  out.bytes(rows.id.data(), rows.id.size());
  if (size == 3) out.integer(std::int64_t{rows.offset} - static_cast<std::int64_t>(start));
  out.close_tuple(size);
}

/// The extra keys of the tokens [start, end).
template <class Writer>
void write_extra(Writer& out, const ExtraKeys* extra, std::uint64_t start, std::uint64_t end) {
  const std::size_t size = extra == nullptr ? 0 : num_entries(*extra, start, end);
  if (size == 0) return out.none();
  out.open_tuple(size);
  if (has_adapter(*extra)) {
    out.open_tuple(3);
    out.word(kLora);
    out.text(extra->lora);
    out.text(extra->lora_path);
    out.close_tuple(3);
  }
  for (const MultimodalItem& item : extra->mm) {
    if (!overlaps(item, start, end)) continue;
    out.open_tuple(3);
    out.word(kMm);
    out.text(item.id);
    out.integer(std::int64_t{item.offset} - static_cast<std::int64_t>(start));
    out.close_tuple(3);
  }
  if (start == 0 && !extra->salt.empty()) write_text(out, kSalt, extra->salt);
  for (const MultimodalItem& rows : extra->embeds) {
    if (overlaps(rows, start, end)) write_rows(out, rows, start);
  }
  if (start == 0 && !extra->layout.empty()) write_text(out, kLayout, extra->layout);
  out.close_tuple(size);
}

template <class Writer>
void write_unit(const Key256& parent, const KeyedUnit& unit, std::string& message) {
  Writer out(message);
  out.open_tuple(3);
  out.bytes(parent.words.data(), sizeof(parent.words));
  out.open_tuple(unit.unit_tokens);
  for (std::uint32_t i = 0; i < unit.unit_tokens; ++i) out.integer(unit.tokens[i]);
  out.close_tuple(unit.unit_tokens);
  const std::uint64_t covered = std::uint64_t{unit.unit_tokens} + unit.lookahead;
  if (unit.lookahead > 0) out.open_tuple(1 + std::size_t{unit.lookahead});
  write_extra(out, unit.extra, unit.start, unit.start + covered);
  for (std::uint64_t i = unit.unit_tokens; i < covered; ++i) out.integer(unit.tokens[i]);
  if (unit.lookahead > 0) out.close_tuple(1 + std::size_t{unit.lookahead});
  out.close_tuple(3);
  out.finish();
}

template <class Writer>
void write_seed(const std::string& seed, std::string& message) {
  Writer out(message);
  out.text(seed);
  out.finish();
}

constexpr std::size_t kVllmEntryBytes = 64;  // the most of an entry but its texts

/// No message of a unit is longer, but for its extra keys.
std::size_t most_bytes(std::size_t tokens) {
  constexpr std::size_t kTokenBytes = 5;
  constexpr std::size_t kFrameTokens = 8 * 1024;  // a frame has more of them
  constexpr std::size_t kRest = 128;
  return kTokenBytes * tokens + 9 * (tokens / kFrameTokens) + kRest;
}

std::string root_seed(std::uint64_t seed) {
  if (seed != 0) return std::to_string(seed);
  const char* const of_python = std::getenv("PYTHONHASHSEED");
  return of_python == nullptr ? "vllm-none-hash" : of_python;
}

}  // namespace

void VllmSha256Digest::write(const Key& parent, const KeyedUnit& unit, std::string& message) {
  write_unit<PickleWriter>(parent, unit, message);
}
void VllmSha256Digest::write(const std::string& seed, std::string& message) {
  write_seed<PickleWriter>(seed, message);
}
void VllmSha256CborDigest::write(const Key& parent, const KeyedUnit& unit, std::string& message) {
  write_unit<CborWriter>(parent, unit, message);
}
void VllmSha256CborDigest::write(const std::string& seed, std::string& message) {
  write_seed<CborWriter>(seed, message);
}

template <class Digest>
VllmChainHasher<Digest>::VllmChainHasher(std::uint32_t unit_tokens, std::uint64_t seed,
                                         std::uint32_t lookahead)
    : unit_tokens_(unit_tokens), lookahead_(lookahead) {
  Digest::write(root_seed(seed), message_);
  root_ = Sha256Digest{}(message_.data(), message_.size());
  message_.reserve(most_bytes(std::size_t{unit_tokens} + lookahead));
}

template <class Digest>
void VllmChainHasher<Digest>::reserve(const ExtraKeys& extra) {
  const std::size_t entries = 4 + extra.mm.size() + extra.embeds.size();
  message_.reserve(most_bytes(std::size_t{unit_tokens_} + lookahead_) + entries * kVllmEntryBytes +
                   extra_key_bytes(extra));
}

template <class Digest>
void VllmChainHasher<Digest>::hash(const TokenId* tokens, const ExtraKeys* extra,
                                   std::uint32_t first, std::uint32_t count, Key* keys) {
  const Key* parent = first == 0 ? &root_ : keys + first - 1;
  for (std::uint32_t unit = first; unit < first + count; ++unit) {
    const std::uint32_t start = unit * unit_tokens_;
    Digest::write(*parent, {tokens + start, start, unit_tokens_, lookahead_, extra}, message_);
    keys[unit] = Sha256Digest{}(message_.data(), message_.size());
    parent = keys + unit;
  }
}

template class VllmChainHasher<VllmSha256Digest>;
template class VllmChainHasher<VllmSha256CborDigest>;

}  // namespace kvproof::optimized
