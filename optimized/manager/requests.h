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

inline constexpr char kBeyondCapacity[] = "append beyond the capacity of the request";

/// Where the blocks of a request lie. The two in between are transfers in flight.
enum class Place : std::uint8_t { device, leaving, host, returning };

/// What a decode step reads of a request if it does more than to write a token. One cache line.
template <class Key>
struct alignas(64) HotRequest {
  Key* hashes = nullptr;            // shape [capacity / hash unit], and before them their root
  GroupTable* tables = nullptr;     // shape [groups]
  std::uint32_t ahead;              // [tokens] that it has and that are not computed
  std::uint32_t capacity = 0;       // [tokens]
  std::uint32_t next_unit_end;      // [tokens] at which the next hash is due
  std::uint32_t settled_until = 0;  // [tokens] room of the steps of a settled request, or 0
  bool live = false;
  bool skip_lookup;
  bool usual_units;  // ChainHasher::is_usual(), and no extra keys
  bool may_share;    // an unpublished block of it may have another holder
  bool forked;       // it has, or had, relatives that started with its blocks
  Place place = Place::device;
  std::uint32_t num_hashes;
  std::uint32_t hit_tokens;  // found by the last lookup, if it has found blocks
  std::uint32_t prompt_tokens;
  std::uint32_t junction = 0;  // [tokens] the longest prefix that a group had then; 0 = the hit

  /// Whether a step has nothing to decide: nothing is shared or away, and no state moves.
  [[nodiscard]] bool settled() const { return settled_until > 0; }
  /// The number of tokens up to which a step has room and hashes nothing.
  [[nodiscard]] std::uint32_t work_at() const { return std::min(next_unit_end - 1, capacity); }
};
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
  /// The same. @pre its blocks are in the device pool, too (Breach::in_transfer)
  Request& resident(RequestId id) {
    Request& r = live(id);
    expects(r.place == Place::device, Breach::in_transfer,
            "the blocks of the request are not in the device pool");
    return r;
  }
  /// The number of handles given so far. @pre of append() and the calls of a step: id < size()
  [[nodiscard]] std::uint32_t size() const { return num_given_; }

  /// Shape [num_tokens].
  [[nodiscard]] TokenId* tokens(RequestId id) { return tokens_[id]; }
  [[nodiscard]] const TokenId* tokens(RequestId id) const { return tokens_[id]; }
  [[nodiscard]] std::uint32_t num_tokens(RequestId id) const { return ends_[id].num_tokens; }
  /// The number of tokens whose K and V are in the cache.
  [[nodiscard]] std::uint32_t computed(RequestId id) const {
    return num_tokens(id) - requests_[id].ahead;
  }
  void set_computed(RequestId id, std::uint32_t computed) {
    requests_[id].ahead = num_tokens(id) - computed;
  }
  /// The number of tokens up to which a step only writes one: no hash, no block and no publication
  /// is due before it, and there is room.
  [[nodiscard]] std::uint32_t write_until(RequestId id) const { return ends_[id].write_until; }
  /// Call it whenever the number falls. If it rises, the old value is merely too low, so that a
  /// step looks in vain.
  void limit(RequestId id, std::uint32_t work_at) { ends_[id].write_until = work_at; }
  [[nodiscard]] std::size_t num_live() const { return num_given_ - unused_.size(); }

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
    std::uint32_t& num_tokens = ends_[id].num_tokens;
    if (tokens.size() > r.capacity - num_tokens) [[unlikely]] {
      static_cast<void>(live(id));
      violated(Breach::capacity, kBeyondCapacity);
    }
    if (tokens.size() == 1) {
      tokens_[id][num_tokens] = tokens.front();
    } else if (!tokens.empty()) {
      std::memcpy(tokens_[id] + num_tokens, tokens.data(), tokens.size_bytes());
    }
    r.ahead += static_cast<std::uint32_t>(tokens.size());
    num_tokens += static_cast<std::uint32_t>(tokens.size());
    return num_tokens >= r.next_unit_end;
  }

  /// Steps a request if a step of one token is only to write it. @return whether it was
  bool step_one(RequestId id, TokenId token) {
    if ((id & unknown_) != 0) return false;
    End& end = ends_[id];
    if (end.num_tokens >= end.write_until) return false;
    tokens_[id][end.num_tokens] = token;
    ++end.num_tokens;
    return true;
  }
  /// Takes the steps of a batch that are only to write a token, and writes the tokens of the others
  /// that are settled. It ends at the first request whose token cannot be written.
  /// @param tokens one for each request @param due the indexes of the others in order, shape
  /// [requests of the batch]
  BatchDue write_all(std::span<const RequestId> ids, const TokenId* tokens, std::uint32_t* due);
  /// Takes all of that back. @param ids that it has reached
  void undo(std::span<const RequestId> ids, std::span<const std::uint32_t> due);

  /// Hashes the next unit, if the request has all of its tokens.
  void hash_next(Request& r, RequestId id) {
    if (num_tokens(id) < r.next_unit_end) return;
    if (!r.usual_units) [[unlikely]] {
      hash_units(id);
      return;
    }
    hasher_.hash_next_usual(tokens_[id], r.num_hashes++, r.hashes);
    r.next_unit_end += unit_;
  }
  /// Hashes the units that are complete. @return their keys @pre there is one
  std::span<const Key> hash_units(RequestId id);

  /// Memory of tokens, hashes and tables.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  /// How far a request has come. [tokens]
  struct End {
    std::uint32_t num_tokens = 0;
    std::uint32_t write_until = 0;  // see limit()
  };
  /// The memory that open() makes; no step reads this.
  struct Storage {
    SharedExtraKeys extra;
    std::unique_ptr<std::byte[]> buffer;  // a request and its tables point into it
    std::size_t bytes;
    std::uint32_t capacity = kNever;  // [tokens] that the request and its tables point to room for
    std::uint32_t encoder_tokens = 0;
    std::uint32_t hit_epoch = 0;
  };

  RequestId take_handle(std::uint32_t capacity, std::uint32_t encoder_tokens);
  void make_room(RequestId id, std::uint32_t capacity, std::uint32_t encoder_tokens);

  std::span<const LayerGroup<Key>> groups_;
  std::uint32_t max_requests_;
  std::uint32_t max_model_len_;  // [tokens]
  std::uint32_t unit_;           // [tokens] per hash
  bool caching_;
  std::uint32_t first_unit_end_;  // [tokens] at which the first hash of a request is due
  std::uint64_t unknown_;         // bits that two handles within these do not have
  ChainHasher<Digest> hasher_;
  std::uint32_t num_given_ = 0;  // handles so far; a count costs a step less than a division
  // Shape [a power of two, at least max_requests], so that one comparison tells whether many
  // handles are within. A step that only writes a token reads the last two.
  std::vector<Request> requests_;
  std::vector<TokenId*> tokens_;
  std::vector<End> ends_;
  std::vector<GroupTable> tables_;  // shape [num_given, groups]
  std::vector<Storage> storage_;    // shape [num_given]
  std::vector<RequestId> unused_;   // of those handles
};

}  // namespace kvproof::optimized
