// SPDX-License-Identifier: Apache-2.0
// The alphabet: every operation that a cache manager can be asked for, and its answers, as values.
//
// Every way of exercising an allocator (random state machine, exhaustive search, fuzzing, recorded
// traces, foreign programs) speaks these operations. An operation prints as one line of JSON
// (trace_json.h); a sequence of lines is a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reference/ids.h"
#include "reference/request.h"

namespace kvproof {

namespace op {

struct Arrive {
  std::string req;
  std::vector<TokenId> tokens = {};
  ExtraKeys extra = {};
  bool skip_lookup = false;
  std::uint32_t encoder_tokens = 0;  // [tokens] of the encoder, which cross attention reads
  bool operator==(const Arrive&) const = default;
};
struct Append {
  std::string req;
  std::vector<TokenId> tokens;
  bool operator==(const Append&) const = default;
};
struct Advance {
  std::string req;
  std::uint32_t computed = 0;
  bool operator==(const Advance&) const = default;
};
struct Lookup {
  std::string req;
  /// The hit may not be longer than this [tokens]; unset: every token but the last may hit.
  std::optional<std::uint32_t> max_tokens = {};
  bool operator==(const Lookup&) const = default;
};
struct Allocate {
  std::string req;
  AllocateArgs args;
  bool operator==(const Allocate&) const = default;
};
struct Free {  // preempts the request
  std::string req;
  bool operator==(const Free&) const = default;
};
struct Finish {
  std::string req;
  bool operator==(const Finish&) const = default;
};
struct Recycle {
  std::string req;
  std::uint32_t processed = 0;
  bool operator==(const Recycle&) const = default;
};
struct Cache {  // publishes complete blocks, e.g. after a load from elsewhere
  std::string req;
  std::uint32_t computed = 0;
  bool operator==(const Cache&) const = default;
};
struct Evict {  // forgets the content of blocks, held or free
  std::vector<BlockId> blocks;
  bool operator==(const Evict&) const = default;
};
struct Reset {
  bool operator==(const Reset&) const = default;
};
struct CommonPrefix {
  std::string req;
  bool operator==(const CommonPrefix&) const = default;
};
struct Step {
  bool operator==(const Step&) const = default;
};

// The raw pool, for an owner other than a request (a transfer, a swap, a test of the pool itself).
struct Take {
  std::uint32_t n = 0;
  bool operator==(const Take&) const = default;
};
struct Touch {
  std::vector<BlockId> blocks;
  bool operator==(const Touch&) const = default;
};
struct Release {
  std::vector<BlockId> blocks;
  bool operator==(const Release&) const = default;
};

// Sharing. A child starts with its parent's tokens and blocks; before a request writes into a block
// with another holder, it gets a copy (Granted::copies).
struct Fork {
  std::string req;
  std::string child;
  bool operator==(const Fork&) const = default;
};
/// Gives up the slots beyond `tokens` tokens, e.g. those of rejected drafts.
struct Truncate {
  std::string req;
  std::uint32_t tokens = 0;
  bool operator==(const Truncate&) const = default;
};
/// Holds blocks by the name of a lease, e.g. while a transfer reads them.
struct Pin {
  std::vector<BlockId> blocks;
  std::string lease;
  bool operator==(const Pin&) const = default;
};
struct Unpin {
  std::string lease;
  bool operator==(const Unpin&) const = default;
};

// The host tier. A swap starts a transfer; both sides keep their blocks until it is completed.
struct SwapOut {
  std::string req;
  std::string transfer;
  bool operator==(const SwapOut&) const = default;
};
struct SwapIn {
  std::string req;
  std::string transfer;
  bool operator==(const SwapIn&) const = default;
};
/// Settles a transfer. After a failed transfer everything is as it was before it started.
struct Complete {
  std::string transfer;
  bool ok = false;
  bool operator==(const Complete&) const = default;
};

/// One decode step of a batch. For one request after the other it appends the token, allocates for
/// one token (kDecodeStep) and, if that is granted, advances by one; a refused one keeps its token.
/// A request may occur twice. A broken precondition of any of these calls: nothing happens.
struct Decode {
  std::vector<std::string> reqs;
  std::vector<TokenId> tokens;  // shape [reqs]
  bool operator==(const Decode&) const = default;
};

}  // namespace op

using OperationVariant =
    std::variant<op::Arrive, op::Append, op::Advance, op::Lookup, op::Allocate, op::Free,
                 op::Finish, op::Recycle, op::Cache, op::Evict, op::Reset, op::CommonPrefix,
                 op::Step, op::Take, op::Touch, op::Release, op::Fork, op::Truncate, op::Pin,
                 op::Unpin, op::SwapOut, op::SwapIn, op::Complete, op::Decode>;

/// A class of its own, so that whoever only passes it on need not know what it can be (subject.h).
struct Operation : OperationVariant {
  using OperationVariant::OperationVariant;
  using OperationVariant::operator=;
};

/// The request that an operation names; empty if it names no request.
[[nodiscard]] inline const std::string& request_of(const Operation& operation) {
  static const std::string kNone;
  return std::visit(
      [](const auto& o) -> const std::string& {
        if constexpr (requires { o.req; }) {
          return o.req;
        } else {
          return kNone;
        }
      },
      operation);
}

/// Whether an operation only asks: it changes nothing that a snapshot shows.
[[nodiscard]] inline bool only_asks(const Operation& operation) {
  return std::holds_alternative<op::Lookup>(operation) ||
         std::holds_alternative<op::CommonPrefix>(operation);
}

}  // namespace kvproof
