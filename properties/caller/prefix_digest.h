// SPDX-License-Identifier: Apache-2.0
// The 64-bit identity of the bytes at one token position: they depend on all tokens up to it and on
// the extra keys.
//
// Model:   the chain of reference/identity.h. Before the first token of a hash unit the unit's
//          typed extra keys are linked in: adapter and its path, images and embedded rows that
//          overlap it with their offset from its start, and salt and layout for unit 0. So it is
//          equal at the ends of two units exactly if their blocks may be shared.
// Source:  operations alone. It is not the hash of any allocator.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/identity.h"
#include "reference/operations.h"

namespace kvproof::properties {

class PrefixDigest {
 public:
  /// @param lookahead [tokens] behind a unit whose extra keys count as the unit's, too
  PrefixDigest(ExtraKeys extra, std::uint32_t unit_tokens, std::uint32_t lookahead = 0)
      : extra_(std::make_shared<const ExtraKeys>(std::move(extra))),
        unit_tokens_(unit_tokens),
        lookahead_(lookahead) {}

  /// Takes the next token of the sequence. @return the digest of the prefix that ends with it.
  std::uint64_t next(TokenId token) {
    if (position_ % unit_tokens_ == 0) begin_unit();
    mix(static_cast<std::uint32_t>(token));
    ++position_;
    return state_;
  }

  [[nodiscard]] std::uint32_t num_tokens() const { return position_; }

 private:
  // Each kind has its own tag, so that an adapter and a salt of one name stay apart.
  void begin_unit() {
    if (!extra_->lora.empty()) mix_text(1, extra_->lora);
    if (!extra_->lora_path.empty()) mix_text(7, extra_->lora_path);
    mix_overlapping(2, extra_->mm);
    mix_overlapping(5, extra_->embeds);
    if (position_ == 0 && !extra_->salt.empty()) mix_text(3, extra_->salt);
    if (position_ == 0 && !extra_->layout.empty()) mix_text(6, extra_->layout);
    mix(4);
  }

  void mix_overlapping(std::uint64_t tag, const std::vector<MultimodalItem>& items) {
    const std::uint64_t end = std::uint64_t{position_} + unit_tokens_ + lookahead_;
    for (const MultimodalItem& item : items) {
      if (item.offset >= end || std::uint64_t{item.offset} + item.length <= position_) continue;
      mix_text(tag, item.id);
      mix(std::uint64_t{item.offset} - std::uint64_t{position_});
    }
  }

  void mix_text(std::uint64_t tag, std::string_view text) {
    mix(tag);
    mix(text.size());
    for (char c : text) mix(static_cast<unsigned char>(c));
  }

  void mix(std::uint64_t value) { state_ = link(state_, value); }

  std::shared_ptr<const ExtraKeys> extra_;  // copies of the digest share it
  std::uint32_t unit_tokens_;
  std::uint32_t lookahead_;
  std::uint32_t position_ = 0;  // [tokens] taken so far
  Identity state_ = kEmptyPrefix;
};

/// The identities of the hash units of a sequence: of all tokens up to the end of a unit, and of
/// the lookahead behind it.
class UnitDigest {
 public:
  UnitDigest(ExtraKeys extra, std::uint32_t unit_tokens, std::uint32_t lookahead)
      : prefix_(std::move(extra), unit_tokens, lookahead),
        unit_tokens_(unit_tokens),
        lookahead_(lookahead) {}

  /// Takes the next token of the sequence. If that makes a unit known, its identity is appended.
  void next(TokenId token, std::vector<std::uint64_t>& units) {
    for (std::uint64_t& unit : open_) unit = link(unit, token);
    const std::uint64_t prefix = prefix_.next(token);
    const std::uint32_t taken = prefix_.num_tokens();
    if (taken % unit_tokens_ == 0) open_.push_back(prefix);
    if (taken < unit_tokens_ + lookahead_ || (taken - lookahead_) % unit_tokens_ != 0) return;
    units.push_back(open_.front());
    open_.erase(open_.begin());
  }

  [[nodiscard]] std::uint32_t num_tokens() const { return prefix_.num_tokens(); }

 private:
  PrefixDigest prefix_;
  std::uint32_t unit_tokens_;
  std::uint32_t lookahead_;
  std::vector<std::uint64_t> open_;  // complete units whose lookahead is not known yet
};

}  // namespace kvproof::properties
