// SPDX-License-Identifier: Apache-2.0
#include "properties/foreign/plugin.h"

#include <dlfcn.h>

#include "properties/say.h"

namespace kvproof::properties {
namespace {

template <class Function>
Function symbol(void* library, const std::string& path, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw PluginError(say(path, ": exports no ", name));
  return reinterpret_cast<Function>(found);
}

}  // namespace

Plugin open_plugin(const std::string& path) {
  // A name without a slash would be looked for among the system's libraries.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw PluginError(say(path, ": cannot be opened: ", dlerror()));
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

}  // namespace kvproof::properties
