// SPDX-License-Identifier: Apache-2.0
// Holds what a kernel wrote on the device against double precision, on copies of its memory.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "bench/kernels/device/device.h"
#include "kernels/attention/attention_reference.h"
#include "kernels/typed.h"
#include "properties/kernels/attention_bound.h"

namespace kvproof::bench {

/// Copies of device memory on the host, and pointers into the one as pointers into the other.
class HostCopies {
 public:
  explicit HostCopies(const std::vector<const DeviceMemory*>& all) {
    for (const DeviceMemory* memory : all) {
      Copy copy{memory->as<const std::byte>(), std::vector<std::byte>(memory->size())};
      expect(cudaMemcpy(copy.bytes.data(), copy.from, copy.bytes.size(), cudaMemcpyDeviceToHost),
             "a copy to the host");
      copies_.push_back(std::move(copy));
    }
  }
  template <class T>
  void move(T*& pointer) const {
    if (pointer == nullptr) return;
    const auto* const at = static_cast<const std::byte*>(static_cast<const void*>(pointer));
    for (const Copy& copy : copies_) {
      if (at < copy.from || at >= copy.from + copy.bytes.size()) continue;
      const std::byte* const to = copy.bytes.data() + (at - copy.from);
      pointer = static_cast<T*>(const_cast<void*>(static_cast<const void*>(to)));
      return;
    }
    throw DeviceError("a pointer into memory that was not copied");
  }

 private:
  struct Copy {
    const std::byte* from;
    std::vector<std::byte> bytes;
  };
  std::vector<Copy> copies_;
};

/// The same parameters over the copies. Scratch memory stays where it is.
template <class Kv>
[[nodiscard]] kernels::AttentionParams<Kv> on_host(kernels::AttentionParams<Kv> p,
                                                   const HostCopies& copies) {
  copies.move(p.kv.key);
  copies.move(p.kv.value);
  if constexpr (requires { p.kv.block_tables; }) copies.move(p.kv.block_tables);
  copies.move(p.query_starts);
  copies.move(p.seq_lens);
  copies.move(p.query);
  copies.move(p.output);
  return p;
}

/// Throws unless one head of one query token is within attention_bound.h of the exact result.
/// @param p over memory of the host, with elements in [-1, 1)
template <class Kv>
void check_head(const kernels::AttentionParams<Kv>& p, std::string_view name, std::int32_t token,
                std::int32_t head) {
  const std::int32_t kv_head = head / (p.shape.num_heads / p.shape.num_kv_heads);
  const auto moved = [](const void* from, std::int64_t elements, kernels::ElementType type) {
    return static_cast<const std::byte*>(from) + elements * kernels::bytes_of(type);
  };
  kernels::AttentionParams<Kv> one = p;
  one.shape.num_heads = one.shape.num_kv_heads = 1;
  one.kv.key = moved(p.kv.key, p.kv.key_layout.head_stride * kv_head, p.shape.cache_type);
  one.kv.value = moved(p.kv.value, p.kv.value_layout.head_stride * kv_head, p.shape.cache_type);
  one.query = moved(p.query, p.query_head_stride * head, p.shape.type);
  const kernels::ExactRow exact = kernels::attend_exactly(one, token);
  const properties::BoundInput in{
      .type = p.shape.type,
      .rounds = properties::rounds_of(name),
      .head_size = static_cast<double>(p.shape.head_size),
      .num_visible = static_cast<double>(exact.visible.end - exact.visible.begin),
      .score_sum = exact.score_sum[0],
      .most_value = 1};
  const std::int64_t row = token * p.output_token_stride + head * p.output_head_stride;
  for (std::size_t i = 0; i < exact.out.rows.size(); ++i) {
    const double found =
        double{kernels::load_element(p.output, row + static_cast<std::int64_t>(i), p.shape.type)};
    const double bound = properties::output_bound(in, exact.magnitude[i], exact.out.rows[i]);
    if (std::abs(found - exact.out.rows[i]) <= bound) continue;
    throw DeviceError(std::string(name) + ": token " + std::to_string(token) + " head " +
                      std::to_string(head) + " element " + std::to_string(i) + " is " +
                      std::to_string(found) + ", not " + std::to_string(exact.out.rows[i]));
  }
}

/// The last head of the first query token, and the first head of the last.
template <class Kv>
void check_corners(const kernels::AttentionParams<Kv>& p, std::string_view name,
                   const std::vector<const DeviceMemory*>& memory) {
  const HostCopies copies(memory);
  const auto params = on_host(p, copies);
  check_head(params, name, 0, p.shape.num_heads - 1);
  check_head(params, name, p.num_query_tokens - 1, 0);
}

}  // namespace kvproof::bench
