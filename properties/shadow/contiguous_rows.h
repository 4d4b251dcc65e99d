// SPDX-License-Identifier: Apache-2.0
// What each request must read: the identities of its tokens, placed by the contiguous cache that
// paging replaced, one run per request.
//
// Leaves out: bytes. An identity stands for the K and V of a token: equal identity, equal bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/contiguous_cache.h"
#include "reference/identity.h"

namespace kvproof::properties {

class ContiguousRows {
 public:
  ContiguousRows();

  /// Makes room for `num_tokens` tokens of a request; the rows that it had move along.
  void place(const std::string& name, std::uint32_t num_tokens);
  void erase(const std::string& name);

  /// @return the first of the request's rows; valid until the next place. @pre it has tokens
  [[nodiscard]] Identity* rows(const std::string& name);
  [[nodiscard]] const Identity* rows(const std::string& name) const;

 private:
  struct Tenant {
    std::string name;
    std::uint32_t num_tokens = 0;
    reference::Run run;
  };
  Tenant* find(const std::string& name);
  void rebuild(std::uint64_t capacity);

  reference::ContiguousCache cache_;
  std::vector<Identity> rows_;  // shape [arena capacity]
  std::vector<Tenant> tenants_;
};

}  // namespace kvproof::properties
