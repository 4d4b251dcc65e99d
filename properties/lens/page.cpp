// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>
#include <zlib.h>

#include <map>
#include <stdexcept>
#include <vector>

#include "properties/lens/lens.h"

namespace kvproof::properties {

// page/lens.html, lens.css and lens.js, which the build turns into text.
extern const std::string_view kLensHtml;
extern const std::string_view kLensCss;
extern const std::string_view kLensJs;

std::string packed_for_page(std::string_view payload) {
  uLongf size = compressBound(payload.size());
  std::vector<Bytef> packed(size);
  const auto* bytes = reinterpret_cast<const Bytef*>(payload.data());
  if (compress2(packed.data(), &size, bytes, payload.size(), 9) != Z_OK) throw std::bad_alloc();
  std::string out(4 * ((size + 2) / 3) + 1, '\0');
  out.resize(static_cast<std::size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                                      packed.data(), static_cast<int>(size))));
  return out;
}

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string lens_page(std::string_view title, std::string_view payload) {
  std::map<std::size_t, std::pair<std::string_view, std::string>> marks;  // by their places
  const auto mark = [&marks](std::string_view word, std::string text) {
    const std::size_t at = kLensHtml.find(word);
    if (at == std::string_view::npos)
      throw std::logic_error("lens.html lacks " + std::string(word));
    marks[at] = {word, std::move(text)};
  };
  mark("LENS_TITLE", escaped(title));
  mark("/*LENS_CSS*/", std::string(kLensCss));
  mark("/*LENS_JS*/", std::string(kLensJs));
  mark("LENS_DATA", packed_for_page(payload));
  std::string out;
  std::size_t from = 0;
  for (const auto& [at, replaced] : marks) {
    out += kLensHtml.substr(from, at - from);
    out += replaced.second;
    from = at + replaced.first.size();
  }
  return out += kLensHtml.substr(from);
}

}  // namespace kvproof::properties
