// SPDX-License-Identifier: Apache-2.0
// The requests of a manager: their handles, tokens, hashes and block tables.
//
// Model:   a request is a handle. Its tokens, hashes and tables lie in one buffer, which open()
//          makes or takes over from a request that has ended, so that nothing else allocates.
// Leaves out: blocks. The tables have room for their numbers; the manager holds and releases them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "optimized/manager/batch.h"
#include "optimized/manager/group_table.h"
#include "optimized/manager/layer_group.h"
#include "optimized/pool/hashing.h"
#include "optimized/pool/vllm_hashing.h"
#include "reference/config.h"
#include "reference/contract.h"
#include "reference/ids.h"
#include "reference/request.h"

namespace kvproof::optimized {

struct Arrival {
  std::span<const TokenId> tokens;   // the prompt
  const ExtraKeys* extra = nullptr;  // copied; nullptr = none
  bool skip_lookup = false;          // never reuse a prefix, e.g. because prompt logits are wanted
  std::uint32_t max_tokens = 0;      // [tokens] the request may reach; 0 = max_model_len
  std::uint32_t encoder_tokens = 0;  // cross attention reads them
};

/// One copy, made at arrival, that forks and published blocks share; nullptr = none.
using SharedExtraKeys = std::shared_ptr<const ExtraKeys>;

/// Where the blocks of a request lie. The two in between are transfers in flight.
enum class Place : std::uint8_t { device, leaving, host, returning };

/// The part of a request that a decode step reads: one cache line.
template <class Key>
struct alignas(64) HotRequest {
  TokenId* tokens = nullptr;  // shape [capacity]
  Key* hashes = nullptr;      // shape [capacity / hash unit]
  std::uint32_t num_tokens = 0;
  std::uint32_t computed = 0;       // [tokens] at most num_tokens
  std::uint32_t capacity = 0;       // [tokens]
  std::uint32_t next_unit_end = 0;  // [tokens] at which the next hash is due
  std::uint32_t quiet_until = 0;    // [tokens] up to which a step takes and publishes nothing
  std::uint32_t write_until = 0;    // [tokens] up to which a token is only written: see limit()
  bool live = false;
  bool plain = false;  // a step has nothing to decide: nothing is shared or away, no state moves
  bool skip_lookup = false;
  bool has_extra = false;
  bool may_share = false;  // an unpublished block of it may have another holder
  bool forked = false;     // it has, or had, relatives that started with its blocks
  Place place = Place::device;
  bool due = false;  // the batch that is being decoded has more to do for it than a token
  std::uint32_t num_hashes = 0;
  std::uint32_t hit_tokens = 0;  // found by the last lookup, if it has found blocks
  std::uint32_t prompt_tokens = 0;
  std::uint32_t junction = 0;  // [tokens] the longest prefix that a group had then; 0 = the hit

  /// Sets write_until: no hash, no block and no publication is due before it, and there is room.
  /// It must be called whenever one of the three falls. Where one rises, the old value is only too
  /// low until it is called.
  void limit() { write_until = std::min({quiet_until, capacity, next_unit_end - 1}); }

  static constexpr std::uint64_t kOneEach = 0x1'0000'0001U;
  /// A step of one token for which that is all. @pre num_tokens < write_until
  /// @param one_each kOneEach: two counts in one addition, since neither overflows
  void step(TokenId token, std::uint64_t one_each) {
    tokens[num_tokens] = token;
    std::uint64_t both;
    std::memcpy(&both, &num_tokens, sizeof(both));
    both += one_each;
    std::memcpy(static_cast<void*>(&num_tokens), &both, sizeof(both));
  }
};
static_assert(offsetof(HotRequest<Key128>, computed) ==
              offsetof(HotRequest<Key128>, num_tokens) + sizeof(std::uint32_t));
static_assert(sizeof(HotRequest<Key128>) == 64);

/// `Digest` is one of those in hashing.h and vllm_hashing.h.
template <class Digest>
class RequestTable {
 public:
  using Key = typename Digest::Key;
  using Request = HotRequest<Key>;

  /// @param groups of the configuration; they outlive the table
  /// @param max_requests known at one time @param seed of the hash chain
  RequestTable(const CacheConfig& config, std::span<const LayerGroup<Key>> groups,
               std::uint32_t max_requests, std::uint64_t seed);

  /// Copies the prompt; hash_units() is due. @pre a prompt within max_model_len, and a handle left
  /// (Breach::capacity)
  RequestId open(const Arrival& arrival);
  /// Opens a request with the tokens and hashes of another, and without blocks.
  RequestId clone(RequestId parent);
  /// The handle may be given again. The memory stays with it. @pre its tables are empty
  void close(RequestId id);

  /// The request of any handle that was given so far.
  [[nodiscard]] Request& operator[](RequestId id) { return requests_[id]; }
  [[nodiscard]] const Request& operator[](RequestId id) const { return requests_[id]; }
  /// The request of a handle, checked. @pre the handle is in use (Breach::unknown_request)
  [[nodiscard]] Request& live(RequestId id) {
    expects(id < num_given_ && requests_[id].live, Breach::unknown_request, "no such handle");
    return requests_[id];
  }
  /// The number of handles given so far. @pre of append() and the calls of a step: id < size()
  [[nodiscard]] std::uint32_t size() const { return num_given_; }
  [[nodiscard]] std::size_t num_live() const { return num_given_ - unused_.size(); }

  [[nodiscard]] std::size_t num_groups() const { return groups_.size(); }
  /// Shape [groups].
  [[nodiscard]] GroupTable* tables(RequestId id) { return &tables_[id * groups_.size()]; }
  [[nodiscard]] const GroupTable* tables(RequestId id) const {
    return &tables_[id * groups_.size()];
  }
  /// Tokens that cross attention reads.
  [[nodiscard]] std::uint32_t encoder_tokens(RequestId id) const {
    return storage_[id].encoder_tokens;
  }
  /// BlockPool::num_forgotten() at the last lookup.
  [[nodiscard]] std::uint32_t& hit_epoch(RequestId id) { return storage_[id].hit_epoch; }
  [[nodiscard]] const SharedExtraKeys& extra(RequestId id) const { return storage_[id].extra; }

  /// Adds tokens. A handle that is not in use has no capacity. @return whether hash_units() is due
  /// @pre id < size(), and room for the tokens (Breach::capacity)
  bool append(RequestId id, std::span<const TokenId> tokens) {
    Request& r = requests_[id];
    if (tokens.size() > r.capacity - r.num_tokens) [[unlikely]] {
      static_cast<void>(live(id));
      violated(Breach::capacity, "append beyond the capacity of the request");
    }
    if (tokens.size() == 1) {
      r.tokens[r.num_tokens] = tokens.front();
    } else if (!tokens.empty()) {
      std::memcpy(r.tokens + r.num_tokens, tokens.data(), tokens.size_bytes());
    }
    r.num_tokens += static_cast<std::uint32_t>(tokens.size());
    return r.num_tokens >= r.next_unit_end;
  }

  /// Steps a request if a step of one token is only to write it. @return whether it was
  bool step_one(RequestId id, TokenId token) {
    if (id >= num_given_) return false;
    Request& r = requests_[id];
    if (r.num_tokens >= r.write_until) return false;
    r.step(token, Request::kOneEach);
    return true;
  }
  /// Steps every request of a batch whose step is only that, and notes the others, in order.
  /// @param tokens one for each request @param due their indexes, shape [requests of the batch]
  BatchDue step_all(std::span<const RequestId> ids, const TokenId* tokens, std::uint32_t* due) {
    BatchDue out;
    Request* const all = requests_.data();
    const std::uint32_t given = num_given_;
    std::uint64_t one_each = Request::kOneEach;
    asm("" : "+r"(one_each));  // stays in a register
    const auto visit = [&](std::size_t i) __attribute__((always_inline)) {
      const RequestId id = ids[i];
      if (id < given) [[likely]] {
        Request& r = all[id];
        if (r.num_tokens < r.write_until) [[likely]]
          return r.step(tokens[i], one_each);
        if (!r.plain || r.due || r.num_tokens >= r.capacity) [[unlikely]] {
          out.doubtful = true;
          out.twice |= r.due;
          out.plain &= r.plain;
        }
        r.due = true;
      } else {
        out.doubtful = true;
      }
      due[out.count++] = static_cast<std::uint32_t>(i);
    };
    constexpr std::size_t kAtOnce = 4;  // a turn of the loop costs three instructions
    const std::size_t whole = ids.size() - ids.size() % kAtOnce;
    for (std::size_t i = 0; i < whole; i += kAtOnce) {
      visit(i);
      visit(i + 1);
      visit(i + 2);
      visit(i + 3);
    }
    for (std::size_t i = whole; i < ids.size(); ++i) visit(i);
    return out;
  }
  /// Writes the token of a step that is due, and hashes the unit that it completes. @pre room
  /// @return the key of that unit, or nullptr
  const Key* write(Request& r, RequestId id, TokenId token) {
    r.due = false;
    r.tokens[r.num_tokens++] = token;
    if (r.num_tokens < r.next_unit_end) return nullptr;
    return r.has_extra ? &hash_units(id).front() : &hash_plain_unit(r);
  }
  /// Takes the steps of step_all() back.
  void undo(std::span<const RequestId> ids, std::span<const std::uint32_t> due);
  /// Hashes the units that are complete. @return their keys @pre there is one
  std::span<const Key> hash_units(RequestId id);

  /// Memory of tokens, hashes and tables.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  /// The memory that open() makes; no step reads this.
  struct Storage {
    SharedExtraKeys extra;
    std::unique_ptr<std::byte[]> buffer;  // a request and its tables point into it
    std::size_t bytes = 0;
    std::uint32_t capacity = kNever;  // [tokens] that the request and its tables point to room for
    std::uint32_t encoder_tokens = 0;
    std::uint32_t hit_epoch = 0;
  };

  /// Hashes the unit that the last token completed. @return its key @pre there are no extra keys
  const Key& hash_plain_unit(Request& r) {
    Key* const key = r.hashes + r.num_hashes;
    hasher_.hash_next(r.tokens, r.num_hashes++, r.hashes);
    r.next_unit_end += unit_;
    return *key;
  }
  RequestId take_handle(std::uint32_t capacity, std::uint32_t encoder_tokens);
  void make_room(RequestId id, std::uint32_t capacity, std::uint32_t encoder_tokens);

  std::span<const LayerGroup<Key>> groups_;
  std::uint32_t max_requests_;
  std::uint32_t max_model_len_;  // [tokens]
  std::uint32_t unit_;           // [tokens] per hash
  bool caching_;
  std::uint32_t first_unit_end_;  // [tokens] at which the first hash of a request is due
  ChainHasher<Digest> hasher_;
  std::uint32_t num_given_ = 0;     // handles so far; a count costs a step less than a division
  std::vector<Request> requests_;   // shape [num_given], reserved for max_requests
  std::vector<GroupTable> tables_;  // shape [num_given, groups]
  std::vector<Storage> storage_;    // shape [num_given]
  std::vector<RequestId> unused_;   // of those handles
};

}  // namespace kvproof::optimized
