// SPDX-License-Identifier: Apache-2.0
// The error that a program or a library is none that can be checked.
#pragma once

#include <stdexcept>

namespace kvproof::properties {

/// The program cannot be checked at all: it did not answer the first header, or not readably.
class UnusableSubject : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvproof::properties
