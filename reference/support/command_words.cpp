// SPDX-License-Identifier: Apache-2.0
#include "reference/support/command_words.h"

#include <cstdlib>

namespace kvproof {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";

}  // namespace

std::string shell_word(std::string_view text) {
  const std::string plain = std::string(kPlain) + "+,:=@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string kvproof_command(const std::string& words) {
  const char* called = std::getenv("KVPROOF_CALLED");
  const char* path = std::getenv("PYTHONPATH");
  const bool starts = path != nullptr && words.find("-command=") != std::string::npos;
  return (starts ? "PYTHONPATH=" + shell_word(path) + " " : "") +
         shell_word(called == nullptr ? "./kvproof" : called) + " " + words;
}

std::string file_address(const std::filesystem::path& file) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string out = "file://";
  for (const char c : std::filesystem::absolute(file).lexically_normal().string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      out.append({'%', kDigits[byte / 16], kDigits[byte % 16]});
    }
  }
  return out;
}

}  // namespace kvproof
