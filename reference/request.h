// SPDX-License-Identifier: Apache-2.0
// What a request is made of, and what it asks an allocation for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kvproof {

/// One multimodal item that replaces tokens [offset, offset + length) of a prompt.
struct MultimodalItem {
  std::string id;            // content identity, e.g. a hash of the image
  std::uint32_t offset = 0;  // [tokens]
  std::uint32_t length = 0;  // [tokens]
  bool operator==(const MultimodalItem&) const = default;
};

/// The inputs besides token ids that decide the bytes in the cache. Requests share blocks only if
/// all of these agree.
struct ExtraKeys {
  std::string lora = {};                // adapter name, empty = none; part of every unit's key
  std::string lora_path = {};           // where the adapter was loaded from; part of the same keys
  std::string salt = {};                // empty = none; part of the first unit's key
  std::string layout = {};              // data type and order of the bytes; part of that key, too
  std::vector<MultimodalItem> mm = {};  // sorted by offset; part of the keys of their units
  std::vector<MultimodalItem> embeds = {};  // rows in place of token ids; keys tell them from mm
  [[nodiscard]] bool empty() const {
    return lora.empty() && lora_path.empty() && salt.empty() && layout.empty() && mm.empty() &&
           embeds.empty();
  }
  bool operator==(const ExtraKeys&) const = default;
};

enum class RequestStatus { waiting, running, preempted };

/// The request for one allocation. All counts are in tokens unless a unit is given.
struct AllocateArgs {
  std::uint32_t new_tokens = 0;  // to compute in this step; may include drafts
  bool use_lookup = false;       // start from the prefix that this request's last lookup found
  std::uint32_t lookahead = 0;   // slots beyond the new tokens, for speculation
  std::uint32_t external = 0;    // tokens that a connector will load
  bool delay_cache = false;      // do not publish the blocks yet
  bool full_sequence_must_fit = false;  // admission gate over all tokens known now
  bool has_scheduled = false;           // other requests run: the watermark applies
  std::uint32_t reserved = 0;           // [blocks] promised to others
  // Of the computed tokens, those of steps that still run: what they read is not given back yet.
  std::uint32_t in_flight = 0;
  RequestStatus status = RequestStatus::waiting;
  bool operator==(const AllocateArgs&) const = default;
};

/// The allocation of a decode step: one token of a running request.
inline constexpr AllocateArgs kDecodeStep{.new_tokens = 1, .status = RequestStatus::running};

}  // namespace kvproof
