// SPDX-License-Identifier: Apache-2.0
// A subject as the gate calls it: the functions of the direct section, from a row or a library.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "bench/gate/collected.h"
#include "properties/engines/kit/plugin.h"
#include "reference/config.h"

namespace kvproof::bench {

/// How a subject is called. Two subjects are compared in one way.
enum class CallStyle {
  direct,      // the direct section, or the cache manager itself
  operations,  // the general interface: lines of JSON, or the values of reference/operations.h
};

[[nodiscard]] constexpr const char* to_string(CallStyle way) {
  return way == CallStyle::direct ? "direct" : "operations";
}

struct Calls {
  properties::DirectPlugin functions;  // except create, which is the next member
  std::function<kvproof_direct*(const char* header, std::uint32_t max_requests)> create;
  Brackets* brackets = nullptr;
  bool brackets_itself = false;       // it brackets the part of each call that is the subject's
  Profile profile = kDefaultProfile;  // of the managers that a workload is played on
};

/// Whether a subject can be called directly. @param subject a name in optimized/subjects.h or the
/// path of a library. @throws properties::PluginError
[[nodiscard]] bool has_direct(const std::string& subject);

/// @param brackets of the calls; they must outlive the result
/// @throws properties::PluginError
[[nodiscard]] Calls find_calls(const std::string& subject, CallStyle way, Brackets& brackets);

/// The gate cannot go on after the answer to a call. what() is one line.
class BadAnswer : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvproof::bench
