// SPDX-License-Identifier: Apache-2.0
// What a decode step of a batch stands for: three calls for each of its requests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "reference/operations.h"
#include "reference/outcomes.h"

namespace kvproof {

/// Makes the calls one after the other.
/// @param computed (request) -> [tokens] that it has computed now
/// @param call (operation) -> its Result. The first rejection ends the batch
/// @return Decoded, or that rejection
template <class Computed, class Call>
[[nodiscard]] Result by_three_calls(const op::Decode& batch, const Computed& computed,
                                    const Call& call) {
  Decoded out;
  for (std::size_t i = 0; i < batch.reqs.size(); ++i) {
    const std::string& req = batch.reqs[i];
    Result appended = call(op::Append{req, {batch.tokens[i]}});
    if (is_undone(appended)) return appended;
    Result allocated = call(op::Allocate{req, kDecodeStep});
    if (is_undone(allocated)) return allocated;
    auto& blocks = out.blocks.emplace_back();
    auto* granted = std::get_if<Granted>(&allocated);
    if (granted == nullptr) {
      out.refused.push_back(static_cast<std::uint32_t>(i));
      continue;
    }
    blocks = std::move(granted->blocks);
    out.copies.insert(out.copies.end(), granted->copies.begin(), granted->copies.end());
    Result advanced = call(op::Advance{req, computed(req) + 1});
    if (is_undone(advanced)) return advanced;
  }
  return out;
}

}  // namespace kvproof
