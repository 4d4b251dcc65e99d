// SPDX-License-Identifier: Apache-2.0
// Opens a shared library that exports kvproof_subject.h in this process, for calls at native speed.
//
// Refuses: a library that cannot be opened, lacks a symbol or is of another version of the header.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "properties/engines/kit/kvproof_subject.h"

namespace kvproof::properties {

/// what() is one line.
class PluginError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The functions of the header, by their names without its prefix.
struct Plugin {
  decltype(&kvproof_subject_create) create = nullptr;
  decltype(&kvproof_subject_apply) apply = nullptr;
  decltype(&kvproof_subject_observe) observe = nullptr;
  decltype(&kvproof_subject_destroy) destroy = nullptr;
};

/// Opens a library; it stays until the process ends. @throws PluginError
[[nodiscard]] Plugin open_plugin(const std::string& path);

/// The direct section of the header, likewise.
struct DirectPlugin {
  decltype(&kvproof_direct_create) create = nullptr;
  decltype(&kvproof_direct_destroy) destroy = nullptr;
  decltype(&kvproof_direct_arrive) arrive = nullptr;
  decltype(&kvproof_direct_append) append = nullptr;
  decltype(&kvproof_direct_advance) advance = nullptr;
  decltype(&kvproof_direct_lookup) lookup = nullptr;  // null if there is no prefix cache
  decltype(&kvproof_direct_allocate) allocate = nullptr;
  decltype(&kvproof_direct_free) free = nullptr;
  decltype(&kvproof_direct_finish) finish = nullptr;
};

/// @return nullopt if the library has no direct section. @throws PluginError if it has only a part
/// of it, or another version
[[nodiscard]] std::optional<DirectPlugin> open_direct(const std::string& path);

}  // namespace kvproof::properties
