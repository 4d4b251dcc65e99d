// SPDX-License-Identifier: Apache-2.0
// The numbers of reference/vllm/ and of the tests and laws that carry them, held against each
// other: in a document a number is an anchor, <a id="fact-37"></a>.
#pragma once

#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvproof::properties {

/// A document of reference/vllm/, as text.
inline std::string document(const std::string& name) {
  const std::string path = KVPROOF_SOURCE_DIR "/reference/vllm/" + name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What is wrong with the anchors of a document whose names begin with `kind`: each number is there
/// once, and somebody carries it.
inline std::vector<std::string> faults_of_anchors(const std::string& text, const std::string& kind,
                                                  const std::set<std::string>& carried) {
  std::vector<std::string> out;
  std::set<std::string> found;
  const std::string open = "<a id=\"" + kind;
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const std::string number = text.substr(at, text.find('"', at) - at);
    if (!found.insert(number).second) out.push_back(kind + number + " is an anchor twice");
    if (!carried.contains(number)) out.push_back("nothing carries " + kind + number);
  }
  for (const std::string& number : carried) {
    if (!found.contains(number)) out.push_back(kind + number + " is no anchor");
  }
  return out;
}

}  // namespace kvproof::properties
