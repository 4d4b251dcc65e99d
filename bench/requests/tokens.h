// SPDX-License-Identifier: Apache-2.0
// Logs carry block ids, allocators hash tokens: this turns the one into the other.
//
// Each id stands for ids_block_size tokens that spell it: alternately its low and its high 32 bits.
// Any two neighbouring tokens give the id back, so for every block size of 2 or more equal tokens
// mean equal ids. Tokens that no id covers spell the index of the request, which no other request
// has. Splitting an id over smaller blocks is sound: hashes are chained, so its equal parts differ.
#pragma once

#include <vector>

#include "bench/requests/request.h"
#include "reference/ids.h"

namespace kvproof::bench {

enum class TokenMode {
  as_recorded,   // input_tokens tokens; the last id covers what is left for it
  whole_blocks,  // every id as one full block, then one token of the request's own, so that a
                 // lookup, which never serves the last token, may hit every id
};

/// Overwrites `tokens`, shape [num_tokens]: input_tokens as recorded; in whole blocks
/// num_ids * ids_block_size + 1. Sources without ids have no whole blocks: both modes are the same.
void fill_tokens(const Request& request, const SourceInfo& info, std::vector<TokenId>& tokens,
                 TokenMode mode = TokenMode::as_recorded);

}  // namespace kvproof::bench
