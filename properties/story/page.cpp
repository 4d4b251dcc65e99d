// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <zlib.h>

#include <utility>
#include <vector>

#include "properties/story/story.h"

namespace kvproof::properties {

// page/lens.html, lens.css and lens.js, which the build turns into text.
extern const std::string_view kLensHtml;
extern const std::string_view kLensCss;
extern const std::string_view kLensJs;

namespace {

/// zlib, then base64.
std::string packed(const std::string& payload) {
  uLongf size = compressBound(payload.size());
  std::vector<Bytef> zipped(size);
  const auto* bytes = reinterpret_cast<const Bytef*>(payload.data());
  if (compress2(zipped.data(), &size, bytes, payload.size(), 9) != Z_OK) throw std::bad_alloc();
  std::string out(4 * ((size + 2) / 3) + 1, '\0');
  out.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                                      zipped.data(), static_cast<int>(size))));
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string lens_page(const Story& story) {
  const std::pair<std::string_view, std::string> marks[] = {
      {"/*LENS_JS*/", std::string(kLensJs)},  // the last in the page comes first
      {"LENS_DATA", packed(story.payload())},
      {"/*LENS_CSS*/", std::string(kLensCss)},
      {"LENS_TITLE", escaped(story.head.value("title", ""))}};
  std::string out(kLensHtml);
  for (const auto& [mark, text] : marks) out.replace(out.find(mark), mark.size(), text);
  return out;
}

}  // namespace kvproof::properties
