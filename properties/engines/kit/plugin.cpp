// SPDX-License-Identifier: Apache-2.0
#include "properties/engines/kit/plugin.h"

#include <dlfcn.h>

#include <type_traits>

#include "reference/support/say.h"

namespace kvproof::properties {
namespace {

template <class Function>
Function symbol(void* library, const std::string& path, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw PluginError(say(path, ": exports no ", name));
  return reinterpret_cast<Function>(found);
}

void* open_library(const std::string& path) {
  // A name without a slash would be looked for among the system's libraries.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  std::string reason = dlerror();
  if (reason.starts_with(file + ": ")) reason.erase(0, file.size() + 2);
  throw PluginError(say(path, ": cannot be opened: ", reason));
}

}  // namespace

Plugin open_plugin(const std::string& path) {
  void* library = open_library(path);
  const auto abi = symbol<decltype(&kvproof_subject_abi)>(library, path, "kvproof_subject_abi")();
  if (abi != KVPROOF_SUBJECT_ABI) {
    throw PluginError(say(path, ": was compiled with version ", abi,
                          " of kvproof_subject.h, this is version ", KVPROOF_SUBJECT_ABI));
  }
  return {symbol<decltype(Plugin::create)>(library, path, "kvproof_subject_create"),
          symbol<decltype(Plugin::apply)>(library, path, "kvproof_subject_apply"),
          symbol<decltype(Plugin::observe)>(library, path, "kvproof_subject_observe"),
          symbol<decltype(Plugin::destroy)>(library, path, "kvproof_subject_destroy")};
}

std::optional<DirectPlugin> open_direct(const std::string& path) {
  void* library = open_library(path);
  if (dlsym(library, "kvproof_direct_abi") == nullptr) return std::nullopt;
  const auto abi = symbol<decltype(&kvproof_direct_abi)>(library, path, "kvproof_direct_abi")();
  if (abi != KVPROOF_DIRECT_ABI) {
    throw PluginError(say(path, ": was compiled with version ", abi,
                          " of the direct section of kvproof_subject.h, this is version ",
                          KVPROOF_DIRECT_ABI));
  }
  DirectPlugin out;
  const auto find = [&](auto& function, const char* name) {
    function = symbol<std::remove_reference_t<decltype(function)>>(library, path, name);
  };
  find(out.create, "kvproof_direct_create");
  find(out.destroy, "kvproof_direct_destroy");
  find(out.arrive, "kvproof_direct_arrive");
  find(out.append, "kvproof_direct_append");
  find(out.advance, "kvproof_direct_advance");
  if (dlsym(library, "kvproof_direct_lookup") != nullptr) {
    find(out.lookup, "kvproof_direct_lookup");
  }
  find(out.allocate, "kvproof_direct_allocate");
  find(out.free, "kvproof_direct_free");
  find(out.finish, "kvproof_direct_finish");
  return out;
}

}  // namespace kvproof::properties
