// SPDX-License-Identifier: Apache-2.0
// A paged allocator with a prefix cache, as somebody might have one: what the example gates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mine {

struct Config {
  std::uint32_t num_blocks = 0;  // block 0 is never handed out
  std::uint32_t block_size = 0;  // [tokens]
  std::uint32_t max_tokens = 0;  // of a request
  bool caching = true;
};

/// What is known of a block. Free ones stand in a list, the next to be taken first.
struct Block {
  std::uint64_t key = 0;  // of its content and all before it; 0 = none
  std::uint32_t prev = 0;
  std::uint32_t next = 0;
  std::uint32_t refs = 0;
};

struct Request {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> keys;   // of its complete blocks
  std::vector<std::uint32_t> table;  // its blocks
  std::vector<std::uint32_t> hits;   // what the last look-up found
  std::uint32_t computed = 0;        // [tokens]
  std::uint32_t published = 0;       // [blocks]
  bool sharing = true;
};

class Allocator {
 public:
  explicit Allocator(const Config& config);

  /// @param sharing false: it neither uses nor fills the prefix cache
  std::uint32_t arrive(const std::int32_t* tokens, std::size_t n, bool sharing = true);
  void append(std::uint32_t request, const std::int32_t* tokens, std::size_t n);
  /// So many tokens are in the cache now; their complete blocks can be found from now on.
  void advance(std::uint32_t request, std::uint32_t computed);
  /// [tokens]
  std::uint32_t lookup(std::uint32_t request);
  enum class Answer { granted, refused, stale };
  /// @param taken the number of blocks taken, the last of the table
  Answer allocate(std::uint32_t request, std::uint32_t new_tokens, bool use_lookup,
                  bool all_must_fit, std::uint32_t& taken);
  void free(std::uint32_t request);
  void finish(std::uint32_t request);

  const Request& request(std::uint32_t number) const { return requests_[number]; }
  const Block& block(std::uint32_t number) const { return blocks_[number]; }
  std::uint32_t num_free() const { return num_free_; }
  const Config& config() const { return config_; }

 private:
  void hash_complete_blocks(Request& r) const;
  std::uint32_t blocks_for(std::size_t tokens) const;
  void link(std::uint32_t block);
  void unlink(std::uint32_t block);
  std::uint32_t take();
  std::size_t find(std::uint64_t key) const;
  void forget(std::uint32_t block);

  Config config_;
  std::vector<Block> blocks_;         // [0] is the head of the list
  std::vector<std::uint32_t> index_;  // open addressing by key; 0 = empty
  std::uint32_t num_free_ = 0;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> unused_;  // numbers of finished requests
};

}  // namespace mine
