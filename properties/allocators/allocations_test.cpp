// SPDX-License-Identifier: Apache-2.0
// Nothing is allocated from the system after a request has arrived or was forked: counted for
// malloc and its relatives, which operator new comes down to as well.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "optimized/cache_manager.h"
#include "properties/sources/random/ways.h"

namespace {

std::uint64_t num_allocations = 0;
std::uint64_t num_bytes = 0;  // asked for

}  // namespace

// Counted for the whole program, under the dynamic linker's names for them, so that a library that
// calls them directly is seen as well.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KVPROOF_COUNTS_ALLOCATIONS 1
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++num_allocations;
  num_bytes += bytes;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++num_allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  ++num_allocations;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++num_allocations;
  num_bytes += bytes;
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace kvproof::properties {
namespace {

struct Row {
  std::string name;
  std::vector<GroupConfig> groups;
};

std::vector<Row> rows() {
  return {{"full", {full(4)}},
          {"full_and_window", {full(4), window(4, 8)}},
          {"full_and_half_window", {full(8), window(4, 9)}},
          {"full_and_mamba_align", {full(4), mamba(4, MambaMode::align)}},
          {"full_and_mamba_with_drafts", {full(4), mamba(4, MambaMode::align, 2)}}};
}

constexpr std::uint32_t kRequests = 4;

bool has_states(const Row& row) { return row.groups.back().kind == LayerKind::mamba; }

template <class Digest>
class Counted {
 public:
  using Manager = optimized::CacheManager<Digest>;

  explicit Counted(const Row& row)
      : manager_(config(row), {.max_requests = kRequests, .event_records = 1U << 14}) {}

  Manager& manager() { return manager_; }

  /// One generated token. @return allocations on the way
  std::uint64_t step(RequestId id) {
    const std::uint64_t before = num_allocations;
    const TokenId token = 7;
    manager_.start_step();
    manager_.append(id, {&token, 1});
    EXPECT_TRUE(manager_.allocate(id, {.new_tokens = 1, .status = RequestStatus::running}));
    manager_.advance(id, static_cast<std::uint32_t>(manager_.tokens(id).size()));
    return num_allocations - before;
  }

  /// As step(), by one call for a batch. @return allocations on the way
  std::uint64_t decode(RequestId id) {
    const std::uint64_t before = num_allocations;
    const TokenId token = 7;
    manager_.start_step();
    const optimized::DecodeGrant decoded = manager_.decode({&id, 1}, {&token, 1});
    EXPECT_TRUE(decoded.refused.empty());
    return num_allocations - before;
  }

  /// Admission of a prompt of forty tokens. @return allocations on the way
  std::uint64_t admit(RequestId id) {
    const std::uint64_t before = num_allocations;
    manager_.start_step();
    const std::uint32_t hit = manager_.lookup(id);
    EXPECT_TRUE(manager_.allocate(id, {.new_tokens = 40 - hit, .use_lookup = true}));
    manager_.advance(id, 40);
    return num_allocations - before;
  }

  /// Everything that can happen to a request that is there. @return allocations on the way
  std::uint64_t live(RequestId id) {
    const std::uint64_t before = num_allocations;
    admit(id);
    for (int i = 0; i < 20; ++i) i % 2 == 0 ? step(id) : decode(id);
    const std::uint32_t at = manager_.computed(id);
    EXPECT_TRUE(
        manager_.allocate(id, {.new_tokens = 1, .lookahead = 3, .status = RequestStatus::running}));
    manager_.truncate(id, at);
    manager_.recycle(id, at);
    manager_.cache(id, at);
    EXPECT_EQ(manager_.common_prefix(id) > 0, kDefaultProfile.counts_common_prefix);
    std::array<BlockId, 2> raw{};
    EXPECT_TRUE(manager_.take(raw));
    manager_.touch(raw);
    manager_.release(raw);
    manager_.release(raw);
    EXPECT_FALSE(manager_.allocate(id, {.new_tokens = 1, .reserved = 1U << 20}));
    manager_.evict(manager_.table(id).first(1));
    manager_.free(id);
    manager_.lookup(id);
    manager_.finish(id);
    return num_allocations - before;
  }

 private:
  static CacheConfig config(const Row& row) {
    CacheConfig out = pool(128, row.groups);
    out.max_model_len = 96;
    return out;
  }

  Manager manager_;
};

template <class Digest>
class Allocations : public testing::Test {};
using Digests = testing::Types<optimized::Xxh3Digest, optimized::Sha256Digest,
                               optimized::VllmSha256Digest, optimized::VllmSha256CborDigest>;
TYPED_TEST_SUITE(Allocations, Digests);

#if defined(KVPROOF_COUNTS_ALLOCATIONS)
constexpr const char* kNotCounted = nullptr;
#else
constexpr const char* kNotCounted = "a sanitizer owns malloc in this build";
#endif

TYPED_TEST(Allocations, NoneAfterArrival) {
  if (kNotCounted != nullptr) GTEST_SKIP() << kNotCounted;
  const std::vector<TokenId> prompt = range(0, 40);
  const ExtraKeys extra{
      .lora = "adapter", .salt = "salt", .layout = {}, .mm = {{"image", 3, 20}}, .embeds = {}};
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    Counted<TypeParam> counted(row);
    const std::uint64_t before = num_allocations;
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(counted.live(counted.manager().arrive({.tokens = prompt})), 0U);
      EXPECT_EQ(counted.live(counted.manager().arrive({.tokens = prompt, .extra = &extra})), 0U);
    }
    EXPECT_GT(num_allocations, before) << "arrive() allocates, so the counter counts";
  }
}

// Parent and child step on, each over what it shares with the other.
TYPED_TEST(Allocations, NoneInTheStepsOfForkedRequests) {
  if (kNotCounted != nullptr) GTEST_SKIP() << kNotCounted;
  const std::vector<TokenId> prompt = range(0, 40);
  for (const Row& row : rows()) {
    if (has_states(row)) continue;  // not forked
    SCOPED_TRACE(row.name);
    Counted<TypeParam> counted(row);
    const RequestId parent = counted.manager().arrive({.tokens = prompt});
    EXPECT_EQ(counted.admit(parent), 0U);
    EXPECT_EQ(counted.step(parent), 0U);  // into a block that the fork will share
    std::size_t copies = 0;
    for (int round = 0; round < 4; ++round) {
      const RequestId child = counted.manager().fork(parent);
      for (int i = 0; i < 3; ++i) {
        for (const RequestId id : {parent, child}) {
          EXPECT_EQ(i == 1 ? counted.decode(id) : counted.step(id), 0U)
              << "round " << round << ", step " << i;
        }
      }
      copies += counted.manager().take_copies().size();
      const std::uint64_t before = num_allocations;
      counted.manager().finish(child);
      EXPECT_EQ(num_allocations, before);
    }
    EXPECT_GT(copies, 1U) << "nothing was shared";
  }
}

// Every child writes two blocks of its parent, in each group, before the caller takes the copies.
TYPED_TEST(Allocations, NoneInTheCopiesOfAllRequests) {
  if (kNotCounted != nullptr) GTEST_SKIP() << kNotCounted;
  const std::vector<TokenId> prompt = range(0, 40);
  const AllocateArgs drafts{.new_tokens = 1, .lookahead = 4, .status = RequestStatus::running};
  for (const Row& row : rows()) {
    if (has_states(row)) continue;  // not forked
    SCOPED_TRACE(row.name);
    Counted<TypeParam> counted(row);
    auto& manager = counted.manager();
    const RequestId parent = manager.arrive({.tokens = prompt});
    counted.admit(parent);
    counted.step(parent);
    ASSERT_TRUE(manager.allocate(parent, drafts));
    for (std::uint32_t i = 1; i < kRequests; ++i) {
      const RequestId child = manager.fork(parent);
      const std::uint64_t before = num_allocations;
      EXPECT_TRUE(manager.allocate(child, drafts));
      EXPECT_EQ(num_allocations, before) << "child " << i;
    }
    EXPECT_GT(manager.take_copies().size(), row.groups.size() * kRequests);
  }
}

/// Builds a part, and compares the memory that it reports with what it has asked for.
template <class Make, class Report>
void expect_reported(const char* what, const Make& make, const Report& report) {
  constexpr double kRounding = 512;  // up to cache lines, and what is not an array
  const std::uint64_t before = num_bytes;
  const auto part = make();
  const std::uint64_t asked = num_bytes - before;
  EXPECT_NEAR(static_cast<double>(report(part)), static_cast<double>(asked), kRounding) << what;
}

TEST(Memory, IsReportedAsItWasAskedFor) {
  if (kNotCounted != nullptr) GTEST_SKIP() << kNotCounted;
  constexpr std::uint32_t kBlocks = 3000;
  const auto bytes = [](const auto& part) { return part.bytes(); };
  expect_reported(
      "events", [] { return optimized::EventLog(1000, kBlocks); }, bytes);
  expect_reported(
      "residency", [] { return optimized::Residency(kBlocks); }, bytes);
  expect_reported(
      "exact contents", [] { return optimized::ExactContents(kBlocks, 4); }, bytes);
  std::vector<optimized::BlockRecord<optimized::Key128>> records(kBlocks + 1);
  expect_reported(
      "index", [&] { return optimized::PrefixIndex<optimized::Key128>(records.data(), kBlocks); },
      bytes);
  expect_reported(
      "pool", [] { return optimized::BlockPool<optimized::Key256>(kBlocks, {}); }, bytes);
  CacheConfig config = pool(128, {full(4), window(4, 8)});
  const auto groups = optimized::make_groups<optimized::Key128>(config);
  const auto requests = [&] {
    return optimized::RequestTable<optimized::Xxh3Digest>(config, groups, kBlocks, 0);
  };
  expect_reported("requests", requests, bytes);
  const auto opened = [&] {
    auto table = requests();
    table.open({.tokens = range(0, 40)});
    return table;
  };
  expect_reported("a request", opened, [&](const auto& table) {
    return table.bytes() + 40 * sizeof(TokenId);  // and the prompt, which is the test's
  });
}

}  // namespace
}  // namespace kvproof::properties
