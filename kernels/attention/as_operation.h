// SPDX-License-Identifier: Apache-2.0
// Turns an implementation of attention into a row of one operation, which is decode or prefill.
#pragma once

#include "kernels/attention/attention.h"

namespace kvproof::kernels {

template <class Kv, Refusal (*launch)(const AttentionParams<Kv>&, const Context&)>
Refusal decode_with(const AttentionParams<Kv>& params, const Context& context) {
  if (params.query_starts != nullptr) return {"query_starts: decode has one query token each"};
  return launch(params, context);
}
template <class Kv, Refusal (*launch)(const AttentionParams<Kv>&, const Context&)>
Refusal prefill_with(const AttentionParams<Kv>& params, const Context& context) {
  if (params.query_starts == nullptr) return {"query_starts: prefill needs them"};
  return launch(params, context);
}

}  // namespace kvproof::kernels
