// SPDX-License-Identifier: Apache-2.0
// The interface between an allocator and everything that tests it: apply an operation, observe the
// state.
//
// The naive model is a subject, and wrappers make subjects of optimized/ and of programs in other
// languages. A new allocator is one row in optimized/subjects.h.
#pragma once

#include <memory>

#include "reference/outcomes.h"
#include "reference/snapshot.h"

namespace kvproof {

struct Operation;  // operations.h

class Subject {
 public:
  virtual ~Subject() = default;

  /// Performs one operation. A broken precondition is answered with Rejected and changes nothing.
  virtual Outcome apply(const Operation& operation) = 0;

  /// Refills `snapshot` with the state as it is now.
  virtual void observe(Snapshot& snapshot) const = 0;
};

struct CacheConfig;  // config.h

namespace reference {

/// The naive model (cache_manager.h). @pre as its constructor
[[nodiscard]] std::unique_ptr<Subject> make_cache_manager(const CacheConfig& config);

}  // namespace reference
}  // namespace kvproof
